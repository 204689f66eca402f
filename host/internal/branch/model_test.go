package branch_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/compact"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"
)

// world is what the turns of a test run on: a model that answers at length and writes accounts, and surroundings that change.
type world struct {
	mu    sync.Mutex
	env   string
	model string // that the next turn asks
	n     int
	asked []string      // what the model was shown last
	at    chan struct{} // not nil: the next answer says that it was asked, and
	hold  chan struct{} // waits for this one
}

func (w *world) Turn(_ context.Context, t *thread.Thread, _ event.TurnID, _ thread.Submission) (thread.Plan, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := thread.Plan{Started: event.TurnStarted{Cwd: "/", Model: w.model}, Config: turn.Config{
		Model: w, Tools: registry.New().Snapshot, Request: llm.Request{Model: w.model}, Row: llm.ModelRow{ContextWindow: 1 << 40},
		Participants: []turn.Participant{turntest.Context(w.context(w.env))},
	}}
	if has := t.Model(); has.Model != w.model {
		p.Changed = &event.ModelChanged{From: has, To: event.Selection{Model: w.model}}
	}
	return p, nil
}

func (w *world) Check(context.Context, *thread.Thread, thread.Change) error { return nil }

func (w *world) End(context.Context, event.ThreadID) {}

// context tells all of the surroundings once, and later what has changed.
func (w *world) context(env string) func(*event.Reference) []prompt.Section {
	return func(*event.Reference) []prompt.Section {
		return []prompt.Section{
			{ID: "D", Role: llm.RoleSystem, Text: "D"}, {ID: "env", Role: llm.RoleUser, Text: message("X" + env).Text(), Digest: env, Apart: true},
		}
	}
}

const filler = " and so on, at a length that makes an account of it worth while"

func (w *world) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		w.mu.Lock()
		w.n++
		w.asked = short(r.Messages)
		text := fmt.Sprint("A", w.n, strings.Repeat(filler, 40))
		if r.Messages[len(r.Messages)-1].Text() == compact.Prompt("").Text() {
			text = fmt.Sprint("account ", w.n)
		}
		at, hold := w.at, w.hold
		w.mu.Unlock()
		if at != nil {
			close(at)
			select {
			case <-hold:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
		in, out := int64(1000), int64(10)
		for _, ev := range []llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: text},
			llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{Reason: llm.FinishStop, Usage: llm.Usage{Input: &in, Output: &out}},
			llm.Finish{Reason: llm.FinishStop},
		} {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// short are messages by their first words.
func short(ms []llm.Message) []string {
	var out []string
	for _, m := range ms {
		text := words([]llm.Message{m})
		if strings.HasPrefix(m.Text(), "<context_summary>") {
			text = "S"
		}
		if len(text) > 12 {
			text, _, _ = strings.Cut(text, " ")
		}
		out = append(out, text)
	}
	return out
}

// state is what the simple model of a thread knows.
type state struct {
	messages []string
	told     string
	usage    int64
	model    string
}

func (s state) with(messages ...string) state {
	s.messages = append(slices.Clone(s.messages), messages...)
	return s
}

// done is a turn of the simple model: the thread before it, when its surroundings had been told, and after it.
type done struct {
	said                  bool
	before, begun, behind state
}

// simple is a thread as somebody would write it down: nothing but the turns that count.
type simple struct {
	id    event.ThreadID
	from  event.ThreadID
	turns []done
	now   state
}

func (m *simple) clone() *simple {
	c := *m
	c.turns = slices.Clone(m.turns)
	return &c
}

// drop takes back the turn at i and all behind it.
func (m *simple) drop(i int) {
	first := m.turns[i]
	m.turns = m.turns[:i]
	m.now = first.before
	if len(m.now.messages) == 0 && first.said {
		m.now = first.begun
	}
}

// subject is a thread with its model.
type subject struct {
	*world
	s    *store.Store
	m    *simple
	live *thread.Thread // nil: nobody runs it
	sub  *thread.Subscription
	stop func()
}

func (x *subject) close() {
	if x.live != nil {
		x.stop()
		x.live = nil
	}
}

func (x *subject) run(t *rapid.T, cfg thread.Config) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cfg.ID, cfg.Sink, cfg.Engine, cfg.Logger = x.m.id, x.s, x.world, hclog.NewNullLogger()
	lock, err := x.s.LockThread(ctx, cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	x.live = thread.New(cfg)
	ended := make(chan struct{})
	go func() { // owned by the subject: close waits
		defer close(ended)
		_ = x.live.Run(ctx)
	}()
	if x.sub, err = x.live.Subscribe(ctx, thread.Lossless); err != nil {
		t.Fatal(err)
	}
	if cfg.Start != nil {
		if _, err := x.sub.Next(ctx); err != nil { // its first event
			t.Fatal(err)
		}
	}
	x.stop = func() {
		cancel(orchestrate.ErrShutdown)
		<-ended
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// up makes sure that the thread runs.
func (x *subject) up(t *rapid.T) {
	if x.live != nil {
		return
	}
	st, err := branch.Resume(t.Context(), x.s, x.m.id)
	if err != nil {
		t.Fatal(err)
	}
	x.run(t, thread.Config{State: st})
}

// until reads events up to the end of a turn, and returns the checkpoint that it wrote, if it did.
func (x *subject) until(t *rapid.T, id event.TurnID) (k *event.HistoryCompacted) {
	for {
		e, err := x.sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case event.HistoryCompacted:
			k = &b
		case event.TurnEnded:
			if e.Turn == id {
				if b.Status == event.TurnFailed {
					t.Fatalf("turn failed: %+v", b.Error)
				}
				return k
			}
		}
	}
}

// begin writes down what a turn begins with.
func (x *subject) begin() done {
	d := done{said: true, before: x.m.now}
	d.begun = d.before
	d.begun.model = x.world.model
	switch {
	case d.before.told == "":
		d.begun = d.begun.with("D", "X"+x.env)
	case d.before.told != x.env:
		d.begun = d.begun.with("X" + x.env)
	}
	d.begun.told = x.env
	return d
}

func (x *subject) submit(t *rapid.T, sub thread.Submission) event.TurnID {
	a, err := x.live.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	return a.Turn
}

func input(text string) thread.Submission {
	return thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}
}

func (x *subject) say(t *rapid.T, text string) {
	x.up(t)
	d := x.begin()
	x.until(t, x.submit(t, input(text)))
	want := d.begun.with(text)
	if !slices.Equal(x.asked, want.messages) {
		t.Fatalf("the model was shown %v, want %v", x.asked, want.messages)
	}
	d.behind = want.with(fmt.Sprint("A", x.n))
	d.behind.usage += 1010
	x.m.turns, x.m.now = append(x.m.turns, d), d.behind
}

func (x *subject) compact(t *rapid.T) {
	x.up(t)
	d := done{before: x.m.now, begun: x.m.now}
	asked := x.n
	k := x.until(t, x.submit(t, thread.Submission{Compact: true}))
	d.behind = d.before
	d.behind.usage += int64(x.n-asked) * 1010
	d.behind.model = x.world.model
	if k != nil { // else nothing would have been gained
		d.behind.messages, d.behind.told = short(k.Messages), x.env
	}
	x.m.turns, x.m.now = append(x.m.turns, d), d.behind
}

// takeBack takes back by the thread where it runs, and in the store where nobody runs it.
func (x *subject) takeBack(t *rapid.T, plan func(context.Context) (thread.Cut, error)) (err error) {
	if x.live != nil {
		_, err = x.live.Revert(t.Context(), plan)
	} else {
		_, err = branch.Revert(t.Context(), x.s, x.m.id, plan)
	}
	return err
}

func (x *subject) rollback(t *rapid.T, n int) {
	at, left := -1, n
	for i := len(x.m.turns) - 1; i >= 0 && left > 0; i-- {
		if x.m.turns[i].said {
			at = i
			left--
		}
	}
	err := x.takeBack(t, func(ctx context.Context) (thread.Cut, error) { return branch.Last(ctx, x.s, x.m.id, n) })
	switch {
	case (err != nil) != (at < 0):
		t.Fatalf("rollback %d: %v", n, err)
	case at >= 0:
		x.m.drop(at)
	}
}

func (x *subject) revert(t *rapid.T, i int) {
	err := x.takeBack(t, func(ctx context.Context) (thread.Cut, error) { return branch.Before(ctx, x.s, x.m.id, fmt.Sprint(i+1)) })
	if err != nil {
		t.Fatal(err)
	}
	x.m.drop(i)
}

// check compares the thread with the model, as the log has it.
func (x *subject) check(t *rapid.T, m *simple) {
	st, err := branch.Resume(t.Context(), x.s, m.id)
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	if st.ContextState != nil {
		told = st.ContextState.Sections["env"]
	}
	if got := short(st.Messages); !slices.Equal(got, m.now.messages) || told != m.now.told || st.Usage.Total != m.now.usage || st.Model.Model != m.now.model {
		t.Fatalf("thread %s has %v, told %q, %d tokens, model %s; want %+v", m.id, got, told, st.Usage.Total, st.Model.Model, m.now)
	}
	info, err := x.s.Thread(t.Context(), string(m.id))
	if err != nil || info.Turns != len(m.turns) || info.ForkedFrom != m.from || info.Tokens.Total != m.now.usage {
		t.Fatalf("listed as %+v, %v; want %d turns", info, err, len(m.turns))
	}
	// All of the log, read from its beginning, says the same as from its last checkpoint on.
	turns, err := x.s.Turns(t.Context(), m.id)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, turn := range turns {
		if turn.Reverted == 0 {
			n++
		}
	}
	if n != len(m.turns) {
		t.Fatalf("%d turns count, want %d", n, len(m.turns))
	}
}

// Whatever turns, compactions, rollbacks, reverts, forks and new processes follow each other: the model is shown, and the log
// says, what a plain list of turns says.
func TestThreadsAreAsTheirTurnsSay(t *testing.T) {
	// A check waits for the disk some hundred times. More of them with -rapid.checks; 100 is what rapid takes for none.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == "100" {
		if err := f.Value.Set("15"); err != nil {
			t.Fatal(err)
		}
	}
	db := storetest.Open(t)
	rapid.Check(t, func(t *rapid.T) {
		x := &subject{world: &world{env: "0", model: "m0"}, s: db, m: &simple{id: event.NewThreadID(), now: state{model: "m0"}}}
		var others []*simple // left behind by forks
		defer x.close()
		x.run(t, thread.Config{Start: &event.ThreadStarted{Cwd: "/", Model: "m0"}})
		said := 0
		fork := func(t *rapid.T, at branch.Point, m *simple) {
			id, err := branch.Fork(t.Context(), x.s, x.s, x.m.id, at, "")
			if err != nil {
				t.Fatal(err)
			}
			m.from, m.id = x.m.id, id
			others = append(others, x.m)
			x.close()
			x.m = m
		}
		t.Repeat(map[string]func(*rapid.T){
			"say": func(t *rapid.T) {
				said++
				x.say(t, fmt.Sprint("U", said))
			},
			"say more": func(t *rapid.T) {
				said++
				x.say(t, fmt.Sprint("U", said))
			},
			"compact":  x.compact,
			"rollback": func(t *rapid.T) { x.rollback(t, rapid.IntRange(1, 4).Draw(t, "n")) },
			"revert": func(t *rapid.T) {
				if len(x.m.turns) == 0 {
					t.Skip()
				}
				x.revert(t, rapid.IntRange(0, len(x.m.turns)-1).Draw(t, "turn"))
			},
			"fork": func(t *rapid.T) { fork(t, branch.Point{}, x.m.clone()) },
			"fork through": func(t *rapid.T) {
				if len(x.m.turns) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(x.m.turns)-1).Draw(t, "turn")
				m := x.m.clone()
				m.turns, m.now = m.turns[:i+1], m.turns[i].behind
				fork(t, branch.Point{Through: fmt.Sprint(i + 1)}, m)
			},
			"fork before": func(t *rapid.T) {
				if len(x.m.turns) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(x.m.turns)-1).Draw(t, "turn")
				m := x.m.clone()
				m.turns, m.now = m.turns[:i], m.turns[i].before
				fork(t, branch.Point{Before: fmt.Sprint(i + 1)}, m)
			},
			"fork in the middle": func(t *rapid.T) {
				x.up(t)
				said++
				text := fmt.Sprint("U", said)
				d := x.begin()
				x.mu.Lock()
				x.at, x.hold = make(chan struct{}), make(chan struct{})
				x.mu.Unlock()
				id := x.submit(t, input(text))
				<-x.at
				m := x.m.clone()
				half := d
				half.behind = half.begun.with(text, "M")
				m.turns, m.now = append(m.turns, half), half.behind
				source := x.m
				forked, err := branch.Fork(t.Context(), x.s, x.s, source.id, branch.Point{}, "")
				if err != nil {
					t.Fatal(err)
				}
				hold := x.hold
				x.mu.Lock()
				x.at, x.hold = nil, nil
				x.mu.Unlock()
				close(hold)
				x.until(t, id)
				d.behind = d.begun.with(text, fmt.Sprint("A", x.n))
				d.behind.usage += 1010
				source.turns, source.now = append(source.turns, d), d.behind
				m.from, m.id = source.id, forked
				others = append(others, source)
				x.close()
				x.m = m
			},
			"new process": func(*rapid.T) { x.close() },
			"surroundings": func(t *rapid.T) {
				x.env = fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "env"))
			},
			"model": func(t *rapid.T) {
				x.world.model = fmt.Sprint("m", rapid.IntRange(0, 2).Draw(t, "model"))
			},
			"": func(t *rapid.T) { x.check(t, x.m) },
		})
		for _, m := range others {
			x.check(t, m)
		}
	})
}
