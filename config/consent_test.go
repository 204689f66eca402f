package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
)

// Consent covers what a project's configuration reads and runs, also in JSON syntax, in plugins' blocks and in profiles.
func TestConsentCoversWhatIsReadAndRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, text string
		covered    string // of the project's folder
	}{
		"instructions":          {"gantry.hcl", "instructions {\n  text = file(\"./a.md\")\n}\n", "a.md"},
		"in a text":             {"gantry.hcl", "instructions {\n  text = \"x ${file(\"a.md\")} y\"\n}\n", "a.md"},
		"JSON":                  {"gantry.hcl.json", `{"instructions": {"text": "${file(\"a.md\")}"}}`, "a.md"},
		"a profile":             {"gantry.hcl", "profile \"p\" {\n  instructions {\n    text = file(\"a.md\")\n  }\n}\n", "a.md"},
		"a plugin's block":      {"gantry.hcl", "plugin \"x\" {\n  source = \"./bin/x\"\n  config {\n    deep {\n      v = [file(\"a.md\")]\n    }\n  }\n}\n", "a.md"},
		"by a variable":         {"gantry.hcl", "instructions {\n  text = file(\"${env(\"NAME\")}.md\")\n}\n", "a.md"},
		"above the project":     {"gantry.hcl", "instructions {\n  text = file(\"../shared/b.md\")\n}\n", "../shared/b.md"},
		"missing until now":     {"gantry.hcl", "instructions {\n  text = file(\"new.md\")\n}\n", "new.md"},
		"a program":             {"gantry.hcl", "provider \"p\" {\n  source = \"builtin/compatible\"\n  api_key = command([\"./scripts/token.sh\"])\n}\n", "scripts/token.sh"},
		"what it loads":         {"gantry.hcl", "provider \"p\" {\n  source = \"builtin/compatible\"\n  api_key = command([\"./scripts/token.sh\"])\n}\n", "scripts/lib.sh"},
		"a line":                {"gantry.hcl", "provider \"p\" {\n  source = \"builtin/compatible\"\n  api_key = command([\"sh\", \"-c\", \"cd scripts && ./token.sh\"])\n}\n", "scripts/lib.sh"},
		"listed":                {"gantry.hcl", "provider \"p\" {\n  source = \"builtin/compatible\"\n  api_key = command([\"make\", \"token\"], { files = [\"scripts\"] })\n}\n", "scripts/other"},
		"the guardian's policy": {"gantry.hcl", "guardian {\n  policy = file(\"a.md\")\n}\n", "a.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := write(t, map[string]string{
				"project/.gantry/" + tc.file: tc.text, "project/a.md": "one\n", "shared/b.md": "one\n",
				"project/scripts/token.sh": "#!/bin/sh\n. ./scripts/lib.sh\n", "project/scripts/lib.sh": "true\n", "project/scripts/other": "x\n",
			})
			store := trust.Open(filepath.Join(root, "home"))
			o := options(root)
			o.Trusted, o.Dir = store.Trusted, filepath.Join(root, "project")
			lookup := o.LookupEnv
			o.LookupEnv = func(n string) (string, bool) {
				if n == "NAME" {
					return "a", true
				}
				return lookup(n)
			}
			load := func() *config.Config {
				t.Helper()
				c, ds := config.Load(t.Context(), o)
				if c == nil || c.Project == nil {
					t.Fatal(ds)
				}
				return c
			}
			path := filepath.Join(root, "project", tc.covered)
			c := load()
			if err := store.Add(t.Context(), c.Project.Dir, c.Project.Digest); err != nil {
				t.Fatal(err)
			}
			if c, ds := config.Load(t.Context(), o); name != "missing until now" && (c == nil || !c.Project.Trusted) {
				t.Fatal("not trusted after the answer", ds)
			} else if c != nil && strings.HasPrefix(tc.covered, "scripts/") || name == "instructions" {
				held := false
				for _, p := range c.Held() {
					held = held || path == p || strings.HasPrefix(path, p+"/")
				}
				if !held {
					t.Errorf("%s is not held: %v", path, c.Held())
				}
			}
			if err := os.WriteFile(path, []byte("another\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if c := load(); c.Project.Trusted {
				t.Error("still trusted after the change of " + tc.covered)
			}
		})
	}
}

// What must be a literal string is not part of the consent, and therefore has no value.
func TestValueThatConsentCanNotCover(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"instructions {\n  text = file(file(\"name\"))\n}\n":                        "literal string",
		"instructions {\n  text = join(\"\", [for n in [\"a.md\"] : file(n)])\n}\n": "",
		"instructions {\n  text = [for n in [\"a.md\"] : file(n)][0]\n}\n":          "literal string",
		"instructions {\n  text = file({ a = \"a.md\" }.a)\n}\n":                    "",
	} {
		root := write(t, map[string]string{"project/.gantry/gantry.hcl": text, "project/a.md": "one\n", "project/name": "a.md"})
		o := options(root)
		o.Trusted, o.Dir = func(string, string) bool { return true }, filepath.Join(root, "project")
		_, ds := config.Load(t.Context(), o)
		said := ""
		for _, d := range ds {
			said += d.Detail + d.Next
		}
		if want != "" && !strings.Contains(said, want) {
			t.Errorf("%s: %q", text, said)
		}
	}
}

// A project that reads a pipe or a device with file() keeps nobody waiting, trusted or not.
func TestDigestOfWhatIsNoFile(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"project/.gantry/gantry.hcl": "instructions {\n  text = \"${file(\"../../../../../../../../dev/zero\")}${file(\"pipe\")}\"\n}\n"})
	if p, err := config.FindProject(filepath.Join(root, "project"), filepath.Join(root, "home")); err != nil || len(p.Covered) != 2 {
		t.Fatal(p, err)
	}
}
