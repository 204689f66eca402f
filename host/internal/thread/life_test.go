package thread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"
)

// life is one random life of a thread: what doors do and how models and tools behave, drawn before it begins.
type life struct {
	answers []lifeAnswer // by request; beyond the last: a text
	actions []lifeAction
}

type lifeAnswer struct {
	calls []string // names of tools
	open  bool     // the text does not end before the stream
	end   string   // "whole", "cut", "final", "panic", "silent"
}

type lifeAction struct {
	do    string // "submit", "shaped", "interrupt", "plan fails"
	pause time.Duration
}

var lifeTools = []contract.Descriptor{
	{Name: "quick", ParallelSafe: true}, {Name: "slow", ParallelSafe: true}, {Name: "alone"}, {Name: "reads", ReadOnly: true, ParallelSafe: true},
	{Name: "crashes"}, {Name: "panics"}, {Name: "deaf"}, {Name: "nests"}, {Name: "asks", Effects: []contract.Effect{contract.OtherEffect{Label: "x"}}},
	{Name: "nope"}, // not there
}

func drawLife(t *rapid.T) life {
	names := make([]string, 0, len(lifeTools))
	for _, d := range lifeTools {
		names = append(names, d.Name)
	}
	return life{
		answers: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lifeAnswer {
			return lifeAnswer{
				calls: rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "calls"),
				open:  rapid.Bool().Draw(t, "open"),
				end:   rapid.SampledFrom([]string{"whole", "whole", "whole", "cut", "final", "panic", "silent"}).Draw(t, "end"),
			}
		}), 0, 12).Draw(t, "answers"),
		actions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lifeAction {
			return lifeAction{
				do:    rapid.SampledFrom([]string{"submit", "submit", "submit", "shaped", "interrupt", "plan fails"}).Draw(t, "do"),
				pause: rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second}).Draw(t, "pause"),
			}
		}), 1, 12).Draw(t, "actions"),
	}
}

// lifeEngine plays a life: a scripted model, and tools that are functions behind the real pipeline.
type lifeEngine struct {
	life   life
	tools  *registry.Registry
	tokens *orchestrate.Tokens

	mu       sync.Mutex
	requests int
	calls    int
	refuse   bool // the next plan
}

func (e *lifeEngine) End(context.Context, event.ThreadID) {}

func (e *lifeEngine) Check(context.Context, *Thread, Change) error { return nil }

func (e *lifeEngine) Turn(_ context.Context, t *Thread, id event.TurnID, _ Submission) (Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse {
		e.refuse = false
		return Plan{Notices: []event.Notice{{Text: "no provider"}}}, errors.New("no provider")
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Approver: t.Approvals(), Granter: lifeGrants{}, Journal: t, Retry: orchestrate.NoRetry, Processes: lifeGrants{},
		Policy: func(r policy.Request) policy.Decision {
			if len(r.Effects) > 0 {
				return policy.Decision{Verdict: policy.Ask}
			}
			return policy.Decision{Verdict: policy.Run}
		},
		Backends: func(string) (orchestrate.ToolBackend, bool) { return lifeFamily{e}, true },
	}, e.tokens, hclog.NewNullLogger())
	return Plan{Started: event.TurnStarted{Cwd: "/"}, Config: turn.Config{
		Model: e, Calls: pipeline, Tools: e.tools.Snapshot, Request: llm.Request{Model: "m"},
		Settings: orchestrate.Settings{Thread: t.ID(), Turn: id, Output: history.Policy{Limit: 100}},
	}}, nil
}

func (e *lifeEngine) Stream(ctx context.Context, _ *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		e.mu.Lock()
		a := lifeAnswer{end: "whole"}
		if e.requests < len(e.life.answers) {
			a = e.life.answers[e.requests]
		}
		e.requests++
		evs := []llm.Event{llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "hm"}}
		if !a.open || a.end == "whole" {
			evs = append(evs, llm.BlockEnd{Kind: llm.BlockText, ID: "1"})
		}
		for _, name := range a.calls {
			e.calls++
			evs = append(evs, llm.ToolCallDone{Call: llm.ToolCall{ID: fmt.Sprint("c", e.calls), Name: name, Input: "{}"}})
		}
		e.mu.Unlock()
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
		switch a.end {
		case "whole":
			_ = yield(llm.StepFinish{}, nil) && yield(llm.Finish{}, nil)
		case "cut":
			yield(nil, &llm.Error{Code: llm.ErrIncompleteStream, Retryable: true})
		case "final":
			yield(nil, &llm.Error{Code: llm.ErrQuotaExceeded})
		case "panic":
			panic("broken invariant of a model")
		case "silent":
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		}
	}
}

type lifeGrants struct{}

func (lifeGrants) Grant(context.Context, orchestrate.GrantRequest) (launch.Grant, error) {
	return launch.Grant{}, nil
}
func (lifeGrants) Writable(orchestrate.GrantRequest, string) bool { return true }
func (lifeGrants) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) {
	return p, nil
}

func (lifeGrants) EndCall(context.Context, launch.Owner) error { return nil }

type lifeFamily struct{ e *lifeEngine }

func (lifeFamily) Assess(context.Context, contract.AssessRequest) (*contract.Assessment, error) {
	return &contract.Assessment{}, nil
}

func (f lifeFamily) Call(ctx context.Context, s contract.CallStart, ctl tool.Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	sink(contract.Output{Data: []byte("out")})
	switch s.Tool {
	case "slow", "alone", "reads":
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctl.Soft.Done():
			return &contract.Result{Aborted: true}, nil
		}
	case "crashes":
		return nil, errors.New("the plugin is gone")
	case "panics":
		panic("broken invariant of a family")
	case "deaf":
		select {
		case <-time.After(time.Second):
		case <-ctl.Soft.Done():
			time.Sleep(ctl.Grace) // in the bubble
			return nil, tool.ErrGrace
		}
	case "nests":
		l, _ := f.e.tokens.Lookup("p", s.CallToken)
		joined, done, err := l.Join(ctx)
		if err != nil {
			return nil, err
		}
		go func() { // owned by the call: Join makes it wait
			defer done()
			_, _ = l.CallTool(joined, "", "slow", contract.Input{Arguments: []byte("{}")})
		}()
		if s.CallID[len(s.CallID)-1]%2 == 0 {
			time.Sleep(300 * time.Millisecond) // in the bubble; else it does not wait for what it began
		}
	}
	return contract.Text("ok"), nil
}

// live plays the life and returns the log, what was accepted, and the messages that the thread had at its end.
func (l life) live(t *testing.T) (log []event.Event, accepted []string, final []llm.Message) {
	sink := &memory{}
	synctest.Test(t, func(t *testing.T) {
		e := &lifeEngine{life: l, tools: registry.New(), tokens: orchestrate.NewTokens()}
		set := contract.ToolSet{}
		for _, d := range lifeTools[:len(lifeTools)-1] {
			d.InputSchema = []byte(`{"type":"object"}`)
			set.Tools = append(set.Tools, d)
		}
		if problems := e.tools.Set("p", set); len(problems) > 0 {
			t.Fatal(problems)
		}
		th := New(Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}, Sink: sink, Engine: e, Logger: hclog.NewNullLogger()})
		ctx, stop := context.WithCancelCause(t.Context())
		var work, doors sync.WaitGroup
		work.Go(func() { _ = th.Run(ctx) })
		defer th.Approvals().Attend()()
		// A person answers every other question after a while.
		answers, err := th.Subscribe(t.Context(), Coalesce)
		if err != nil {
			t.Fatal(err)
		}
		work.Go(func() {
			for n := 0; ; n++ {
				ev, err := answers.Next(t.Context())
				if err != nil {
					return
				}
				if q, ok := ev.Body.(event.QuestionAsked); ok && n%2 == 0 {
					time.Sleep(100 * time.Millisecond) // in the bubble
					_ = th.Approvals().Resolve(q.ID, approvalAnswer(n))
				}
			}
		})
		synctest.Wait() // the thread has its first event
		var mu sync.Mutex
		for i, a := range l.actions {
			time.Sleep(a.pause) // in the bubble
			text := fmt.Sprint("input ", i)
			switch a.do {
			case "plan fails":
				e.mu.Lock()
				e.refuse = true
				e.mu.Unlock()
			case "interrupt":
				if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil && !errors.Is(err, ErrIdle) {
					t.Error(err)
				}
			default:
				s := input(text)
				if a.do == "shaped" {
					s.OutputSchema = []byte("{}")
				}
				doors.Go(func() { // some wait for the running turn, which may wait for a person
					if _, err := th.Submit(t.Context(), s); err == nil {
						mu.Lock()
						accepted = append(accepted, text)
						mu.Unlock()
					}
				})
			}
		}
		stop(orchestrate.ErrShutdown)
		work.Wait()
		doors.Wait()
		final = th.history.Messages()
	})
	return sink.all(), accepted, final
}

// lawful checks a log against what must hold of every log of a thread that has ended or was repaired.
func lawful(log []event.Event) error {
	var running event.TurnID
	items, calls, questions := map[event.ItemID]bool{}, map[event.CallID]bool{}, map[string]bool{}
	pending, asked := []string{}, map[string]bool{}
	for i, e := range log {
		if e.Seq != uint64(i+1) {
			return fmt.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if e.Turn != "" && e.Turn != running && e.Body.Kind() != (event.TurnStarted{}).Kind() {
			return fmt.Errorf("event %d (%s) is of turn %q while %q runs", e.Seq, e.Body.Kind(), e.Turn, running)
		}
		switch b := e.Body.(type) {
		case event.TurnStarted:
			if running != "" {
				return fmt.Errorf("event %d: a turn begins in another", e.Seq)
			}
			running = e.Turn
		case event.TurnEnded:
			if len(items)+len(calls)+len(questions)+len(pending) > 0 {
				return fmt.Errorf("event %d: the turn ends with items %v, calls %v, questions %v and outputs %v open", e.Seq, items, calls, questions, pending)
			}
			running = ""
		case event.ItemStarted:
			items[b.Item.ID] = true
		case event.ItemCompleted:
			delete(items, b.Item.ID)
		case event.CallStarted:
			calls[b.Call] = true
		case event.CallEnded:
			if !calls[b.Call] {
				return fmt.Errorf("event %d: call %s ends and was not started", e.Seq, b.Call)
			}
			delete(calls, b.Call)
		case event.QuestionAsked:
			questions[b.ID] = true
		case event.QuestionResolved:
			delete(questions, b.ID)
		case event.HistoryAdded:
			for _, m := range b.Messages {
				for _, p := range m.Parts {
					switch p := p.(type) {
					case *llm.ToolCall:
						if asked[p.ID] {
							return fmt.Errorf("event %d: call %s is recorded twice", e.Seq, p.ID)
						}
						asked[p.ID] = true
						pending = append(pending, p.ID)
					case *llm.ToolResult:
						if len(pending) == 0 || pending[0] != p.ID {
							return fmt.Errorf("event %d: the output of %s comes where those of %v are due", e.Seq, p.ID, pending)
						}
						pending = pending[1:]
					}
				}
			}
		}
	}
	if running != "" {
		return fmt.Errorf("turn %s never ends", running)
	}
	return nil
}

// Whatever doors, models and tools do, and wherever the host dies: each call has one output, each accepted input is in
// the history once, numbers have no gaps, and everything that a turn began ends in it.
func TestLifeOfAThread(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := drawLife(rt)
		log, accepted, final := l.live(t)
		if err := lawful(log); err != nil {
			rt.Fatal(err)
		}
		s, err := Rebuild(seq(log))
		if err != nil {
			rt.Fatal(err)
		}
		if got, want := render(s.Messages), render(final); got != want {
			rt.Fatalf("the log says:\n%s\nthe thread had:\n%s", got, want)
		}
		texts := said(s.Messages)
		for i := range l.actions {
			text := fmt.Sprint("input ", i)
			want := 0
			if slices.Contains(accepted, text) {
				want = 1
			}
			if texts[text] != want {
				rt.Fatalf("%q is in the history %d times, want %d", text, texts[text], want)
			}
		}
		// The host dies after some event, and perhaps again in the middle of the repair.
		cut := log[:rapid.IntRange(1, len(log)).Draw(rt, "dies after")]
		for range 2 {
			repaired, err := repairLog(cut)
			if err != nil {
				rt.Fatal(err)
			}
			if err := lawful(repaired); err != nil {
				rt.Fatalf("repaired after %d events: %v", len(cut), err)
			}
			if s, err := Rebuild(seq(repaired)); err != nil || strings.Contains(render(s.Messages), "its output was lost") {
				rt.Fatalf("repaired after %d events, %v: an output is lost of a call that had ended:\n%s", len(cut), err, render(s.Messages))
			}
			if again, err := repairLog(repaired); err != nil || len(again) != len(repaired) {
				rt.Fatalf("a repaired log is repaired again: %d and %d events, %v", len(repaired), len(again), err)
			}
			cut = repaired[:rapid.IntRange(len(cut), len(repaired)).Draw(rt, "dies again after")]
		}
	})
}

func repairLog(log []event.Event) ([]event.Event, error) {
	s, err := Rebuild(seq(log))
	if err != nil {
		return nil, err
	}
	out := slices.Clone(log)
	for _, b := range s.repair(history.New(s.Messages), hostStopped) {
		out = append(out, event.Event{Seq: uint64(len(out) + 1), Turn: s.OpenTurn, Body: b})
	}
	return out, nil
}

func render(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				out = append(out, "call "+p.ID+" "+p.Name)
			case *llm.ToolResult:
				out = append(out, "output "+p.ID+" "+llm.Message{Parts: p.Content}.Text())
			case *llm.Text:
				out = append(out, m.Role.String()+" "+p.Text)
			}
		}
	}
	return strings.Join(out, "\n")
}

func approvalAnswer(n int) approval.Answer {
	return approval.Answer{Choice: []string{approval.Approve, approval.Deny, approval.Abort}[n/2%3], By: "user"}
}
