package config_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func serverManifest() *contract.Manifest {
	return &contract.Manifest{Kind: contract.KindTool, Config: contract.ConfigBlock{Blocks: []contract.ConfigNestedBlock{{
		Name: "server", Labels: []string{"name"}, Process: true,
		Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{{Name: "url", Type: json.RawMessage(`"string"`)}, {Name: "enabled", Type: json.RawMessage(`"bool"`)}}},
	}}}}
}

// The host gets what it starts, and the plugin sees neither values of variables nor the sandbox.
func TestProcesses(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"home/gantry.hcl": `plugin "p" {
  source = "./bin/x"
  config {
    server "a" {
      command = "../bin/server"
      args    = ["-y", env("PLAIN")]
      env     = { B = env("PLAIN"), A = "two", C = command(["print-key"]), D = null }
      cwd     = "work"
      url     = "https://a.test"
      sandbox {
        network        = ["api.test", "*.b.test:443"]
        writable_roots = ["~/.cache", "out"]
        readable_roots = ["/opt/x"]
        deny_read      = ["~/.aws", "*.pem", "/keys"]
      }
      limits {
        memory   = "64MiB"
        pids     = 20
        cpu_time = "1500ms"
      }
    }
    server "b" {
      command = "npx"
      sandbox { mode = "full-access" }
    }
    server "c" { url = "https://c.test" }
    server "d" {
      command = "npx"
      enabled = false
    }
  }
}
`})
	o := options(root)
	o.LookupEnv = func(n string) (string, bool) {
		return map[string]string{"HOME": "/home/me", "PLAIN": "plain"}[n], n == "HOME" || n == "PLAIN"
	}
	o.Sets = []string{`plugin.p.config.server.b.args=["-v"]`}
	c := mustLoad(t, o)
	b, _ := c.Plugin("p")
	data, secrets, ds := b.Render(serverManifest())
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	home := filepath.Join(root, "home")
	want := fmt.Sprintf(`{"server":[{"args":["-y","plain"],"command":%q,"cwd":%q,"enabled":null,"env":["A","B","C"],"name":"a","url":"https://a.test"},`+
		`{"args":["-v"],"command":"npx","cwd":null,"enabled":null,"env":null,"name":"b","url":null},`+
		`{"args":null,"command":null,"cwd":null,"enabled":null,"env":null,"name":"c","url":"https://c.test"},`+
		`{"args":null,"command":"npx","cwd":null,"enabled":false,"env":null,"name":"d","url":null}]}`, filepath.Join(root, "bin/server"), filepath.Join(home, "work"))
	if string(data) != want || len(secrets) > 0 {
		t.Errorf("the plugin gets\n%s and %d secrets, want\n%s", data, len(secrets), want)
	}
	ps, ds := b.Processes(serverManifest())
	if len(ds) > 0 || len(ps) != 3 || ps[0].Disabled || ps[1].Disabled || !ps[2].Disabled {
		t.Fatalf("%d processes, %v", len(ps), ds)
	}
	a := ps[0]
	if a.Name != "server.a" || a.Plugin != "p" || !reflect.DeepEqual(a.Argv, []string{filepath.Join(root, "bin/server"), "-y", "plain"}) || a.Cwd != filepath.Join(home, "work") ||
		a.Env["A"].Value != "two" || a.Env["B"].Value != "plain" || a.Env["C"].Command == nil || len(a.Env) != 3 || a.Range.Start.Line != 4 {
		t.Errorf("process: %+v", a)
	}
	s := a.Sandbox
	if s.FullAccess || len(s.Network) != 2 || s.Network[1].String() != "*.b.test:443" || !reflect.DeepEqual(s.WritableRoots, []string{"/home/me/.cache", filepath.Join(home, "out")}) ||
		!reflect.DeepEqual(s.ReadableRoots, []string{"/opt/x"}) || !reflect.DeepEqual(s.DenyRead, []string{"/home/me/.aws", "*.pem", "/keys"}) {
		t.Errorf("sandbox: %+v", s)
	}
	if a.Limits != (config.Limits{MemoryBytes: 64 << 20, Pids: 20, CPUTime: 2 * time.Second}) {
		t.Errorf("limits: %+v", a.Limits)
	}
	if b := ps[1]; b.Name != "server.b" || !b.Sandbox.FullAccess || !reflect.DeepEqual(b.Argv, []string{"npx", "-v"}) {
		t.Errorf("process: %+v", b)
	}
}

// It is known which variables can make programs run other code, and whether their values contain stored secrets.
func TestLoadingVariables(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"home/gantry.hcl": `plugin "p" {
  source = "./bin/x"
  config {
    server "a" {
      command = "x"
      env     = { NODE_OPTIONS = "-r ${env("PLAIN")}", GIT_CONFIG_VALUE_0 = "Authorization: ${secret("s")}", node_path = "y", TOKEN = secret("s"), PORT = "1" }
    }
  }
}
`})
	o := options(root)
	o.LookupEnv = func(n string) (string, bool) { return "plain", n == "PLAIN" }
	o.Secret = func(string) (string, error) { return "key", nil }
	b, _ := mustLoad(t, o).Plugin("p")
	ps, ds := b.Processes(serverManifest())
	if len(ds) > 0 || len(ps) != 1 {
		t.Fatalf("%v, %v", ps, ds)
	}
	p := ps[0]
	if got := p.Loading(); !reflect.DeepEqual(got, []string{"GIT_CONFIG_VALUE_0", "NODE_OPTIONS", "node_path"}) {
		t.Errorf("loading: %q", got)
	}
	for name, stored := range map[string]bool{"NODE_OPTIONS": false, "GIT_CONFIG_VALUE_0": true, "TOKEN": true, "PORT": false} {
		if p.Env[name].Stored != stored {
			t.Errorf("%s: stored %v", name, p.Env[name].Stored)
		}
	}
}

// A variable whose value is missing keeps only its own process from starting, and is part of what the user accepts.
func TestProcessWithoutAValue(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"home/gantry.hcl": `plugin "p" {
  source = "./bin/x"
  config {
    server "a" {
      command = "x"
      env     = { A = env("NOPE"), B = "b" }
    }
  }
}
`})
	b, _ := mustLoad(t, options(root)).Plugin("p")
	ps, ds := b.Processes(serverManifest())
	if len(ds) > 0 || len(ps) != 1 || len(ps[0].Env) != 2 || ps[0].Env["B"].Err != nil {
		t.Fatalf("%v, %v", ps, ds)
	}
	if err := ps[0].Env["A"].Err; err == nil || !strings.Contains(err.Error(), `gantry.hcl:6: environment variable "NOPE" is not set; next: set NOPE where`) {
		t.Errorf("A: %v", err)
	}
}

// What is wrong in a block that declares a process has its line and a next step.
func TestWrongProcesses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`args = ["x"]`:     `6: "args" without a command`,
		`sandbox {}`:       `6: "sandbox" without a command`,
		`limits {}`:        `6: "limits" without a command`,
		`env = { A = "" }`: `6: "env" without a command`,
		`command = ""`:     `6: invalid value for "command"`,
		"command = \"x\"\nargs = [\"--key=${secret(\"s\")}\"]":       `7: a secret on a command line`,
		"command = \"x\"\nenv = { \"A=B\" = \"\" }":                  `7: invalid name of a variable: "A=B"`,
		"command = \"x\"\nenv = { LD_PRELOAD = \"/x.so\" }":          `7: invalid value for "LD_PRELOAD"`,
		"command = \"x\"\nsandbox {\n mode = \"workspace-write\"\n}": `8: invalid value for "mode"`,
		"command = \"x\"\nsandbox {\n network = [\"https://a\"]\n}":  `8: invalid value for "network"`,
		"command = \"x\"\nsandbox {\n writable_roots = [\"/\"]\n}":   `8: invalid value for "writable_roots"`,
		"command = \"x\"\nsandbox {\n deny_read = [\"**\"]\n}":       `8: invalid value for "deny_read"`,
		"command = \"x\"\nsandbox {\n readable_roots = [\"\"]\n}":    `8: invalid value for "readable_roots"`,
		"command = \"x\"\nlimits {\n memory = \"5\"\n}":              `8: invalid value for "memory"`,
		"command = \"x\"\nlimits {\n pids = -1\n}":                   `8: invalid value for "pids"`,
		"command = \"x\"\nlimits {\n cpu_time = \"soon\"\n}":         `8: invalid value for "cpu_time"`,
		"command = \"x\"\nsandbox {\n netwrok = []\n}":               `8: unsupported argument`,
		"command = \"x\"\nsandbox {\n}\nsandbox {\n}":                `9: duplicate "sandbox" block`,
	} {
		root := write(t, map[string]string{"home/secrets/s": "k", "home/gantry.hcl": "plugin \"p\" {\n  source = \"./bin/x\"\n  config {\n" +
			"    server \"a\" {\n    url = \"\"\n" + text + "\n    }\n  }\n}\n"})
		c := mustLoad(t, options(root))
		b, _ := c.Plugin("p")
		_, _, ds := b.Render(serverManifest())
		if len(ds) != 1 {
			t.Errorf("%s: %v, want one problem", text, ds)
			continue
		}
		if got := fmt.Sprintf("%d: %s", ds[0].Range.Start.Line, ds[0].Summary); got != want || ds[0].Next == "" || !strings.HasSuffix(ds[0].Range.File, "gantry.hcl") {
			t.Errorf("%s: %s, next %q in %s; want %s", text, got, ds[0].Next, ds[0].Range.File, want)
		}
		if ps, more := b.Processes(serverManifest()); ps != nil || len(more) != 1 {
			t.Errorf("%s: %v, %v", text, ps, more)
		}
	}
}

// What the user accepts changes with all that decides what runs and what it may do, and with nothing else.
func TestPin(t *testing.T) {
	t.Parallel()
	pin := func(text string, more map[string]string) config.Pin {
		t.Helper()
		files := map[string]string{"ws/server.js": "1", "home/gantry.hcl": "plugin \"p\" {\n  source = \"./bin/x\"\n  config {\n    server \"a\" {\n" + text + "\n    }\n  }\n}\n"}
		for name, text := range more {
			files[name] = text
		}
		root := write(t, files)
		o := options(root)
		o.Dir = filepath.Join(root, "ws")
		c := mustLoad(t, o)
		b, _ := c.Plugin("p")
		ps, ds := b.Processes(serverManifest())
		if len(ds) > 0 || len(ps) != 1 || ps[0].Key() != "p.server.a" || c.InProject(ps[0]) {
			t.Fatal(ps, ds)
		}
		p := c.Pin(ps[0], "/bin/node", "00")
		if p.Program != c.Pin(ps[0], "/bin/node", "00").Program || p.Program == c.Pin(ps[0], "/bin/node", "01").Program || p.Program == c.Pin(ps[0], "/usr/bin/node", "00").Program {
			t.Errorf("%s: path and digest of the program are not what decides", text)
		}
		return config.Pin{Content: p.Content, Program: p.Program}
	}
	const base = "command = \"node\"\nargs = [\"-r\"]\nenv = { A = \"1\" }"
	was := pin(base, nil)
	if is := pin("url = \"https://x\"\n"+strings.Replace(base, `"1"`, `"2"`, 1), map[string]string{"ws/package.json": "{}"}); is.Content != was.Content {
		t.Error("a value, or what is the plugin's, changes it")
	}
	for _, text := range []string{
		strings.Replace(base, "node", "other", 1), strings.Replace(base, `"-r"`, `"-r", "-s"`, 1), strings.Replace(base, "A =", "B =", 1), base + "\ncwd = \"/\"",
		base + "\nsandbox {\n network = [\"a\"]\n}", base + "\nsandbox {\n writable_roots = [\"/a\"]\n}", base + "\nsandbox {\n readable_roots = [\"/a\"]\n}", base + "\nsandbox {\n deny_read = [\"/a\"]\n}",
		base + "\nsandbox {\n mode = \"full-access\"\n}", base + "\nlimits {\n pids = 3\n}", base + "\nlimits {\n memory = \"3MB\"\n}",
	} {
		if is := pin(text, nil); is.Content == was.Content {
			t.Errorf("the same with %s", text)
		}
	}
	script := strings.Replace(base, `"-r"`, `"server.js"`, 1)
	a, b := pin(script, nil), pin(script, map[string]string{"ws/server.js": "2"})
	if a.Content != b.Content || a.Program == b.Program {
		t.Errorf("a script in the working folder: %v and %v", a, b)
	}
}

// What is accepted of a project's process is the same for each member: paths in the project and in the user's home are relative to these.
func TestPinOfAProject(t *testing.T) {
	t.Parallel()
	pin := func(inProject bool, roots string) lock.Hash {
		t.Helper()
		block := "plugin \"p\" {\n  source = \"./bin/x\"\n  config {\n    server \"a\" {\n command = \"node\"\n cwd = \"work\"\n sandbox {\n writable_roots = [" + roots + "]\n deny_read = [\"~/.aws\"]\n }\n}\n  }\n}\n"
		files := map[string]string{"home/gantry.hcl": "", "project/.gantry/gantry.hcl": block}
		if !inProject {
			files = map[string]string{"home/gantry.hcl": block, "project/x": ""}
		}
		root := write(t, files)
		c := mustLoad(t, options(root)) // the user's home is root
		b, ok := c.Plugin("p")
		if !ok {
			t.Fatal("there is no plugin")
		}
		ps, ds := b.Processes(serverManifest())
		if len(ds) > 0 || len(ps) != 1 || c.InProject(ps[0]) != inProject {
			t.Fatal(ps, ds)
		}
		return c.Pin(ps[0], "/bin/node", "00").Content
	}
	was := pin(true, `"~/.npm", "out"`)
	if is := pin(true, `"~/.npm", "out"`); is != was {
		t.Error("another home and another place change it")
	}
	for _, roots := range []string{`"~/.npm"`, `"~/.ssh", "out"`, `"/.npm", "out"`} {
		if is := pin(true, roots); is == was {
			t.Errorf("the same with %s", roots)
		}
	}
	if own := pin(false, `"~/.npm"`); own == pin(false, `"~/.npm"`) {
		t.Error("in the user's own file, another home is the same")
	}
}

// What the arguments of a process name for its program to run is part of what the user accepts, however it is named; packages and data are not.
func TestScripts(t *testing.T) {
	t.Parallel()
	root := write(t, map[string]string{"ws/s.js": "1", "ws/run": "#!/bin/sh\n", "ws/notes.db": "1", "other/s.js": "1", "home/gantry.hcl": ""})
	o := options(root)
	o.Dir = filepath.Join(root, "ws")
	c := mustLoad(t, o)
	other := filepath.Join(root, "other")
	for _, tc := range []struct {
		want string
		argv []string
	}{
		{"ws/s.js", []string{"node", "s.js", "notes.db"}},
		{"other/s.js", []string{"node", other + "/s.js"}},
		{"ws/s.js other/s.js", []string{"node", "--require=./s.js", other + "/s.js"}},
		{"other/s.js", []string{"sh", "-c", "cd / && exec node " + other + "/s.js"}},
		{"ws/s.js", []string{"bash", "-c", "node 's.js'"}},
		{"ws/none.js", []string{"node", "none.js"}},
		{"other/none", []string{"sh", other + "/none"}},
		{"", []string{"npx", "-y", "@scope/package", "/some/folder"}},
		{"", []string{"uvx", "package==1.0", "--db", "notes.db"}},
		{"", []string{"node", "-e", "1"}},
	} {
		var got []string
		for _, path := range c.Scripts(config.Process{Argv: tc.argv}) {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rel)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%q: %q, want %q", tc.argv, got, tc.want)
		}
	}
}
