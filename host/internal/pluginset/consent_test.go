package pluginset_test

import (
	"os"
	"path/filepath"
	"slices"
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

// The values of variables that can make programs run other code are shown and part of what is accepted, and so are the files that they
// name. Of other variables, only the names are.
func TestConsentCoversVariablesThatLoadCode(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hook, program := filepath.Join(dir, "hook.js"), filepath.Join(dir, "node")
	for _, path := range []string{hook, program} {
		if err := os.WriteFile(path, []byte("1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cfg, ds := config.Load(t.Context(), config.Options{
		Home: filepath.Join(dir, "home"), Dir: dir, System: "-", LookupEnv: func(n string) (string, bool) { return dir, n == "HOME" },
	})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	c := pluginset.Consents{Config: cfg, Home: filepath.Join(dir, "home")}
	with := func(env map[string]string) config.Process {
		p := config.Process{Plugin: "mcp", Name: "server.a", Argv: []string{program}, Env: map[string]config.Secret{}}
		for name, value := range env {
			p.Env[name] = config.Secret{Value: value}
		}
		return p
	}
	accepted := with(map[string]string{"NODE_OPTIONS": "--require ./hook.js", "KEY": "private"})
	n, err := c.Of(accepted)
	if err != nil {
		t.Fatal(err)
	}
	text := "\n" + strings.Join(c.Describe(n), "\n") + "\n"
	for _, want := range []string{"\nvariables: KEY, NODE_OPTIONS\n", "\ncan load code: NODE_OPTIONS=--require ./hook.js\n", "\nscript:    " + hook + "\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "private") {
			t.Errorf("the question shows%swant %q", text, want)
		}
	}
	if err := trust.OpenProcesses(c.Home).Add(t.Context(), map[string]string{accepted.Key(): n.Pin.String()}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  map[string]string
		want string // of the error; "": none
	}{
		{map[string]string{"NODE_OPTIONS": "--require ./hook.js", "KEY": "another"}, ""},
		{map[string]string{"NODE_OPTIONS": "--require ./other.js", "KEY": "private"}, "its block has changed"},
		{map[string]string{"NODE_OPTIONS": "", "KEY": "private"}, "its block has changed"},
	} {
		_, err := c.Check(with(tc.env))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.env, err, tc.want)
		}
	}
	if err := os.WriteFile(hook, []byte("2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(accepted); err == nil || !strings.Contains(err.Error(), "a script that it runs ("+hook+"), has changed") {
		t.Errorf("the file that it loads has changed: %v", err)
	}
	for name, value := range map[string]string{
		"PYTHONPATH": "/x", "PYTHONSTARTUP": "x", "BASH_ENV": "x", "ENV": "x", "PERL5OPT": "-Mx", "RUBYOPT": "-rx", "JAVA_TOOL_OPTIONS": "-javaagent:x.jar",
		"GIT_SSH_COMMAND": "x", "LD_PRELOAD": "/x.so", "npm_config_registry": "https://x.test", "GIT_CONFIG_COUNT": "1", "PATH": "/x",
		"LUA_PATH_5_4": "/x", "KUBECONFIG": "/x", "AWS_CONFIG_FILE": "/x", "CARGO_HOME": "/x", "XDG_CONFIG_DIRS": "/x", "GOTOOLCHAIN": "x",
	} {
		one, err1 := c.Of(with(map[string]string{name: value}))
		other, err2 := c.Of(with(map[string]string{name: value + "y"}))
		if err1 != nil || err2 != nil || one.Pin.Content == other.Pin.Content || !slices.Contains(c.Describe(one), "can load code: "+name+"="+value) {
			t.Errorf("%s: %v, %v, %q", name, err1, err2, c.Describe(one))
		}
	}
	for value, want := range map[*config.Secret]string{
		{Value: "key", Stored: true}:                            "(contains a stored secret)",
		{Value: "https://me:key@x.test"}:                        "https://me:(hidden)@x.test",
		{Command: &config.Command{Argv: []string{"print-key"}}}: `(the output of ["print-key"])`,
		{Value: "-r x\nit may:    read nothing"}:                `-r x\nit may:    read nothing`,
		{Err: os.ErrNotExist}:                                   "(missing)",
	} {
		p := with(nil)
		p.Env["NODE_OPTIONS"] = *value
		n, err := c.Of(p)
		if text := strings.Join(c.Describe(n), "\n"); err != nil || !strings.Contains(text, "NODE_OPTIONS="+want) || strings.Contains(text, "key@") {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}
