package review

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world has threads whose models answer from lists: one for the user's thread, one for the reviewer's.
type world struct {
	mu     sync.Mutex
	user   []answers
	review []answers
	asked  map[string][]string // the last message of each request, by whose it was
	opened int
	closed []event.ThreadID
	refuse error // of Open
}

// answers are the parts of one answer, or what is waited for.
type answers struct {
	parts []string
	err   error
	never bool // it comes to an end only with the turn
}

type engine struct {
	w   *world
	who string
}

func (e engine) Turn(context.Context, *thread.Thread, event.TurnID, thread.Submission) (thread.Plan, error) {
	return thread.Plan{Started: event.TurnStarted{Cwd: "/w"}, Config: turn.Config{
		Model: e, Tools: registry.New().Snapshot, Request: llm.Request{Model: "m"}, Limits: turn.Limits{StreamRetries: -1},
	}}, nil
}

func (engine) Check(context.Context, *thread.Thread, thread.Change) error { return nil }
func (engine) End(context.Context, event.ThreadID)                        {}

func (e engine) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		e.w.mu.Lock()
		list := &e.w.user
		if e.who == "review" {
			list = &e.w.review
		}
		var a answers
		if len(*list) > 0 {
			a, *list = (*list)[0], (*list)[1:]
		}
		var all []string
		for _, m := range r.Messages {
			all = append(all, m.Role.String()+": "+m.Text())
		}
		e.w.asked[e.who] = append(e.w.asked[e.who], strings.Join(all, "\n"))
		e.w.mu.Unlock()
		if a.never {
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
			return
		}
		if a.err != nil {
			yield(nil, a.err)
			return
		}
		n := int64(5)
		u := llm.Usage{Input: &n, Output: &n}
		evs := []llm.Event{llm.StepStart{}, llm.BlockStart{Kind: llm.BlockReasoning, ID: "r"}, llm.BlockDelta{Kind: llm.BlockReasoning, ID: "r", Text: "hm"}, llm.BlockEnd{Kind: llm.BlockReasoning, ID: "r"}}
		for i, p := range a.parts {
			id := string(rune('a' + i))
			evs = append(evs, llm.BlockStart{Kind: llm.BlockText, ID: id}, llm.BlockDelta{Kind: llm.BlockText, ID: id, Text: p}, llm.BlockEnd{Kind: llm.BlockText, ID: id})
		}
		for _, ev := range append(evs, llm.StepFinish{Reason: llm.FinishStop, Usage: u}, llm.Finish{Reason: llm.FinishStop, Usage: u}) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

type nowhere struct{}

func (nowhere) Append(context.Context, ...event.Event) error          { return nil }
func (nowhere) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

// start runs a thread until the returned function is called.
func (w *world) start(ctx context.Context, who string, m *usage.Meter) (*thread.Thread, func()) {
	th := thread.New(thread.Config{
		ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/w"}, Sink: nowhere{}, Engine: engine{w, who}, Meter: m, Logger: hclog.NewNullLogger(),
	})
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // owned by the test: the returned function waits
		defer close(done)
		_ = th.Run(ctx)
	}()
	return th, func() { cancel(orchestrate.ErrShutdown); <-done }
}

func (w *world) reviewer() *Reviewer {
	open := func(ctx context.Context, parent *thread.Thread, _ child.Spec) (*thread.Thread, func(), error) {
		if w.refuse != nil {
			return nil, nil, w.refuse
		}
		w.opened++
		th, end := w.start(ctx, "review", parent.Meter())
		return th, func() {
			end()
			w.closed = append(w.closed, th.ID())
		}, nil
	}
	return New(Config{
		Open: func(ctx context.Context, parent *thread.Thread, follow func(context.Context, event.Body)) (*child.Child, error) {
			return child.Open(ctx, open, parent, child.Spec{Name: "the reviewer", Follow: follow})
		},
		Git: looks(true), Logger: hclog.NewNullLogger(),
	})
}

// played runs a review in a thread that has had one turn, and a turn after it. meanwhile is called when the reviewer works.
func (w *world) played(t *testing.T, meanwhile func(*thread.Thread)) (events []event.Event, end event.TurnEnded) {
	t.Helper()
	w.asked = map[string][]string{}
	w.user = []answers{{parts: []string{"hello"}}, {parts: []string{"will do"}}}
	th, stop := w.start(t.Context(), "user", nil)
	defer stop()
	sub, err := th.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	follow := func(id event.TurnID) (evs []event.Event) {
		for {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.Turn != id {
				continue
			}
			evs = append(evs, e)
			if _, ok := e.Body.(event.TurnEnded); ok {
				return evs
			}
		}
	}
	say := func(s string) []event.Event {
		a, err := th.Submit(t.Context(), thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: s}}}})
		if err != nil {
			t.Fatal(err)
		}
		return follow(a.Turn)
	}
	say("hi")
	task, err := w.reviewer().Task(t.Context(), "/w", Target{Kind: Custom, Instructions: "look at it"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := th.Submit(t.Context(), thread.Submission{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if meanwhile != nil {
		synctest.Wait()
		meanwhile(th)
	}
	events = follow(a.Turn)
	say("repair it")
	return events, events[len(events)-1].Body.(event.TurnEnded)
}

// texts shows items and messages, in order.
func texts(evs []event.Event) string {
	var out []string
	for _, e := range evs {
		switch b := e.Body.(type) {
		case event.ItemCompleted:
			out = append(out, string(b.Item.Type)+" "+string(b.Item.Status)+": "+b.Item.Text)
		case event.HistoryAdded:
			for _, m := range b.Messages {
				out = append(out, "history "+m.Role.String())
			}
		case event.Notice:
			out = append(out, "notice "+b.Text)
		}
	}
	return strings.Join(out, "\n")
}

func TestReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{review: []answers{{parts: []string{"I look around.", "I have looked.", "noise " + found + " tail"}}}}
		events, end := w.played(t, nil)
		rendered := Render(Parse(found))
		if end.Status != event.TurnCompleted || end.LastMessage != rendered {
			t.Errorf("end %+v", end)
		}
		// Each message of the reviewer is shown when the next one comes; the last one in another form.
		want := strings.Join([]string{
			"entered_review_mode completed: look at it", "reasoning completed: hm", "agent_message completed: I look around.",
			"agent_message completed: I have looked.", "history user", "exited_review_mode completed: look at it",
			"agent_message completed: " + rendered, "history assistant",
		}, "\n")
		if got := texts(events); got != want {
			t.Errorf("the user sees:\n%s\nwant:\n%s", got, want)
		}
		for _, e := range events {
			switch b := e.Body.(type) {
			case event.ItemDelta:
				if b.Delta == event.DeltaText {
					t.Errorf("a message of the reviewer streams: %q", b.Text)
				}
			case event.ItemCompleted:
				if b.Item.Type == event.ItemExitedReview && (b.Item.Review == nil || len(b.Item.Review.Findings) != 2 || !strings.Contains(b.Item.Output, "2 findings:")) {
					t.Errorf("result %+v, as text %q", b.Item.Review, b.Item.Output)
				}
			}
		}
		// What it cost is the thread's.
		if end.TurnUsage.Total != 10 || end.Usage.Total != 20 {
			t.Errorf("used %+v in the turn, %+v in all", end.TurnUsage, end.Usage)
		}
		if got := w.asked["review"]; len(got) != 1 || got[0] != "user: look at it" {
			t.Errorf("the reviewer was asked %q", got)
		}
		next := w.asked["user"][1]
		if !strings.HasPrefix(next, "user: hi\nassistant: \nassistant: hello\nuser: <review_result>\n") && !strings.Contains(next, "\nuser: <review_result>\n") ||
			!strings.HasSuffix(next, "</review_result>\nassistant: "+rendered+"\nuser: repair it") {
			t.Errorf("the next turn knows:\n%s", next)
		}
		if w.opened != 1 || len(w.closed) != 1 {
			t.Errorf("%d threads of reviewers opened, %d closed", w.opened, len(w.closed))
		}
	})
}

// However a review ends without a result, the user and the conversation learn of it, and the reviewer's thread is closed.
func TestReviewWithoutAResult(t *testing.T) {
	for name, tc := range map[string]struct {
		review     []answers
		refuse     error
		interrupt  bool
		status     event.TurnStatus
		code, says string
		closed     int
	}{
		"stopped": {[]answers{{never: true}}, nil, true, event.TurnInterrupted, "", "The review was stopped", 1},
		"the model refuses": {[]answers{{err: &llm.Error{Code: llm.ErrQuotaExceeded, Message: "no money", Next: "pay"}}}, nil, false,
			event.TurnFailed, "quota-exceeded", "The review failed: no money", 1},
		"an empty answer": {[]answers{{parts: nil}}, nil, false, event.TurnFailed, "empty-answer", "neither text nor a call", 1},
		"no reviewer":     {nil, errors.New("no such model"), false, event.TurnFailed, "internal", "no such model", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{review: tc.review, refuse: tc.refuse}
				events, end := w.played(t, func(th *thread.Thread) {
					if tc.interrupt {
						if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
							t.Error(err)
						}
					}
				})
				if end.Status != tc.status || (end.Error == nil) != (tc.code == "") || end.Error != nil && end.Error.Code != tc.code {
					t.Errorf("end %+v, %+v", end, end.Error)
				}
				got := texts(events)
				for _, want := range []string{"entered_review_mode completed", "history user", "exited_review_mode aborted", tc.says, "history assistant"} {
					if !strings.Contains(got, want) {
						t.Errorf("%q is not in:\n%s", want, got)
					}
				}
				if next := w.asked["user"][1]; !strings.Contains(next, "<review_result>") || !strings.Contains(next, "There is no result") && !strings.Contains(next, "there is no result") {
					t.Errorf("the next turn knows:\n%s", next)
				}
				if len(w.closed) != tc.closed {
					t.Errorf("%d threads closed", len(w.closed))
				}
			})
		})
	}
}
