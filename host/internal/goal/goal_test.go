package goal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is an answer of the model: a text, or calls of tools.
type reply struct {
	in, cached, out int64
	text            string
	calls           []llm.ToolCall
	err             error
	wait            chan struct{} // closed when the answer may begin; nil: at once
}

func call(name, args string) llm.ToolCall {
	return llm.ToolCall{ID: "call-" + name, Name: name, Input: args}
}

// world runs a thread with a goal: it is its engine, its model and its log.
type world struct {
	*testing.T
	thread *thread.Thread
	keeper *Keeper
	end    func()
	mu     struct {
		sync.Mutex
		replies []reply // the last one is repeated
		asked   []llm.Request
		events  []event.Event
		working bool
		mail    chan struct{}
	}
}

// open starts the thread; state nil: a new one.
func open(t *testing.T, most int64, state *thread.State, replies ...reply) *world {
	t.Helper()
	w := &world{T: t}
	w.mu.replies, w.mu.mail = replies, make(chan struct{})
	var work sync.WaitGroup
	w.keeper = NewKeeper(Config{
		MaxTokens: most,
		Working:   func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.mu.working },
		Await: func(ctx context.Context) error {
			select {
			case <-w.mu.mail:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Go: func(f func()) bool { work.Go(f); return true },
	})
	cfg := thread.Config{ID: "thread", Sink: w, Engine: w, Features: []thread.Feature{w.keeper}, Logger: hclog.NewNullLogger()}
	if state != nil {
		cfg.State = *state
	} else {
		cfg.Start = &event.ThreadStarted{Cwd: "/"}
	}
	w.thread = thread.New(cfg)
	w.keeper.Serve(w.thread)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	work.Go(func() { _ = w.thread.Run(ctx) }) // owned by the world: end waits
	w.end = sync.OnceFunc(func() {
		cancel(orchestrate.ErrShutdown)
		w.keeper.Close()
		work.Wait()
	})
	t.Cleanup(w.end)
	synctest.Wait()
	return w
}

func (w *world) Turn(_ context.Context, t *thread.Thread, id event.TurnID, _ thread.Submission) (thread.Plan, error) {
	tools := Table(func(event.ThreadID) (*Keeper, error) { return w.keeper, nil })
	calls := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Policy: policy.Decide, Approver: t.Approvals(), Granter: anything{}, Journal: t, Retry: orchestrate.NoRetry, Processes: anything{},
		HostTools: tools.Tool,
	}, orchestrate.NewTokens(), hclog.NewNullLogger())
	return thread.Plan{Started: event.TurnStarted{Cwd: "/"}, Config: turn.Config{
		Model: w, Calls: calls, Participants: []turn.Participant{w.keeper.Turn(id)},
		Tools: func() *registry.Snapshot {
			return tools.Extend(registry.New().Snapshot(), hosttool.Conditions{Goals: true})
		},
		Settings: orchestrate.Settings{Thread: t.ID(), Turn: id, Approval: policy.Never, Output: history.Policy{Limit: 1000}},
	}}, nil
}

func (w *world) Check(context.Context, *thread.Thread, thread.Change) error { return nil }
func (w *world) End(context.Context, event.ThreadID)                        {}

func (w *world) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	w.mu.Lock()
	w.mu.asked = append(w.mu.asked, *r)
	a := w.mu.replies[0]
	if len(w.mu.replies) > 1 {
		w.mu.replies = w.mu.replies[1:]
	}
	w.mu.Unlock()
	return func(yield func(llm.Event, error) bool) {
		if a.wait != nil {
			select {
			case <-a.wait:
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
		if a.err != nil {
			yield(nil, a.err)
			return
		}
		used := llm.Usage{Input: &a.in, CacheRead: &a.cached, Output: &a.out}
		evs := []llm.Event{llm.StepStart{}}
		for _, c := range a.calls {
			evs = append(evs, llm.ToolCallDone{Call: c})
		}
		if a.text != "" {
			evs = append(evs, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: a.text}, llm.BlockEnd{Kind: llm.BlockText, ID: "1"})
		}
		for _, ev := range append(evs, llm.StepFinish{Usage: used}, llm.Finish{Usage: used}) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (w *world) Append(_ context.Context, evs ...event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.events = append(w.mu.events, evs...)
	return nil
}

func (w *world) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

// anything lets calls do what they declare.
type anything struct{}

func (anything) Grant(context.Context, orchestrate.GrantRequest) (launch.Grant, error) {
	return launch.Grant{}, nil
}
func (anything) Writable(orchestrate.GrantRequest, string) bool { return true }
func (anything) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) {
	return p, nil
}
func (anything) EndCall(context.Context, launch.Owner) error { return nil }

// say submits what a user says, and returns when nothing happens any more until time passes.
func (w *world) say(text string) {
	w.Helper()
	if _, err := w.thread.Submit(w.Context(), thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// set changes the goal as a user does.
func (w *world) set(c Change) *Goal {
	w.Helper()
	g, err := w.keeper.Change(w.Context(), "", c)
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return g
}

// is checks the goal.
func (w *world) is(when string, status Status, tokens int64) *Goal {
	w.Helper()
	g := Of(w.thread.Feature(FeatureID))
	switch {
	case g == nil:
		w.Fatalf("%s: there is no goal", when)
	case g.Status != status || g.Tokens != tokens:
		w.Errorf("%s: %s with %d tokens used (%s), want %s with %d", when, g.Status, g.Tokens, g.Reason, status, tokens)
	}
	return g
}

// uses counts usage as an answer of the model does.
func (w *world) uses(in, cached, out int64) {
	w.Helper()
	if err := w.thread.Meter().Report(w.Context(), w.thread, "turn", event.UsageReported{Usage: llm.Usage{Input: &in, CacheRead: &cached, Output: &out}}); err != nil {
		w.Fatal(err)
	}
}

// turns returns how many turns have begun.
func (w *world) turns() (n int) {
	for _, e := range w.log() {
		if _, ok := e.Body.(event.TurnStarted); ok {
			n++
		}
	}
	return n
}

func (w *world) log() []event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.events)
}

// recorded returns the recorded changes of a kind.
func (w *world) recorded(k kind) (out []recorded) {
	w.Helper()
	for _, e := range w.log() {
		var r recorded
		if b, ok := e.Body.(event.FeatureChanged); ok && json.Unmarshal(b.Data, &r) == nil && r.Kind == k {
			out = append(out, r)
		}
	}
	return out
}

// texts returns the messages of a request in which a word occurs; n is its number, from 0.
func (w *world) texts(n int, word string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.mu.asked[n].Messages {
		text := m.Text()
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok {
				text += llm.Message{Parts: r.Content}.Text()
			}
		}
		if strings.Contains(text, word) {
			out = append(out, text)
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// newGoal is the change that sets a goal.
func newGoal(text string, budget int64) Change {
	c := Change{Objective: &text}
	if budget > 0 {
		c.Budget = &budget
	}
	return c
}

// status is the change of a status.
func status(s Status) Change { return Change{Status: &s} }

// resting sets a goal on which the thread does not work by itself: it is paused while it is created.
func (w *world) resting(budget int64) {
	w.Helper()
	c := newGoal("ship it", budget)
	c.Status = ptr(Paused)
	w.set(c)
}

// G1: usage from before a goal is not charged to it; cached input never is.
func TestG1UsageIsChargedFromCreationOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := open(t, 0, nil, reply{in: 100, cached: 10, out: 30, calls: []llm.ToolCall{call("get_goal", "{}")}}, reply{in: 20, cached: 4, out: 12, text: "ok", wait: hold})
		w.say("go")
		w.uses(7, 2, 10) // a plugin's, before
		w.set(newGoal("ship it", 0))
		w.is("created", Active, 0)
		w.uses(7, 2, 10)
		if g, err := w.keeper.Goal(t.Context(), ""); err != nil || g.Tokens != 15 {
			t.Errorf("used %d, %v; want 15", g.Tokens, err)
		}
	})
}

// G2: usage is charged when a call has ended, before the model is asked again.
func TestG2UsageIsChargedWhenACallHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{in: 20, cached: 5, out: 8, calls: []llm.ToolCall{call("get_goal", "{}")}}, reply{wait: make(chan struct{})})
		w.resting(0)
		w.set(status(Active))
		w.is("while the model is asked again", Active, 23)
	})
}

// G3: what ends at once is charged once.
func TestG3UsageIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "ok", wait: make(chan struct{})})
		w.uses(100, 0, 0)
		w.set(newGoal("ship it", 0))
		w.uses(30, 0, 0)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := w.keeper.account(t.Context(), "turn"); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		w.is("charged twice at once", Active, 30)
		if got := w.recorded(accounted); len(got) != 1 {
			t.Errorf("%d events, want 1: %+v", len(got), got)
		}
	})
}

// G4: a budget that is reached within a turn ends the work: the model is told once, and what it still says is charged.
func TestG4TheBudgetIsReachedWithinATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{in: 20, cached: 5, out: 10, calls: []llm.ToolCall{call("get_goal", "{}")}},
			reply{in: 4, cached: 1, out: 2, calls: []llm.ToolCall{call("get_goal", "{}")}}, reply{in: 4, cached: 1, out: 2, text: "summary"})
		w.set(newGoal("ship it", 25))
		w.is("at the end", BudgetLimited, 35)
		for n, want := range []int{0, 1, 1} {
			if got := w.texts(n, "is used up"); len(got) != want {
				t.Errorf("request %d says %d times that the budget is used up: %q", n, len(got), got)
			}
		}
		if n := w.turns(); n != 1 {
			t.Errorf("%d turns, want 1", n)
		}
		w.say("and now?")
		w.is("after a further turn of the user", BudgetLimited, 35)
	})
}

// G5: the answer that creates a goal counts for it.
func TestG5TheCreatingAnswerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{in: 100, out: 10, calls: []llm.ToolCall{call("create_goal", `{"objective":"ship it","token_budget":250}`)}},
			reply{calls: []llm.ToolCall{call("get_goal", "{}")}}, reply{wait: make(chan struct{})})
		w.say("set a goal")
		var got []answer
		for _, text := range w.texts(2, `"goal"`) {
			var a answer
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			got = append(got, a)
		}
		if len(got) != 2 || got[0].Goal.TokensUsed != 0 || *got[0].Remaining != 250 || got[1].Goal.TokensUsed != 110 || *got[1].Remaining != 140 {
			t.Errorf("the model reads %+v", got)
		}
	})
}

// G6: a thread continues until the budget is reached.
func TestG6TurnsUntilTheBudgetIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{in: 100, out: 10, text: "thinking"})
		w.set(newGoal("ship it", 250))
		time.Sleep(time.Hour)
		synctest.Wait()
		w.is("after an hour", BudgetLimited, 330)
		if n := w.turns(); n != 3 {
			t.Errorf("%d turns, want 3", n)
		}
		var used []int64
		for _, r := range w.recorded(accounted) {
			if r.Charge.Tokens > 0 { // others are for the time between turns
				used = append(used, r.Charge.Tokens)
			}
		}
		if !slices.Equal(used, []int64{110, 110, 110}) {
			t.Errorf("charged %v", used)
		}
	})
}

// G7: after an interrupt, nothing continues until somebody says so.
func TestG7AnInterruptHoldsTheGoal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "thinking", wait: make(chan struct{})})
		w.set(newGoal("ship it", 0))
		if err := w.thread.InterruptTurn(t.Context(), "", orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		w.is("interrupted", Active, 0)
		if n := w.turns(); n != 1 {
			t.Fatalf("%d turns after an interrupt, want 1", n)
		}
		w.set(status(Active))
		if n := w.turns(); n != 2 {
			t.Errorf("%d turns after the goal was resumed, want 2", n)
		}
	})
}

// G8: a model reads an edited objective in the running turn, and works on it in the next one.
func TestG8AnEditedObjective(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := open(t, 0, nil, reply{calls: []llm.ToolCall{call("get_goal", "{}")}, wait: hold}, reply{text: "one"}, reply{text: "two"}, reply{wait: make(chan struct{})})
		w.set(newGoal("ship <it>", 0))
		w.set(newGoal("keep it", 0))
		close(hold)
		synctest.Wait()
		if n := w.turns(); n < 2 {
			t.Fatalf("%d turns", n)
		}
		if got := w.texts(0, "<objective>"); len(got) != 1 || !strings.Contains(got[0], "\nship &lt;it&gt;\n") {
			t.Errorf("first told %q", got)
		}
		got := w.texts(1, "<objective>")
		if len(got) != 2 || !strings.Contains(got[1], "\nkeep it\n") || !strings.Contains(got[1], "replaces the earlier one") {
			t.Errorf("in the running turn told %q", got)
		}
		if got := w.texts(2, "The goal is another one"); len(got) != 1 {
			t.Errorf("told again in the next turn: %q", got)
		}
	})
}

// G9: a paused goal stays so with a smaller budget, and can't be resumed above it.
func TestG9ABudgetBelowWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "thinking", wait: make(chan struct{})})
		w.set(newGoal("ship it", 0))
		w.uses(550, 0, 0)
		w.set(status(Paused))
		if err := w.thread.InterruptTurn(t.Context(), "", orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		w.set(Change{Budget: ptr[int64](1)})
		w.is("with a smaller budget", Paused, 550)
		w.set(status(Active))
		w.is("resumed", BudgetLimited, 550)
		w.set(status(Blocked))
		w.is("blocked", BudgetLimited, 550)
		if n := w.turns(); n != 1 {
			t.Errorf("%d turns, want 1", n)
		}
	})
}

// G10: a vendor that refuses further use stops the goal, to which nothing more is charged.
func TestG10AUsageLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{in: 20, cached: 5, out: 8, calls: []llm.ToolCall{call("get_goal", "{}")}}, reply{err: &llm.Error{Code: llm.ErrQuotaExceeded, Message: "no more"}})
		w.set(newGoal("ship it", 0))
		if g := w.is("at the limit", UsageLimited, 23); g.Reason != "no more" {
			t.Errorf("reason %q", g.Reason)
		}
		if got := w.recorded(accounted); len(got) != 1 || got[0].Charge.Tokens != 23 {
			t.Errorf("charged %+v", got)
		}
		w.uses(100, 0, 0)
		if g, err := w.keeper.Goal(t.Context(), ""); err != nil || g.Tokens != 23 {
			t.Errorf("later charged %+v, %v", g, err)
		}
		if n := w.turns(); n != 1 {
			t.Errorf("%d turns, want 1", n)
		}
	})
}

// Turns without a call come at growing intervals, and after five of them the goal is blocked.
func TestATurnWithoutACallIsFollowedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := open(t, 0, nil, reply{text: "1"}, reply{text: "2"}, reply{text: "3"}, reply{text: "4"}, reply{text: "5"}, reply{text: "6"})
		begun := time.Now()
		w.set(newGoal("ship it", 0))
		time.Sleep(time.Hour)
		synctest.Wait()
		var at []time.Duration
		for _, e := range w.log() {
			if _, ok := e.Body.(event.TurnStarted); ok {
				at = append(at, e.Time.Sub(begun).Round(time.Second))
				n++
			}
		}
		want := []time.Duration{0, 0, 5 * time.Second, 35 * time.Second, 155 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("turns at %v, want %v", at, want)
		}
		if g := w.is("after five turns", Blocked, 0); g.Reason != "5 turns in a row made no call" {
			t.Errorf("reason %q", g.Reason)
		}
		// Further input unblocks nothing by itself, a resumed goal counts from the beginning.
		w.say("and?")
		w.set(status(Active))
		if got := w.turns(); got < n+2 {
			t.Errorf("%d turns after the goal was resumed, want more than %d", got, n+1)
		}
	})
}

// Turns that make calls follow at once; if they all end in the same way, the goal is blocked.
func TestTheSameAnswerBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replies []reply
		for range 6 {
			replies = append(replies, reply{calls: []llm.ToolCall{call("unknown", "{}")}}, reply{text: "the same"})
		}
		w := open(t, 0, nil, replies...)
		w.set(newGoal("ship it", 0))
		if g := w.is("at once", Blocked, 0); g.Reason != "5 turns in a row ended with the same answer" || w.turns() != 5 {
			t.Errorf("%d turns, reason %q", w.turns(), g.Reason)
		}
	})
}

// While a thread waits to continue, its user comes first; an interrupt of that turn ends the wait.
func TestAUsersTurnComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "1"}, reply{text: "2"}, reply{text: "3", wait: make(chan struct{})})
		w.set(newGoal("ship it", 0))
		w.say("wait") // during the five seconds
		time.Sleep(time.Minute)
		if err := w.thread.InterruptTurn(t.Context(), "", orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.turns(); n != 3 {
			t.Errorf("%d turns, want 3", n)
		}
	})
}

// A thread whose agents are at work waits for their mail.
func TestMailOfAgentsIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "1", wait: make(chan struct{})})
		w.mu.working = true
		w.set(newGoal("ship it", 0))
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.turns(); n != 0 {
			t.Fatalf("%d turns while agents are at work", n)
		}
		close(w.mu.mail)
		synctest.Wait()
		if n := w.turns(); n != 1 {
			t.Errorf("%d turns after mail, want 1", n)
		}
	})
}

// Time counts while the goal is active and its host runs, whether or not a turn runs.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := open(t, 0, nil, reply{calls: []llm.ToolCall{call("get_goal", "{}")}, wait: hold}, reply{text: "ok", wait: make(chan struct{})})
		w.set(newGoal("ship it", 0))
		for range 3 { // what is less than a second is not lost
			time.Sleep(700 * time.Millisecond)
			if _, err := w.keeper.Goal(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		if g := w.is("after 2.1 s", Active, 0); g.Seconds != 2 {
			t.Errorf("%d s, want 2", g.Seconds)
		}
		w.set(status(Paused))
		time.Sleep(time.Hour)
		w.set(status(Active))
		time.Sleep(3 * time.Second)
		if g, err := w.keeper.Goal(t.Context(), ""); err != nil || g.Seconds != 5 {
			t.Errorf("%+v, %v; want 5 s", g, err)
		}
	})
}

// A goal is there when the thread is resumed, with the tokens that were not charged yet and without the time in between; nothing continues
// until the user says something.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{text: "ok", wait: make(chan struct{})})
		w.set(newGoal("ship it", 0))
		time.Sleep(2 * time.Second)
		if _, err := w.keeper.Goal(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		w.uses(40, 0, 0)
		killed := w.log() // here the host dies
		w.end()
		time.Sleep(time.Hour)
		state, err := thread.Rebuild(func(yield func(event.Event, error) bool) {
			for _, e := range killed {
				if !yield(e, nil) {
					return
				}
			}
		}, Feature{})
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, 0, &state, reply{in: 1, text: "ok"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.turns(); n != 0 {
			t.Fatalf("%d turns by themselves", n)
		}
		g, err := r.keeper.Goal(t.Context(), "")
		if err != nil || g.Tokens != 40 || g.Seconds != 62 {
			t.Errorf("resumed as %+v, %v; want 40 tokens and 62 s", g, err)
		}
		r.say("go on")
		if n := r.turns(); n < 2 {
			t.Errorf("%d turns after the user's, want more", n)
		}
	})
}

// What the model does with a goal.
func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := func(name, args string) reply { return reply{calls: []llm.ToolCall{call(name, args)}} }
		replies := []reply{
			one("update_goal", `{"status":"complete"}`),
			one("create_goal", `{"objective":" "}`),
			one("create_goal", `{"objective":"x","token_budget":501}`),
			one("create_goal", `{"objective":" ship <it> "}`),
			one("create_goal", `{"objective":"another"}`),
			one("update_goal", `{"status":"active"}`),
			{in: 3, calls: []llm.ToolCall{call("update_goal", `{"status":"complete"}`)}},
			one("create_goal", `{"objective":"another"}`),
			one("update_goal", `{"status":"paused"}`),
			{text: "done"},
		}
		w := open(t, 500, nil, replies...)
		w.say("go")
		var got []string
		last := len(replies) - 1
		w.mu.Lock()
		for _, m := range w.mu.asked[last].Messages {
			for _, p := range m.Parts {
				if r, ok := p.(*llm.ToolResult); ok {
					got = append(got, llm.Message{Parts: r.Content}.Text())
				}
			}
		}
		w.mu.Unlock()
		now := time.Now().Unix()
		goal := func(objective string, s Status, used int64) string {
			return fmt.Sprintf(`{"goal":{"threadId":"thread","objective":%q,"status":%q,"tokenBudget":500,"tokensUsed":%d,"timeUsedSeconds":0,"createdAt":%d,"updatedAt":%[4]d},"remainingTokens":%d,"completionBudgetReport":`, objective, s, used, now, 500-used)
		}
		want := []string{
			"the thread has no goal", "the objective is empty", "exceeds the maximum of 500", goal("ship <it>", Active, 0) + "null}",
			"the thread has a goal that is not complete", "status", goal("ship <it>", Complete, 3) + `"The goal is complete after 0 s and 3 of 500 tokens. Tell the user."}`,
			goal("another", Active, 0) + "null}", goal("another", Paused, 0) + "null}",
		}
		if len(got) != len(want) {
			t.Fatalf("%d results, want %d: %q", len(got), len(want), got)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("call %d returns\n%s, want\n%s", i, got[i], want[i])
			}
		}
		if n := w.turns(); n != 1 {
			t.Errorf("%d turns with a paused goal, want 1", n)
		}
	})
}

// Changes that a user asks for.
func TestChanges(t *testing.T) {
	long := strings.Repeat("ä", maxObjective)
	for _, tc := range []struct {
		name   string
		is     *state
		change Change
		err    string
		kind   kind
	}{
		{"nothing to change", nil, status(Active), "the thread has no goal", ""},
		{"nothing to clear", nil, Change{Clear: true}, "the thread has no goal", ""},
		{"a long objective", nil, newGoal(long, 0), "", created},
		{"one that is too long", nil, newGoal(long+"x", 0), "has 4001 characters", ""},
		{"a bad status", &state{Goal: Goal{ID: "g"}}, status("done"), `invalid status "done"`, ""},
		{"a bad budget", nil, Change{Objective: ptr("x"), Budget: ptr[int64](-1)}, "invalid budget -1", ""},
		{"a large budget", nil, newGoal("x", 1001), "exceeds the maximum of 1000", ""},
		{"an edit", &state{Goal: Goal{ID: "g", Status: Active}}, newGoal("x", 0), "", updated},
		{"after completion", &state{Goal: Goal{ID: "g", Status: Complete}}, newGoal("x", 0), "", created},
		{"clear", &state{Goal: Goal{ID: "g", Status: Complete}}, Change{Clear: true}, "", cleared},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decide(tc.is, tc.change, charge{Base: 7}, 1000)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || got.Kind != tc.kind || got.Kind == created && (*got.Budget != 1000 || got.Charge.Base != 7 || got.Goal == "g") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A turn that fails for another reason blocks the goal.
func TestAFailedTurnBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, 0, nil, reply{err: &llm.Error{Code: llm.ErrAuthentication, Message: "bad key"}})
		w.set(newGoal("ship it", 0))
		if g := w.is("failed", Blocked, 0); g.Reason != "bad key" || w.turns() != 1 {
			t.Errorf("%d turns, reason %q", w.turns(), g.Reason)
		}
		if g := w.set(Change{Clear: true}); g != nil || w.thread.Feature(FeatureID) != nil {
			t.Errorf("cleared, there is %+v", g)
		}
		if _, err := w.keeper.Change(t.Context(), "", Change{Clear: true}); !errors.Is(err, ErrNone) {
			t.Errorf("cleared again: %v", err)
		}
	})
}

// Whatever a log has, a thread can be resumed.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"id":"g","status":"active"}`), []byte(`{"kind":"accounted","goal":"g","charge":{"tokens":1}}`))
	f.Add([]byte(`{`), []byte(`{"kind":"created","goal":"g"}`))
	f.Fuzz(func(t *testing.T, raw, data []byte) {
		s := Feature{}.Apply(raw, event.Event{Body: event.FeatureChanged{Feature: FeatureID, Data: data}})
		s = Feature{}.Apply(s, event.Event{Body: event.TurnEnded{Status: event.TurnFailed}})
		Of(s)
	})
}

// BenchmarkCall measures what a goal adds to a call: the events of the call are folded, and its answer's usage is charged.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{200, maxObjective} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkCall(b, strings.Repeat("x", n)) })
	}
}

func benchmarkCall(b *testing.B, objective string) {
	s := (&state{Goal: Goal{ID: "g", Objective: objective, Status: Active, Budget: 1 << 60}, Calls: true}).encode(nil)
	done := event.Event{Body: event.ItemCompleted{Item: event.Item{Type: event.ItemTool, Tool: "exec_command", Call: "c"}}}
	used := int64(0)
	for b.Loop() {
		s = Feature{}.Apply(s, done)
		used += 100
		now := stateOf(s)
		data, err := json.Marshal(recorded{Kind: accounted, Goal: now.ID, Charge: now.due(used, time.Now(), time.Time{})})
		if err != nil {
			b.Fatal(err)
		}
		s = Feature{}.Apply(s, event.Event{Body: event.FeatureChanged{Feature: FeatureID, Data: data}})
	}
	if g := Of(s); g.Tokens != used {
		b.Fatalf("charged %d of %d", g.Tokens, used)
	}
}
