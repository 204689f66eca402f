package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/once"
	"github.com/hashicorp/go-hclog"
)

// Config configures an engine. All fields but Ask, Unasked and Exposed are required.
type Config struct {
	Definitions []Definition // in the order in which their answers are combined
	// Agreed returns the digests of the hooks that the user has trusted, by key. It is called for each turn.
	Agreed func() (map[string]string, error)
	Run    func(context.Context, Command) Printed
	// Ask asks a model and returns its answer and the thread that gave it. nil: hooks that ask a model fail.
	Ask func(context.Context, Question) (answer string, where event.ThreadID, err error)
	// Unasked reports whether a hook runs without the user's consent; nil: none does.
	Unasked func(*Definition) bool
	// Exposed reports whether a running command could change one of these files; nil: none could.
	Exposed func(paths []string) bool
	Environ func() []string // environment of hooks
	Logger  hclog.Logger
}

// Engine has the hooks of a host. It is safe for concurrent use.
type Engine struct {
	cfg   Config
	hooks []*Definition
	mu    struct {
		sync.Mutex
		ran map[string]bool // keys of hooks that have run as trusted hooks
	}
}

// New returns an engine. It returns an error if a matcher is not a valid regular expression.
func New(cfg Config) (*Engine, error) {
	e := &Engine{cfg: cfg}
	e.mu.ran = map[string]bool{}
	for i, d := range cfg.Definitions {
		m, err := newMatcher(d.Matcher)
		if err != nil {
			return nil, fmt.Errorf("hook %s: matcher: %w", d.Key, err)
		}
		d.order, d.match = i, m
		e.hooks = append(e.hooks, &d)
	}
	return e, nil
}

// Publisher takes a thread's events.
type Publisher interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
}

// maxAsync limits the asynchronous hooks that run at once in a thread. A hook beyond it does not run, and its event says so.
const maxAsync = 8

// maxLate limits the texts of asynchronous hooks that wait for the model. Later ones are dropped and logged.
const maxLate = 32

// Thread runs the hooks of one thread. It is safe for concurrent use.
type Thread struct {
	engine *Engine
	id     event.ThreadID
	agent  Agent
	pub    Publisher
	// keep stores a long text where the model's commands can read it, and returns its path as they see it.
	keep func(text string) (string, error)

	told once.Set // published warnings

	async  sync.WaitGroup
	slots  chan struct{}
	life   context.Context
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		source string // of a beginning whose hooks have not run; empty: none
		late   []string
		last   *Turn
	}
}

// Thread starts to serve a thread. source says how the thread begins: "startup", "resume" or "clear". The caller ends it with End.
func (e *Engine) Thread(id event.ThreadID, source string, pub Publisher, keep func(text string) (string, error)) *Thread {
	t := &Thread{engine: e, id: id, pub: pub, keep: keep, slots: make(chan struct{}, maxAsync)}
	t.life, t.cancel = context.WithCancel(context.Background())
	t.mu.source = source
	return t
}

// Agent is the agent of a thread that another agent has spawned.
type Agent struct{ ID, Type string }

// ofAgent is the source of an agent's thread that has not begun.
const ofAgent = "agent"

// Agent starts to serve the thread of an agent, which is part of the session of root. The caller ends it with Close. isNew says that the agent
// has just been spawned.
func (e *Engine) Agent(root event.ThreadID, a Agent, isNew bool, pub Publisher, keep func(text string) (string, error)) *Thread {
	t := e.Thread(root, "", pub, keep)
	t.agent = a
	if isNew {
		t.mu.source = ofAgent
	}
	return t
}

// End runs the hooks of the thread's end, which take a few seconds at most, and ends asynchronous hooks. cwd is used if no turn
// ran.
func (t *Thread) End(ctx context.Context, cwd string) {
	t.mu.Lock()
	last := t.mu.last
	t.mu.Unlock()
	if last == nil {
		last = t.Turn(TurnInfo{Cwd: cwd})
	}
	last.fire(ctx, SessionEnd, nil, "", fields{"reason": "other"})
	t.Close()
}

// Close ends asynchronous hooks.
func (t *Thread) Close() {
	t.cancel()
	t.async.Wait()
}

// TurnInfo is what hooks are told about a turn.
type TurnInfo struct {
	Turn  event.TurnID
	Cwd   string
	Model string
	Never bool // no person is asked in this turn
}

// Turn serves one turn. It reads anew which hooks are trusted.
func (t *Thread) Turn(s TurnInfo) *Turn {
	turn := &Turn{Thread: t, scene: s, env: t.engine.cfg.Environ()}
	var err error
	if turn.agreed, err = t.engine.cfg.Agreed(); err != nil {
		t.engine.cfg.Logger.Warn("trusted hooks not read: none but managed ones run", "thread", t.id, "err", err)
	}
	t.mu.Lock()
	t.mu.last = turn
	t.mu.Unlock()
	return turn
}

// Notices returns notices about hooks that do not run, each of them once per thread.
func (t *Turn) Notices() []event.Notice {
	counts := map[TrustState]map[string]int{Untrusted: {}, Modified: {}, Exposed: {}}
	var order []string
	for _, d := range t.engine.hooks {
		st := t.trustState(d)
		if st.runs() {
			continue
		}
		if counts[Untrusted][d.Source]+counts[Modified][d.Source]+counts[Exposed][d.Source] == 0 {
			order = append(order, d.Source)
		}
		counts[st][d.Source]++
	}
	var out []event.Notice
	for _, source := range order {
		for _, st := range []TrustState{Untrusted, Modified, Exposed} {
			n := counts[st][source]
			if n == 0 {
				continue
			}
			text := fmt.Sprintf("%d %s of %s %s", n, map[bool]string{true: "hook", false: "hooks"}[n == 1], sourceName(source), map[TrustState]string{
				Untrusted: "not trusted yet: left out", Modified: "changed since you agreed: left out",
				Exposed: "left out while a command runs that was started before you agreed",
			}[st])
			if t.told.First(text) {
				out = append(out, event.Notice{Level: "warning", Text: text, Next: "Look at them with `gantry hooks list`, then run `gantry hooks trust`."})
			}
		}
	}
	return out
}

func sourceName(path string) string {
	if path == "" {
		return "the command line"
	}
	return path
}

// fields are the input fields of one event.
type fields map[string]any

// input returns what a hook reads from its standard input.
func (t *Turn) input(ev Event, add fields) []byte {
	in := map[string]any{
		"session_id": t.id, "transcript_path": nil, "cwd": t.scene.Cwd, "hook_event_name": ev,
	}
	if ev != SessionEnd {
		in["model"], in["permission_mode"] = t.scene.Model, "default"
		if t.scene.Never {
			in["permission_mode"] = "bypassPermissions"
		}
		if ev != SessionStart {
			in["turn_id"] = t.scene.Turn
		}
	}
	if t.agent.ID != "" {
		in["agent_id"], in["agent_type"] = t.agent.ID, t.agent.Type
	}
	for k, v := range add {
		in[k] = v
	}
	b, err := json.Marshal(in)
	if err != nil { // input from outside was valid JSON
		t.engine.cfg.Logger.Error("input of a hook not written", "thread", t.id, "event", ev, "err", err)
	}
	return append(b, '\n')
}

// ran is one hook's run for an event.
type ran struct {
	*Definition
	id string
	answer
	block bool // it failed, and that means no
}

// fire runs all hooks of an event that match one of the names, concurrently, and returns the runs of all synchronous ones in the
// order of the configuration. call identifies the runs of one call.
func (t *Turn) fire(ctx context.Context, ev Event, names []string, call string, add fields) []ran {
	var input []byte
	var out []ran
	for _, d := range t.engine.hooks {
		if d.Event != ev || ev.selective() && !d.match.matches(names) {
			continue
		}
		if input == nil {
			input = t.input(ev, add)
		}
		out = append(out, ran{Definition: d, id: fmt.Sprintf("%s:%d:%s", ev.label(), d.order, d.Source)})
	}
	var waited []ran
	var work sync.WaitGroup
	var ready []func()
	for _, r := range out {
		run := event.HookRun{ID: r.id, Event: string(ev), Type: r.Kind(), Hook: r.Key, Source: r.Source, Scope: r.Scope.String(), Call: call, Async: r.Async, Message: r.Status}
		if !t.admit(&r) {
			if r.block {
				t.publish(ctx, event.HookStarted{Run: run}, event.HookCompleted{Run: run, Status: r.status, Entries: []event.HookEntry{{Kind: "error", Text: r.reason}}})
				waited = append(waited, r)
			}
			continue
		}
		if r.Async || ev == Notification {
			t.later(r, run, input)
			continue
		}
		t.publish(ctx, event.HookStarted{Run: run})
		waited = append(waited, r)
		at := len(waited) - 1
		ready = append(ready, func() {
			r := &waited[at]
			r.answer = t.run(ctx, r.Definition, run, input)
			r.block = r.status == event.HookFailed && r.blocks()
		})
	}
	for _, f := range ready { // only now: waited has its final size
		work.Go(f)
	}
	work.Wait()
	return waited
}

// trustState returns whether a hook may run now.
func (t *Turn) trustState(d *Definition) TrustState {
	if unasked := t.engine.cfg.Unasked; unasked != nil && d.Scope != Managed && unasked(d) {
		return Trusted
	}
	st := d.Trust(t.agreed, t.scene.Cwd, t.env)
	if exposed := t.engine.cfg.Exposed; st == Trusted && exposed != nil && d.Command != "" {
		// A sandbox from before the consent does not protect the files.
		if held := d.Reach(t.scene.Cwd, t.env).Held(); len(held) > 0 && exposed(held) {
			return Exposed
		}
	}
	return st
}

// admit decides whether a hook may run. If it may not and its absence means no, r says so.
func (t *Turn) admit(r *ran) bool {
	e := t.engine
	st := t.trustState(r.Definition)
	e.mu.Lock()
	defer e.mu.Unlock()
	if st.runs() {
		e.mu.ran[r.Key] = true
		return true
	}
	switch {
	case st == Exposed && (r.blocks() || r.Event.guards()):
		r.answer = failed("the hook %s can't run: a command that was started before you agreed to it is still running and could change it; end that command, or start a new thread", r.Key)
		r.block = true
	case st == Modified && (r.blocks() || e.mu.ran[r.Key] && r.Event.guards()):
		// Changing a hook that guards calls must not disable it.
		r.answer = failed("the hook %s has changed since you trusted it; check it, then run `gantry hooks trust`", r.Key)
		r.block = true
	case st == Untrusted && r.blocks() && r.Scope == User:
		r.answer = failed("the hook %s is not trusted yet; check it, then run `gantry hooks trust`", r.Key)
		r.block = true
	}
	return false
}

// run runs one hook and publishes the result.
func (t *Turn) run(ctx context.Context, d *Definition, run event.HookRun, input []byte) answer {
	began := time.Now()
	var a answer
	var where event.ThreadID
	if d.Prompt != "" {
		a, where = t.ask(ctx, d, input)
	} else {
		a = read(d.Event, t.engine.cfg.Run(ctx, Command{
			Line: d.Command, Dir: t.scene.Cwd, Env: withProject(t.env, t.scene.Cwd), Input: input, Timeout: d.TimeLimit(), Thread: string(t.id),
		}))
	}
	for i, text := range a.context {
		a.context[i] = t.fit(text, d.ContextTokens)
	}
	done := event.HookCompleted{Run: run, Status: a.status, Thread: where, DurationMS: time.Since(began).Milliseconds()}
	say := func(kind, text string) {
		if text != "" {
			done.Entries = append(done.Entries, event.HookEntry{Kind: kind, Text: text})
		}
	}
	say("warning", a.warning)
	for _, text := range a.context {
		say("context", text)
	}
	switch {
	case a.input != nil:
		say("decision", "other arguments")
	case a.allow:
		say("decision", "allowed")
	case a.ask:
		say("decision", strings.TrimSuffix("asks: "+a.reason, ": "))
	}
	switch a.status {
	case event.HookFailed:
		say("error", a.reason)
	case event.HookBlocked:
		say("feedback", a.reason)
	case event.HookStopped:
		say("stop", a.reason)
	}
	t.publish(context.WithoutCancel(ctx), done)
	return a
}

// later runs a hook without waiting for it.
func (t *Turn) later(r ran, run event.HookRun, input []byte) {
	select {
	case t.slots <- struct{}{}:
	default:
		t.publish(t.life, event.HookStarted{Run: run}, event.HookCompleted{Run: run, Status: event.HookFailed, Entries: []event.HookEntry{
			{Kind: "error", Text: fmt.Sprintf("the limit of %d asynchronous hooks is reached; it did not run", maxAsync)},
		}})
		return
	}
	t.publish(t.life, event.HookStarted{Run: run})
	t.async.Go(func() { // ends with the thread
		defer func() { <-t.slots }()
		a := t.run(t.life, r.Definition, run, input)
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, text := range a.context {
			if len(t.mu.late) >= maxLate {
				t.engine.cfg.Logger.Warn("text of a hook dropped: too many wait for the model", "thread", t.id, "most", maxLate)
				return
			}
			t.mu.late = append(t.mu.late, text)
		}
	})
}

func (t *Turn) publish(ctx context.Context, bodies ...event.Body) {
	if _, err := t.pub.Publish(ctx, t.scene.Turn, bodies...); err != nil {
		t.engine.cfg.Logger.Debug("event of a hook not published", "thread", t.id, "err", err)
	}
}
