// Package child runs one script in the process that it is called in, which locks itself before and ends afterwards.
//
// It owns: the engine, the script's globals, the event loop, the limits and the lock. It must not know: what the owner's functions
// do, or how the process was started.
//
// Start with [Main].
package child

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"modernc.org/quickjs"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/codemode/normalform"
)

//go:embed bootstrap.js
var bootstrap string

const (
	// stackBytes bounds a goroutine's stack: deeply nested code must not take memory that the script's limit doesn't count.
	stackBytes = 256 << 20
	maxTimers  = 10_000
)

// Main runs the script that the owner sends over in, and returns the exit code of the process. It can be called once in a process.
// The process ends as soon as in does, so that no script outlives its owner.
func Main(in io.Reader, out io.Writer) int {
	// The engine takes turns with what watches it, which the runtime lets run within some 10 ms of a script that is busy. With a second
	// processor, each reply would wake up another thread for the engine, while the one that has read it is about to sleep.
	runtime.GOMAXPROCS(1)
	debug.SetMaxStack(stackBytes)
	in = polled(in)
	r := &runner{out: out, in: bufio.NewReader(in), replies: make(chan frame.Reply, 16), timers: map[int64]*timer{}, exit: os.Exit}
	m, err := frame.Read[frame.ToChild](r.in)
	if errors.Is(err, io.EOF) {
		return 0 // the owner needed no script after all
	}
	if err != nil || m.Limits == nil {
		fmt.Fprintln(os.Stderr, "the first message must be the limits of the script:", err)
		return 2
	}
	limits := m.Limits
	if r.vm, err = quickjs.NewVM(); err != nil {
		fmt.Fprintln(os.Stderr, "start the engine:", err)
		return 2
	}
	r.vm.SetMemoryLimit(uintptr(limits.Memory))
	r.vm.SetModuleLoader(func(_ *quickjs.VM, name string) (string, error) {
		return "", importError(name)
	}, func(_ *quickjs.VM, _, name string) (string, error) { return name, nil })
	if err := r.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the script's globals:", err)
		return 2
	}
	if r.peak, err = lock(limits); err != nil {
		r.finish(frame.Done{Error: &frame.Error{Message: "the process can't be confined: " + err.Error(), Cause: frame.Locked}})
		return 1
	}
	m, err = frame.Read[frame.ToChild](r.in)
	if errors.Is(err, io.EOF) {
		return 0
	}
	if err != nil || m.Start == nil {
		fmt.Fprintln(os.Stderr, "the second message must be the script:", err)
		return 2
	}
	r.memory = limits.Memory
	r.watch = newWatch(r, limits)
	go r.receive() // ends with the process
	r.run(m.Start)
	return 0
}

// importError is an import of the module with this name. No modules exist.
type importError string

// Error implements error. The text is the one that models know.
func (e importError) Error() string { return "Unsupported import in exec: " + string(e) }

// runner runs a script. Its methods are called from the goroutine of the engine, except for send and finish.
type runner struct {
	vm      *quickjs.VM
	in      *bufio.Reader
	out     io.Writer
	exit    func(code int)
	watch   *watch
	replies chan frame.Reply
	memory  int64
	peak    func() int64 // see lock; nil until then

	space, reply, fire, start quickjs.Value // functions of bootstrap.js

	calls  int // without a reply
	lastID uint64
	timers map[int64]*timer
	lastT  int64
	ended  bool

	mu   sync.Mutex // of out and done
	done bool
}

type timer struct {
	id     int64
	at     time.Time
	repeat time.Duration // 0: once
}

// prepare defines the script's globals.
func (r *runner) prepare() error {
	if err := r.vm.RegisterHostFunc("__host", func(args []any) (any, error) {
		answer, err := r.host(args)
		if err != nil {
			return err.Error(), nil
		}
		return answer, nil
	}); err != nil {
		return err
	}
	api, err := r.vm.EvalValue(bootstrap, quickjs.EvalGlobal)
	if err != nil {
		return err
	}
	for name, to := range map[string]*quickjs.Value{"space": &r.space, "reply": &r.reply, "fire": &r.fire, "run": &r.start} {
		atom, err := r.vm.NewAtom(name)
		if err != nil {
			return err
		}
		if *to, err = api.GetPropertyValue(atom); err != nil {
			return err
		}
	}
	return nil
}

// receive reads the owner's replies. When the owner is gone, so is the process, whatever the engine is doing.
func (r *runner) receive() {
	for {
		m, err := frame.Read[frame.ToChild](r.in)
		if err != nil || m.Reply == nil {
			r.exit(0)
			return
		}
		r.replies <- *m.Reply
	}
}

// send sends a message, unless the last one has been sent.
func (r *runner) send(m frame.FromChild) error {
	b, err := frame.Encode(m)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	r.done = m.Done != nil
	if _, err := r.out.Write(b); err != nil {
		r.exit(0) // the owner is gone
	}
	return nil
}

// finish sends the last message.
func (r *runner) finish(d frame.Done) {
	if err := r.send(frame.FromChild{Done: &d}); err != nil {
		// The JSON of the engine nests too deeply for a message, or is too large for it.
		_ = r.send(frame.FromChild{Done: &frame.Done{Error: &frame.Error{Message: "the result can't be sent: " + err.Error(), Cause: frame.Thrown}}})
	}
	r.ended = true
}

// host is the function by which bootstrap.js reaches the process. It returns a number or nothing.
func (r *runner) host(args []any) (any, error) {
	if len(args) == 0 || r.ended {
		return nil, errors.New("the script has ended")
	}
	text := func(i int) string {
		if i < len(args) {
			if s, ok := args[i].(string); ok {
				return s
			}
		}
		return ""
	}
	raw := func(i int) json.RawMessage { return json.RawMessage(text(i)) }
	switch args[0] {
	case "call":
		var list []json.RawMessage
		if err := json.Unmarshal(raw(3), &list); err != nil {
			return nil, fmt.Errorf("the arguments can't be sent: %w", err)
		}
		r.lastID++
		if err := r.send(frame.FromChild{Call: &frame.Call{ID: r.lastID, Namespace: text(1), Name: text(2), Args: list}}); err != nil {
			return nil, fmt.Errorf("the arguments can't be sent: %w", err)
		}
		r.calls++
		return float64(r.lastID), nil
	case "emit":
		return nil, r.send(frame.FromChild{Emit: &frame.Emit{Kind: text(1), Value: raw(2)}})
	case "log":
		line := text(1)
		return nil, r.send(frame.FromChild{Log: &line})
	case "timer":
		if len(r.timers) >= maxTimers {
			return nil, fmt.Errorf("there are more than %d timers", maxTimers)
		}
		d := time.Duration(number(args, 1) * float64(time.Millisecond))
		r.lastT++
		t := &timer{id: r.lastT, at: time.Now().Add(d)}
		if repeat, _ := args[2].(bool); repeat {
			t.repeat = max(d, time.Millisecond)
		}
		r.timers[t.id] = t
		return float64(t.id), nil
	case "clear":
		delete(r.timers, int64(number(args, 1)))
	case "exit":
		r.finish(frame.Done{})
		r.vm.Interrupt()
	case "done":
		r.finish(frame.Done{Value: raw(1)})
	case "fail":
		r.fail(text(1), text(2))
	}
	return nil, nil
}

// number returns a numeric argument, which the engine gives as an int if it is one.
func number(args []any, i int) float64 {
	if i < len(args) {
		switch n := args[i].(type) {
		case int:
			return float64(n)
		case int32:
			return float64(n)
		case int64:
			return float64(n)
		case float64:
			return n
		}
	}
	return 0
}

// fail ends the script with an error. An engine that has no memory for an error throws null.
func (r *runner) fail(message, stack string) {
	message = strings.TrimPrefix(message, "module load failed: ") // of the engine, before an importError
	e := &frame.Error{Message: message, Stack: stack, Cause: frame.Thrown}
	switch {
	case r.watch.stopped():
		e = r.watch.failure()
	case strings.HasSuffix(message, outOfMemory) || message == "null" && r.peak() >= r.memory:
		e = &frame.Error{Message: "the script ran out of memory", Cause: frame.Memory}
	}
	r.finish(frame.Done{Error: e})
}

// outOfMemory is the message of the engine's error.
const outOfMemory = "out of memory"

// exhausted reports whether the script has less than a sixteenth of its memory left.
func (r *runner) exhausted() bool {
	_, err := r.vm.EvalValue(fmt.Sprintf("new ArrayBuffer(%d)", r.memory/16), quickjs.EvalGlobal)
	return err != nil
}

// failed ends the script with an error of the engine.
func (r *runner) failed(err error) {
	message, stack := err.Error(), ""
	if e, ok := errors.AsType[*quickjs.Error](err); ok {
		stack = e.Stack
		if e.Message != "" && e.Name != "SyntaxError" {
			message = e.Message
		}
	}
	if message == "" {
		message = "the engine failed"
	}
	if stack != "" {
		stack = message + "\n" + stack
	}
	r.fail(message, stack)
}

// run runs the script until its end.
func (r *runner) run(s *frame.Start) {
	for _, n := range s.Namespaces {
		args := []any{n.Name}
		if n.Prelude != "" {
			f, err := r.vm.EvalValue("(function (host) {\n"+n.Prelude+"\n})", quickjs.EvalGlobal)
			if err != nil {
				r.failed(fmt.Errorf("the prelude of %s: %w", n.Name, err))
				return
			}
			args = append(args, f)
		}
		if _, err := r.space.Call(quickjs.UndefinedValue, args...); err != nil {
			r.failed(err)
			return
		}
	}
	value, err := r.evaluate(s.Form, s.Code)
	if err == nil && !r.ended {
		_, err = r.start.Call(quickjs.UndefinedValue, value, s.Form == frame.Module)
	}
	if err != nil && !r.ended {
		r.failed(err)
		return
	}
	r.loop()
}

// evaluate returns the function of the code, or the promise of a module. Code with types is evaluated without them.
func (r *runner) evaluate(form frame.Form, code string) (quickjs.Value, error) {
	eval := func(code string) (quickjs.Value, error) {
		if form == frame.Module {
			return r.vm.EvalValue(code, quickjs.EvalModule)
		}
		f, _ := normalform.Of(code)
		return r.vm.EvalValue("("+strings.TrimRight(f, "; \t\r\n")+"\n)", quickjs.EvalGlobal)
	}
	value, err := eval(code)
	if e, ok := errors.AsType[*quickjs.Error](err); ok && e.Name == "SyntaxError" {
		if plain, ok := normalform.StripTypes(code); ok && plain != code {
			if v, second := eval(plain); second == nil {
				return v, nil
			}
		}
	}
	return value, err
}

// loop runs jobs, timers and replies until the script ends.
func (r *runner) loop() {
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	for {
		for n := 1; n > 0 && !r.ended && !r.watch.stopped(); {
			var err error
			if n, err = r.vm.ExecutePendingJobs(); err != nil && !r.ended {
				r.failed(err)
			}
		}
		switch {
		case r.ended:
			return
		case r.watch.stopped():
			r.finish(frame.Done{Error: r.watch.failure()})
			return
		}
		t := r.next()
		if t == nil && r.calls == 0 {
			if r.exhausted() { // an engine without memory for it does not reject a promise
				r.fail(outOfMemory, "")
			} else {
				r.fail("the script waits for a promise that is never settled: no call or timer is left", "")
			}
			return
		}
		due := time.Hour
		if t != nil {
			due = time.Until(t.at)
		}
		wake.Reset(max(0, due))
		var err error
		select {
		case m := <-r.replies:
			r.calls--
			err = r.answer(m)
		case <-r.watch.stop:
		case <-wake.C:
			if t != nil {
				if t.repeat > 0 {
					t.at = time.Now().Add(t.repeat)
				} else {
					delete(r.timers, t.id)
				}
				_, err = r.fire.Call(quickjs.UndefinedValue, float64(t.id))
			}
		}
		if err != nil && !r.ended {
			r.failed(err)
			return
		}
	}
}

// answer settles the promise of a call.
func (r *runner) answer(m frame.Reply) error {
	var text any = quickjs.Undefined{}
	if m.Error != nil {
		text = *m.Error
	} else if len(m.Value) > 0 {
		text = string(m.Value)
	}
	_, err := r.reply.Call(quickjs.UndefinedValue, float64(m.ID), m.Error == nil, text)
	return err
}

// next returns the timer that is due first.
func (r *runner) next() *timer {
	var first *timer
	for _, t := range r.timers {
		if first == nil || t.at.Before(first.at) || t.at.Equal(first.at) && t.id < first.id {
			first = t
		}
	}
	return first
}
