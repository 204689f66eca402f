package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

var update = flag.Bool("update", false, "write the expected output of scenarios anew")

// A scenario is a text archive: files below home/ and project/, `run` with one instruction per line, `manifest.json`
// where something is rendered, and `want`. A new file is a new test.
//
//	env NAME=VALUE · set PATH=VALUE · profile NAME · file PATH · untrusted · secret NAME=VALUE   change the options
//	show · validate · store · render LABEL · check LABEL · locate LABEL PATH                     say what is printed
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScenario(t, ar)
			i := slices.IndexFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if i < 0 {
					ar.Files, i = append(ar.Files, txtar.File{Name: "want"}), len(ar.Files)
				}
				ar.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if i < 0 || string(ar.Files[i].Data) != got {
				t.Errorf("got:\n%s\nrun with -update to accept it after reading", got)
			}
		})
	}
}

func runScenario(t *testing.T, ar *txtar.Archive) string {
	t.Helper()
	root := t.TempDir()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	project := filepath.Join(root, "project")
	environment, secrets := map[string]string{"HOME": root}, map[string]string{}
	o := config.Options{
		Home: filepath.Join(root, "home"), Dir: project, System: "-",
		LookupEnv: func(n string) (string, bool) { v, ok := environment[n]; return v, ok },
		Trusted:   func(string, string) bool { return true },
		Secret: func(n string) (string, error) {
			if v, ok := secrets[n]; ok {
				return v, nil
			}
			return "", fmt.Errorf("there is none of that name")
		},
	}
	var manifest contract.Manifest
	var run []string
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		switch {
		case f.Name == "want":
		case f.Name == "run":
			run = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case f.Name == "manifest.json":
			if err := json.Unmarshal(f.Data, &manifest); err != nil {
				t.Fatal(err)
			}
		default:
			path := filepath.Join(root, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	var actions [][]string
	for _, l := range run {
		word, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		name, value, _ := strings.Cut(rest, "=")
		switch word {
		case "env":
			environment[name] = value
		case "secret":
			secrets[name] = value
		case "set":
			o.Sets = append(o.Sets, rest)
		case "profile":
			o.Profile = rest
		case "file":
			o.File = rest
		case "untrusted":
			o.Trusted = nil
		case "show", "validate", "store", "render", "check", "locate":
			actions = append(actions, strings.Fields(l))
		default:
			t.Fatalf("unknown instruction %q", l)
		}
	}
	var out bytes.Buffer
	write := func(ds config.Diagnostics) {
		for _, d := range ds {
			if d.Summary == "" || d.Next == "" {
				t.Errorf("a diagnostic without summary or next step: %+v", d)
			}
		}
		if err := diag.Write(&out, ds, false); err != nil {
			t.Fatal(err)
		}
	}
	c, ds := config.Load(t.Context(), o)
	write(ds)
	if c == nil {
		return strings.ReplaceAll(out.String(), root, "$ROOT")
	}
	for _, a := range actions {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		var b *config.PluginBlock
		if len(a) > 1 {
			var ok bool
			if b, ok = c.Plugin(a[1]); !ok {
				if b, ok = c.Provider(a[1]); !ok {
					write(config.Diagnostics{c.UnknownPlugin(a[1])})
					continue
				}
			}
		}
		switch a[0] {
		case "show":
			if err := c.Show(&out); err != nil {
				t.Fatal(err)
			}
		case "validate":
			write(c.Validate())
		case "store":
			address, ds := c.Store.Address()
			write(ds)
			fmt.Fprintf(&out, "%s at %q, said %v, of %v\n", c.Store.Driver, address.Value, address, c.Store.Variables)
		case "check":
			_, ds := b.Check(&manifest)
			write(ds)
		case "render":
			text, secrets, ds := b.Render(&manifest)
			if text != nil {
				var indented bytes.Buffer
				if err := json.Indent(&indented, text, "", "  "); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				fmt.Fprintf(&out, "%s\n", indented.Bytes())
				for _, h := range slices.Sorted(maps.Keys(secrets)) {
					text := secrets[h].Value
					if c := secrets[h].Command; c != nil {
						text = fmt.Sprintf("printed by %q in %s within %v, again after %v", c.Argv, c.Dir, c.Timeout, c.Refresh)
					}
					fmt.Fprintf(&out, "secret %s = %s\n", h, text)
				}
			}
			write(ds)
		case "locate":
			r := b.Locate(parsePath(t, a[2]))
			fmt.Fprintf(&out, "%s = %s column %d\n", a[2], r, r.Start.Column)
		}
	}
	return strings.ReplaceAll(out.String(), root, "$ROOT")
}

// parsePath reads limit[0].rps and headers["X-A"].
func parsePath(t *testing.T, s string) []contract.Step {
	t.Helper()
	var out []contract.Step
	for s != "" {
		switch {
		case s[0] == '.':
			s = s[1:]
		case strings.HasPrefix(s, `["`):
			k, rest, _ := strings.Cut(s[2:], `"]`)
			out, s = append(out, contract.Key(k)), rest
		case s[0] == '[':
			k, rest, _ := strings.Cut(s[1:], "]")
			var n int64
			if _, err := fmt.Sscan(k, &n); err != nil {
				t.Fatal(err)
			}
			out, s = append(out, contract.Index(n)), rest
		default:
			end := strings.IndexAny(s, ".[")
			if end < 0 {
				end = len(s)
			}
			out, s = append(out, contract.Name(s[:end])), s[end:]
		}
	}
	return out
}
