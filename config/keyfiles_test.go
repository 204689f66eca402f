package config_test

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Files that settings with keys read are known, in any syntax and layer; those that only hold text are not among them.
func TestKeyFiles(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`"string"`)
	schema := contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{{Name: "key", Type: text, Sensitive: true}, {Name: "other", Type: text}, {Name: "template", Type: text}},
		Blocks: []contract.ConfigNestedBlock{{Name: "deep", Block: contract.ConfigBlock{
			Attributes: []contract.ConfigAttribute{{Name: "token", Type: text, Sensitive: true}, {Name: "plain", Type: text}},
		}}},
	}
	const head = "plugin \"p\" {\n  source = \"./bin/x\"\n  config {\n"
	for name, tc := range map[string]struct {
		file, text       string
		set              []string
		unknown, schemed string // the file's name; empty: none
	}{
		"sensitive":              {text: head + "key = file(\"~/k\")\n}\n}\n", unknown: "k", schemed: "k"},
		"a part of a value":      {text: head + "key = \"a${file(\"~/k\")}\"\n}\n}\n", unknown: "k", schemed: "k"},
		"by a variable":          {text: head + "key = file(\"~/${env(\"NAME\")}\")\n}\n}\n", unknown: "k", schemed: "k"},
		"in a block":             {text: head + "deep {\n token = file(\"~/k\")\n}\n}\n}\n", unknown: "k", schemed: "k"},
		"not sensitive":          {text: head + "other = file(\"~/k\")\n}\n}\n", unknown: "k"},
		"plain in a block":       {text: head + "deep {\n plain = file(\"~/k\")\n}\n}\n}\n", unknown: "k"},
		"text by its name":       {text: head + "text = file(\"~/k\")\n}\n}\n", schemed: "k"}, // no schema knows it
		"JSON":                   {file: "gantry.hcl.json", text: `{"plugin": {"p": {"source": "./bin/x", "config": {"key": "${file(\"~/k\")}"}}}}`, unknown: "k", schemed: "k"},
		"the command line":       {text: head + "}\n}\n", set: []string{`plugin.p.config.key=file("~/k")`}, unknown: "k", schemed: "k"},
		"the store":              {text: "store {\n  driver = \"postgres\"\n  dsn = file(\"~/k\")\n}\n", unknown: "k", schemed: "k"},
		"switched off":           {text: "plugin \"p\" {\n  source = \"./bin/x\"\n  enabled = false\n  config {\nkey = file(\"~/k\")\n}\n}\n"},
		"instructions":           {text: "instructions {\n  text = file(\"~/k\")\n}\n"},
		"data of a program":      {text: head + "key = command([\"cat\", \"../k\"])\n}\n}\n", unknown: "k", schemed: "k"},
		"a script of a program":  {text: head + "key = command([\"python3\", \"../run.py\"])\n}\n}\n"},
		"a program that is read": {text: head + "key = command([\"sh\", \"../run\"])\n}\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := write(t, map[string]string{"k": "key", "run.py": "print()", "run": "#!/bin/sh\n", "home/" + cmp.Or(tc.file, "gantry.hcl"): tc.text})
			o := options(root)
			o.Sets = tc.set
			lookup := o.LookupEnv
			o.LookupEnv = func(n string) (string, bool) {
				if n == "NAME" {
					return "k", true
				}
				return lookup(n)
			}
			c := mustLoad(t, o)
			for of, want := range map[*contract.Manifest]string{nil: tc.unknown, {Config: schema}: tc.schemed} {
				var got []string
				for _, k := range c.KeyFiles(func(*config.PluginBlock) *contract.Manifest { return of }) {
					got = append(got, k.Path)
				}
				if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{filepath.Join(root, want)}) {
					t.Errorf("with the schema %t: %q, want %q", of != nil, got, want)
				}
			}
		})
	}
}
