package attacks_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// code are the rows about code that calls tools: scripts of exec, and cells of python. The code is untrusted, and so is its process.
var code = []row{
	{id: "K1", attempt: "Python: print frames of the kernel's protocol, with the ID of the running cell: by `print`, on descriptors 1 and 2 and on all that a child process inherits, from C", required: "it is output",
		ours: "output: the protocol uses descriptors that no other code inherits or prints to", flow: printedFrames},
	{id: "K2", attempt: "scripts: print frames of the protocol by `console.log`, `text`, `notify` and errors", required: "it is output", ours: "output", flow: loggedFrames},
	{id: "K3", attempt: "Python: write a call into the protocol past gantry's module: with the ID of the cell, of an earlier cell, of none", required: "no more than a call of the module",
		ours: "decided on as any other call; refused with another ID", flow: forgedCalls},
	{id: "K4", attempt: "call a tool after the result: by threads, by code that claims that its cell has ended, by a fork, by timers and after `exit()`", required: "refused",
		ours: "refused: a call is made in the name of a cell that runs", flow: lateCalls, tests: []string{"host/internal/orchestrate TestTokensAreRevokedWithTheirCall", "host/internal/service TestCallTokens"}},
	{id: "K5", attempt: "read or change what a script of another thread has stored, also by names such as `__proto__`", required: "not seen", ours: "not seen: the values are part of the thread", flow: foreignValues},
	{id: "K6", attempt: "Python: read the variables, the environment and the memory of another thread's kernel", required: "not seen", ours: "not seen: each thread has a process and a sandbox of its own", flow: foreignKernel},
	{id: "K7", attempt: "have code make a call that a person would be asked about, or that a rule forbids; go on after a no", required: "asked about, with the call that it comes from; a no is an exception; aborting ends the code and all its calls",
		ours: "as required", flow: nestedQuestions},
	{id: "K8", attempt: "calls that make calls without end", required: "bounded", ours: "refused from the fifth on", flow: deepCalls},
	{id: "K9", attempt: "code that has broken out of the JavaScript engine opens files and sockets, starts processes and signals others, under `full-access`", required: "denied",
		ours: "EPERM: the process has a filter of system calls of its own", flow: brokenEngine, tests: []string{"sdk/codemode/child TestLock"}},
	{id: "K10", attempt: "use descriptors that whoever started gantry has left open, gantry's own, or those of other processes in `/proc`", required: "none is there",
		ours: "only pipes, and none of them in child processes", flow: inheritedDescriptors},
	{id: "K11", attempt: "find keys in the environment of the code's process, and of others that it can see", required: "not there", ours: "not there", flow: codeEnvironment},
	{id: "K12", attempt: "Python: connect to the sockets of gantry and of its plugins, with and without a network", required: "denied", ours: "denied", flow: codeSockets},
	{id: "K13", attempt: "scripts: replace built-in functions and prototypes, `tools`, `ALL_TOOLS`, and names such as `constructor` and `__proto__`", required: "no effect outside of the script",
		ours: "none: each script has a process, which it can break for itself alone", flow: polluted},
	{id: "K14", attempt: "scripts: close the function that the code is put into, or read files by source maps, imports and references of TypeScript", required: "nothing more is reached",
		ours: "the same globals and limits outside of the function; nothing is read", flow: unwrapped},
}

// newCodeFlow is a flow whose models run scripts and cells of Python.
func newCodeFlow(t *testing.T, w *world, name, mode, policy string) *flow {
	t.Helper()
	// Like the world, since a box does not see the machine's /tmp: what else keeps gantry's sockets out of reach would not be tried.
	f := newFlowOn(t, rig.NewIn(t, "/var/tmp", ""), w, name, mode, policy)
	f.config("codemode {\n  mode = \"on\"\n}\nplugin \"python\" {\n  source = \"builtin/python\"\n}\n")
	return f
}

// cell lets the model run Python, script JavaScript.
func (f *flow) cell(id, text string) {
	f.ids = append(f.ids, id)
	fmt.Fprintf(&f.steps, "[[step]]\ndo = [{ call = \"python\", id = %q, args = { code = %s } }]\n", id, quoted(text))
}

func (f *flow) script(id, text string) {
	f.ids = append(f.ids, id)
	fmt.Fprintf(&f.steps, "[[step]]\ndo = [{ call = \"exec\", id = %q, freeform = %s }]\n", id, quoted(text))
}

// rule makes a rule about a command.
func (f *flow) rule(command, decision string) {
	f.Write(filepath.Join(f.Home, "rules", "code.rules"), fmt.Sprintf("prefix_rule(pattern=[%q], decision=%q)\n", command, decision))
}

// says checks that a text has parts and lacks others, which begin with "!".
func says(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if without, ok := strings.CutPrefix(p, "!"); ok == strings.Contains(text, strings.TrimPrefix(p, "!")) {
			t.Errorf("%s: want %q there: %v:\n%.1000s", what, without, !ok, text)
		}
	}
}

// notMade checks that files were not made in the workspace.
func (f *flow) notMade(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if exists(filepath.Join(f.Dir, name)) {
			t.Errorf("%s was made", name)
		}
	}
}

func lateCalls(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K4", "workspace-write", "never")
	f.cell("c1", forge+`
import threading
first, said = w.cell, []
def late():
    while w.cell == first:
        pass
    said.append(forge(first, 1001, "late-thread"))
    open("said", "w").close()
    try:
        said.append(gantry.tools.exec_command(cmd="touch late-module", login=False))
    except gantry.ToolError as e:
        said.append("REFUSED " + str(e))
thread = threading.Thread(target=late)
thread.start()
`)
	f.call("x1", "until [ -e said ]; do sleep 0.01; done") // the thread's first call comes while no cell runs
	f.cell("c2", `
thread.join()
frames = os.dup(w.frames)
saved = json.dumps({"op": "call", "id": w.cell, "seq": 3001, "tool": "exec_command", "args": {"cmd": "touch late-fork", "login": False}})
child = os.fork()
if child == 0:
    while not os.path.exists("third"):
        pass
    os.write(frames, saved.encode() + b"\n")
    open("forked", "w").close()
    os._exit(0)
said
`)
	f.cell("c3", `
open("third", "w").close()
while not os.path.exists("forked"):
    pass
third = w.cell
os.write(w.frames, json.dumps({"op": "done", "id": third, "status": "ok", "marked": False, "count": 3}).encode() + b"\n")
while w.inbox.empty():
    pass
said.append(forge(third, 4001, "late-claim"))
`)
	f.cell("c4", "said[2:], os.path.exists('forked')")
	f.script("s1", `setTimeout(() => tools.exec_command({cmd: "touch late-timer", login: false}), 0); queueMicrotask(() => setTimeout(() => text("LATE"), 0))`)
	f.script("s2", `const call = () => tools.exec_command({cmd: "touch late-exit", login: false})
try { exit() } finally { for (let i = 0; i < 10; i++) { try { call() } catch {} } }`)
	out := f.run(t)
	says(t, "c2", out["c2"], "['REFUSED ", ", 'REFUSED ", "!MADE")
	says(t, "c4", out["c4"], "(['REFUSED ", "True", "!MADE")
	says(t, "s1", out["s1"], "Script completed", "!LATE")
	f.notMade(t, "late-thread", "late-module", "late-fork", "late-claim", "late-timer", "late-exit")
}

// threads has the threads with the given numbers do a turn each, one after the other, and returns what the model reads in each turn.
func (f *flow) threads(t *testing.T, order ...int) (out []map[string]string) {
	t.Helper()
	f.prepare()
	c := f.AppServer(f.args...)
	c.Call("initialize", map[string]any{
		"clientInfo": map[string]any{"name": "attacker", "version": "1"}, "capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	c.Send(`{"method":"initialized"}`)
	ids := map[int]string{}
	for turn, n := range order {
		if ids[n] == "" {
			var r struct{ Thread struct{ ID string } }
			c.Call("thread/start", map[string]any{}, &r)
			ids[n] = r.Thread.ID
		}
		c.Call("turn/start", map[string]any{"threadId": ids[n], "input": []any{map[string]any{"type": "text", "text": fmt.Sprintf("turn %d", turn+1)}}}, nil)
		c.Notified("turn/completed")
		out = append(out, f.Last().Outputs())
	}
	c.Close()
	f.NothingLeft()
	return out
}

// inTurn makes the steps that add writes those of a turn of [flow.threads]: each thread plays the script from its beginning.
func (f *flow) inTurn(n int, add func()) {
	before := f.steps.String()
	f.steps.Reset()
	add()
	now := strings.ReplaceAll(f.steps.String(), "[[step]]\n", fmt.Sprintf("[[step]]\nwhen = { user = 'turn %d' }\n", n))
	f.steps.Reset()
	f.steps.WriteString(before + now)
}

func nestedQuestions(t *testing.T, w *world) {
	// What each kind of code is, and the name of the tool that runs it.
	for tool, text := range map[string]string{
		"python": "try:\n    gantry.tools.exec_command(cmd='touch made', login=False)\nexcept gantry.ToolError as e:\n    print('CAUGHT', e)\n",
		"exec":   `try { await tools.exec_command({cmd: "touch made", login: false}) } catch (e) { text("CAUGHT " + e.message) }`,
	} {
		begin := func(name, policy, decision string, text string) *flow {
			f := newCodeFlow(t, w, "K7"+tool+name, "workspace-write", policy)
			f.rule("touch", decision)
			if tool == "python" {
				f.cell("c1", text)
			} else {
				f.script("c1", text)
			}
			return f
		}
		f := begin("forbidden", "never", "forbidden", text)
		says(t, tool+", forbidden", f.run(t)["c1"], "CAUGHT ")
		f.notMade(t, "made")

		f = begin("nobody", "on-request", "prompt", text)
		says(t, tool+", nobody to ask", f.run(t)["c1"], "CAUGHT rejected: ")
		f.notMade(t, "made")

		answer := func(f *flow, key string) rig.Result {
			f.prepare()
			run := f.Terminal(append([]string{"exec"}, append(f.args, "go")...)...)
			run.Sees("answer: ")
			run.Type(key + "\n")
			return run.Wait()
		}
		f = begin("no", "on-request", "prompt", text)
		res := answer(f, "n")
		says(t, tool+", a no", f.read(t, res)["c1"], "CAUGHT rejected by user")
		says(t, tool+", the question", res.Stdout, "touch made", tool+" → exec_command")
		f.notMade(t, "made")

		// Beside the call that is asked about, another one runs.
		f = begin("abort", "on-request", "prompt", map[string]string{
			"python": "import asyncio\nawait asyncio.gather(gantry.tools.aio.exec_command(cmd='echo > begun; sleep 600', login=False, yield_time_ms=30000), " +
				"gantry.tools.aio.exec_command(cmd='until [ -e begun ]; do sleep 0.01; done; touch made', login=False))\nopen('went-on', 'w').close()",
			"exec": `await Promise.allSettled([tools.exec_command({cmd: "echo > begun; sleep 600", login: false, yield_time_ms: 30000}), ` +
				`tools.exec_command({cmd: "until [ -e begun ]; do sleep 0.01; done; touch made", login: false})]); await tools.exec_command({cmd: "echo > went-on", login: false})`,
		}[tool])
		res = answer(f, "q")
		if res.Code == 0 || strings.Contains(res.Stdout, "finished") {
			t.Errorf("%s: the turn went on after its user has aborted: exit %d\n%s", tool, res.Code, res.Stdout)
		}
		f.notMade(t, "made", "went-on")
		f.NothingLeft()
	}
}

func deepCalls(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K8", "workspace-write", "never")
	f.Config(fmt.Sprintf("plugin %q {\n  source = %q\n  env {\n    %s = \"1\"\n  }\n}\n", caged, filepath.Join(f.world.programs, "attacker"), pluginEnv))
	f.prepare()
	f.OK("plugin", "lock", "--yes")
	f.steps.Reset()
	f.cell("c1", "gantry.tools.nest(depth=0)")
	f.cell("c2", "try:\n    gantry.tools.python(code='1')\nexcept gantry.ToolError as e:\n    print('REFUSED', e)\ntry:\n    gantry.tools.exec('text(1)')\nexcept gantry.ToolError as e:\n    print('REFUSED', e)")
	f.script("s1", `text(await tools.nest({depth: 0})); try { await tools.exec("text(1)") } catch (e) { text("REFUSED " + e.message) }`)
	f.script("s2", `text(await tools.python({code: "gantry.tools.nest(depth=0)"}))`)
	out := f.run(t)
	for id, depth := range map[string]int{"c1": 3, "s1": 3} {
		says(t, id, out[id], fmt.Sprintf("refused at %d: ", depth), "nested deeper than 4")
	}
	if n := strings.Count(out["c2"], "REFUSED"); n != 2 {
		t.Errorf("c2: %d calls were refused, want 2:\n%s", n, out["c2"])
	}
	says(t, "s1", out["s1"], "REFUSED ")
	says(t, "s2", out["s2"], "refused at 2: ", "nested deeper than 4")
}

// running starts a run whose code waits, does something while it does, and lets it go on.
func (f *flow) running(t *testing.T, leaks []*os.File, during func(pid int)) {
	t.Helper()
	f.prepare()
	cmd := exec.CommandContext(t.Context(), gantry(t), append([]string{"exec"}, append(f.args, "go")...)...)
	var out strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = f.Dir, f.Env, &out, &out, leaks
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Until("the code waits", func() bool { return exists(filepath.Join(f.Dir, "waiting")) })
	during(cmd.Process.Pid)
	f.Write("go", "")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	f.NothingLeft()
}

// waits is the command by which code waits in a running flow.
const waits = "echo > waiting; until [ -e go ]; do sleep 0.01; done"

// engine returns the process of the script that runs.
func engine(t *testing.T, host int) int {
	t.Helper()
	for pid := range rig.Descendants(t, host) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.HasPrefix(string(name), "gantry-codemode") {
			return pid
		}
	}
	t.Fatal("the script has no process")
	return 0
}

func inheritedDescriptors(t *testing.T, w *world) {
	for _, mode := range []string{"full-access", "workspace-write"} {
		f := newCodeFlow(t, w, "K10"+mode, mode, "never")
		f.cell("c1", `
import os, subprocess, sys
look = """
import os, sys
for pid in ["self"] + [p for p in os.listdir("/proc") if p.isdigit() and sys.argv[1] == "all"]:
    try:
        fds = os.listdir("/proc/%s/fd" % pid)
    except OSError:
        continue
    for fd in fds:
        try:
            to = os.readlink("/proc/%s/fd/%s" % (pid, fd))
        except OSError:
            continue
        if pid == "self" or to.startswith("/"):
            print("FD", pid, fd, to)
"""
all = "all" if `+map[bool]string{true: "False", false: "True"}[mode == "full-access"]+` else "own"
exec(look.replace("sys.argv[1]", "all"))
for keep in (True, False):
    print(subprocess.run([sys.executable, "-c", look.replace("FD", "CHILD-FD"), "own"], close_fds=keep, capture_output=True, text=True).stdout)
`)
		f.script("s1", `await tools.exec_command({cmd: "`+waits+`", login: false, yield_time_ms: 30000}); text("the end")`)
		f.running(t, w.leaks, func(host int) {
			pid := engine(t, host)
			for _, to := range rig.Descriptors(t, pid) {
				own := fmt.Sprintf("/proc/%d/status", pid) // from which it reads its own memory
				if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:[event") && to != own {
					t.Errorf("%s: the script's process has %s", mode, to)
				}
			}
		})
		text := f.Last().Outputs()["c1"]
		lines := regexp.MustCompile(`(?m)^(CHILD-)?FD (\w+) (\d+) (.*)$`).FindAllStringSubmatch(text, -1)
		if len(lines) < 10 {
			t.Errorf("%s: few descriptors:\n%s", mode, text)
		}
		for _, l := range lines {
			child, fd, to := l[1] != "", l[3], l[4]
			n, _ := strconv.Atoi(fd)
			switch {
			case strings.HasPrefix(to, "/proc/"): // the one that reads the folder
			case strings.Contains(to, f.world.top), strings.HasPrefix(to, "socket:"), strings.Contains(to, f.Home):
				t.Errorf("%s: %s", mode, l[0])
			case child && n > 2:
				t.Errorf("%s: a child process inherits %s", mode, l[0])
			case l[2] == "self" && !strings.HasPrefix(to, "pipe:") && to != "/dev/null":
				t.Errorf("%s: %s", mode, l[0])
			}
		}
	}
}

func codeEnvironment(t *testing.T, w *world) {
	for _, mode := range []string{"full-access", "workspace-write"} {
		f := newCodeFlow(t, w, "K11"+mode, mode, "never")
		f.cell("c1", `
import os, subprocess
print("HOME" in os.environ, sorted(os.environ.items()))
print(open("/proc/self/environ").read())
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
if `+map[bool]string{true: "False", false: "True"}[mode == "full-access"]+`:
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                print(pid, open("/proc/%s/environ" % pid).read())
            except OSError:
                pass
`)
		f.script("s1", `await tools.exec_command({cmd: "`+waits+`", login: false, yield_time_ms: 30000}); text(Object.getOwnPropertyNames(globalThis).join())`)
		f.running(t, nil, func(host int) {
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", engine(t, host)))
			if err != nil {
				t.Error(err)
			}
			for kv := range strings.SplitSeq(strings.TrimRight(string(environ), "\x00"), "\x00") {
				if name, _, _ := strings.Cut(kv, "="); !slices.Contains([]string{"GODEBUG", "GOTRACEBACK", "TZ", ""}, name) {
					t.Errorf("%s: the script's process has %s", mode, kv)
				}
			}
		})
		out := f.Last().Outputs()
		says(t, mode, out["c1"], "True [", "!"+providerKey, "!SECRET of", "!PLUGIN_")
		says(t, mode, out["s1"], "ALL_TOOLS", "!process", "!require")
	}
}
