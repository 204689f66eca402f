package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/configblock"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type serversConfig struct {
	Server []serverBlock `json:"server" doc:"A server that the host starts."`
}

type serverBlock struct {
	Name string `label:"name"`
	configblock.Process
}

// servers is a plugin that starts what its block declares, and has no rights of its own.
func servers() tool.Plugin {
	var c serversConfig
	var early struct {
		sync.Once
		out chan string
	}
	early.out = make(chan string, 1)
	type named struct {
		Name string `json:"name"`
	}
	return tool.Plugin{
		Name: "servers", Version: "1.0.0", Description: "Has servers.", Config: &c, Capabilities: []string{"secrets", "spawn"},
		Configured: func(_ context.Context, env *tool.Env) error {
			early.Do(func() {
				go func() { // owned by the plugin; the process ends with it
					out, err := env.Declared(env.Context(), "server.early").CombinedOutput()
					early.out <- fmt.Sprintf("%s %v", out, err)
				}()
			})
			return nil
		},
		Commands: []tool.Command{tool.NewCommand("ping", "Runs the early server again.", func(ctx context.Context, call *tool.CommandCall, _ struct{}) (any, error) {
			out, err := call.Env().Declared(ctx, "server.early").Output()
			return string(out), err
		}), tool.NewCommand("grow", "Adds a server and starts it.", func(_ context.Context, call *tool.CommandCall, _ struct{}) (any, error) {
			if err := call.Set(map[string]any{"command": "echo", "args": []string{"grown"}}, "server", "late"); err != nil {
				return nil, err
			}
			return "added", call.Continue("late", struct{}{})
		}), tool.NewCommand("lure", "Goes on with a command that has side effects.", func(_ context.Context, call *tool.CommandCall, _ struct{}) (any, error) {
			return "harmless", call.Continue("spill", struct{}{})
		}), tool.NewCommand("spill", "Has side effects.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
			return "spilled", nil
		}, tool.SideEffects()), tool.NewCommand("late", "Runs the server that grow adds.", func(ctx context.Context, call *tool.CommandCall, _ struct{}) (any, error) {
			out, err := call.Env().Declared(ctx, "server.late").Output()
			return string(out), err
		})},
		Tools: []tool.Tool{
			tool.New("run", "Runs a server.", func(ctx context.Context, call *tool.Call, in named) (*tool.Result, error) {
				cmd := call.Env().Declared(ctx, "server."+in.Name)
				cmd.Stdin = strings.NewReader("a line\n")
				out, err := cmd.CombinedOutput()
				return tool.Text(fmt.Sprintf("%s|%v", out, err)), nil
			}, tool.ReadOnly()),
			tool.New("hold", "Starts a server that stays.", func(_ context.Context, call *tool.Call, in named) (*tool.Result, error) {
				if err := call.Env().Declared(call.Env().Context(), "server."+in.Name).Start(); err != nil {
					return nil, err
				}
				return tool.Text("held"), nil
			}, tool.ReadOnly()),
			tool.New("early", "What the server said that was started when the plugin was configured.", func(ctx context.Context, _ *tool.Call, _ struct{}) (*tool.Result, error) {
				select {
				case out := <-early.out:
					return tool.Text(out), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}, tool.ReadOnly()),
			tool.New("seen", "What the plugin knows of a server.", func(ctx context.Context, call *tool.Call, in named) (*tool.Result, error) {
				var b strings.Builder
				for _, s := range c.Server {
					if s.Name == in.Name {
						fmt.Fprintf(&b, "%s %q %q ", s.Command, s.Args[:1], s.Env)
					}
				}
				_, err := call.Env().Client().Secret(ctx, &gantryv1.SecretRequest{Handle: fmt.Sprintf(`server[%q].env["KEY"]`, in.Name)})
				fmt.Fprintf(&b, "%v %v", err != nil, strings.Contains(strings.Join(os.Environ(), "\n"), "PASSWORD"))
				return tool.Text(b.String()), nil
			}, tool.ReadOnly()),
		},
	}
}

// addServers configures the plugin with blocks of servers.
func addServers(t *testing.T, r *rig.Rig, blocks string) {
	t.Helper()
	addOdd(t, r, "servers", "servers", "config {\n"+blocks+"\n}\n")
}

// server is a block that declares a script for the shell.
func server(name, script, more string) string {
	return fmt.Sprintf("server %q {\n  command = \"sh\"\n  args = [\"-c\", %q]\n%s\n}\n", name, strings.ReplaceAll(script, "${", "$${"), more)
}

// A declared process runs as its block says, in the sandbox that its block says, and the plugin gets neither its secrets nor its rights.
func TestDeclaredProcesses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	var calls [][3]string
	for _, name := range []string{"plain", "reads", "writes", "other", "tmp", "offline", "named", "unnamed", "past", "none"} {
		calls = append(calls, [3]string{name, "run", fmt.Sprintf("name = %q", name)})
	}
	calls = append(calls, [3]string{"seen", "seen", `name = "plain"`}, [3]string{"early", "early", ""})
	r := boxed(t, queries(calls...))
	out := filepath.Join(filepath.Dir(r.Dir), "out")
	r.Env = append(r.Env, "PASSWORD=sesame-open-1234")
	fetch := "curl -sS -m 20 " + web.URL
	addServers(t, r, server("plain", `cat; echo "${#KEY} $(pwd) $PASSWORD."`, `env = { KEY = env("PASSWORD") }`)+
		server("early", "echo was early", "")+
		server("reads", "touch "+out+"/new", "")+
		server("writes", "touch "+out+"/new && echo wrote", fmt.Sprintf("sandbox {\n writable_roots = [%q]\n}", out))+
		server("other", "touch "+r.Dir+"/new", fmt.Sprintf("sandbox {\n writable_roots = [%q]\n}", out))+
		server("tmp", "touch /tmp/declared-new && echo wrote", fmt.Sprintf("sandbox {\n writable_roots = [%q]\n}", out))+
		server("offline", fetch, "")+
		server("named", fetch, fmt.Sprintf("sandbox {\n network = [%q]\n}", host))+
		server("unnamed", fetch, "sandbox {\n network = [\"api.test\"]\n}")+
		server("past", "curl -sS --noproxy '*' -m 20 "+web.URL, fmt.Sprintf("sandbox {\n network = [%q]\n}", host))+
		"server \"none\" {\n}\n")
	r.OK("exec", "go")
	got := r.Last().Outputs()
	for id, want := range map[string]string{
		"plain": "a line\n16 " + r.Dir + " .\n|<nil>", "early": "was early\n <nil>", "writes": "wrote\n|<nil>", "tmp": "wrote\n|<nil>", "named": "reached|<nil>",
		"seen": `sh ["-c"] ["KEY"] true false`,
	} {
		if got[id] != want {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	for id, want := range map[string]string{
		"reads": "Read-only file system", "other": "Read-only file system", "offline": "exit status", "past": "exit status", "unnamed": "not_allowed",
		"none": `declares no process "server.none"`,
	} {
		if !strings.Contains(got[id], want) || strings.Contains(got[id], "reached") {
			t.Errorf("%s: %q, want %q", id, got[id], want)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "new")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/tmp/declared-new"); err == nil {
		t.Error("its /tmp is the machine's")
	}
	if res := r.OK("plugin", "run", "servers", "ping"); !strings.Contains(res.Stdout, "was early") {
		t.Errorf("in a command: %q, %q", res.Stdout, res.Stderr)
	}
	r.NothingLeft()
}

// A server ends with the plugin's process and with the host, whatever it does against it, and a call's end does not touch it.
func TestDeclaredProcessesEnd(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"plugin", "host"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			if victim == "plugin" && os.Getuid() != 0 {
				t.Skip("only root can find the plugin's process here")
			}
			r := boxed(t, queries([3]string{"c1", "hold", `name = "long"`},
				[3]string{"c2", "exec_command", `cmd = "touch ready; while [ ! -e go ]; do sleep 0.01; done", login = false, yield_time_ms = 60000`}))
			mark := "sleep 6" + filepath.Base(filepath.Dir(r.Dir))[len("gantry-e2e-"):]
			addServers(t, r, server("long", `trap "" TERM HUP INT; (setsid sh -c 'trap "" TERM HUP; while :; do sleep 600; : `+mark+`; done' &); while :; do sleep 600; : `+mark+`; done`, ""))
			run := r.Start("exec", "go")
			waitFor(filepath.Join(r.Dir, "ready"))
			held := func() []int { return rig.Processes(t, r.Dir, mark) }
			r.Until("the server and its daemon run", func() bool { return len(held()) >= 2 })
			target := []int{run.Cmd.Process.Pid}
			if victim == "plugin" {
				target = rig.Processes(t, r.Home, filepath.Base(os.Args[0]))
			}
			began := time.Now()
			rig.Kill(t, target...)
			r.Until("the server has ended", func() bool { return len(held()) == 0 })
			t.Logf("gone after %v", time.Since(began))
			r.Write(filepath.Join(r.Dir, "go"), "")
			if res := run.Wait(); victim == "plugin" && res.Code != 0 {
				t.Errorf("%d: %s", res.Code, res.Stderr)
			}
			r.Until("no process is left", func() bool { return len(rig.Processes(t, r.Dir, "")) == 0 })
		})
	}
}

// A declared process starts once the user has accepted exactly what it is: its program, arguments, variables, folder and rights.
func TestDeclaredProcessesNeedConsent(t *testing.T) {
	t.Parallel()
	r := boxed(t, queries([3]string{"c1", "run", `name = "a"`}))
	userFile := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	conf := userFile()
	program := filepath.Join(filepath.Dir(r.Dir), "program")
	script := func(text string) {
		t.Helper()
		r.Write(program, "#!/bin/sh\n"+text+"\n")
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("echo one $KEY $MORE")
	block := fmt.Sprintf("server \"a\" {\n command = %q\n args = [\"x\"]\n env = { KEY = \"k1\" }\n}\n", program)
	addServers(t, r, "") // accepts the plugin's own program
	own := strings.TrimPrefix(userFile(), conf)
	configure := func(block string) {
		t.Helper()
		r.Write(filepath.Join(r.Home, "gantry.hcl"), conf+strings.Replace(own, "config {\n\n}", "config {\n"+block+"\n}", 1))
	}
	const next = "run `gantry plugin lock servers` on a terminal"
	says := func(when, want string) {
		t.Helper()
		r.OK("exec", "go")
		got := r.Last().Outputs()["c1"]
		if !strings.Contains(got, want) || want != "one" && (!strings.Contains(got, next) || strings.Contains(got, "|<nil>")) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	const isNew, changed = `process "server.a" of plugin "servers" has not been accepted`, "differs from what was accepted"
	configure(block)
	says("new", isNew)
	run := r.Terminal("exec", "go")
	run.Sees("the process \"server.a\" of plugin \"servers\" is new")
	run.Sees("Let the plugin start it? [y/N]")
	run.Type("n\n")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stdout)
	}
	says("refused", isNew)
	run = r.Terminal("exec", "go")
	run.Sees("Let the plugin start it? [y/N]")
	for _, text := range []string{program, `["x"]`, "KEY", "the working folder", "read what commands can read"} {
		run.Sees(text)
	}
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stdout)
	}
	says("accepted", "one")
	configure(strings.Replace(block, "k1", "k2", 1))
	says("another value", "one")
	for when, text := range map[string]string{
		"arguments": strings.Replace(block, `"x"`, `"y"`, 1), "a variable": strings.Replace(block, "KEY =", "MORE = \"\"\n KEY =", 1),
		"the network": strings.Replace(block, "\n}\n", "\n sandbox {\n network = [\"a.test\"]\n }\n}\n", 1), "no sandbox": strings.Replace(block, "\n}\n", "\n sandbox {\n mode = \"full-access\"\n }\n}\n", 1),
		"a folder": strings.Replace(block, "\n}\n", "\n cwd = \"/\"\n}\n", 1), "limits": strings.Replace(block, "\n}\n", "\n limits {\n pids = 50\n }\n}\n", 1),
	} {
		configure(text)
		says(when, changed)
	}
	configure(block)
	script("echo another one")
	says("another program", changed)
	if res := r.OK("plugin", "lock", "--yes", "servers"); !strings.Contains(res.Stdout, "servers server.a\n  program:   "+program) {
		t.Errorf("what was accepted is not shown:\n%s", res.Stdout)
	}
	says("accepted again", "one")
	script("echo one $KEY $MORE")
	says("the first one again", changed)
}

// In a project, a declared process needs trust in the project and an entry in its lock file.
func TestDeclaredProcessesOfAProject(t *testing.T) {
	t.Parallel()
	r := boxed(t, queries([3]string{"c1", "run", `name = "a"`}))
	addServers(t, r, "")
	block := "plugin \"servers\" {\n  config {\n" + server("a", "echo ran", "") + "  }\n}\n"
	r.Write(".gantry/gantry.hcl", block)
	says := func(when, want string) {
		t.Helper()
		r.OK("exec", "go")
		if got := r.Last().Outputs()["c1"]; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	says("before trust", `declares no process "server.a"`)
	r.OK("trust", "--yes")
	says("before it is locked", `has not been accepted; next: review it, then run `+"`gantry plugin lock servers`"+` on a terminal and restart gantry`)
	r.OK("plugin", "lock", "--yes", "servers")
	lock := r.Read(".gantry/gantry.lock.hcl")
	if !strings.Contains(lock, `process "servers.server.a" {`) {
		t.Errorf("lock file:\n%s", lock)
	}
	says("locked", "ran\n|<nil>")
	r.Write(".gantry/gantry.hcl", strings.Replace(block, "echo ran", "echo stole", 1))
	says("changed and not trusted", `declares no process "server.a"`)
	r.OK("trust", "--yes")
	says("changed and trusted", "differs from what was accepted")
	// What a user accepts elsewhere is no consent to a project's process of the same name.
	r.Write(".gantry/gantry.lock.hcl", strings.ReplaceAll(lock, "servers.server.a", "servers.server.b"))
	r.OK("trust", "--yes")
	says("another one locked", "has not been accepted")
	// What no block declares any more is dropped on request.
	r.OK("plugin", "lock", "--yes", "--prune", "servers")
	if lock := r.Read(".gantry/gantry.lock.hcl"); strings.Contains(lock, "servers.server.b") || !strings.Contains(lock, `process "servers.server.a" {`) {
		t.Errorf("after pruning:\n%s", lock)
	}
}

// What a server creates in a folder and other programs would execute later is moved aside while the server is running.
func TestFilesOfADeclaredProcess(t *testing.T) {
	t.Parallel()
	r := boxed(t, queries([3]string{"c1", "hold", `name = "long"`},
		[3]string{"c2", "exec_command", `cmd = "while [ ! -e go ]; do sleep 0.01; done", login = false, yield_time_ms = 60000`}))
	out := filepath.Join(filepath.Dir(r.Dir), "out")
	hook := filepath.Join(out, ".git", "hooks", "pre-commit")
	addServers(t, r, server("long", "mkdir -p "+filepath.Dir(hook)+" && echo touch /x > "+hook+"; chmod +x "+hook+"; touch "+out+"/made; while :; do sleep 600; done",
		fmt.Sprintf("sandbox {\n writable_roots = [%q]\n}", out)))
	run := r.Start("exec", "go")
	waitFor(filepath.Join(out, "made"))
	r.Until("the hook is moved aside", func() bool { _, err := os.Stat(hook); return err != nil })
	if len(rig.Processes(t, r.Dir, "sleep")) == 0 {
		t.Error("the server has ended")
	}
	r.Write(filepath.Join(r.Dir, "go"), "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
}

// A command can't change the script that a declared process runs in the workspace, and a script that was changed from outside does not run.
func TestChangedScriptOfADeclaredProcess(t *testing.T) {
	t.Parallel()
	change := `cmd = "echo echo evil > x; cat x > server.sh; mv -f x server.sh", login = false`
	r := boxed(t, queries([3]string{"c1", "run", `name = "a"`}, [3]string{"c2", "exec_command", change}, [3]string{"c3", "run", `name = "a"`}))
	r.Write("server.sh", "echo good\n")
	addServers(t, r, "server \"a\" {\n  command = \"sh\"\n  args = [\"server.sh\"]\n}\n")
	policied(r, "never", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "go")
	out := r.Last().Outputs()
	if out["c1"] != "good\n|<nil>" || out["c3"] != out["c1"] || !strings.Contains(out["c2"], "Read-only file system") {
		t.Errorf("%q", out)
	}
	r.Write("server.sh", "echo evil\n")
	r.OK("exec", "--config", "policy.hcl", "go")
	if out := r.Last().Outputs(); !strings.Contains(out["c1"], "differs from what was accepted") {
		t.Errorf("changed from outside: %q", out)
	}
}
