package patch

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// diffContext is how many unchanged lines stand around a change in a diff for people.
const diffContext = 1

// maxDiffBytes bounds the text that is compared; beyond it the diff is empty. Comparing is quadratic in bad cases, and
// nobody reads such a diff.
const maxDiffBytes = 4 << 20

// Diff returns what the change does to its content as unified hunks without file headers. It is empty for a delete, and
// made once.
func (c *Change) Diff() string {
	if c.diff != nil {
		return *c.diff
	}
	if c.Kind == KindDelete {
		return ""
	}
	var before string
	if c.Kind == KindUpdate {
		before = string(c.Before.Data)
	}
	c.diff = new(hunks(before, string(c.After)))
	return *c.diff
}

func hunks(before, after string) string {
	if len(before)+len(after) > maxDiffBytes {
		return ""
	}
	before, after = printable(before), printable(after)
	diff, err := udiff.ToUnified("a", "b", before, udiff.Lines(before, after), diffContext)
	if err != nil || diff == "" {
		return ""
	}
	// The first two lines name the files.
	for range 2 {
		_, diff, _ = strings.Cut(diff, "\n")
	}
	return diff
}

// printable replaces bytes that are not UTF-8: diffs are text.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
