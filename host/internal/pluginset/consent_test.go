package pluginset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
)

// What is asked names the scripts with their digests, and a refusal says which of the block, the program and the scripts differs.
func TestConsentNamesWhatHasChanged(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, script := file("node", "1"), file("server.js", "")
	cfg, ds := config.Load(t.Context(), config.Options{
		Home: filepath.Join(dir, "home"), Dir: dir, System: "-", LookupEnv: func(n string) (string, bool) { return dir, n == "HOME" },
	})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	c := pluginset.Consents{Config: cfg, Home: filepath.Join(dir, "home")}
	p := config.Process{Plugin: "mcp", Name: "server.a", Argv: []string{program, "server.js"}}
	refused := func(when string, p config.Process, want ...string) {
		t.Helper()
		_, err := c.Check(p)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", when, err, w)
			}
		}
	}
	refused("new", p, "has not been accepted; next: review it, then run `gantry plugin lock mcp`")
	n, err := c.Of(p)
	if err != nil {
		t.Fatal(err)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if text := strings.Join(c.Describe(n), "\n"); !strings.Contains(text, "\nscript:    "+script+"\nsha256:    "+empty+"\n") {
		t.Errorf("the question shows\n%s", text)
	}
	if err := trust.OpenProcesses(c.Home).Add(t.Context(), map[string]string{p.Key(): n.Pin.String()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(p); err != nil {
		t.Errorf("accepted: %v", err)
	}
	file("server.js", "2")
	refused("another script", p, "accepted: its program "+program+", or a script that it runs ("+script+"), has changed; next:")
	other := p
	other.Cwd = "/"
	other.Argv = []string{program, script}
	refused("another block and script", other, "accepted: its block has changed, and its program "+program+", or a script")
	file("server.js", "")
	refused("another block", other, "accepted: its block has changed; next:")
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	refused("no script", p, "accepted: its script "+script+" does not exist; next:")
	p.Name = "server.b"
	refused("no script of a new process", p, "has not been accepted, and its script "+script+" does not exist; next:")
	if n, err = c.Of(p); err != nil || !strings.Contains(strings.Join(c.Describe(n), "\n"), "script:    "+script+"\nsha256:    none: the script does not exist") {
		t.Errorf("%v, %q", err, c.Describe(n))
	}
	p.Argv = []string{program}
	if n, err = c.Of(p); err != nil {
		t.Fatal(err)
	}
	if err := trust.OpenProcesses(c.Home).Add(t.Context(), map[string]string{p.Key(): n.Pin.String()}); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []string{"/\nit may:    read nothing", "/\u2028it may:    read nothing", "/\u202egnihton", "/\u200b", "/\x9b1A"} {
		p.Cwd = cwd
		if text := strings.Join(c.Describe(pluginset.Consent{Process: p}), "|"); strings.Contains(text, cwd) {
			t.Errorf("a path is shown as it is: %q", text)
		}
	}
	p.Cwd = ""
	p.Argv = []string{program, "none\nit may:    read nothing.js"}
	if n, err = c.Of(p); err != nil || n.Changed == "" || strings.Contains(n.Changed, "\n") {
		t.Errorf("%v, %q", err, n.Changed)
	}
	p.Argv = []string{program}
	file("node", "other")
	refused("another program without a script", p, "accepted: its program "+program+" has changed; next:")
}
