package environ

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestApply(t *testing.T) {
	t.Parallel()
	base := []string{"PATH=/bin", "HOME=/h", "API_KEY=k", "MY_TOKEN=t", "FOO=f"}
	for _, tc := range []struct {
		name   string
		policy Policy
		base   []string
		want   string
	}{
		{"all, secrets kept (what codex does by itself)", Policy{Inherit: All, KeepSecrets: true}, base, "API_KEY FOO HOME MY_TOKEN PATH"},
		{"all", Policy{Inherit: All}, base, "FOO HOME PATH"},
		{"core", Policy{Inherit: Core}, base, "HOME PATH"},
		{"core, secrets kept", Policy{Inherit: Core, KeepSecrets: true}, base, "HOME PATH"},
		{"nothing filled in", Policy{}, base, ""},
		{"none and set", Policy{Inherit: None, Set: map[string]string{"X": "1"}}, base, "X"},
		{"exclude, include only", Policy{Inherit: All, Exclude: []string{"FOO"}, IncludeOnly: []string{"P*"}}, base, "PATH"},
		{"set is subject to include only", Policy{Inherit: All, Set: map[string]string{"Z": "1"}, IncludeOnly: []string{"PATH"}}, base, "PATH"},
		{"set is not subject to exclude", Policy{Inherit: All, Exclude: []string{"*"}, Set: map[string]string{"MY_TOKEN": "own"}}, base, "MY_TOKEN"},
		{"names are compared without case", Policy{Inherit: All, Exclude: []string{"fo?"}}, append(slices.Clone(base), "my_secret_x=1"), "HOME PATH"},
		{"passwords and credentials", Policy{Inherit: All}, []string{"PGPASSWORD=1", "X_PASSWD=1", "AWS_CREDENTIALS=1", "A=1"}, "A"},
		{"never", Policy{Inherit: All, KeepSecrets: true, Set: map[string]string{"OPENAI_FEDERATION_RULE_ID": "1"}},
			[]string{"OPENAI_IDENTITY_TOKEN_FILE=1", "A=1"}, "A"},
		{"private", Policy{Inherit: All, KeepSecrets: true}, []string{"PRIVATE=1", "A=1"}, "A"},
		{"what is no variable", Policy{Inherit: All}, []string{"", "A", "=B", "=C:=x", "A=1"}, "A"},
	} {
		var names []string
		for _, kv := range tc.policy.Apply(tc.base, func(name string) bool { return name == "PRIVATE" }) {
			name, _, _ := strings.Cut(kv, "=")
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := (Policy{Inherit: All, Set: map[string]string{"B": "set"}}).Apply([]string{"A=1", "B=1", "A=2"}, nil); !slices.Equal(got, []string{"A=2", "B=set"}) {
		t.Errorf("%q: of equal names the later counts, and what is set most", got)
	}
}

// A pattern means what the same regular expression does.
func TestMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[abAB*?]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[abAB]{0,10}`).Draw(t, "name")
		expr := strings.NewReplacer("*", ".*", "?", ".").Replace(pattern)
		if got, want := Match(pattern, name), regexp.MustCompile("(?i)^"+expr+"$").MatchString(name); got != want {
			t.Errorf("Match(%q, %q) = %v", pattern, name, got)
		}
	})
}
