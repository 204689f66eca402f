package role

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(path, text string) config.RoleFile { return config.RoleFile{Path: path, Text: text} }

// A role is completed by definitions of lower precedence, and one that can't be used is not replaced.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	s := Load(Sources{
		Blocks: []*config.Role{{Label: "explorer", Model: "small", Without: []string{"a"}}, {Label: "mine"}, {Label: "both", Description: "of the block", Instructions: "of the block"}},
		Files: [][]config.RoleFile{
			{file("/p/both.md", "---\ndescription: of the project\n---\nof the project"), file("/p/broken.toml", "name = 1")},
			{
				file("/u/b.toml", "name = \"both\"\ndescription = \"u\"\ndeveloper_instructions = \"u\"\nmodel = \"big\"\nmodel_reasoning_effort = \"high\""),
				file("/u/broken.md", "---\ndescription: works\n---\nx"), file("/u/c.md", "---\nname: both\ndescription: again\n---\n"),
			},
		},
	})
	var names []string
	for _, r := range s.All() {
		names = append(names, r.Name)
	}
	if want := []string{"explorer", "mine", "both", "broken", "default", "worker"}; !slices.Equal(names, want) {
		t.Errorf("roles %q, want %q", names, want)
	}
	if r, err := s.Find("explorer"); err != nil || r.Model != "small" || r.Bounds.Sandbox != readOnly || r.Instructions == "" || !slices.Equal(r.Bounds.Without, []string{"a"}) {
		t.Errorf("explorer: %+v, %v", r, err)
	}
	if r, err := s.Find("both"); err != nil || r.Description != "of the block" || r.Model != "big" || r.Effort != "high" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "/u/c.md") {
		t.Errorf("both: %+v, %v", r, err)
	}
	for name, want := range map[string]string{
		"mine": `agent_type "mine" can't be used: role "mine" has no description`, "broken": "agent_type \"broken\" can't be used: /p/broken.toml: name is not a text",
		"nobody": `unknown agent_type "nobody"; there are explorer, both, default, worker`,
	} {
		if _, err := s.Find(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if got := s.Describe(); strings.Count(got, "\n") != 4 || !strings.Contains(got, "(model small; sandbox read-only; without a)") || strings.Contains(got, "broken") {
		t.Errorf("described as %s", got)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, text string
		want       Role
		err        string
	}{
		"claude": {"/a/rev.md", "---\nname: reviewer\ndescription: Reads.\ntools: Read, Bash(git:*), Grep\ndisallowedTools: [Write, \"Bash(rm:*)\"]\nmodel: inherit\n" +
			"permissionMode: bypassPermissions\nmaxTurns: 7\ncolor: red\nskills: [x]\n---\n\nLook closely.\n", Role{
			Name: "reviewer", Description: "Reads.", Instructions: "Look closely.",
			Bounds: event.Bounds{Tools: [][]string{{"Read", "Grep"}}, Without: []string{"Write", "Bash"}, Samplings: 7},
			Notes: []string{
				"/a/rev.md: left out, because a tool is allowed as a whole or not at all: Bash(git:*)", "/a/rev.md: denied as a whole: Bash(rm:*)",
				`/a/rev.md: permissionMode "bypassPermissions" has no effect: an agent has at most the rights of the one that spawns it`,
				`/a/rev.md: "color" has no effect in gantry`, `/a/rev.md: "skills" has no effect in gantry`,
			},
		}, ""},
		"claude, planning": {"/a/plan.md", "---\r\ndescription: Plans.\r\npermissionMode: plan\r\nmodel: big\r\n---\r\nx\r\n", Role{Name: "plan", Description: "Plans.", Model: "big", Instructions: "x", Bounds: event.Bounds{Sandbox: readOnly}}, ""},
		"no tools":         {"/a/n.md", "---\ndescription: d\ntools: []\n---\n", Role{Name: "n", Description: "d", Bounds: event.Bounds{Tools: [][]string{nil}}}, ""},
		"all tools":        {"/a/n.md", "---\ndescription: d\ntools: \"*\"\n---\n", Role{Name: "n", Description: "d"}, ""},
		"codex": {"/a/x.toml", "name = \"dig\"\ndescription = \"Digs.\"\ndeveloper_instructions = \"Dig.\"\nmodel = \"m\"\nmodel_provider = \"p\"\nmodel_reasoning_effort = \"low\"\n" +
			"sandbox_mode = \"read-only\"\nnickname_candidates = [\"A b\", \"C\"]\n[mcp_servers.x]\ncommand = \"y\"\n", Role{
			Name: "dig", Description: "Digs.", Instructions: "Dig.", Model: "p/m", Effort: "low", Nicknames: []string{"A b", "C"}, Bounds: event.Bounds{Sandbox: readOnly},
			Notes: []string{`/a/x.toml: "mcp_servers" has no effect in gantry`},
		}, ""},
		"no frontmatter":    {"/a/n.md", "hello", Role{Name: "n"}, "it does not begin with settings"},
		"open frontmatter":  {"/a/n.md", "---\nname: x", Role{Name: "n"}, "it does not begin with settings"},
		"worktree":          {"/a/n.md", "---\ndescription: d\nisolation: worktree\n---\n", Role{Name: "n", Description: "d"}, `isolation "worktree" is not supported`},
		"turns":             {"/a/n.md", "---\ndescription: d\nmaxTurns: 0\n---\n", Role{Name: "n", Description: "d"}, "maxTurns is not a positive whole number"},
		"nicknames":         {"/a/n.toml", "description = \"d\"\ndeveloper_instructions = \"x\"\nnickname_candidates = [\"a\", \"a\"]", Role{Name: "n", Description: "d", Instructions: "x", Nicknames: []string{"a", "a"}}, `contains "a" twice`},
		"without a purpose": {"/a/n.toml", "description = \"d\"", Role{Name: "n", Description: "d"}, "it has no developer_instructions"},
		"an unknown mode":   {"/a/n.toml", "description = \"d\"\ndeveloper_instructions = \"x\"\nsandbox_mode = \"x\"", Role{Name: "n", Description: "d", Instructions: "x"}, `there is no sandbox_mode "x"`},
	} {
		got := parseFile(file(tc.path, tc.text))
		if tc.err == "" && got.Problem != nil || tc.err != "" && (got.Problem == nil || !strings.Contains(got.Problem.Error(), tc.err)) {
			t.Errorf("%s: %v, want %q", name, got.Problem, tc.err)
		}
		got.Problem, got.Source = nil, ""
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", tc.want) {
			t.Errorf("%s:\n%#v\nwant\n%#v", name, got, tc.want)
		}
	}
}

// Any text is a role or an error, and a role's bounds are never wider than those of an agent that has all rights.
func FuzzFile(f *testing.F) {
	f.Add("---\nname: a\ndescription: b\ntools: [x]\n---\nc", true)
	f.Add("name = \"a\"\ndeveloper_instructions = \"b\"", false)
	f.Add("---\na: &a [*a]\n---\n", true)
	f.Fuzz(func(t *testing.T, text string, markdown bool) {
		path := "/a/x.toml"
		if markdown {
			path = "/a/x.md"
		}
		r := parseFile(file(path, text))
		if r.Name == "" {
			t.Errorf("a role without a name: %+v", r)
		}
		if r.Problem == nil && rank(r.Bounds.Sandbox) < 0 {
			t.Errorf("unknown mode %q", r.Bounds.Sandbox)
		}
		Load(Sources{Files: [][]config.RoleFile{{file(path, text)}}}).Describe()
	})
}
