package codemode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// binary is the program that runs scripts. It is built without the race detector, whose runtime needs more than a locked process has.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "codemode")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "gantry-codemode")
	build := exec.Command("go", "build", "-race=false", "-o", binary, "./cmd/gantry-codemode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// recorder is an owner that records, and answers "echo", "fail" and "hang".
type recorder struct {
	mu    sync.Mutex
	emits []string
	logs  []string
	calls []frame.Call
	seen  chan struct{} // gets a value for each emit, if it is set
}

func (r *recorder) Call(ctx context.Context, c frame.Call) (json.RawMessage, error) {
	r.mu.Lock()
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	switch c.Name {
	case "echo":
		if len(c.Args) == 0 {
			return nil, nil
		}
		return c.Args[0], nil
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "large":
		return json.Marshal(strings.Repeat("x", 17<<20))
	}
	return nil, errors.New("tool error")
}

func (r *recorder) Emit(e frame.Emit) {
	r.mu.Lock()
	r.emits = append(r.emits, e.Kind+" "+string(e.Value))
	r.mu.Unlock()
	if r.seen != nil {
		r.seen <- struct{}{}
	}
}

func (r *recorder) Log(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, line)
}

func run(t *testing.T, s codemode.Script, owner *recorder) frame.Done {
	t.Helper()
	return codemode.Start(t.Context(), []string{binary}, s, owner).Wait()
}

var tools = []frame.Namespace{{Name: "tools"}}

func TestScripts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ code, want string }{
		{"async () => 42", "42"}, {"```js\n1 + 1\n```", "2"}, {"42", "42"}, {"return 42", "42"}, {"undefined", "undefined"}, {"null", "null"},
		{"throw Error('boom')", "error thrown: boom"}, {"throw 'x'", "error thrown: x"}, {"throw null", "error thrown: null"},
		{"throw new RangeError('')", "error thrown: RangeError"}, {"throw {toString() { throw 1 }}", "error thrown: a value was thrown that has no text"},
		{"await tools.echo(7)", "7"}, {"await tools.echo()", "undefined"}, {"await tools.nope()", "error thrown: tool error"},
		{"try { await tools.nope() } catch (e) { return [e instanceof Error, e.message] }", `[true,"tool error"]`},
		{"await Promise.all([1, 2, 3].map(n => tools.echo(n)))", "[1,2,3]"},
		{"await tools.echo(new Uint8Array([10, 20, 30, 40]).subarray(1, 3))", `{"__codemode_binary_v1__":"Uint8Array","data":"FB4="}`},
		{"const b = await tools.echo(new Uint8Array([1, 2, 3])); [b instanceof Uint8Array, b.length, b[2]]", "[true,3,3]"},
		{"[await tools, tools[Symbol.iterator], tools.then].map(x => typeof x)", `["object","undefined","undefined"]`},
		{"const x: number = 4; return x as number", "4"}, {"for await (const x of [1]) {}\nreturn 3", "3"},
		{"[typeof Atomics, typeof SharedArrayBuffer, typeof WebAssembly, typeof fetch, typeof require, typeof process, typeof __host].join()",
			`"undefined,undefined,undefined,undefined,undefined,undefined,undefined"`},
		{"[btoa('héy'), atob('aOl5'), btoa(''), atob(' YQ = = ')]", `["aOl5","héy","","a"]`}, {"atob('a')", "error thrown: atob: the text is not valid base64"},
		{"new TextDecoder().decode(new TextEncoder().encode('aü€😀\\ud800'))", `"aü€😀�"`},
		{"new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xc0, 0x80, 0xe2, 0x82]))", `"a���"`},
		{"const a = {d: new Date(0), m: new Map([[1, new Set([2])]]), b: new Uint8Array([1])}; a.a = a; const c = structuredClone(a); " +
			"return [c !== a, c.a === c, +c.d, c.m.get(1).has(2), c.b[0]]", "[true,true,0,true,1]"},
		{"const o = []; await new Promise(done => { setTimeout(() => { o.push('t'); done() }, 1); queueMicrotask(() => o.push('m')); o.push('s') }); return o",
			`["s","m","t"]`},
		{"let n = 0; await new Promise(done => { const id = setInterval(() => { if (++n === 3) { clearInterval(id); done() } }, 1) }); return n", "3"},
		{"await new Promise(() => {})", "error thrown: the script waits for a promise that is never settled: no call or timer is left"},
		{"setTimeout(() => { throw Error('late') }); await tools.hang()", "error thrown: late"},
		{"const o = JSON.parse('{\"__proto__\":1}'); await tools.echo(o)", `{"__proto__":1}`},
		{"await tools.echo({get a() { throw Error('getter') }})", "error thrown: getter"},
		{"await tools.echo(new Proxy({}, {ownKeys() { throw Error('trap') }}))", "error thrown: trap"},
		{"await tools.echo({toString() { throw Error('text') }, a: 1})", `{"a":1}`},
		{"await tools.echo({toJSON() { throw Error('JSON') }})", "error thrown: JSON"},
		{"console.log({toString() { throw 1 }}, Symbol('s'), Object.create(null)); 1", "1"},
		{"await tools.echo(10n)", "error thrown: Do not know how to serialize a BigInt"},
		{"const p = new Proxy({}, {get() { throw Error('get') }}); try { await tools[p] } catch (e) { return e.message }", `"get"`},
		{"const a = []; for (let i = 0; i < 3; i++) a.push(tools.echo(i)); try { await tools.large() } catch (e) { a.push(e.message.slice(0, 24)) } return await Promise.all(a)",
			`[0,1,2,"the result can't be sent"]`},
		{"('x'.repeat(15 << 20)).length", "15728640"}, {"(await tools.echo('x'.repeat(15 << 20))).length", "15728640"},
		{"JSON.stringify = Promise.prototype.then = Object.prototype.get = () => { throw 1 }; Promise = 1; return [await tools.echo(5)]", "[5]"},
		{"const a = []; a.a = a; return {a, get x() { return a }, y: a, z: (() => { const o = {}; o.o = o; return o })()}", "error thrown: circular reference"},
	} {
		got := "undefined"
		if d := run(t, codemode.Script{Code: c.code, Namespaces: tools}, &recorder{}); d.Error != nil {
			got = "error " + string(d.Error.Cause) + ": " + d.Error.Message
		} else if d.Value != nil {
			got = string(d.Value)
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.code, got, c.want)
		}
	}
	for _, code := range []string{"const = oops {{{", "import 'fs'"} {
		if d := run(t, codemode.Script{Code: code}, &recorder{}); d.Error == nil || d.Error.Cause != frame.Thrown {
			t.Errorf("%s: %+v", code, d)
		}
	}
}

// Stacks have the form of V8: the error, then where it was thrown. Frames are those of the script.
func TestStacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ code, message, stack string }{
		{"function f() { throw new TypeError('bad') }\nf()", "bad", "TypeError: bad\n    at f (<eval>:1:"},
		{"const = 1", "SyntaxError: variable name expected", "SyntaxError: variable name expected\n    at <eval>:1:"},
		{"await tools.nope()", "tool error", "Error: tool error"},
		{"throw 'x'", "x", ""},
		{"import fs from 'fs'", "Unsupported import in exec: fs", ""},
		{"await import('x')", "Unsupported import in exec: x", ""},
	} {
		d := run(t, codemode.Script{Code: c.code, Form: frame.Module, Namespaces: tools}, &recorder{})
		if d.Error == nil || d.Error.Message != c.message || !strings.HasPrefix(d.Error.Stack, c.stack) || (d.Error.Stack == "") != (c.stack == "") ||
			c.message == "tool error" && d.Error.Stack != c.stack {
			t.Errorf("%s: %+v", c.code, d.Error)
		}
	}
	// As scripts see them; all but those of errors that the engine makes.
	for _, c := range []struct{ code, stack string }{
		{"function f() { return new TypeError('bad') }\nconsole.log(f().stack)", "TypeError: bad\n    at f (<eval>:1:36)\n    at <anonymous> (<eval>:2:14)\n"},
		{"function f() { throw Error('bad') }\ntry { f() } catch (e) { console.log(e.stack) }", "Error: bad\n    at f (<eval>:1:27)\n    at <anonymous> (<eval>:2:8)\n"},
		{"class E extends RangeError { name = 'E' }\nconst e = new E('x', {cause: 1})\nconsole.log([e instanceof E, e instanceof RangeError, e instanceof Error, e.constructor === E, e.cause] + e.stack)",
			"true,true,true,true,1RangeError: x\n    at E (<eval>:1:"},
		{"class E extends Error { get name() { throw 1 } }\nconsole.log(new E('x').message)", "x"},
		{"console.log([RangeError('x').constructor === RangeError, Object.getPrototypeOf(RangeError) === Error, new Error('a').constructor === Error, AggregateError([1], 'm').errors])", "[true,true,true,[1]]"},
		{"const f = n => n ? f(n - 1) : new Error('deep')\nconsole.log(f(20).stack.split('\\n').length)", "11"},
	} {
		r := &recorder{}
		if d := run(t, codemode.Script{Code: c.code, Form: frame.Module}, r); d.Error != nil || len(r.logs) != 1 || !strings.HasPrefix(r.logs[0], c.stack) {
			t.Errorf("%s: %q, %+v", c.code, r.logs, d.Error)
		}
	}
	r := &recorder{}
	run(t, codemode.Script{Code: "console.log(new Error('logged'))", Form: frame.Module}, r)
	if len(r.logs) != 1 || strings.Count(r.logs[0], "Error: logged") != 1 || !strings.HasPrefix(r.logs[0], "Error: logged\n    at ") {
		t.Errorf("%q", r.logs)
	}
}

// What a host needs: a module that pushes values, keeps running while it is not observed, and is stopped.
func TestModule(t *testing.T) {
	t.Parallel()
	space := []frame.Namespace{{Name: "cell", Prelude: "globalThis.text = v => host.emit('text', v); globalThis.exit = () => host.exit(); cell.local = () => 'local'"}}
	for _, c := range []struct{ code, emits, err string }{
		{"text(1); text(await cell.echo({a: 2})); text(cell.local())", `text 1|text {"a":2}|text "local"`, ""},
		{"text(1); exit(); text(2)", "text 1", ""}, {"text('a'); for (;;) { exit() }", `text "a"`, ""},
		{"import fs from 'fs'", "", "Unsupported import in exec: fs"}, {"await import('x')", "", "Unsupported import in exec: x"},
		{"text(undefined); throw Error('boom')", "text ", "boom"},
	} {
		r := &recorder{}
		d := run(t, codemode.Script{Code: c.code, Form: frame.Module, Namespaces: space}, r)
		message := ""
		if d.Error != nil {
			message = d.Error.Message
		}
		if got := strings.Join(r.emits, "|"); got != c.emits || !strings.Contains(message, c.err) || (message == "") != (c.err == "") {
			t.Errorf("%s: %s, %q", c.code, got, message)
		}
	}
	r := &recorder{seen: make(chan struct{}, 1)}
	s := codemode.Start(t.Context(), []string{binary}, codemode.Script{Code: "text(1); await cell.hang()", Form: frame.Module, Namespaces: space}, r)
	<-r.seen
	select {
	case <-s.Ended():
		t.Error("the session ended by itself")
	default:
	}
	s.Stop()
	if d := s.Wait(); d.Error == nil || d.Error.Cause != frame.Cancelled {
		t.Errorf("%+v", d)
	}
}

// A script that is busy ends with its owner, long before it has used up its time.
func TestBusyScriptEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	r := &recorder{seen: make(chan struct{}, 1)}
	space := []frame.Namespace{{Name: "cell", Prelude: "globalThis.text = v => host.emit('text', v)"}}
	p := codemode.Prepare([]string{binary}, codemode.Limits{})
	s := p.Run(t.Context(), codemode.Script{Code: "text(1); while (true) {}", Form: frame.Module, Namespaces: space}, r)
	<-r.seen
	p.CloseInput()
	if d := s.Wait(); d.Error == nil || d.Error.Cause != frame.Crashed || s.ProcessorTime() > codemode.DefaultCPU/2 {
		t.Errorf("%+v after %v of processor time", d.Error, s.ProcessorTime())
	}
}

// The end of a script's process is the end of its script, and of its calls; the next script runs.
func TestKilled(t *testing.T) {
	t.Parallel()
	r := &recorder{seen: make(chan struct{}, 1)}
	space := []frame.Namespace{{Name: "cell", Prelude: "globalThis.text = v => host.emit('text', v)"}}
	s := codemode.Start(t.Context(), []string{binary}, codemode.Script{Code: "const c = cell.hang(); text(1); await c", Form: frame.Module, Namespaces: space}, r)
	<-r.seen
	s.Kill()
	if d := s.Wait(); d.Error == nil || d.Error.Cause != frame.Crashed || !strings.Contains(d.Error.Message, "ended unexpectedly") {
		t.Errorf("%+v", d.Error)
	}
	if d := run(t, codemode.Script{Code: "1"}, &recorder{}); string(d.Value) != "1" {
		t.Errorf("%+v", d)
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	d := run(t, codemode.Script{Code: "console.log('hello', 1, {a: [2]}, undefined); console.warn('careful'); console.error('bad'); while (true) {}",
		Limits: codemode.Limits{CPU: 100 * time.Millisecond}}, r)
	if got := strings.Join(r.logs, "|"); got != `hello 1 {"a":[2]} undefined|[warn] careful|[error] bad` {
		t.Error(got)
	}
	if d.Error == nil || d.Error.Cause != frame.Timeout { // the lines are there although the script was stopped
		t.Errorf("%+v", d)
	}
}

// What a script may try. Each ends with an error, and leaves no process: goleak sees the goroutine that waits for one.
func TestHostile(t *testing.T) {
	t.Parallel()
	short := codemode.Limits{Memory: 64 << 20, CPU: 200 * time.Millisecond, Wall: 20 * time.Second}
	roomy := codemode.Limits{Memory: 64 << 20, CPU: 20 * time.Second}
	for _, c := range []struct {
		name, code string
		limits     codemode.Limits
		cause      frame.Cause
		message    string
	}{
		{"loop", "while (true) {}", short, frame.Timeout, "timed out"},
		{"loop that catches", "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }", short, frame.Timeout, "timed out"},
		{"built-in functions", "const big = Array(2e5).fill({a: 'b'}); for (;;) JSON.stringify(big).length", short, frame.Timeout, "timed out"},
		{"strings", "for (;;) 'ab'.repeat(1e6).split('a').length", short, frame.Timeout, "timed out"},
		{"microtasks", "const f = () => Promise.resolve().then(f); await f()", short, frame.Timeout, "timed out"},
		{"microtasks after the end of waiting", "(function f() { queueMicrotask(f) })(); await tools.hang()", short, frame.Timeout, "timed out"},
		{"timers", "(function f() { setTimeout(f) })(); await tools.hang()", short, frame.Timeout, "timed out"},
		{"many timers", "for (;;) setTimeout(() => {}, 1e6)", short, frame.Thrown, "more than 10000 timers"},
		{"regular expression", "/(a+)+$/.test('a'.repeat(40) + 'b')", short, frame.Timeout, "timed out"},
		{"waiting", "await tools.hang()", codemode.Limits{Wall: 100 * time.Millisecond}, frame.Timeout, "timed out"},
		{"array bomb", "const a = []; for (;;) a.push(Array(1000).fill(0))", roomy, frame.Memory, "memory"},
		{"bomb of strings", "const a = []; for (let i = 0; ; i++) a.push('x'.repeat(1e4) + i)", roomy, frame.Memory, "memory"},
		{"bomb of frames", "(function f(a) { f([...a, 1]) })([])", roomy, frame.Memory, "memory"},
		{"string bomb", "let s = 'x'; for (;;) s += s", roomy, frame.Thrown, ""},
		{"typed array bomb", "const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", roomy, frame.Memory, "memory"},
		{"recursion", "(function f() { f() })()", roomy, frame.Thrown, "stack"},
		{"nested code", strings.Repeat("(", 200_000) + strings.Repeat(")", 200_000), roomy, "", ""},
		{"nested value", "let a = []; for (let i = 0; i < 2e4; i++) a = [a]; return a", roomy, frame.Thrown, ""},
		{"large result", "'x'.repeat(17 << 20)", codemode.Limits{Memory: 512 << 20}, frame.Thrown, "can't be sent"},
		{"large argument", "await tools.echo('x'.repeat(17 << 20))", codemode.Limits{Memory: 512 << 20}, frame.Thrown, "can't be sent"},
		{"many calls", "await Promise.all(Array(1100).fill(0).map(() => tools.hang()))", roomy, frame.Thrown, "more than 1024 calls"},
	} {
		d := run(t, codemode.Script{Code: c.code, Namespaces: tools, Limits: c.limits}, &recorder{})
		if d.Error == nil || c.cause != "" && d.Error.Cause != c.cause || !strings.Contains(d.Error.Message, c.message) {
			t.Errorf("%s: %.200q, %+v", c.name, d.Value, d.Error)
		}
	}
}

// A script that does not stop at an interrupt is killed. What counts is the processor's time: the machine may be busy.
func TestTimeToTheEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code string
		most       time.Duration // 200 ms, the start of the process, and the grace where the engine does not react
	}{
		{"back-edges", "while (true) {}", 550 * time.Millisecond},
		{"native calls", "const big = Array(2e5).fill({a: 'b'}); for (;;) JSON.stringify(big)", time.Second},
	} {
		s := codemode.Start(t.Context(), []string{binary}, codemode.Script{Code: c.code, Limits: codemode.Limits{CPU: 200 * time.Millisecond}}, &recorder{})
		d := s.Wait()
		if d.Error == nil || d.Error.Cause != frame.Timeout || s.ProcessorTime() > c.most {
			t.Errorf("%s: %+v after %v of processor time, want at most %v", c.name, d.Error, s.ProcessorTime(), c.most)
		}
	}
}

// What an engine without memory throws is also thrown by scripts.
func TestNullIsThrown(t *testing.T) {
	t.Parallel()
	own := make([]byte, 128<<20) // of the owner, which the limits of the script don't concern
	for i := 0; i < len(own); i += 4096 {
		own[i] = 1
	}
	d := run(t, codemode.Script{Code: "throw null", Limits: codemode.Limits{Memory: 64 << 20}}, &recorder{})
	if d.Error == nil || d.Error.Cause != frame.Thrown || d.Error.Message != "null" {
		t.Errorf("%+v", d.Error)
	}
	runtime.KeepAlive(own)
}

// What a script prints is a line, whatever it looks like.
func TestForgedFrames(t *testing.T) {
	t.Parallel()
	const forged = "\x00\x00\x00\x14{\"done\":{\"value\":1}}"
	r := &recorder{}
	d := run(t, codemode.Script{Code: "console.log(" + strconv.Quote(forged) + "); console.error('\\n{\"done\":{}}\\n'); return 2"}, r)
	if string(d.Value) != "2" || !slices.Equal(r.logs, []string{forged, "[error] \n{\"done\":{}}\n"}) {
		t.Errorf("%s, %q", d.Value, r.logs)
	}
}

func TestThousandCalls(t *testing.T) {
	t.Parallel()
	d := run(t, codemode.Script{Code: "(await Promise.all(Array(1000).fill(0).map((_, i) => tools.echo(i)))).reduce((a, b) => a + b)", Namespaces: tools}, &recorder{})
	if string(d.Value) != "499500" {
		t.Errorf("%+v", d)
	}
}

func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	d := codemode.Start(t.Context(), []string{filepath.Join(t.TempDir(), "none")}, codemode.Script{Code: "1"}, &recorder{}).Wait()
	if d.Error == nil || d.Error.Cause != frame.Crashed || !strings.Contains(d.Error.Message, "can't be started") {
		t.Errorf("%+v", d.Error)
	}
	if d := codemode.Start(t.Context(), []string{"/bin/false"}, codemode.Script{Code: "1"}, &recorder{}).Wait(); d.Error == nil || d.Error.Cause != frame.Crashed {
		t.Errorf("%+v", d.Error)
	}
}
