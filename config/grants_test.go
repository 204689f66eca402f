package config_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

// granted lists the grants of a project whose gantry.hcl is changed, as LINE TEXT, those in the earlier text with a minus.
func granted(t *testing.T, files map[string]string, before string) []string {
	t.Helper()
	root := write(t, files)
	dir := filepath.Join(root, "project")
	p, err := config.FindProject(dir, filepath.Join(root, "home"))
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	shown := map[string]string{}
	if before != "-" {
		for _, s := range p.Shown() {
			shown[s.Path] = s.Text
		}
		shown[filepath.Join(dir, ".gantry/gantry.hcl")] = before
	}
	if text, ok := files["before"]; ok {
		name, text, _ := strings.Cut(text, "\n")
		shown[filepath.Join(dir, name)] = text
	}
	var out []string
	for _, g := range p.Grants(options(root), shown) {
		minus := ""
		if g.Removed {
			minus = "-"
		}
		out = append(out, fmt.Sprintf("%s%d %s", minus, g.Line, g.Text))
	}
	return out
}

func TestGrants(t *testing.T) {
	const fields = "\nsandbox {\n mode = \"read-only\"\n deny_read = [\"a\", \"b\"]\n}\n"
	many := "[" + strings.Repeat("0,", 1000) + "]"
	for _, tc := range []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", fields, fields, nil},
		{"comments and blanks", fields, "# more\n" + strings.ReplaceAll(fields, " = ", "   = "), nil},
		{"a wider mode", fields, strings.Replace(fields, "read-only", "full-access", 1), []string{`3 sandbox.mode = "full-access"`}},
		{"a narrower mode", strings.Replace(fields, "read-only", "full-access", 1), fields, nil},
		{"no mode any more", fields, "\nsandbox {\n deny_read = [\"a\", \"b\"]\n}\n", []string{`-3 without sandbox.mode = "read-only"`}},
		{"a new block", "", "sandbox {\n  mode = \"full-access\"\n}\n", []string{`2 sandbox.mode = "full-access"`}},
		{"what holds anyway", "", "sandbox {\n  mode = \"workspace-write\"\n}\n", nil},
		{"less denied", fields, strings.Replace(fields, `"a", `, "", 1), []string{`4 sandbox.deny_read = ["b"]`}},
		{"more denied", fields, strings.Replace(fields, `"a", `, `"a", "c", `, 1), nil},
		{"a value that is not known", fields, strings.Replace(fields, `"read-only"`, `env("MODE", "read-only")`, 1), []string{`3 sandbox.mode = env("MODE", "read-only")`}},
		{"a value that takes hours", fields, strings.Replace(fields, `"read-only"`, `[for a in `+many+` : [for b in `+many+` : [for c in `+many+` : [for d in `+many+` : a]]]]`, 1), []string{"3 sandbox.mode = [for a in [" + strings.Repeat("0,", 34) + "…"}},
		{"roots", "sandbox {\n writable_roots = [\"/a\"]\n readable_roots = [\"/b\"]\n}", "sandbox {\n writable_roots = [\"/a\", \"~\"]\n network = true\n}",
			[]string{`-3 without sandbox.readable_roots = ["/b"]`, `3 sandbox.network = true`, `2 sandbox.writable_roots = ["/a", "~"]`}},
		{"questions", "approval {\n policy = \"untrusted\"\n}", "approval {\n policy = \"never\"\n safe_commands = true\n}", []string{`2 approval.policy = "never"`, `3 approval.safe_commands = true`}},
		{"the network", "network {\n mode = \"proxy\"\n allow = [\"a.com\"]\n deny = [\"b.com\"]\n methods = \"limited\"\n}", "network {\n mode = \"proxy\"\n allow = [\"*\"]\n methods = \"full\"\n local = true\n}",
			[]string{`3 network.allow = ["*"]`, `-4 without network.deny = ["b.com"]`, `5 network.local = true`, `4 network.methods = "full"`}},
		{"a new plugin", "", "plugin \"x\" {\n source = \"./x\"\n args = [\"a\"]\n approval = \"approve\"\n permissions {\n  write = [\"~\"]\n }\n config {\n  a = 1\n }\n limits {\n  pids = 5\n }\n}",
			[]string{`1 plugin "x": source = "./x"`, `4 plugin.approval = "approve"`, `6 plugin.permissions.write = ["~"]`}},
		{"a changed plugin", "plugin \"x\" {\n source = \"./x\"\n config {\n  a = 1\n  b {\n   c = 2\n  }\n }\n permissions {\n  exec = [\"git *\"]\n }\n}",
			"plugin \"x\" {\n source = \"./y\"\n config {\n  a = command([\"./z\"])\n  b {\n   c = 3\n  }\n }\n permissions {\n  exec = [\"git **\"]\n }\n tool \"*\" {\n  approval = \"approve\"\n }\n env {\n  A = \"b\"\n }\n}",
			[]string{`2 plugin.source = "./y"`, `4 plugin.config.a = command(["./z"])`, `6 plugin.config.b[][0].c = 3`, `10 plugin.permissions.exec = ["git **"]`, `13 plugin.tool.approval = "approve"`, `16 plugin.env.A = "b"`}},
		{"a plugin with less", "plugin \"x\" {\n source = \"./x\"\n approval = \"approve\"\n}", "plugin \"x\" {\n source = \"./x\"\n enabled = false\n approval = \"prompt\"\n permissions {\n  exec = [\"git *\"]\n }\n}", nil},
		{"a provider", "provider \"p\" {\n source = \"builtin/openai\"\n base_url = \"https://a\"\n}", "provider \"p\" {\n source = \"builtin/openai\"\n base_url = \"https://b\"\n}", []string{`3 provider.base_url = "https://b"`}},
		{"a hook", "hook \"a\" {\n event = \"Stop\"\n command = \"x\"\n}\nhook \"guard\" {\n event = \"PreToolUse\"\n command = \"y\"\n on_error = \"block\"\n}",
			"hook \"a\" {\n event = \"Stop\"\n command = \"z\"\n timeout = \"1s\"\n}\nhook \"new\" {\n event = \"Stop\"\n command = \"w\"\n}",
			[]string{`3 hook.command = "z"`, `-5 without hook "guard"`, `6 hook "new": command = "w"`}},
		{"a profile", "", "profile \"ci\" {\n sandbox {\n  mode = \"full-access\"\n }\n}\n", []string{`3 sandbox.mode = "full-access"`}},
		{"what is no grant", "", "instructions {\n text = \"x\"\n}\nhistory {\n tool_output_tokens = 5\n}\nlimits {\n pids = 100\n}\nmodel \"m\" {\n provider = \"scripted\"\n name = \"x\"\n}\ndefault_model = \"m\"\n", nil},
		{"no consent before", "-", "approval {\n policy = \"on-request\"\n}\nsandbox {\n mode = \"full-access\"\n}\n", []string{`2 approval.policy = "on-request"`, `5 sandbox.mode = "full-access"`}},
		{"what can't be read", fields, "sandbox {", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := granted(t, map[string]string{"project/.gantry/gantry.hcl": tc.after}, tc.before)
			slices.Sort(got)
			want := slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(got, want) {
				t.Errorf("got\n %s\nwant\n %s", strings.Join(got, "\n "), strings.Join(want, "\n "))
			}
		})
	}
}

// What the user's own settings deny is a grant, and what gantry's own deny is one, whatever the user's allow by now.
// Settings are judged on top of the files and of other settings, also of one with the same name and a value of the same length.
func TestWidening(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": "approval {\n policy = \"on-request\"\n}\nsandbox {\n mode = \"workspace-write\"\n writable_roots = [\"/a\"]\n}\nplugin \"x\" {\n source = \"./x\"\n}\n"})
	for _, tc := range []struct {
		base, sets, want []string
	}{
		{nil, []string{`approval.policy="never"`, `sandbox.mode="read-only"`, `history.compact_prompt="short"`, `sandbox.writable_roots=["/a"]`}, nil},
		{nil, []string{`sandbox.mode="workspace-write"`, `approval.policy="untrusted"`, `approval.policy="on-request"`}, nil},
		{nil, []string{`sandbox.mode="full-access"`}, []string{`sandbox.mode = "full-access"`}},
		{nil, []string{`sandbox.writable_roots=["/a", "/b"]`}, []string{`sandbox.writable_roots = ["/a", "/b"]`}},
		{nil, []string{`sandbox.network=true`}, []string{`sandbox.network = true`}},
		{nil, []string{`sandbox.mode=null`, `nothing.of.this=1`}, []string{`sandbox.mode = null`}},
		{nil, []string{`hook.h.command="x"`}, []string{`hook "h": command = "x"`}},
		{nil, []string{`plugin.x.source="./y"`}, []string{`plugin.source = "./y"`}},
		{nil, []string{`plugin.x.config.anything="y"`}, []string{`plugin.config.anything = "y"`}},
		{[]string{`approval.policy="untrusted"`}, []string{`approval.policy="never"`}, []string{`approval.policy = "never"`}},
		{[]string{`approval.policy="untrusted"`}, []string{`approval.policy="granular" `}, []string{`approval.policy = "granular"`}},
		{[]string{`sandbox.writable_roots=["/1"]`}, []string{`sandbox.writable_roots=["/2"]`}, []string{`sandbox.writable_roots = ["/2"]`}},
		{[]string{`approval.policy="never"`}, []string{`approval.policy="on-request"`}, []string{`approval.policy = "on-request"`}},
		{[]string{`approval.policy="never"`}, []string{`approval.policy="never"`}, nil},
		{[]string{`sandbox.mode="full-access"`}, []string{`sandbox.mode="full-access"`}, nil},
	} {
		o := options(root)
		o.Sets = tc.base
		if got := config.Widening(t.Context(), o, tc.sets); !slices.Equal(got, tc.want) {
			t.Errorf("%q on %q: %q, want %q", tc.sets, tc.base, got, tc.want)
		}
	}
}

func TestGrantsAboveTheUsersSettings(t *testing.T) {
	project := "sandbox {\n mode = \"workspace-write\"\n deny_read = []\n}\n"
	got := granted(t, map[string]string{"home/gantry.hcl": "sandbox {\n mode = \"read-only\"\n deny_read = [\"~/private\"]\n}\n", "project/.gantry/gantry.hcl": project}, "")
	if want := []string{`2 sandbox.mode = "workspace-write"`, `3 sandbox.deny_read = []`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := granted(t, map[string]string{"home/gantry.hcl": "sandbox {\n mode = \"full-access\"\n}\n", "project/.gantry/gantry.hcl": "sandbox {\n mode = \"full-access\"\n}\n"}, ""); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// The form in JSON, texts that file() reads and locks are compared, too.
func TestGrantsOfOtherFiles(t *testing.T) {
	policy := "guardian {\n policy = file(\"./policy.md\")\n}\n"
	if got, want := granted(t, map[string]string{"project/.gantry/gantry.hcl": policy, "project/policy.md": "new", "before": "policy.md\nold"}, policy), []string{`2 guardian.policy = file("./policy.md")`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := granted(t, map[string]string{"project/.gantry/gantry.hcl.json": "{\n\"sandbox\": {\"mode\": \"full-access\"},\n\"plugin\": {\"x\": {\"source\": \"./x\", \"config\": {\"a\": 1}}}\n}"}, "-"), []string{`2 sandbox.mode = "full-access"`, `3 plugin "x": source = "./x"`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	json := map[string]string{"project/.gantry/gantry.hcl.json": "{\n\"sandbox\": {\"mode\": \"full-access\"}\n}", "before": ".gantry/gantry.hcl.json\n{\"sandbox\": {\"mode\": \"full-access\"}}"}
	if got := granted(t, json, ""); len(got) != 0 {
		t.Errorf("%q", got)
	}
	many := "[" + strings.Repeat("0,", 1000) + "0]"
	if got := granted(t, map[string]string{"project/.gantry/gantry.hcl.json": `{"sandbox": {"mode": "${[for a in ` + many + ` : [for b in ` + many + ` : [for c in ` + many + ` : a]]]}"}}`}, "-"); len(got) != 1 {
		t.Errorf("%q", got)
	}
	const locked = "plugin \"weather\" {\n  version = \"1.0.0\"\n\n  platform \"linux_amd64\" {\n    binary = \"b1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"\n  }\n}\n"
	other := strings.Replace(locked, "47DE", "48DE", 1)
	for before, want := range map[string][]string{"\n\n" + locked: nil, other: {"1 another program for weather"}} {
		files := map[string]string{"project/.gantry/gantry.hcl": policy, "project/.gantry/gantry.lock.hcl": locked, "before": ".gantry/gantry.lock.hcl\n" + before}
		if got := granted(t, files, policy); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
