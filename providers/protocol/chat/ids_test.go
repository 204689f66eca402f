package chat

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCallIDs(t *testing.T) {
	long := strings.Repeat("a", 50)
	tests := []struct {
		rule string
		ids  []string
		want []string
	}{
		{"", []string{"any id", long}, []string{"any id", long}},
		{"mistral", []string{"call_abc-123456", "x", "", "abcdefghi"}, []string{"callabc12", "x00000000", "000000000", "abcdefghi"}},
		{"mistral", []string{"call_abc-123456", "call_abc-123999", "call_abc-123456", "callabc12"}, []string{"callabc12", "6b8db344b", "callabc12", "6d2868c91"}},
		{"claude", []string{"call.1", "call_1", "toolu_01-x", ""}, []string{"call_1", "call_1_230321bb1", "toolu_01-x", "_"}},
		{"openai", []string{"call_1", long, long + "b"}, []string{"call_1", long[:40], long[:30] + "_" + "9940eb92b"}},
	}
	for _, tt := range tests {
		c := callIDs{rule: tt.rule}
		for i, id := range tt.ids {
			if got := c.of(id); got != tt.want[i] {
				t.Errorf("%q id %d: %q becomes %q, want %q", tt.rule, i, id, got, tt.want[i])
			}
		}
	}
}

// Ids differ after as before, keep what they became as the history grows, and have the form that the model demands.
func TestCallIDsStayApart(t *testing.T) {
	form := map[string]*regexp.Regexp{
		"mistral": regexp.MustCompile(`^[A-Za-z0-9]{9}$`),
		"claude":  regexp.MustCompile(`^[A-Za-z0-9_-]+$`),
		"openai":  regexp.MustCompile(`^.{0,40}$`),
	}
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]string{"mistral", "claude", "openai"}).Draw(t, "rule")
		ids := rapid.SliceOfDistinct(rapid.StringMatching(`(call[_.:-]){0,3}[a-c0]{0,3}(x{38})?[0-2]{0,2}`), rapid.ID).Draw(t, "ids")
		c := callIDs{rule: rule}
		seen := map[string]string{}
		for i, id := range ids {
			out := c.of(id)
			if other, ok := seen[out]; ok {
				t.Fatalf("%q and %q both become %q", other, id, out)
			}
			seen[out] = id
			if !form[rule].MatchString(out) {
				t.Fatalf("%q becomes %q", id, out)
			}
			again := callIDs{rule: rule}
			for _, before := range ids[:i] {
				again.of(before)
			}
			if got := again.of(id); got != out || c.of(id) != out {
				t.Fatalf("%q becomes %q and then %q", id, out, got)
			}
		}
	})
}
