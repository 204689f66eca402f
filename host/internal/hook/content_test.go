package hook

import (
	"strings"
	"testing"
)

// What a model writes reaches this before it is decided on: 600 KB of `$((` overflow the stack of the shell's parser.
func TestContentOfNestedScripts(t *testing.T) {
	for _, line := range []string{
		strings.Repeat("$((", 300_000), strings.Repeat("(", 2_000_000), strings.Repeat("a[", 1_000_000), strings.Repeat("a|", 60_000), strings.Repeat("eval ", 20_000),
	} {
		if got := Content(line, t.TempDir()); got != "" {
			t.Errorf("%.10q names files: %q", line, got)
		}
	}
}
