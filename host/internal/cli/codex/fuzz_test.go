package codex

import (
	"slices"
	"strings"
	"testing"
)

// Whatever somebody types, it is taken or refused with a next step, and what is not codex's stays as it is.
func FuzzTranslate(f *testing.F) {
	for _, s := range []string{`approval_policy="never"`, "model='x'", "a.b=1", `compact_prompt="${x}"`, "=", `web_search="`, `x="\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := Translate([]string{s})
		if err != nil {
			if !strings.Contains(err.Error(), "; next: ") {
				t.Errorf("%q: %v has no next step", s, err)
			}
			return
		}
		if strings.HasPrefix(s, "approval.") && !slices.Equal(o.Sets, []string{s}) {
			t.Errorf("%q became %q", s, o.Sets)
		}
		for _, set := range o.Sets {
			if set != s && !Assigns(set) {
				t.Errorf("%q became %q, which is no setting", s, set)
			}
		}
	})
}
