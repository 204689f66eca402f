package rules

import (
	"fmt"
	"slices"
	"testing"
)

func TestWider(t *testing.T) {
	set := func(text string) *Set {
		s, err := Load([]Source{{Path: "a", Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := `prefix_rule(pattern=["ls"])
prefix_rule(pattern=["rm"], decision="forbidden")
prefix_rule(pattern=["git", ["push", "pull"]], decision="prompt")
network_rule(host="a.com", protocol="https", decision="deny")
tool_rule(plugin="p", tool="*", decision="forbidden")
`
	for _, tc := range []struct {
		after string
		want  []string
	}{
		{before, nil},
		{"# a comment\n" + before + `prefix_rule(pattern=["mv"], decision="prompt")`, nil},
		{`
prefix_rule(pattern=["git", ["push", "pull"]])
network_rule(host="a.com", protocol="https", decision="allow")
tool_rule(plugin="p", tool="*", decision="allow")
`, []string{
			`2 false allow commands that begin with ["git" "push|pull"]`, `2 true without forbidden commands that begin with ["rm"]`,
			`3 false allow https to a.com`, `3 true without prompt commands that begin with ["git" "push|pull"]`,
			`4 false allow tools "*" of plugin "p"`, `4 true without forbidden https to a.com`, `5 true without forbidden tools "*" of plugin "p"`,
		}},
		{"", []string{`2 true without forbidden commands that begin with ["rm"]`, `3 true without prompt commands that begin with ["git" "push|pull"]`, `4 true without forbidden https to a.com`,
			`5 true without forbidden tools "*" of plugin "p"`}},
	} {
		var got []string
		for _, c := range set(tc.after).Wider(set(before)) {
			got = append(got, fmt.Sprint(c.Line, " ", c.Removed, " ", c.Text))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
}
