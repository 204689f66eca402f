package state

import "strings"

// Look is how an element looks in a state: what a model recognizes it by.
type Look struct {
	Line string // without what changes as one types
	Text string // within it
}

// maxLook is how much of an element's text is compared.
const maxLook = 200

// Looks returns how the numbered elements of a state look.
func (s *State) Looks() map[int]Look {
	out := map[int]Look{}
	for i, l := range s.Lines {
		if l.Number == 0 {
			continue
		}
		var text strings.Builder
		for _, x := range s.Lines[i+1:] {
			if x.Depth <= l.Depth || text.Len() > maxLook {
				break
			}
			text.WriteString(x.Text + "\n")
		}
		out[l.Number] = Look{strings.Replace(l.Text, " focused=true", "", 1), strings.TrimSpace(clip(text.String(), maxLook))}
	}
	return out
}

// String returns the look as a model reads it.
func (l Look) String() string {
	out := strings.Replace(l.Line, " />", ">", 1)
	if l.Text != "" {
		out += " " + clip(strings.ReplaceAll(l.Text, "\n", " "), 40)
	}
	return out
}

// Like reports whether two elements look similar: they are of one kind, and have the same text or the same attributes.
func (l Look) Like(x Look) bool {
	kind := func(l Look) string { k, _, _ := strings.Cut(l.Line, " "); return k }
	return kind(l) == kind(x) && (l.Text != "" && l.Text == x.Text || l.Line == x.Line && strings.Contains(l.Line, "="))
}
