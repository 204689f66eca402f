package codemode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

func executor() *codemode.Executor { return &codemode.Executor{Command: []string{binary}} }

func function(name string, f codemode.Func) codemode.Function {
	return codemode.Function{Declaration: codemode.Declaration{Name: name}, Call: f}
}

// resource is a provider that records the life of its runtime.
func resource(name string, log *[]string, created, disposed error) codemode.Provider {
	fallback := function("count", func(context.Context, []json.RawMessage) (any, error) { return nil, errors.New("fallback") })
	return codemode.Provider{Name: name, Functions: []codemode.Function{fallback}, CreateRuntime: func(context.Context) (*codemode.Runtime, error) {
		*log = append(*log, "+"+name)
		if created != nil {
			return nil, created
		}
		n := 0
		return &codemode.Runtime{
			Fns: map[string]codemode.Func{"count": func(context.Context, []json.RawMessage) (any, error) { n++; return n, nil }},
			Dispose: func(ctx context.Context) error {
				*log = append(*log, "-"+name)
				if ctx.Err() != nil {
					*log = append(*log, "with a context that has ended")
				}
				return disposed
			},
		}, nil
	}}
}

func TestRuntimes(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	var third []string
	collide := resource("c", nil, nil, nil)
	collide.CreateRuntime = nil
	collide.Functions = []codemode.Function{function("foo-bar", collide.Functions[0].Call), function("foo_bar", collide.Functions[0].Call)}
	for _, c := range []struct {
		name, code    string
		first, second error // of the disposal of a, and the creation of b
		more          []codemode.Provider
		log, want     string
	}{
		{"success", "[await a.count(), await a.count(), await b.count()]", nil, nil, nil, "+a +b -b -a", "[1,2,1]"},
		{"code error", "await a.count(); throw Error('x')", nil, nil, nil, "+a +b -b -a", "x"},
		{"creation fails", "1", nil, bad, nil, "+a +b -a", "bad"},
		{"disposal fails", "1", bad, nil, nil, "+a +b -b -a", "Runtime dispose failed: bad"},
		{"both fail", "throw Error('x')", bad, nil, nil, "+a +b -b -a", "x"},
		{"collision", "1", nil, nil, []codemode.Provider{collide}, "+a +b -b -a", `Tool names "foo-bar" and "foo_bar" both sanitize to "foo_bar" in provider "c"`},
		{"three, of which one can't be disposed of", "1", nil, nil, []codemode.Provider{{Name: "c", CreateRuntime: func(context.Context) (*codemode.Runtime, error) {
			return &codemode.Runtime{Dispose: func(context.Context) error { panic("no") }}, nil
		}}, resource("d", &third, nil, nil)}, "+a +b -b -a", "Runtime dispose failed: panic: no"},
		{"reserved", "1", nil, nil, []codemode.Provider{{Name: "Promise"}}, "", `Provider name "Promise" is reserved`},
		{"end of the child", "let s = []; for (;;) s.push(new Uint8Array(1 << 20))", nil, nil, nil, "+a +b -b -a", "the script ran out of memory"},
	} {
		var log []string
		e := &codemode.Executor{Command: []string{binary}, Limits: codemode.Limits{Memory: 64 << 20}}
		out := e.Execute(t.Context(), c.code, append([]codemode.Provider{resource("a", &log, nil, c.first), resource("b", &log, c.second, nil)}, c.more...))
		if got := strings.Join(log, " "); got != c.log {
			t.Errorf("%s: %s", c.name, got)
		}
		if got := out.Error + string(out.Result); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	if got := strings.Join(third, " "); got != "+d -d" {
		t.Errorf("of the third: %s", got)
	}
}

func TestCancelledExecution(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	p := codemode.Provider{Name: "w", Functions: []codemode.Function{function("wait", func(ctx context.Context, _ []json.RawMessage) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})}}
	out := executor().Execute(ctx, "console.log('before'); await w.wait()", []codemode.Provider{resource("a", &log, nil, nil), p})
	if out.Cause != frame.Cancelled || !strings.Contains(out.Error, "cancelled") || strings.Join(log, " ") != "+a -a" || !reflect.DeepEqual(out.Logs, []string{"before"}) {
		t.Errorf("%+v, %v", out, log)
	}
}

// A failed disposal does not cost the console's lines.
func TestDisposalKeepsLogs(t *testing.T) {
	t.Parallel()
	var log []string
	out := executor().Execute(t.Context(), "console.log('kept')", []codemode.Provider{resource("a", &log, nil, errors.New("bad"))})
	if out.Error != "Runtime dispose failed: bad" || !reflect.DeepEqual(out.Logs, []string{"kept"}) {
		t.Errorf("%+v", out)
	}
}

// The clock of processor time stands still while a script waits for a call.
func TestCallsCostNoProcessorTime(t *testing.T) {
	t.Parallel()
	const limit = 300 * time.Millisecond
	slow := codemode.Provider{Functions: []codemode.Function{function("slow", func(context.Context, []json.RawMessage) (any, error) {
		<-time.After(2 * limit)
		return 1, nil
	})}}
	e := &codemode.Executor{Command: []string{binary}, Limits: codemode.Limits{CPU: limit}}
	if out := e.Execute(t.Context(), "await codemode.slow()", []codemode.Provider{slow}); string(out.Result) != "1" {
		t.Errorf("%+v", out)
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	var got []string
	record := func(_ context.Context, args []json.RawMessage) (any, error) {
		got = append(got, fmt.Sprintf("%s", args))
		return codemode.Bytes{1, 2, 3}, nil
	}
	strict := function("strict", record)
	strict.Input = json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}`)
	approved := function("approved", record)
	approved.NeedsApproval = true
	panics := function("panics", func(context.Context, []json.RawMessage) (any, error) { panic("oops") })
	providers := []codemode.Provider{
		{Functions: []codemode.Function{function("my-tool", record), strict, approved, panics}},
		{Name: "pos", Positional: true, Functions: []codemode.Function{function("all", record)},
			Prelude: "pos.step = (name, f) => host.call('all', name).then(f)"},
		{Name: "log", Positional: true, Functions: []codemode.Function{function("recorded", func(_ context.Context, args []json.RawMessage) (any, error) {
			if string(args[0]) == `"old"` {
				return "recorded", nil
			}
			return nil, nil
		})}, Prelude: "log.step = (name, f) => host.call('recorded', name).then(v => v ?? f())"},
	}
	for _, c := range []struct{ code, want string }{
		{"const b = await codemode.my_tool(1, 2); return [b instanceof Uint8Array, ...b]", "[true,1,2,3]"},
		{"await pos.all(1, 2)\nawait pos.all()\nreturn 1", "1"}, {"await pos.step('s', () => 'ran')", `"ran"`},
		{"let n = 0; return [await log.step('new', () => ++n), await log.step('old', () => ++n), n]", `[1,"recorded",1]`},
		{"await codemode.strict({n: 1}); return 2", "2"}, {"await codemode.nope()", `Tool "nope" not found`},
		{"await codemode.approved()", `Tool "approved" not found`}, {"await codemode.panics()", "panic: oops"},
		{"other.f()", "'other' is not defined (the only globals available in the sandbox are: codemode, pos, log)"},
	} {
		out := executor().Execute(t.Context(), c.code, providers)
		if s := out.Error + string(out.Result); !strings.HasSuffix(s, c.want) {
			t.Errorf("%s: %s", c.code, s)
		}
	}
	if out := executor().Execute(t.Context(), "await codemode.strict({n: 'x'})", providers); !strings.HasPrefix(out.Error, "invalid argument: ") {
		t.Errorf("%+v", out)
	}
	if want := []string{"[1]", "[1 2]", "[]", `["s"]`, `[{"n":1}]`}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestTimeLimit(t *testing.T) {
	t.Parallel()
	e := &codemode.Executor{Command: []string{binary}, Limits: codemode.Limits{Wall: 100 * time.Millisecond}}
	out := e.Execute(t.Context(), "await new Promise(f => setTimeout(f, 5000))", nil)
	if out.Cause != frame.Timeout || !strings.Contains(out.Error, "timed out") {
		t.Errorf("%+v", out)
	}
}

func TestWanted(t *testing.T) {
	if !codemode.Wanted([]string{"plugin", "gantry-codemode-child"}) || codemode.Wanted([]string{"plugin"}) {
		t.Error("not the arguments of a child")
	}
}

// Lines of the console are there while the script still runs.
func TestLogIsLive(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 1)
	e := executor()
	e.Log = func(line string) { lines <- line }
	wait := function("wait", func(ctx context.Context, _ []json.RawMessage) (any, error) {
		select {
		case line := <-lines:
			return line, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	out := e.Execute(t.Context(), `console.log("first"); return await p.wait()`, []codemode.Provider{{Name: "p", Functions: []codemode.Function{wait}}})
	if string(out.Result) != `"first"` || len(out.Logs) != 1 {
		t.Errorf("%+v", out)
	}
}
