package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func FuzzLoad(f *testing.F) {
	for _, s := range []string{typical, config.Starter(), "plugin \"a\" {\n config {\n x = secret(\"s\")\n y = { z = 1 }\n b {\n n = 1\n }\n}\n}\n"} {
		f.Add(s, false, "plugin.a.config.y.q=1")
	}
	f.Add("plugin \"a\" {\n config {\n x = env(\"N\", command([\"./p\", env(\"A\")], { timeout = \"1s\" }))\n d = [command([\"q\"])]\n}\n}\n", false,
		"plugin.a.config.x=command([\"p\"])")
	f.Add(`{"plugin":{"a":{"source":"./s","config":{"x":"${env(\"A\")}","b":[{"n":1},{"n":"x"}],"l":{"k":{}}}}},"//":1}`, true, `model.a.name="x`)
	f.Add("\x00\xff", false, "=")
	m := &contract.Manifest{Kind: contract.KindTool, Config: contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{
			{Name: "x", Type: json.RawMessage(`"string"`), Sensitive: true, Required: true},
			{Name: "y", Type: json.RawMessage(`["map","number"]`)},
			{Name: "o", Type: json.RawMessage(`["object",{"a":"bool","b":["list","string"]},["b"]]`)},
			{Name: "d", Type: json.RawMessage(`"dynamic"`)},
		},
		Blocks: []contract.ConfigNestedBlock{
			{Name: "b", Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "n", Type: json.RawMessage(`"number"`)}}}},
			{Name: "l", Labels: []string{"label"}, Block: contract.ConfigBlock{}},
		},
	}}
	dir := f.TempDir() // one folder for all: making one each time would take longer than the test itself
	f.Fuzz(func(t *testing.T, text string, isJSON bool, set string) {
		name := filepath.Join(dir, "gantry.hcl")
		if isJSON {
			name += ".json"
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := config.Options{File: name, Home: filepath.Join(dir, "home"), Dir: dir, System: "-", LookupEnv: func(n string) (string, bool) { return "v", n == "HOME" }}
		if set != "" {
			o.Sets = []string{set}
		}
		c, ds := config.Load(t.Context(), o)
		if (c == nil) != ds.HasErrors() {
			t.Fatalf("config %v with %v", c, ds)
		}
		check := func(ds diag.Diagnostics) {
			for _, d := range ds {
				if d.Summary == "" || d.Next == "" {
					t.Errorf("without summary or next step: %+v", d)
				}
				if s := d.Snippet; s != nil && (s.HighlightStart < 0 || s.HighlightEnd < s.HighlightStart || s.HighlightEnd > len(s.Code)) {
					t.Errorf("highlight outside of the code: %+v", s)
				}
			}
			var out bytes.Buffer
			if err := diag.Write(&out, ds, false); err != nil {
				t.Fatal(err)
			}
			if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
				t.Errorf("control character in %q", out.String())
			}
			if _, err := json.Marshal(ds); err != nil {
				t.Error(err)
			}
		}
		check(ds)
		if c == nil {
			return
		}
		check(c.Validate())
		if err := c.Show(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		for _, b := range c.Plugins {
			text, secrets, ds := b.Render(m)
			check(ds)
			if (text == nil) != ds.HasErrors() {
				t.Errorf("JSON %s with %v", text, ds)
			}
			if text != nil {
				var v map[string]any
				if err := json.Unmarshal(text, &v); err != nil || len(v) != 6 {
					t.Errorf("%s: %v, want an object with all of the schema", text, err)
				}
			}
			for h, s := range secrets {
				if v := s.Value; len(v) > 8 && bytes.Contains(text, []byte(v)) && !strings.Contains(h, v) {
					t.Errorf("secret %s stands in %s", h, text)
				}
			}
			_, ds = b.Check(m)
			check(ds)
			for _, path := range [][]contract.Step{nil, {contract.Name("y"), contract.Key("q")}, {contract.Name("b"), contract.Index(0), contract.Name("n")},
				{contract.Name("l"), contract.Key("k")}, {contract.Index(3)}, {contract.Name("o"), contract.Name("b"), contract.Index(0)}} {
				if r := b.Locate(path); r.IsZero() {
					t.Errorf("no place for %v", path)
				}
			}
		}
	})
}

// What lets a project do more is found without an error of its own, whatever the texts.
func FuzzGrants(f *testing.F) {
	for _, s := range []string{typical, config.Starter(), "sandbox {\n mode = \"full-access\"\n}\nplugin \"a\" {\n config {\n  b \"c\" {\n   d = [for x in [1] : x]\n  }\n }\n}\n"} {
		f.Add("", s, false)
		f.Add(s, "", false)
	}
	f.Add(`{"plugin":{"a":{"source":"./s","config":{"x":"${env(\"A\")}"}}}}`, `{"plugin":[{"a":[{"source":1}]},{"b":null}]}`, true)
	dir := f.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".gantry"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, before, after string, isJSON bool) {
		name := filepath.Join(dir, ".gantry", "gantry.hcl")
		if isJSON {
			name += ".json"
		}
		defer os.Remove(name)
		if err := os.WriteFile(name, []byte(after), 0o600); err != nil {
			t.Fatal(err)
		}
		home := filepath.Join(dir, "home")
		p, err := config.FindProject(dir, home)
		if err != nil || p == nil {
			t.Fatal(p, err)
		}
		for _, g := range p.Grants(config.Options{Home: home, System: "-"}, map[string]string{name: before}) {
			text := after
			if g.Removed {
				text = before
			}
			if g.Text == "" || g.Path != name || g.Line < 1 || g.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%+v", g)
			}
		}
		if same := p.Grants(config.Options{Home: home, System: "-"}, map[string]string{name: after}); len(same) > 0 {
			t.Errorf("the same text grants more: %+v", same)
		}
	})
}
