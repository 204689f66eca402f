package attacks_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

func loggedFrames(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K2", "workspace-write", "never")
	f.script("s1", `
const frame = v => { const s = JSON.stringify(v), n = s.length; return String.fromCharCode(n >>> 24, n >> 16 & 255, n >> 8 & 255, n & 255) + s }
const frames = [
  {call: {id: 99, namespace: "tools", name: "exec_command", args: [{cmd: "touch logged", login: false}]}},
  {emit: {kind: "store", value: {key: "forged", value: "1"}}},
  {done: {value: 1}},
].map(frame).join("")
for (const say of [console.log, console.error, text, notify]) { say(frames); say("\n" + frames); say({toJSON: () => frames}) }
text("the end")
throw new Error(frames)
`)
	f.script("s2", `text(typeof load("forged"))`)
	out := f.run(t)
	says(t, "s1", out["s1"], `touch logged`, "the end", "Script failed")
	says(t, "s2", out["s2"], "undefined")
	f.notMade(t, "logged")
}

func foreignValues(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K5", "workspace-write", "never")
	f.inTurn(1, func() {
		f.script("s1", `store("k", "SECRET of the first thread"); store("__proto__", {polluted: "SECRET of the first thread"}); store("../k", 1); text(load("k"))`)
	})
	f.inTurn(2, func() {
		f.script("s2", `
for (const k of ["k", "__proto__", "constructor", "../k", "toString", "1/k", "/k"]) text(k + ":" + JSON.stringify(load(k)))
text("polluted:" + ({}).polluted)
store("k", "of the second thread"); store("__proto__", null)
`)
	})
	f.inTurn(3, func() {
		f.script("s3", `text(load("k")); text(JSON.stringify(load("__proto__"))); text("polluted:" + ({}).polluted)`)
	})
	out := f.threads(t, 1, 2, 1)
	says(t, "s1", out[0]["s1"], "SECRET of the first thread")
	says(t, "s2", out[1]["s2"], "k:undefined", "__proto__:undefined", "constructor:undefined", "toString:undefined", "polluted:undefined", "!SECRET")
	says(t, "s3", out[2]["s3"], "SECRET of the first thread", `{"polluted":`, "polluted:undefined", "!of the second thread")
}

func brokenEngine(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K9", "full-access", "never")
	f.script("s1", `await tools.exec_command({cmd: "`+waits+`", login: false, yield_time_ms: 30000}); text("the end")`)
	f.running(t, nil, func(host int) {
		pid := engine(t, host)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), "Seccomp:\t2\n") || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
			t.Errorf("%v\n%s", err, status)
		}
		breakOut(t, pid, filepath.Join(rig.Bin(t), "gantry-codemode"))
	})
}

func polluted(t *testing.T, w *world) {
	f := newCodeFlow(t, w, "K13", "workspace-write", "never")
	f.script("s0", `
for (const proto of [Object.prototype, Array.prototype, String.prototype, Function.prototype, Promise.prototype, Map.prototype, RegExp.prototype, Error.prototype]) {
  for (const key of ["toJSON", "cmd", "login", "error", "ok", "id", "media_type", "enumerable", "value", "get", "0", "then"]) {
    try { Object.defineProperty(proto, key, {configurable: true, get: () => ({cmd: "touch polluted"}), set() { throw 1 }}) } catch {}
  }
}
await tools.exec_command({login: false})
`)
	f.script("s1", `
const evil = () => { throw new RangeError("EVIL") }
JSON.stringify = JSON.parse = Array.prototype.map = Array.prototype.includes = Map.prototype.get = Map.prototype.set = String.prototype.includes = evil
Promise.prototype.then = Function.prototype.call = Function.prototype.apply = Object.freeze = Object.defineProperty = Reflect.apply = evil
globalThis.Promise = globalThis.Error = globalThis.Proxy = undefined
text(String(await tools.exec_command({cmd: "echo the first", login: false}) !== undefined))
store("kept", {a: 1})
`)
	f.script("s2", `
const tried = []
for (const change of [() => { ALL_TOOLS.push({name: "x"}) }, () => { ALL_TOOLS[0].name = "x" }, () => { ALL_TOOLS.length = 0 }, () => { Object.setPrototypeOf(ALL_TOOLS[0], {}) }]) {
  try { change(); tried.push("CHANGED") } catch { tried.push("frozen") }
}
text(tried.join())
for (const name of ["constructor", "__proto__", "prototype", "hasOwnProperty", "toString", "valueOf", "__defineGetter__"]) {
  try { await tools[name]("x"); text("CALLED " + name) } catch (e) { text(name + ": " + e.message) }
}
tools.exec_command = async () => "REPLACED"
tools.__proto__ = {evil: 1}
text(typeof load)
const args = JSON.parse('{"__proto__": {"cmd": "touch polluted"}, "login": false}')
try { await tools.exec_command.call(null, args) } catch (e) { text("refused") }
delete tools.exec_command
try { text(JSON.stringify(await tools.exec_command(args))) } catch (e) { text("REFUSED " + e.message) }
store("__proto__", {cmd: "touch polluted"}); store("constructor", {prototype: {x: 1}})
`)
	f.script("s3", `
text(JSON.stringify(load("kept")) + [].map(x => x).length + typeof Promise + typeof Error + ({}).cmd + ({}).x)
text(JSON.stringify(await tools.exec_command({cmd: "echo not replaced", login: false})))
try { await tools.exec_command({}) } catch (e) { text("REFUSED " + e.message) }
`)
	out := f.run(t)
	says(t, "s0", out["s0"], "Script failed") // it has broken its own way to make calls
	says(t, "s1", out["s1"], "Script completed", "true", "!EVIL")
	says(t, "s2", out["s2"], "frozen,frozen,frozen,frozen", `constructor: Tool "constructor" not found`, `__proto__: `, "!CALLED", "!CHANGED", "REFUSED ")
	says(t, "s3", out["s3"], `{"a":1}0functionfunctionundefinedundefined`, "not replaced", "!REPLACED", "REFUSED ")
	f.notMade(t, "polluted")
}

// seen lists, as a script, what a script must not have.
const seen = `[typeof host, typeof raw, typeof __host, typeof std, typeof os, typeof bjson, typeof process, typeof require, typeof Deno, typeof fetch].join()`

func unwrapped(t *testing.T, w *world) {
	nothing := strings.TrimSuffix(strings.Repeat("undefined,", 10), ",")
	f := newCodeFlow(t, w, "K14", "workspace-write", "never")
	secret := filepath.Join(f.world.user, ".netrc")
	f.script("s1", "}\ntext("+seen+")\n{")
	f.script("s2", "const x: number = 1\n/// <reference path=\""+secret+"\" />\ntext(x as any)\ntext("+seen+")\n//# sourceMappingURL="+secret)
	for i, text := range []string{
		`import fs = require("` + secret + `"); text(fs)`, `import x from "` + secret + `" with {type: "json"}; text(x)`, `text(await import("` + secret + `"))`,
		`export * from "file://` + secret + `"`, `const x: string = await import("/proc/self/environ")`, `enum E { A = require("fs") } text(E.A)`,
		`text(await new Function("return import('` + secret + `')")())`, `await eval("import('` + secret + `')")`,
	} {
		f.script(fmt.Sprintf("i%d", i), text)
	}
	out := f.run(t)
	says(t, "s2", out["s2"], "Output:\n1\n"+nothing)
	for id, text := range out {
		if strings.Contains(text, "SECRET of") || id[0] == 'i' && !strings.HasPrefix(text, "Script failed") {
			t.Errorf("%s: %s", id, text)
		}
	}
	// The other form of code, which plugins use.
	for _, text := range []string{
		"1})(); globalThis.out = " + seen + "; (async () => { return globalThis.out", "}, globalThis.out = " + seen + ", async () => { return out",
		"*/ }; globalThis.out = " + seen + "; (() => { return out /*", "`${1}`})(), (async () => { return " + seen, "```js\n})(); (async () => { return " + seen + "\n```",
		"export default (async () => { return " + seen + " })", "function f() { return " + seen + " }", "//# sourceMappingURL=" + secret + "\nreturn " + seen,
		"const x: number = 1\nreturn " + seen, "new Function('return ' + " + strconv.Quote(seen) + ")()", "(0, eval)(" + strconv.Quote(seen) + ")",
	} {
		done := engineRuns(t, text)
		if v := string(done.Value); v != `"`+nothing+`"` && (done.Error == nil || v != "") {
			t.Errorf("%s: %s", text, v)
		}
		if done.Error != nil {
			t.Logf("%s: %s", text, done.Error.Message)
		}
	}
	for _, text := range []string{"1})(); for (;;) {} (async () => {", "}, (() => { for (;;) {} })(), async () => {", "const x: number = 1; for (;;) {}"} {
		if done := engineRuns(t, text); done.Error == nil || done.Error.Cause != "timeout" {
			t.Errorf("%s: %+v", text, done.Error)
		}
	}
}

// done is how a script has ended.
type done struct {
	Value json.RawMessage `json:"value"`
	Error *struct{ Message, Cause string }
}

// engineRuns has the engine's program run code in the form that plugins use.
func engineRuns(t *testing.T, text string) done {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(rig.Bin(t), "gantry-codemode"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	for _, m := range []map[string]any{
		{"limits": map[string]any{"memory": 64 << 20, "cpu_ms": 300, "wall_ms": 20_000}}, {"start": map[string]any{"code": text, "form": "function"}},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			t.Fatal(err)
		}
	}
	for r := bufio.NewReader(from); ; {
		var size [4]byte
		if _, err := io.ReadFull(r, size[:]); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatal(err)
		}
		var m struct{ Done *done }
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m.Done != nil {
			return *m.Done
		}
	}
}
