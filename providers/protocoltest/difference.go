package protocoltest

import (
	"fmt"
	"strings"
)

// Lines shown before a difference, and from it on.
const around, after = 4, 12

// firstDifference returns the lines around the first difference.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(w) && at < len(g) && w[at] == g[at] {
		at++
	}
	var b strings.Builder
	for i := max(0, at-around); i < at; i++ {
		fmt.Fprintf(&b, "  %s\n", w[i])
	}
	for i := at; i < min(len(w), at+after); i++ {
		fmt.Fprintf(&b, "- %s\n", w[i])
	}
	for i := at; i < min(len(g), at+after); i++ {
		fmt.Fprintf(&b, "+ %s\n", g[i])
	}
	return fmt.Sprintf("from line %d:\n%s", at+1, b.String())
}
