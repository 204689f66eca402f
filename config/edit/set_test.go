package edit

import (
	"encoding/json"
	"errors"
	"github.com/gantry-agent/gantry/sdk/contract"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/hint"
)

const settings = `# Mine.
default_model = ( "a" ) # the big one

approval { policy = "never" }

sandbox {
  # What commands write.
  mode           = "read-only" # for now
  writable_roots = [
    "/a", # one
    "/b",
  ]
  network = true
  /* end */ }

model "a" {
  provider = "p"
  name     = env("NAME")
}

model "b" {
  provider = "p"
  name     = "n"
} # b
`

// change decodes a value as clients send it.
func change(path, value string, replace bool) Change {
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	c := Change{Path: strings.Fields(path), Replace: replace}
	if err := d.Decode(&c.Value); err != nil {
		panic(err)
	}
	return c
}

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change Change
		old    string // replaced by new
		new    string
	}{
		{"an argument of the file", change("default_model", `"b ${x}"`, false), `( "a" )`, `"b $${x}"`},
		{"an argument of a block", change("sandbox mode", `"full-access"`, false), `"read-only"`, `"full-access"`},
		{"a list", change("sandbox writable_roots", `["/c"]`, false), "[\n    \"/a\", # one\n    \"/b\",\n  ]", `["/c"]`},
		{"an expression", change("model a name", `"n"`, false), `env("NAME")`, `"n"`},
		{"a new argument", change("model b reasoning", `"low"`, false), "\"n\"\n}", "\"n\"\n  reasoning = \"low\"\n}"},
		{"in a block of one line", change("approval safe_commands", `true`, false), `{ policy = "never" }`, "{\n  policy = \"never\"\n  safe_commands = true\n}"},
		{"before a comment", change("sandbox require_landlock", `true`, false), "/* end */ }", "/* end */ \n  require_landlock = true\n}"},
		{"a new block", change("limits samplings", `7`, false), "} # b\n", "} # b\n\nlimits {\n  samplings = 7\n}\n"},
		{"a new block with a label", change("model c", `{"provider":"p","name":"x"}`, false), "} # b\n",
			"} # b\n\nmodel \"c\" {\n  name = \"x\"\n  provider = \"p\"\n}\n"},
		{"a new block in a block", change("approval granular rules", `true`, false), `{ policy = "never" }`,
			"{\n  policy = \"never\"\n  granular {\n    rules = true\n  }\n}"},
		{"variables", change("environment set", `{"A":"1"}`, false), "} # b\n", "} # b\n\nenvironment {\n  set {\n    A = \"1\"\n  }\n}\n"},
		{"more of a block", change("sandbox", `{"mode":"read-only","network":false}`, false), "network = true", "network = false"},
		{"a whole block", change("model b", `{"provider":"q"}`, true), "\"p\"\n  name     = \"n\"\n}", "\"q\"\n}"},
		{"all blocks with labels", change("model", `{"a":{"provider":"p"}}`, true), settings[strings.Index(settings, `  name     = env`):], "}\n\n"},
		{"an argument that goes, with its comments", change("sandbox mode", `null`, false), settings[strings.Index(settings, "  # What"):strings.Index(settings, "  writable")], ""},
		{"the only argument of a line", change("approval policy", `null`, false), `{ policy = "never" }`, "{  }"},
		{"a block that goes", change("model b", `null`, false), settings[strings.Index(settings, `model "b"`):], ""},
		{"nothing that goes", change("sandbox deny_read", `null`, false), "", ""},
		{"nothing that goes, in no block", change("history compact_prompt", `null`, false), "", ""},
	} {
		got, err := Apply([]byte(settings), "gantry.hcl", tc.change)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if strings.Count(settings, tc.old) != 1 && tc.old != "" {
			t.Fatalf("%s: the test's text is not clear", tc.name)
		}
		if want := strings.Replace(settings, tc.old, tc.new, 1); string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, want)
		}
	}
	if got, err := Apply(nil, "gantry.hcl", change("sandbox mode", `"read-only"`, false)); err != nil || string(got) != "sandbox {\n  mode = \"read-only\"\n}\n" {
		t.Errorf("a new file: %q, %v", got, err)
	}
}

// The range of a heredoc ends after its last line.
func TestApplyToAHeredoc(t *testing.T) {
	src := "history {\n  compact_prompt = <<E\nA\nE\n  compact_at_tokens = 1\n}\n"
	for value, want := range map[string]string{
		`"B"`:  "history {\n  compact_prompt = \"B\"\n  compact_at_tokens = 1\n}\n",
		`null`: "history {\n  compact_at_tokens = 1\n}\n",
	} {
		if got, err := Apply([]byte(src), "gantry.hcl", change("history compact_prompt", value, false)); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", value, err, got, want)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, tc := range []struct {
		change Change
		says   string
		next   string
	}{
		{change("sandbx mode", `"x"`, false), `unknown setting "sandbx"`, `did you mean "sandbox"?`},
		{change("sandbox mod", `"x"`, false), `unknown setting "sandbox.mod"`, `did you mean "mode"?`},
		{change("sandbox mode extra", `"x"`, false), `unknown setting "sandbox.mode.extra"`, `"mode" is an argument`},
		{change("provider p base_url", `"x"`, false), `unknown setting "provider.p.base_url"`, "gantry.hcl"},
		{change("plugin p config unit", `"x"`, false), `unknown setting "plugin.p.config.unit"`, "gantry.hcl"},
		{change("environment set A-B.C", `"x"`, false), `unknown setting`, ""},
		{change("", `{}`, false), `unknown setting ""`, "name a setting"},
		{change("sandbox", `"x"`, false), `"sandbox" is a block`, ""},
		{change("model", `"x"`, false), `"model" must be an object`, ""},
		{change("sandbox mode", `{"a":1}`, false), `"sandbox.mode" must be a string`, ""},
		{change("sandbox writable_roots", `[null]`, false), `"sandbox.writable_roots" must be a string`, ""},
		{change("model c reasoning", `null`, false), `there is no such block: model "c"`, ""},
	} {
		_, err := Apply([]byte(settings), "gantry.hcl", change("history compact_at_tokens", "1", false), tc.change)
		if err == nil {
			t.Errorf("%v: no error", tc.change)
			continue
		}
		text, next := hint.Split(err)
		if !strings.Contains(text, tc.says) || !strings.Contains(next, tc.next) {
			t.Errorf("%v: %q, %q", tc.change, text, next)
		}
		if _, unknown := errors.AsType[*UnknownError](err); unknown != strings.HasPrefix(tc.says, "unknown") {
			t.Errorf("%v: %T", tc.change, err)
		}
	}
	for _, text := range []string{"sandbox {", `{"sandbox":{}}`} {
		name := "gantry.hcl"
		if text[0] == '{' {
			name += ".json"
		}
		if _, err := Apply([]byte(text), name, change("sandbox mode", `"x"`, false)); err == nil {
			t.Errorf("%s was changed", text)
		}
	}
}

// arguments returns the values of all arguments of a file by their paths.
func arguments(t interface{ Fatal(...any) }, src []byte) map[string]string {
	f, ds := hclsyntax.ParseConfig(src, "gantry.hcl", hcl.InitialPos)
	if ds.HasErrors() {
		t.Fatal(ds, string(src))
	}
	out := map[string]string{}
	var read func(b *hclsyntax.Body, at string)
	read = func(b *hclsyntax.Body, at string) {
		for name, a := range b.Attributes {
			out[at+name] = string(a.Expr.Range().SliceBytes(src))
			if v, ds := a.Expr.Value(nil); !ds.HasErrors() && v.Type() == cty.String {
				out[at+name] = v.AsString()
			}
		}
		for _, c := range b.Blocks {
			read(c.Body, at+c.Type+" "+strings.Join(c.Labels, " ")+" ")
		}
	}
	read(f.Body.(*hclsyntax.Body), "")
	return out
}

// A change sets its argument, once, and nothing else; comments of other settings stay.
func TestApplyChangesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(settings)
		want := arguments(t, src)
		for range rapid.IntRange(1, 6).Draw(t, "n") {
			path := rapid.SampledFrom([]string{
				"default_model", "approval policy", "approval safe_commands", "sandbox mode", "sandbox network", "sandbox deny_read", "model a name", "model b name",
				"model c name", "history compact_prompt", "approval granular rules",
			}).Draw(t, "path")
			value := rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0xfffd) }).Draw(t, "value")
			names := strings.Fields(path)
			key := path
			if n := len(names); n == 2 || names[0] == "approval" {
				key = strings.Join(names[:1], "") + "  " + strings.Join(names[1:], "  ")
			}
			remove := rapid.Bool().Draw(t, "remove")
			c := Change{Path: names, Value: value}
			if remove {
				c.Value = nil
			}
			out, err := Apply(src, "gantry.hcl", c)
			if errors.Is(err, ErrNoBlock) && remove && names[1] == "c" {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Apply(out, "gantry.hcl", c); err != nil && !errors.Is(err, ErrNoBlock) || err == nil && string(again) != string(out) {
				t.Fatalf("again: %v\n%s\n%s", err, out, again)
			}
			if remove {
				delete(want, key)
			} else {
				want[key] = normal(value)
			}
			if got := arguments(t, out); !maps.Equal(got, want) {
				t.Fatalf("%v\n%s\n%q\nwant %q", c, out, got, want)
			}
			for _, comment := range []string{"/* end */", "# b"} {
				if !strings.Contains(string(out), comment) {
					t.Fatalf("%s is gone:\n%s", comment, out)
				}
			}
			src = out
		}
	})
}

// normal returns a string as HCL has it.
func normal(s string) string { return cty.StringVal(s).AsString() }

func FuzzApply(f *testing.F) {
	f.Add(settings, "sandbox mode", `"x"`, false)
	f.Add("sandbox {}", "sandbox mode", `["x"]`, true)
	f.Add("a = <<E\n}\nE\nsandbox { mode = 1\n}", "sandbox mode", `null`, true)
	f.Add("history {\n  compact_prompt = <<E\nA\nE\n  compact_at_tokens = 1\n}\n", "history compact_prompt", `"B"`, false)
	f.Add("model \"{\" {\r\n}\r\n", "model { name", `"x"`, false)
	f.Add("model \"a\" \"b\" {}", "model", `{"a":{}}`, true)
	f.Add("profile \"x\" { sandbox { mode = \"x\" } }", "profile x sandbox network", `true`, false)
	f.Fuzz(func(t *testing.T, src, path, value string, replace bool) {
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		c := Change{Path: strings.Fields(path), Replace: replace}
		if d.Decode(&c.Value) != nil {
			return
		}
		if _, ds := hclsyntax.ParseConfig([]byte(src), "gantry.hcl", hcl.InitialPos); ds.HasErrors() {
			return
		}
		out, err := Apply([]byte(src), "gantry.hcl", c)
		if err != nil {
			return
		}
		if _, ds := hclsyntax.ParseConfig(out, "gantry.hcl", hcl.InitialPos); ds.HasErrors() {
			t.Fatalf("%v: %v\n%s\n%s", slices.Concat(c.Path), ds, src, out)
		}
	})
}

// A plugin's own settings are changed in its block alone: comments and all else stay, values may be objects and references, and what the
// plugin's schema does not have is refused.
func TestApplyOwn(t *testing.T) {
	t.Parallel()
	own := contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{{Name: "pace"}},
		Blocks:     []contract.ConfigNestedBlock{{Name: "server", Labels: []string{"name"}, Process: true}, {Name: "twin"}},
	}
	at := []Block{{"plugin", "mcp"}, {"config", ""}}
	value := func(text string) any {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	const before = "# mine\nplugin \"mcp\" {\n  source = \"builtin/mcp\" # pinned\n  config {\n    # the first\n    server \"a\" {\n      command = \"x\" # kept?\n    }\n  }\n}\n\nplugin \"other\" {\n  source = \"./o\"\n}\n"
	for name, tc := range map[string]struct {
		src  string
		c    Change
		want string // of the text, or of the error if it begins with !
	}{
		"an argument": {before, Change{Path: []string{"pace"}, Value: value("3")}, "    }\n    pace = 3\n  }\n}\n"},
		"a block": {before, Change{Path: []string{"server", "b"}, Value: value(`{"command":"npx","args":["-y","a b"],"env":{"TOKEN":{"$secret":"github"},"X-Y":{"$env":"HOME"},"Z":"$${1}"},"sandbox":{"network":["a.test"]}}`), Replace: true},
			"    server \"b\" {\n      args    = [\"-y\", \"a b\"]\n      command = \"npx\"\n      env = {\n        TOKEN = secret(\"github\")\n        X-Y = env(\"HOME\")\n"},
		"a variable with a default": {before, Change{Path: []string{"server", "b"}, Value: value(`{"env":{"X":{"$env":"HOME","$default":""},"Y":{"$env":"HOME","$default":1}}}`), Replace: true},
			"        X = env(\"HOME\", \"\")\n        Y = {\n"},
		"an argument of a block": {before, Change{Path: []string{"server", "a", "command"}, Value: "y"}, "      command = \"y\" # kept?\n"},
		"remove a block":         {before, Change{Path: []string{"server", "a"}}, "  config {\n  }\n}\n\nplugin \"other\""},
		"where there is none":    {"", Change{Path: []string{"server", "b", "command"}, Value: "y"}, "plugin \"mcp\" {\n  config {\n    server \"b\" {\n      command = \"y\"\n"},
		"unknown":                {before, Change{Path: []string{"server", "a", "nope"}, Value: "y"}, "!unknown setting \"server.a.nope\""},
		"outside":                {before, Change{Path: []string{"source"}, Value: "./evil"}, "!unknown setting \"source\""},
		"all of it":              {before, Change{}, "!unknown setting"},
		"blocks without a label": {before, Change{Path: []string{"twin"}, Value: value("{}")}, "!unknown setting \"twin\""},
	} {
		out, err := ApplyOwn([]byte(tc.src), "gantry.hcl", at, own, tc.c)
		if text, refused := strings.CutPrefix(tc.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want %q", name, err, text)
			}
			continue
		}
		// Alignment within a value is of no interest.
		if err != nil || !strings.Contains(aligned.ReplaceAllString(string(out), "="), aligned.ReplaceAllString(tc.want, "=")) {
			t.Errorf("%s: %v\n%s\nwant in it\n%s", name, err, out, tc.want)
		}
		if tc.src != "" && (!strings.HasPrefix(string(out), "# mine\nplugin \"mcp\" {\n  source = \"builtin/mcp\" # pinned\n") || !strings.HasSuffix(string(out), "\n\nplugin \"other\" {\n  source = \"./o\"\n}\n")) {
			t.Errorf("%s: the rest is changed:\n%s", name, out)
		}
	}
}

var aligned = regexp.MustCompile(` *= *`)
