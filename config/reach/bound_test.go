package reach

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// A line of an untrusted project is followed before anybody was asked about it: what would take too long to follow is a gap.
func TestFollowingIsBounded(t *testing.T) {
	dir := t.TempDir()
	const unread, much = "it can't be read as shell", "there is too much shell code to follow"
	for _, tc := range []struct{ line, why string }{
		{strings.Repeat("$((", 300_000), unread}, {strings.Repeat("a[", 1_000_000), unread}, {strings.Repeat("a ", shellsyntax.MaxBytes), unread},
		{strings.Repeat("eval ", shellsyntax.MaxBytes/5), much}, {strings.Repeat("eval ", 6) + strings.Repeat("a ", shellsyntax.MaxBytes/3), much},
	} {
		if s := (Query{Dir: dir}).Line(tc.line); len(s.Gaps) != 1 || s.Gaps[0].Why != tc.why {
			t.Errorf("%.20q: %.200v, want %q", tc.line, s.Gaps, tc.why)
		}
	}
	// What is large, and reasonable.
	if s := (Query{Dir: dir}).Line(strings.Repeat("PATH=$PATH:a x; cd *; eval a;", 2000)); len(s.Gaps) != 0 {
		t.Error(s.Gaps)
	}
}
