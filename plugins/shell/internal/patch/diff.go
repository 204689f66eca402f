package patch

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// diffContext is the number of unchanged lines around a change in a diff.
const diffContext = 1

// maxDiffBytes is the maximum size of the compared texts. For larger ones the diff is empty: comparing takes quadratic time in the worst
// case, and such a diff is not readable.
const maxDiffBytes = 4 << 20

// Diff returns the change of the content as unified hunks without file headers; empty for a deletion. The result is cached.
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
	// Remove the file headers.
	for range 2 {
		_, diff, _ = strings.Cut(diff, "\n")
	}
	return diff
}

// printable replaces invalid UTF-8.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
