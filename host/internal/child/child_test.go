package child_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is one answer of the child's model.
type step struct {
	text   string
	tokens int64
	err    error
	takes  time.Duration
	hangs  bool // until the turn ends
	again  bool // the turn continues with another request
}

// world is a fake opener. It starts real threads, whose model answers from a list of steps.
type world struct {
	mu       sync.Mutex
	steps    []step
	requests []llm.Request
	followed []event.Body
	threads  []*thread.Thread
	ended    int
	refuse   error
	ending   func() // called while a thread is being ended
}

func (w *world) open(ctx context.Context, parent *thread.Thread, s child.Spec) (*thread.Thread, func(), error) {
	if w.refuse != nil {
		return nil, nil, w.refuse
	}
	t := thread.New(thread.Config{
		ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/w", Source: s.Source, Parent: "parent"},
		Sink: sink{}, Engine: w, Logger: hclog.NewNullLogger(),
	})
	w.threads = append(w.threads, t)
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { // owned by the returned function, which waits
		defer close(done)
		_ = t.Run(life)
	}()
	return t, func() {
		if w.ending != nil {
			w.ending()
		}
		cancel(orchestrate.ErrShutdown)
		<-done
		w.ended++
	}, nil
}

func (w *world) Turn(_ context.Context, _ *thread.Thread, _ event.TurnID, in thread.Submission) (thread.Plan, error) {
	return thread.Plan{Started: event.TurnStarted{Cwd: "/w"}, Config: turn.Config{
		Model: w, Tools: registry.New().Snapshot, Request: llm.Request{Model: "m", OutputSchema: in.OutputSchema}, Limits: turn.Limits{StreamRetries: -1},
	}}, nil
}

func (*world) Check(context.Context, *thread.Thread, thread.Change) error { return nil }
func (*world) End(context.Context, event.ThreadID)                        {}

func (w *world) Stream(ctx context.Context, r *llm.Request, _ event.TurnID, _ int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		w.mu.Lock()
		w.requests = append(w.requests, *r)
		s := w.steps[0]
		w.steps = w.steps[1:]
		w.mu.Unlock()
		if s.hangs {
			<-ctx.Done()
		} else if s.takes > 0 {
			select {
			case <-time.After(s.takes):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		if s.err != nil {
			yield(nil, s.err)
			return
		}
		zero := int64(0)
		u := llm.Usage{Input: &s.tokens, Output: &zero}
		evs := []llm.Event{llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "a"}, llm.BlockDelta{Kind: llm.BlockText, ID: "a", Text: s.text}, llm.BlockEnd{Kind: llm.BlockText, ID: "a"}}
		for _, ev := range append(evs, llm.StepFinish{Reason: llm.FinishStop, Usage: u, Again: s.again}, llm.Finish{Reason: llm.FinishStop, Usage: u}) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

type sink struct{}

func (sink) Append(context.Context, ...event.Event) error          { return nil }
func (sink) Barrier(context.Context, event.ThreadID, uint64) error { return nil }

func (w *world) child(t *testing.T, b child.Bounds, steps ...step) *child.Child {
	t.Helper()
	w.steps = steps
	c, err := child.Open(t.Context(), w.open, nil, child.Spec{
		Name: "the reviewer", Source: "test", Bounds: b,
		Follow: func(_ context.Context, b event.Body) { w.followed = append(w.followed, b) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ends returns the statuses of the turns that were followed to their end.
func (w *world) ends() (out []event.TurnStatus) {
	for _, b := range w.followed {
		if b, ok := b.(event.TurnEnded); ok {
			out = append(out, b.Status)
		}
	}
	return out
}

func ask(t *testing.T, c *child.Child, text, want string) {
	t.Helper()
	if got, err := c.Ask(t.Context(), child.Question{Text: text}); err != nil || got != want {
		t.Errorf("Ask(%q) = %q, %v; want %q", text, got, err, want)
	}
}

// refused checks that a question fails because of a bound, and that the model is not asked.
func (w *world) refused(t *testing.T, c *child.Child, bound child.Bound, limit string) {
	t.Helper()
	before := len(w.requests)
	_, err := c.Ask(t.Context(), child.Question{Text: "one more"})
	if b, ok := errors.AsType[*child.BoundError](err); !ok || b.Bound != bound || b.Limit != limit {
		t.Errorf("one more question: %v, want the bound on %s", err, bound)
	}
	if len(w.requests) != before {
		t.Error("the model was asked")
	}
}

func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{}, step{text: "first", tokens: 10}, step{text: `{"n":2}`, tokens: 20})
		ask(t, c, "one", "first")
		if got, err := c.Ask(t.Context(), child.Question{Text: "two", Schema: []byte(`{"type":"object"}`)}); err != nil || got != `{"n":2}` {
			t.Errorf("second answer %q, %v", got, err)
		}
		c.Close()
		// The second question continues the conversation, and only it has a schema.
		if n := len(w.requests[1].Messages); n != 3 || string(w.requests[1].OutputSchema) != `{"type":"object"}` || w.requests[0].OutputSchema != nil {
			t.Errorf("the second request has %d messages and the schema %s, the first one %s", n, w.requests[1].OutputSchema, w.requests[0].OutputSchema)
		}
		if !slices.Equal(w.ends(), []event.TurnStatus{event.TurnCompleted, event.TurnCompleted}) {
			t.Errorf("turns ended %v", w.ends())
		}
		used := 0
		for _, b := range w.followed {
			if b, ok := b.(event.UsageReported); ok {
				used++
				if b.Active != 0 || b.ContextWindow == 0 && b.Usage.Input == nil {
					t.Errorf("usage %+v", b)
				}
			}
		}
		if _, ok := w.followed[0].(event.ThreadStarted); !ok || used != 2 {
			t.Errorf("followed %T first, and usage %d times", w.followed[0], used)
		}
		if c.ID() != w.threads[0].ID() || w.ended != 1 {
			t.Errorf("child %s of thread %s, ended %d times", c.ID(), w.threads[0].ID(), w.ended)
		}
	})
}

func TestOpenFails(t *testing.T) {
	refuse := errors.New("no room")
	w := &world{refuse: refuse}
	if c, err := child.Open(t.Context(), w.open, nil, child.Spec{Name: "x"}); c != nil || !errors.Is(err, refuse) {
		t.Errorf("Open = %v, %v", c, err)
	}
}

// However a question is interrupted, its turn has ended when Ask returns, and the child can be asked again.
func TestInterrupted(t *testing.T) {
	cause := errors.New("changed my mind")
	for name, interrupt := range map[string]func(c *child.Child, cancel context.CancelCauseFunc) error{
		"the caller's context ends": func(_ *child.Child, cancel context.CancelCauseFunc) error { cancel(cause); return nil },
		"Interrupt":                 func(c *child.Child, _ context.CancelCauseFunc) error { return c.Interrupt(cause) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				c := w.child(t, child.Bounds{}, step{hangs: true}, step{text: "better now"})
				defer c.Close()
				if err := c.Interrupt(cause); !errors.Is(err, thread.ErrIdle) {
					t.Errorf("interrupt without a question: %v", err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := c.Ask(ctx, child.Question{Text: "hm?"}); !errors.Is(err, cause) {
						t.Errorf("Ask: %v", err)
					}
				})
				synctest.Wait()
				if err := interrupt(c, cancel); err != nil {
					t.Error(err)
				}
				wg.Wait()
				if !slices.Equal(w.ends(), []event.TurnStatus{event.TurnInterrupted}) {
					t.Errorf("turns ended %v", w.ends())
				}
				ask(t, c, "again", "better now")
			})
		})
	}
}

// A context that has ended already starts no turn.
func TestAskTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{}, step{text: "hello"})
		defer c.Close()
		cause := errors.New("too late")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := c.Ask(ctx, child.Question{Text: "hm?"}); !errors.Is(err, cause) || len(w.requests) != 0 {
			t.Errorf("Ask: %v after %d requests", err, len(w.requests))
		}
		ask(t, c, "again", "hello")
	})
}

func TestCloseDuringATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{}, step{hangs: true})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Ask(t.Context(), child.Question{Text: "hm?"}); !errors.Is(err, thread.ErrClosed) {
				t.Errorf("Ask: %v", err)
			}
		})
		synctest.Wait()
		w.ending = func() { // no question is admitted while the thread ends
			if _, err := c.Ask(t.Context(), child.Question{Text: "hm?"}); !errors.Is(err, thread.ErrClosed) || len(w.requests) != 1 {
				t.Errorf("Ask during Close: %v after %d requests", err, len(w.requests))
			}
		}
		wg.Go(c.Close)
		c.Close()
		wg.Wait()
		if w.ended != 1 {
			t.Errorf("ended %d times", w.ended)
		}
		if _, err := c.Ask(t.Context(), child.Question{Text: "hm?"}); !errors.Is(err, thread.ErrClosed) {
			t.Errorf("Ask after Close: %v", err)
		}
	})
}

func TestOneQuestionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{}, step{text: "done", takes: time.Second})
		defer c.Close()
		var wg sync.WaitGroup
		wg.Go(func() { ask(t, c, "one", "done") })
		synctest.Wait()
		if _, err := c.Ask(t.Context(), child.Question{Text: "two"}); !errors.Is(err, child.ErrBusy) {
			t.Errorf("a second question: %v", err)
		}
		wg.Wait()
	})
}

func TestBoundOnTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{Turns: 2}, step{text: "a"}, step{text: "b"})
		defer c.Close()
		ask(t, c, "one", "a")
		ask(t, c, "two", "b")
		w.refused(t, c, child.BoundTurns, "2")
	})
}

// Reaching the bound interrupts a turn that would continue; an answer that is complete is not lost.
func TestBoundOnTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{Tokens: 100}, step{text: "a", tokens: 40}, step{text: "b", tokens: 70})
		defer c.Close()
		ask(t, c, "one", "a")
		ask(t, c, "two", "b")
		w.refused(t, c, child.BoundTokens, "100")
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{Tokens: 100}, step{again: true, tokens: 100}, step{hangs: true})
		defer c.Close()
		_, err := c.Ask(t.Context(), child.Question{Text: "one"})
		if b, ok := errors.AsType[*child.BoundError](err); !ok || b.Bound != child.BoundTokens {
			t.Errorf("Ask: %v", err)
		}
		if !slices.Equal(w.ends(), []event.TurnStatus{event.TurnInterrupted}) {
			t.Errorf("turns ended %v", w.ends())
		}
	})
}

// Time is that of all turns, without what passes between them.
func TestBoundOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{Time: 10 * time.Second}, step{text: "a", takes: 6 * time.Second}, step{hangs: true})
		defer c.Close()
		ask(t, c, "one", "a")
		<-time.After(time.Minute) // in the bubble
		began := time.Now()
		_, err := c.Ask(t.Context(), child.Question{Text: "two"})
		if b, ok := errors.AsType[*child.BoundError](err); !ok || b.Bound != child.BoundTime || time.Since(began) != 4*time.Second {
			t.Errorf("Ask: %v after %v", err, time.Since(began))
		}
		w.refused(t, c, child.BoundTime, "10s")
	})
}

func TestTurnsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		c := w.child(t, child.Bounds{}, step{err: &llm.Error{Code: llm.ErrQuotaExceeded, Message: "no money", Next: "pay"}}, step{hangs: true})
		defer c.Close()
		_, err := c.Ask(t.Context(), child.Question{Text: "one"})
		if e, ok := errors.AsType[*child.TurnError](err); !ok || e.Problem.Code != "quota-exceeded" || !strings.Contains(e.Problem.Next, "pay") {
			t.Errorf("Ask: %v", err)
		}
		// Another client of the thread interrupts it.
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err = c.Ask(t.Context(), child.Question{Text: "two"})
			if e, ok := errors.AsType[*child.StoppedError](err); !ok || !strings.HasPrefix(e.Error(), "the reviewer was stopped: ") || e.Reason == "" {
				t.Errorf("Ask: %v", err)
			}
		})
		synctest.Wait()
		if err := w.threads[0].Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}
