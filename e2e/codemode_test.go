package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const codemodeOn = "codemode {\n  mode = \"on\"\n}\n"

// execCall returns a call of exec in the language of scripted models.
func execCall(id, code string) string {
	return `{ call = "exec", id = "` + id + `", freeform = '''` + "\n" + code + `''' },`
}

// toolText returns the result that the model got for a call.
func toolText(t *testing.T, r *rig.Rig, call string) string {
	t.Helper()
	for _, m := range r.Last().Request.Messages {
		for _, p := range m.Parts {
			if result, ok := p.(*llm.ToolResult); ok && result.ID == call {
				return llm.Message{Parts: result.Content}.Text()
			}
		}
	}
	t.Fatalf("no result of %s", call)
	return ""
}

// A script calls tools of a plugin, keeps values for the next one, and its errors are for the model.
func TestScriptsCallTools(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [`+execCall("e1", `
const out = []
for (let i = 0; i < 20; i++) out.push((await tools.exec_command({cmd: "echo line " + i})).output ?? "")
text(out.length)
text(await tools.exec_command({cmd: "echo from the shell"}))
store("n", {count: out.length})
console.log("logged")
`)+`]
[[step]]
do = [`+execCall("e2", `
text(load("n").count + 1)
try { await tools.nothing({}) } catch (e) { text("caught " + e.message) }
notify("remember this")
throw new Error("on purpose")
`)+`]
[[step]]
do = [{ text = "done" }]
`)
	r.Config(codemodeOn)
	r.OK("exec", "go")
	if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script completed\nWall time ") || !strings.Contains(got, " seconds\nOutput:\n20\n") ||
		!strings.Contains(got, "from the shell") || !strings.HasSuffix(got, "\nlogged") {
		t.Errorf("e1:\n%s", got)
	}
	if got := toolText(t, r, "e2"); !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, "Output:\n21\ncaught Tool \"nothing\" not found") ||
		!strings.Contains(got, "\nScript error:\nError: on purpose\n    at exec_main.mjs:5:") {
		t.Errorf("e2:\n%s", got)
	}
}

// A script that yields goes on: its calls wait for the next call that observes it, in a later turn too, and a person is asked about them.
// What it has stored survives the host; a script that still runs does not, and the model learns so.
func TestScriptsOutliveTheirCall(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [`+execCall("e1", `
text("before")
yield_control()
await tools.exec_command({cmd: "touch made"})
text("after")
store("k", [1, 2])
`)+`]
[[step]]
do = [{ text = "first turn done" }]
[[step]]
do = [{ call = "wait", id = "w1", args = { cell_id = "1" } }]
[[step]]
do = [{ call = "wait", id = "w2", args = { cell_id = "1" } }, `+execCall("e2", `// @exec: {"yield_time_ms": 0, "max_output_tokens": 50}
text(load("k").length)
await new Promise(done => setTimeout(done, 1e6))`)+`]
[[step]]
do = [{ text = "second turn done" }]
[[step]]
do = [{ call = "wait", id = "w3", args = { cell_id = "2" } }, `+execCall("e3", `text(load("k"))`)+`]
[[step]]
do = [{ text = "third turn done" }]
`)
	r.Config(codemodeOn)
	c := r.AppServer("-c", "approval.policy=untrusted")
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "one")
	c.Notified("turn/completed")
	if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script running with cell ID 1\n") || !strings.HasSuffix(got, "Output:\nbefore") {
		t.Errorf("e1:\n%s", got)
	}
	if exists(r.Dir, "made") {
		t.Error("a call ran that nothing observed")
	}
	submit(t, c, thread, "two")
	q := c.Notified("item/commandExecution/requestApproval")
	var p struct{ ItemID, Command, Reason string }
	if q.Into(t, &p); !strings.HasPrefix(p.ItemID, "w1/") || !strings.Contains(p.Command, "touch made") || !strings.HasPrefix(p.Reason, "wait → exec_command: ") {
		t.Errorf("the question is %s", q.Params)
	}
	c.Answer(q, map[string]any{"decision": "accept"})
	c.Notified("turn/completed")
	if got := toolText(t, r, "w1"); !strings.HasPrefix(got, "Script completed\n") || !strings.HasSuffix(got, "Output:\nafter") || !exists(r.Dir, "made") {
		t.Errorf("w1:\n%s", got)
	}
	if got := toolText(t, r, "w2"); !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, "exec cell 1 not found") {
		t.Errorf("w2:\n%s", got)
	}
	if got := toolText(t, r, "e2"); !strings.HasPrefix(got, "Script running with cell ID 2\n") {
		t.Errorf("e2:\n%s", got)
	}
	c.Kill()
	c.Close()
	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	submit(t, c, thread, "three")
	c.Notified("turn/completed")
	if got := toolText(t, r, "w3"); !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, "exec cell 2 was lost when gantry ended") {
		t.Errorf("w3:\n%s", got)
	}
	if got := toolText(t, r, "e3"); !strings.HasPrefix(got, "Script completed\n") || !strings.HasSuffix(got, "Output:\n[1,2]") {
		t.Errorf("e3:\n%s", got)
	}
	c.Close()
	r.NothingLeft()
}

// A person who declines a call lets the script go on with an exception; one who cancels ends the script and the turn.
func TestScriptsAtQuestions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ decision, turn, result string }{
		{"decline", "completed", "caught"},
		{"cancel", "interrupted", ""},
	} {
		t.Run(tc.decision, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, `
[[step]]
do = [`+execCall("e1", `
try { await tools.exec_command({cmd: "touch made"}) } catch { text("caught") }
`)+`]
[[step]]
do = [{ text = "done" }]
`)
			r.Config(codemodeOn)
			c := r.AppServer("-c", "approval.policy=untrusted")
			greet(t, c)
			thread := begin(t, c, map[string]any{})
			submit(t, c, thread, "go")
			c.Answer(c.Notified("item/commandExecution/requestApproval"), map[string]any{"decision": tc.decision})
			var e struct{ Turn struct{ Status string } }
			end := c.Notified("turn/completed")
			end.Into(t, &e)
			if e.Turn.Status != tc.turn || exists(r.Dir, "made") {
				t.Errorf("the turn is %s, want %s", e.Turn.Status, tc.turn)
			}
			if tc.result != "" && !strings.HasSuffix(toolText(t, r, "e1"), tc.result) {
				t.Errorf("e1:\n%s", toolText(t, r, "e1"))
			}
			c.Close()
			r.NothingLeft()
		})
	}
}

// What a script must not do costs it its process, and nothing else.
func TestHostileScripts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, code, want string }{
		{"endless loop", `for (;;) {}`, "timed out"},
		{"endless microtasks", `const again = () => Promise.resolve().then(again); await again()`, "timed out"},
		{"memory", `const a = []; for (;;) a.push(new Uint8Array(1 << 20))`, "memory"},
		{"import", `import fs from "fs"`, "Unsupported import in exec: fs"},
		{"argument", `await tools.exec_command("ls")`, "tool `exec_command` expects a JSON object for arguments"},
		{"function stored", `store("f", () => 1)`, "failed to serialize JavaScript value"},
		{"remote image", `image("https://example.com/a.png")`, "remote image URLs are not supported in tool outputs"},
		{"detail", `image("data:image/png;base64,AA==", "best")`, "image detail must be one of: auto, low, high, original"},
		{"itself", `await tools.exec("text(1)")`, `Tool "exec" not found`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, `
[[step]]
do = [`+execCall("e1", tc.code)+execCall("e2", `text("still here")`)+`]
[[step]]
do = [{ text = "done" }]
`)
			r.Config(codemodeOn)
			r.OK("exec", "-c", `codemode.cpu_time="1s"`, "go")
			if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, tc.want) {
				t.Errorf("e1:\n%s", got)
			}
			if got := toolText(t, r, "e2"); !strings.HasSuffix(got, "\nstill here") {
				t.Errorf("e2:\n%s", got)
			}
			r.NothingLeft()
		})
	}
}

// A model that calls tools only in scripts is offered exec and wait, and no other tool can be called without a script.
func TestOnlyScripts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch made" } }, `+execCall("e1", `
const [first] = await codemode.search("run a shell command")
text(first.name)
text((await codemode.describe("exec_command")).includes("cmd"))
text(ALL_TOOLS.some(t => t.name === "exec_command"))
`)+`]
[[step]]
do = [{ text = "done" }]
`)
	r.Config("codemode {\n  mode = \"only\"\n}\nagents {\n  tools = \"none\"\n}\ngoals {\n  enabled = false\n}\n")
	r.OK("exec", "go")
	var offered []string
	for _, tool := range r.Last().Request.Tools {
		offered = append(offered, tool.Name)
		if tool.Name == "exec" && !strings.Contains(tool.Description, "exec_command: (input: ExecCommandInput)") {
			t.Errorf("exec declares:\n%s", tool.Description)
		}
	}
	if strings.Join(offered, " ") != "exec wait update_plan request_permissions" {
		t.Errorf("the model is offered %q", offered)
	}
	if got := toolText(t, r, "c1"); !strings.Contains(got, "can only be called by code or another tool") || exists(r.Dir, "made") {
		t.Errorf("c1:\n%s", got)
	}
	if got := toolText(t, r, "e1"); !strings.HasSuffix(got, "Output:\nexec_command\ntrue\ntrue") {
		t.Errorf("e1:\n%s", got)
	}
}

// scriptProcesses returns the processes of scripts below a process.
func scriptProcesses(t *testing.T, root int) (out []int) {
	t.Helper()
	for pid := range rig.Descendants(t, root) {
		if name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(name) == "gantry-codemode" {
			out = append(out, pid)
		}
	}
	return out
}

// What a script notes while nothing waits for it reaches the model with its next request, of a later turn too. An answer names the commands
// that the script has begun and that go on. A person who interrupts a turn ends its scripts, also those that nothing waits for.
func TestScriptsThatNothingWaitsFor(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [`+execCall("e1", `// @exec: {"yield_time_ms": 0}
await new Promise(done => setTimeout(done, 500))
notify("half of it is done")
`)+`]
[[step]]
do = [{ text = "one" }]
[[step]]
do = [`+execCall("e2", `await tools.exec_command({cmd: "sleep 1000", login: false, yield_time_ms: 250})`)+execCall("e3", `// @exec: {"yield_time_ms": 0}
for (;;) await new Promise(done => setTimeout(done, 1))
`)+`]
[[step]]
do    = [{ text = "two" }]
break = { how = "hang" }
[[step]]
do = [{ call = "wait", id = "w1", args = { cell_id = "3" } }]
[[step]]
do = [{ text = "three" }]
`)
	r.Config(codemodeOn)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "one")
	c.Notified("turn/completed")
	if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script running with cell ID 1\n") {
		t.Fatalf("e1:\n%s", got)
	}
	r.Until("the script has ended", func() bool { return len(scriptProcesses(t, c.PID())) == 0 })
	turn := submit(t, c, thread, "two")
	c.Until(func(m rig.Message) bool {
		return m.Method == "item/agentMessage/delta" && strings.Contains(string(m.Params), "two")
	})
	var notes []string
	for _, text := range r.Requests()[2].Texts(llm.RoleSystem) {
		if strings.HasPrefix(text, "Note of the script") {
			notes = append(notes, text)
		}
	}
	if len(notes) != 1 || notes[0] != "Note of the script in exec cell 1: half of it is done" {
		t.Errorf("notes %q", notes)
	}
	if got := toolText(t, r, "e2"); !strings.HasPrefix(got, "Script completed\n") ||
		!strings.Contains(got, "\nSessions that calls of the script began and that still run: ") || !strings.HasSuffix(got, " of exec_command") {
		t.Errorf("e2:\n%s", got)
	}
	if got := toolText(t, r, "e3"); !strings.HasPrefix(got, "Script running with cell ID 3\n") {
		t.Fatalf("e3:\n%s", got)
	}
	c.Call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
	c.Notified("turn/completed")
	if left := scriptProcesses(t, c.PID()); len(left) > 0 {
		t.Errorf("processes %v run after an interrupt", left)
	}
	submit(t, c, thread, "three")
	c.Notified("turn/completed")
	if got := toolText(t, r, "w1"); !strings.HasPrefix(got, "Script terminated\n") || !strings.HasSuffix(got, "\nThe script was ended because the user interrupted the turn.") {
		t.Errorf("w1:\n%s", got)
	}
	c.Close()
	r.NothingLeft()
}

// A plugin that is built outside the workspace offers a tool that runs code: in its sandbox it starts itself for each run, and each run has
// a resource of its own.
func TestCodeTool(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [
  { call = "code", id = "c1", args = { code = "[await counter.add({n: 2}), await counter.add({n: 3})]" } },
  { call = "code", id = "c2", args = { code = "console.log('begun'); await counter.add({n: 4}); for (;;) await counter.add({n: 'x'})" } },
]
[[step]]
do = [{ text = "done" }]
`)
	program := filepath.Join(r.Home, "bin", "counter")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace", "-o", program, ".")
	build.Dir = "../sdk/codemode/testdata/counter"
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	r.Config(fmt.Sprintf("plugin \"counter\" {\n  source = %q\n  approval = \"approve\"\n}\n", program))
	r.OK("plugin", "lock", "--yes", "counter")
	r.OK("exec", "--sandbox", "workspace-write", "go")
	if got := toolText(t, r, "c1"); got != "[\n  2,\n  5\n]" {
		t.Errorf("c1:\n%s", got)
	}
	if got := toolText(t, r, "c2"); !strings.HasPrefix(got, "Code execution failed: invalid argument: ") || !strings.HasSuffix(got, "\n\nConsole output:\nbegun") {
		t.Errorf("c2:\n%s", got)
	}
	r.NothingLeft()
}

// A copy of a thread has neither its scripts nor its kernel: the model learns that.
func TestForkWithoutItsCode(t *testing.T) {
	t.Parallel()
	in := func(turn, steps string) string {
		return strings.ReplaceAll(steps, "[[step]]\n", "[[step]]\nwhen = { user = '"+turn+"' }\n")
	}
	r := newPython(t, in("one", cell("c1", "x = 41")+"[[step]]\ndo = ["+execCall("e1", "store('k', 7)\nyield_control()\nawait new Promise(done => setTimeout(done, 600000))")+"]\n"+done)+
		in("two", cell("c2", "'x' in globals()")+"[[step]]\ndo = [{ call = \"wait\", id = \"w1\", args = { cell_id = \"1\" } }]\n"+
			"[[step]]\ndo = ["+execCall("e2", "text(typeof load('k'))")+"]\n"+done)+in("three", "[[step]]\ndo = ["+execCall("e3", "text(1)")+"]\n"+done))
	r.Config(codemodeOn)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{})
	turnsOf(t, c, thread, "one")
	var f, g openedThread
	c.Call("thread/fork", object{"threadId": thread}, &f)
	c.Call("thread/fork", object{"threadId": thread}, &g)
	turnsOf(t, c, f.Thread.ID, "two")
	out := r.Last().Outputs()
	if !strings.HasPrefix(out["e1"], "Script running with cell ID 1") || !strings.Contains(out["c2"], "Output:\nFalse") {
		t.Fatalf("%q", out)
	}
	if got := out["w1"]; !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, "exec cell 1 belongs to the conversation that this one was copied from") {
		t.Errorf("the model reads %q about the script", got)
	}
	if got := out["e2"]; strings.Contains(got, "exec cell") {
		t.Errorf("the model reads it again: %q", got)
	}
	said := strings.Join(r.Last().Texts(llm.RoleUser), "\n")
	if strings.Count(said, "<thread_forked>") != 1 || !regexp.MustCompile(`\n- python-\w+ \(Python 3`).MatchString(said) {
		t.Errorf("the model reads about the kernel: %q", said)
	}
	turnsOf(t, c, g.Thread.ID, "three")
	if got := r.Last().Outputs()["e3"]; !strings.Contains(got, "exec cell 1 belongs to the conversation that this one was copied from") {
		t.Errorf("with exec, the model reads %q", got)
	}
	c.Close()
	r.NothingLeft()
}
