package history

import (
	"fmt"
	"slices"
	"strings"
)

// Level is by what an element was found again, from the surest to the least sure.
type Level string

// The levels.
const (
	Exact     Level = "EXACT"     // all is the same
	Stable    Level = "STABLE"    // all but classes that come and go
	XPath     Level = "XPATH"     // it is in the same place
	AXName    Level = "AX_NAME"   // it has the same tag, and the same name in the accessibility tree
	Attribute Level = "ATTRIBUTE" // it has the same tag, and the same name, id or aria-label
)

// Candidate is an element of the page, with its number.
type Candidate struct {
	Number int
	Identity
}

// NoMatchError says that an element is not in the page.
type NoMatchError struct {
	Wanted    string
	Ambiguous int // how many elements it may be; 0: none is it
	Similar   []Candidate
}

// Error implements error.
func (e *NoMatchError) Error() string {
	out := e.Wanted + " is not in the page"
	if e.Ambiguous > 0 {
		out = fmt.Sprintf("%s can't be told apart from %d others", e.Wanted, e.Ambiguous-1)
	}
	for i, c := range e.Similar {
		out += []string{"; similar: ", ", "}[min(i, 1)] + fmt.Sprintf("[%d] %s", c.Number, c)
	}
	return out
}

// String describes the element.
func (i Identity) String() string { return describe(i.Tag(), i.Name, i.Attributes) }

// String describes the element.
func (e *Element) String() string {
	return describe(strings.ToLower(e.NodeName), e.name(), e.Attributes)
}

func (e *Element) name() string {
	if e.Name == nil {
		return ""
	}
	return *e.Name
}

func describe(tag, name string, attributes map[string]string) string {
	out := "<" + tag
	for _, k := range []string{"id", "name", "type"} {
		if v := attributes[k]; v != "" {
			out += " " + k + "=" + clip(v, 40)
		}
	}
	out += ">"
	if name != "" {
		out += fmt.Sprintf(" %q", clip(name, 60))
	}
	return out
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// attributeLevels are the attributes of [Attribute], in the order in which they are tried.
var attributeLevels = []string{"name", "id", "aria-label"}

// Match finds an element again. Of several that are alike it takes the one in the same frame, then the one in the same place. If they can't be
// told apart, or if what is in its place is obviously another element, it goes on to the next level. The error is a *[NoMatchError].
func Match(e *Element, page []Candidate) (Candidate, Level, error) {
	tag, name := strings.ToLower(e.NodeName), e.name()
	same := func(c Candidate) bool { return c.Tag() == tag }
	type level struct {
		Level
		is func(c Candidate) bool
	}
	levels := []level{
		{Exact, func(c Candidate) bool { return c.Hash() == e.ElementHash }},
		{Stable, func(c Candidate) bool { return e.StableHash != nil && c.StableHash() == *e.StableHash }},
		{XPath, func(c Candidate) bool { return e.XPath != "" && c.XPath == e.XPath && !e.contradicts(c) }},
		{AXName, func(c Candidate) bool { return name != "" && same(c) && c.Name == name }},
	}
	for _, k := range attributeLevels {
		levels = append(levels, level{Attribute, func(c Candidate) bool {
			return e.Attributes[k] != "" && same(c) && c.Attributes[k] == e.Attributes[k]
		}})
	}
	ambiguous := 0
	for _, l := range levels {
		var found []Candidate
		for _, c := range page {
			if l.is(c) {
				found = append(found, c)
			}
		}
		for _, better := range []func(c Candidate) bool{
			func(c Candidate) bool { return e.FrameID != nil && c.Frame == *e.FrameID },
			func(c Candidate) bool { return c.XPath == e.XPath },
		} {
			if len(found) > 1 && slices.ContainsFunc(found, better) {
				found = slices.DeleteFunc(found, func(c Candidate) bool { return !better(c) })
			}
		}
		if len(found) == 1 {
			return found[0], l.Level, nil
		}
		if len(found) > 1 && ambiguous == 0 {
			ambiguous = len(found)
		}
	}
	return Candidate{}, "", &NoMatchError{Wanted: e.String(), Ambiguous: ambiguous, Similar: similar(e, page)}
}

// contradicts reports whether an element that is in the same place is another one: its name, apart from numbers in it, or what it is named for
// the server differs. Otherwise a form whose fields have changed places would be filled wrongly.
func (e *Element) contradicts(c Candidate) bool {
	if e.Name != nil && c.Name != "" && letters(*e.Name) != letters(c.Name) {
		return true
	}
	for _, k := range []string{"name", "type"} {
		a, b := e.Attributes[k], c.Attributes[k]
		if a != "" && b != "" && a != b {
			return true
		}
	}
	return false
}

// letters returns a text without digits.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// similar returns elements that a person may have meant.
func similar(e *Element, page []Candidate) []Candidate {
	const most = 3
	type scored struct {
		Candidate
		score int
	}
	var all []scored
	words := strings.Fields(strings.ToLower(e.name()))
	for _, c := range page {
		s := 0
		if c.Tag() == strings.ToLower(e.NodeName) {
			s += 2
		}
		for _, w := range words {
			if strings.Contains(strings.ToLower(c.Name), w) {
				s += 3
			}
		}
		for _, k := range append(attributeLevels, "type", "role") {
			if v := e.Attributes[k]; v != "" && c.Attributes[k] == v {
				s++
			}
		}
		if s > 2 { // the tag alone says nothing
			all = append(all, scored{c, s})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return b.score - a.score })
	var out []Candidate
	for _, s := range all[:min(len(all), most)] {
		out = append(out, s.Candidate)
	}
	return out
}
