package patch

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Edit replaces a text in a file. If Old is empty, it creates the file, which must not exist or must be empty.
type Edit struct {
	Path string `json:"path"` // as spelled
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all,omitempty"` // replace all occurrences; otherwise there must be exactly one
}

// VerifyEdit returns the plan of an edit, without writing anything. A relative path is resolved against cwd, which is absolute. The error is
// a [Refusal].
func VerifyEdit(cwd string, e Edit) (*Plan, error) {
	if e.Path == "" {
		return nil, refuse("the path is empty")
	}
	c := Change{Kind: KindUpdate, Spelled: e.Path, Path: resolve(cwd, e.Path)}
	before, err := read(c.Path)
	c.Before = before
	switch {
	case e.Old == "" && (before.Presence == PresenceAbsent || before.Presence == PresenceFile && before.Size == 0):
		c.Kind, c.After = KindAdd, []byte(e.New)
		return &Plan{Changes: []Change{c}}, nil
	case err != nil:
		return nil, refuse("Failed to read file to update %s: %s", c.Path, OSText(err))
	case e.Old == "":
		return nil, refuse("%s exists and is not empty: old_text must contain the text to replace", c.Path)
	case e.Old == e.New:
		return nil, refuse("old_text and new_text are the same")
	case !before.Whole():
		return nil, refuse("Failed to read file to update %s: the file is larger than %d bytes", c.Path, maxFileBytes)
	}
	after, err := replace(c.Path, string(before.Data), e)
	if err != nil {
		return nil, err
	}
	c.After = []byte(after)
	return &Plan{Changes: []Change{c}}, nil
}

// replace returns content after the edit. If its lines end with CR LF, so do the lines of the model's texts.
func replace(name, content string, e Edit) (string, error) {
	if err := checkText(content); err != nil {
		return "", refuse("Failed to read file to update %s: %v", name, err)
	}
	if !utf8.ValidString(content) && !isASCII(e.New) {
		return "", refuse("Failed to read file to update %s: %v", name, invalidUTF8(content))
	}
	if splitText(content).eol == "\r\n" {
		e.New = withCR(e.New)
		if !strings.Contains(content, e.Old) {
			e.Old = withCR(e.Old)
		}
	}
	if e.All && strings.Contains(content, e.Old) {
		return strings.ReplaceAll(content, e.Old, e.New), nil
	}
	switch places := placesOf(content, e.Old); len(places) {
	case 0:
		return "", refuse("old_text was not found in %s%s", name, resembles(content, e.Old))
	case 1:
		at := places[0]
		return content[:at] + e.New + content[at+len(e.Old):], nil
	default:
		return "", refuse("old_text occurs more than once in %s, at lines %s: include more of the surrounding lines, or set replace_all",
			name, lineNumbers(content, places))
	}
}

func withCR(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// maxPlaces is the maximum number of occurrences in a message.
const maxPlaces = 5

// placesOf returns the offsets of the first occurrences of s, which may overlap: at most maxPlaces+1.
func placesOf(content, s string) []int {
	var out []int
	for from := 0; len(out) <= maxPlaces; {
		i := strings.Index(content[from:], s)
		if i < 0 {
			break
		}
		out = append(out, from+i)
		_, size := utf8.DecodeRuneInString(content[from+i:])
		from += i + size
	}
	return out
}

func lineNumbers(content string, places []int) string {
	var out []string
	for _, at := range places[:min(len(places), maxPlaces)] {
		out = append(out, strconv.Itoa(1+strings.Count(content[:at], "\n")))
	}
	if len(places) > maxPlaces {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

// resembles describes where lines are found that differ from s only in white space or typography.
func resembles(content, s string) string {
	var pattern []string
	for _, l := range splitText(strings.Trim(s, "\r\n")).lines {
		pattern = append(pattern, l.text)
	}
	if len(pattern) == 0 {
		return ""
	}
	m := matcher{lines: splitText(content).lines}
	at, ok := m.seek(pattern, 0, false)
	if !ok {
		return ". Read the file again: the text must match exactly, including white space"
	}
	return fmt.Sprintf(". The lines from %d on are similar, but differ in white space or punctuation", at+1)
}
