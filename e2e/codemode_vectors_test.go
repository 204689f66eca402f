package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// scriptVectors are scripts, run one after the other in one thread, with the answers of exec; or arguments of wait. In an answer, the wall
// time is N; a line that begins with ~ is a regular expression.
var scriptVectors = []struct{ name, code, want string }{
	{"X4", `text("start"); store("x", 41); yield_control()
await tools.exec_command({cmd: "until [ -e go ]; do sleep 0.01; done", login: false, yield_time_ms: 30000}); text("end")`, running(1, "start")},
	{"X4, too early", `wait cell_id = "1", yield_time_ms = 0`, running(1, "")},
	{"X4, from another script", `await tools.exec_command({cmd: "touch go", login: false})`, completed("")},
	{"X4, completed", `wait cell_id = "1", yield_time_ms = 60000`, completed("end")},
	{"X4, forgotten", `wait cell_id = "1"`, failed("exec cell 1 not found")},
	{"X4, stored value", `text(load("x") + 1)`, completed("42")},
	{"yield", `text("a"); yield_control(); await new Promise(f => setTimeout(f, 1e9))`, running(4, "a")},
	{"15.11, terminate", `wait cell_id = "4", terminate = true`, "Script terminated\nWall time N seconds\nOutput:\n"},
	{"15.11, output", `text("hi");text({a:1});text(undefined);text(10n);text(null);text(true)`, completed("hi\n{\"a\":1}\nundefined\n10\nnull\ntrue")},
	{"nothing", `1 + 1`, completed("")},
	{"15.11, error", `throw new Error("bad")`, failed("Error: bad\n~    at exec_main\\.mjs:1:\\d+")},
	{"thrown text", `text("a");throw "x"`, "Script failed\nWall time N seconds\nOutput:\na\nScript error:\nx"},
	{"15.11, exit", `text("before");exit();text("after")`, completed("before")},
	{"15.11, import", `import fs from "fs"`, failed("Unsupported import in exec: fs")},
	{"15.11, dynamic import", `await import("fs")`, failed("Unsupported import in exec: fs")},
	{"15.11, budget", "// @exec: {\"max_output_tokens\": 10}\ntext(\"y\".repeat(100))",
		completed("Warning: truncated output (original token count: 25)\nTotal output lines: 1\n\n" + strings.Repeat("y", 20) + "…15 tokens truncated…" + strings.Repeat("y", 20))},
	{"15.11, late timer", `setTimeout(()=>text("late"),1e6);text("x")`, completed("x")},
	{"pragma alone", "// @exec: {}", "exec pragma must be followed by JavaScript source on subsequent lines"},
	{"pragma with an unknown key", "// @exec: {\"timeout\": 1}\n1", "exec pragma only supports `yield_time_ms` and `max_output_tokens`; got `timeout`"},
	{"pragma that is not JSON", "// @exec: {yield}\n1", "~exec pragma must be valid JSON with supported fields `yield_time_ms` and `max_output_tokens`: .*"},
	{"15.11, argument of another kind", `await tools.exec_command("x")`, failed("Error: tool `exec_command` expects a JSON object for arguments")},
	{"15.11, missing argument", `try { await tools.exec_command({}) } catch (e) { text(e.message) }`, completed("~failed to parse function arguments: .*cmd.*")},
	{"15.11, update_plan", `text(await tools.update_plan({plan: [{step: "a", status: "pending"}]}))`, completed("{}")},
	{"apply_patch, of which codex says only {}", `text(await tools.apply_patch("*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n"))`,
		completed("Exit code: 0\n~Wall time: .*\nOutput:\nSuccess. Updated the following files:\nA patched\n")},
	{"call", `const r = await tools.exec_command({cmd: "printf out", login: false}); text(String(r.output ?? r).includes("out"))`, completed("true")},
	{"uncut", `const r = await tools.exec_command({cmd: "head -c 200000 /dev/zero | tr '\\0' x", login: false}); text(r.output.length)`, completed("200000")},
	{"unknown tool", `await tools.nothing({})`, failed("~Error: Tool \"nothing\" not found.*")},
	{"store", `store("k", {n: 1}); store("gone", 1)`, completed("")},
	{"load", `text(load("k")); store("gone", undefined)`, completed(`{"n":1}`)},
	{"deleted", `text(load("gone"))`, completed("undefined")},
	{"values of a script that fails", `store("k", {n: 2}); throw "x"`, failed("x")},
	{"are kept", `text(load("k"))`, completed(`{"n":2}`)},
	{"a value without JSON", `store("f", () => 1)`, failed("Error: failed to serialize JavaScript value: expected value at line 1 column 1\n~.*\n~.*")},
	{"globals", `text([typeof Atomics, typeof SharedArrayBuffer, typeof WebAssembly, typeof require, typeof fetch, typeof process, typeof codemode.search].join())`,
		completed("undefined,undefined,undefined,undefined,undefined,undefined,function")},
	{"__proto__", `const a = JSON.parse('{"__proto__": {"polluted": 1}, "cmd": "true"}'); await tools.exec_command(a).catch(() => 0); text({}.polluted)`, completed("undefined")},
	{"getter", `try { await tools.exec_command({get cmd() { throw Error("getter") }}) } catch (e) { text(e.message) }`, completed("getter")},
	{"proxy", `try { await tools.exec_command(new Proxy({}, {ownKeys() { throw Error("trap") }})) } catch (e) { text(e.message) }`, completed("trap")},
	{"toString", `text({toString() { throw Error("text") }}); try { text(Symbol.iterator); notify(Symbol()) } catch (e) { text("caught") }`, completed("{}\nSymbol(Symbol.iterator)")},
	{"X1", `while (true) {}`, failed("~Execution timed out: the script used 400ms of processor time")},
	{"X2", `const big = Array(2e5).fill({a: "b"}); for (;;) JSON.stringify(big)`, failed("~Execution timed out: the script used 400ms of processor time")},
	{"microtasks", `(function f() { queueMicrotask(f) })(); await new Promise(() => {})`, failed("~Execution timed out: .*")},
	{"timers", `await new Promise(() => { (function f() { setTimeout(f) })() })`, failed("~Execution timed out: .*")},
	{"regular expression", `/(a+)+$/.test("a".repeat(40) + "b")`, failed("~Execution timed out: .*")},
	{"X3", `const a = []; for (;;) a.push(new Uint8Array(1 << 16).fill(1))`, failed("the script ran out of memory")},
	{"strings", `const a = []; for (let i = 0; ; i++) a.push("x".repeat(1e5) + i)`, failed("the script ran out of memory")},
	{"arrays", `const a = []; for (;;) a.push(Array(1e4).fill(0))`, failed("the script ran out of memory")},
	{"recursion", `(function f() { f() })()`, failed("InternalError: stack overflow" + strings.Repeat("\n~    at f \\(exec_main\\.mjs:1:\\d+\\)", 10))},
	{"thousand calls", `const all = await Promise.all(Array(1000).fill(0).map(() => codemode.search("exec_command"))); text(all.length)`, completed("1000")},
	{"large result", `text("x".repeat(20 << 20).length)`, failed("the script ran out of memory")},
	{"after all of them", `text("still here")`, completed("still here")},
}

func completed(output string) string {
	return "Script completed\nWall time N seconds\nOutput:\n" + output
}

func running(cell int, output string) string {
	return fmt.Sprintf("Script running with cell ID %d\nWall time N seconds\nOutput:\n%s", cell, output)
}

func failed(problem string) string {
	return "Script failed\nWall time N seconds\nOutput:\nScript error:\n" + problem
}

var scriptTime = regexp.MustCompile(`(?m)^Wall time \d+\.\d seconds$`)

// Scripts of all kinds, in the sandbox and without it.
func TestScriptVectors(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var script strings.Builder
			for i, v := range scriptVectors {
				if args, ok := strings.CutPrefix(v.code, "wait "); ok {
					fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"wait\", id = \"v%d\", args = { %s } }]\n", i, args)
					continue
				}
				fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"exec\", id = \"v%d\", freeform = '''%s''' }]\n", i, v.code)
			}
			script.WriteString("[[step]]\ndo = [{ text = \"done\" }]\n")
			r := rig.New(t, script.String())
			r.Config("codemode {\n  mode     = \"on\"\n  cpu_time = \"400ms\"\n  memory   = \"16MiB\"\n}\n")
			r.OK("exec", "--sandbox", mode, "go")
			got := r.Last().Outputs()
			for i, v := range scriptVectors {
				answer := scriptTime.ReplaceAllString(got[fmt.Sprintf("v%d", i)], "Wall time N seconds")
				if !regexp.MustCompile(`^` + pattern(v.want) + `$`).MatchString(answer) {
					t.Errorf("%s:\n%.1000s\nwant:\n%s", v.name, answer, v.want)
				}
			}
			r.NothingLeft()
		})
	}
}

// pattern is the regular expression of an answer.
func pattern(want string) string {
	lines := strings.Split(want, "\n")
	for i, line := range lines {
		if re, ok := strings.CutPrefix(line, "~"); ok {
			lines[i] = re
		} else {
			lines[i] = regexp.QuoteMeta(line)
		}
	}
	return strings.Join(lines, "\n")
}

// The vectors 15.11 of exec and wait that are about more than one answer.
func TestScriptVectorsOfSeveralAnswers(t *testing.T) {
	t.Parallel()
	step := func(do string) string { return "[[step]]\ndo = [" + do + "]\n" }
	wait := func(id string, ms int) string {
		return fmt.Sprintf(`{ call = "wait", id = %q, args = { cell_id = "1", yield_time_ms = %d } }`, id, ms)
	}
	r := rig.New(t, step(execCall("yields", "// @exec: {\"yield_time_ms\": 300}\ntext(\"start\"); await new Promise(f => setTimeout(f, 1500)); text(\"end\")"))+
		step(wait("early", 0))+step(wait("late", 60_000))+step(wait("gone", 200))+
		step(execCall("notes", `notify("note1");text("done")`))+step(`{ call = "exec", id = "function", args = { code = "text(1)" } }`)+step(`{ text = "done" }`))
	r.Config("codemode {\n  mode = \"on\"\n}\n")
	r.OK("exec", "go")
	for id, want := range map[string]string{
		"yields": running(1, "start"), "early": running(1, ""), "late": completed("end"), "gone": failed("exec cell 1 not found"),
		// Upstream aborts a call of exec as a function; ours are calls, which not all providers can make in another form.
		"notes": completed("done"), "function": completed("1"),
	} {
		if got := scriptTime.ReplaceAllString(toolText(t, r, id), "Wall time N seconds"); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", id, got, want)
		}
	}
	told, err := json.Marshal(r.Last().Request.Messages)
	if err != nil || !strings.Contains(string(told), "note1") {
		t.Errorf("the model does not read the note: %s, %v", told, err)
	}
	r.NothingLeft()
}

// However a script takes memory, the host has no more than for a script that takes none, and another script is not affected.
func TestBombsCostTheHostNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [`+execCall("e1", `text("hi")`)+`]
[[step]]
do = [{ text = "one" }]
[[step]]
do = [`+execCall("e2", "// @exec: {\"yield_time_ms\": 0}\nawait new Promise(done => setTimeout(done, 1e9))")+
		execCall("b1", `const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))`)+
		execCall("b2", `const a = []; for (let i = 0; ; i++) a.push("x".repeat(1e6) + i)`)+
		execCall("b3", `const a = []; for (;;) a.push(Array(1000).fill(0))`)+`{ call = "wait", id = "w1", args = { cell_id = "2", yield_time_ms = 0 } }]
[[step]]
do = [{ text = "two" }]
`)
	r.Config("codemode {\n  mode   = \"on\"\n  memory = \"64MiB\"\n}\n")
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "one")
	c.Notified("turn/completed")
	before := peakRSS(c.PID())
	submit(t, c, thread, "two")
	c.Notified("turn/completed")
	if more := peakRSS(c.PID()) - before; more > 32<<20 {
		t.Errorf("the host took %d MiB more", more>>20)
	}
	for _, id := range []string{"b1", "b2", "b3"} {
		if got := toolText(t, r, id); !strings.HasSuffix(got, "Script error:\nthe script ran out of memory") {
			t.Errorf("%s:\n%s", id, got)
		}
	}
	if got := toolText(t, r, "w1"); !strings.HasPrefix(got, "Script running with cell ID 2\n") {
		t.Errorf("w1:\n%s", got)
	}
	c.Close()
	r.NothingLeft()
}

// The answer comes after the yield time, whatever the script does: the clock is not the script's.
func TestBusyScriptsYield(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [`+execCall("e1", "// @exec: {\"yield_time_ms\": 0}\nfor (;;) {}")+`{ call = "wait", id = "w1", args = { cell_id = "1", yield_time_ms = 600000 } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Config("codemode {\n  mode     = \"on\"\n  cpu_time = \"300ms\"\n}\n")
	r.OK("exec", "go")
	if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script running with cell ID 1\n") {
		t.Errorf("e1:\n%s", got)
	}
	if got := toolText(t, r, "w1"); !strings.HasPrefix(got, "Script failed\n") || !strings.Contains(got, "Execution timed out") {
		t.Errorf("w1:\n%s", got)
	}
	r.NothingLeft()
}

// Without configuration, no model is offered scripts, and no process waits for one.
func TestScriptsAreOff(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ndo = [{ text = \"one\" }]\nbreak = { how = \"hang\" }\n")
	c := r.AppServer()
	greet(t, c)
	submit(t, c, begin(t, c, map[string]any{}), "go")
	c.Until(func(m rig.Message) bool { return m.Method == "item/agentMessage/delta" })
	for _, name := range r.Last().Offered() {
		if name == "exec" || name == "wait" {
			t.Errorf("%s is offered", name)
		}
	}
	if left := scriptProcesses(t, c.PID()); len(left) > 0 {
		t.Errorf("processes %v", left)
	}
	c.Close()
}

// During a turn, a process waits for the next script. It is no harm if it is killed, and it ends with the turn and with gantry.
func TestProcessThatWaits(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", args = { cmd = "until [ -e go ]; do sleep 0.01; done", login = false } }, `+execCall("e1", `text("hi")`)+`]
[[step]]
do = [{ text = "one" }]
[[step]]
do    = [{ text = "two" }]
break = { how = "hang" }
`)
	r.Config(codemodeOn)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "one")
	var waiting []int
	r.Until("a process waits", func() bool { waiting = scriptProcesses(t, c.PID()); return len(waiting) == 1 })
	rig.Kill(t, waiting...)
	r.Until("it is gone", func() bool { return len(scriptProcesses(t, c.PID())) == 0 })
	r.Write("go", "")
	c.Notified("turn/completed")
	if got := toolText(t, r, "e1"); !strings.HasPrefix(got, "Script completed\n") || !strings.HasSuffix(got, "\nhi") {
		t.Errorf("e1:\n%s", got)
	}
	if left := scriptProcesses(t, c.PID()); len(left) > 0 {
		t.Errorf("processes %v wait after the turn", left)
	}
	submit(t, c, thread, "two")
	r.Until("a process waits again", func() bool { waiting = scriptProcesses(t, c.PID()); return len(waiting) == 1 })
	c.Kill()
	c.Close()
	r.Until("it ends with gantry", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/exe", waiting[0]))
		return err != nil
	})
}
