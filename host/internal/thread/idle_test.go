package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"
)

// starter is a feature that begins turns as a function decides. Its state is the number of turns that have ended.
type starter struct {
	id     string
	decide func(ended string) ([]llm.Message, error)
}

func (s starter) ID() string { return s.id }

func (s starter) Apply(state json.RawMessage, e event.Event) json.RawMessage {
	if _, ok := e.Body.(event.TurnEnded); !ok {
		return state
	}
	n := 0
	if state != nil {
		if err := json.Unmarshal(state, &n); err != nil {
			panic(err)
		}
	}
	return json.RawMessage(fmt.Sprint(n + 1))
}

func (s starter) NextTurn(state json.RawMessage) ([]llm.Message, error) {
	return s.decide(string(state))
}

var goOn = []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "go on"}}}}

// bounded wants a turn whenever it is asked, a few times: a thread that asks it without end fails its test.
func bounded(asks *int) func(string) ([]llm.Message, error) {
	return func(string) ([]llm.Message, error) {
		if *asks++; *asks > 5 {
			return nil, nil
		}
		return goOn, nil
	}
}

// idleThread runs a thread with features; the model answers with what it was asked.
func idleThread(t *testing.T, e *engine, sink Sink, fs ...Feature) (th *Thread, stop func()) {
	t.Helper()
	th = New(Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}, Sink: sink, Engine: e, Features: fs, Logger: hclog.NewNullLogger()})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { // owned by the test: stop waits
		defer close(done)
		_ = th.Run(ctx)
	}()
	return th, func() { cancel(orchestrate.ErrShutdown); <-done }
}

func submitOrFail(t *testing.T, th *Thread, s Submission) {
	t.Helper()
	if _, err := th.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func notesOf(evs []event.Event) (out []string) {
	for _, e := range evs {
		if n, ok := e.Body.(event.Notice); ok {
			out = append(out, n.Text)
		}
	}
	return out
}

// Features are asked in order when a turn has completed, until one begins a turn; each turn asks them again, with their state as of
// its end. An error and a panic are reported, and do not keep the next feature from being asked.
func TestFeatureBeginsTurnWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen, asks []string
		sink := &memory{}
		th, stop := idleThread(t, parrot(&seen, atOnce), sink,
			starter{"broken", func(string) ([]llm.Message, error) { asks = append(asks, "broken"); return nil, errors.New("no plan") }},
			starter{"panics", func(ended string) ([]llm.Message, error) {
				if ended == "1" {
					panic("oops")
				}
				return nil, nil
			}},
			starter{"goal", func(ended string) ([]llm.Message, error) {
				asks = append(asks, "goal "+ended)
				if ended < "3" {
					return goOn, nil
				}
				return nil, nil
			}},
			starter{"last", func(string) ([]llm.Message, error) { asks = append(asks, "last"); return nil, nil }},
		)
		defer stop()
		synctest.Wait()
		if len(asks) > 0 {
			t.Errorf("asked %q before the first turn", asks)
		}
		submitOrFail(t, th, input("go"))
		synctest.Wait()
		if want := []string{"go", "go|A1|go on", "go|A1|go on|A2|go on"}; !slices.Equal(seen, want) {
			t.Errorf("asked %q, want %q", seen, want)
		}
		if want := []string{"broken", "goal 1", "broken", "goal 2", "broken", "goal 3", "last"}; !slices.Equal(asks, want) {
			t.Errorf("features asked: %q, want %q", asks, want)
		}
		got := notesOf(sink.all())
		slices.Sort(got)
		no := `feature "broken" could not decide on the next turn: no plan`
		if want := []string{no, no, no, `feature "panics" could not decide on the next turn: internal error: oops`}; !slices.Equal(got, want) {
			t.Errorf("notices %q, want %q", got, want)
		}
		if s := starts(sink.all()); len(s) != 3 || s[1].ByMail {
			t.Errorf("turns %+v", s)
		}
	})
}

// What the user submits and mail that asks for a turn come before what a feature wants.
func TestFeatureComesLast(t *testing.T) {
	for name, want := range map[string][]string{
		"submission": {"one", "one|A1|two", "one|A1|two|A2|go on"},
		"mail":       {"one", "one|A1|mail late", "one|A1|mail late|A2|go on"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen, asks []string
			var th *Thread
			said, open := make(chan struct{}), make(chan struct{})
			e := &engine{}
			e.stream = func(_ context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
				seen = append(seen, asked(r))
				say(fmt.Sprint("A", n), func(ev llm.Event, err error) bool {
					if _, ends := ev.(llm.StepFinish); ends && n == 1 {
						close(said)
						<-open
					}
					return yield(ev, err)
				})
			}
			th, stop := idleThread(t, e, &memory{}, starter{"goal", func(ended string) ([]llm.Message, error) {
				if asks = append(asks, ended); len(asks) == 1 {
					return goOn, nil
				}
				return nil, nil
			}})
			defer stop()
			submitOrFail(t, th, input("one"))
			<-said
			var work sync.WaitGroup
			work.Go(func() { // owned by the test: work waits
				if name == "mail" {
					if _, err := th.Post(t.Context(), mail("late", true)); err != nil {
						t.Error(err)
					}
					return
				}
				two := input("two")
				two.OutputSchema = []byte(`{}`) // it can't join the turn
				submitOrFail(t, th, two)
			})
			synctest.Wait()
			close(open)
			work.Wait()
			synctest.Wait()
			if !slices.Equal(seen, want) || !slices.Equal(asks, []string{"2", "3"}) {
				t.Errorf("%s: asked %q, want %q; feature asked after %q turns", name, seen, want, asks)
			}
		})
	}
}

// A turn that failed or was interrupted is followed by none of a feature's, until it asks for it. So is none where the thread is
// archived or ends.
func TestFeatureIsNotAskedAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		asks, fails := 0, false
		e := parrot(&seen, func(int) <-chan struct{} { return make(chan struct{}) })
		e.plan = func(context.Context, *Plan) error {
			if fails {
				return errors.New("no provider")
			}
			return nil
		}
		th, stop := idleThread(t, e, &memory{}, starter{"goal", bounded(&asks)})
		defer stop()
		submitOrFail(t, th, input("one"))
		synctest.Wait()
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fails = true
		submitOrFail(t, th, input("two"))
		synctest.Wait()
		if err := th.Configure(t.Context(), Change{Cwd: "/b"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if asks != 0 {
			t.Errorf("asked %d times after turns that did not complete", asks)
		}
		th.Wake()
		synctest.Wait()
		if asks != 1 {
			t.Errorf("asked %d times, want once: the turn that it began failed", asks)
		}
		if err := th.Archive(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		fails = false
		th.Wake()
		th.Wake()
		th.mail.Add(mail("for an archived thread", true))
		synctest.Wait()
		if asks != 1 || len(seen) != 1 {
			t.Errorf("asked %d times, %q: an archived thread was woken", asks, seen)
		}
		if err := th.Archive(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if asks != 1 || len(seen) != 2 || !strings.Contains(seen[1], "mail for an archived thread") {
			t.Errorf("asked %d times, %q: the mail begins a turn first", asks, seen)
		}
	})
}

// A thread that is to end after its turn begins no other one.
func TestFeatureIsNotAskedWhenTheThreadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		asks := 0
		th, stop := idleThread(t, parrot(&seen, atOnce), &memory{}, starter{"goal", bounded(&asks)})
		last := input("go")
		last.ExitAfterTurn = true
		submitOrFail(t, th, last)
		synctest.Wait()
		th.Wake()
		synctest.Wait()
		stop()
		th.Wake()
		if asks != 0 || len(seen) != 1 {
			t.Errorf("asked %d times, %q", asks, seen)
		}
	})
}

// In any order of events: a feature begins a turn only where a turn has completed or it was woken, and only where nothing else waits;
// it is asked at most once for each, and the thread rests in the end.
func TestIdleDecision(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"submit", "shaped", "mail", "quiet mail", "interrupt", "archive", "unarchive", "wake", "want", "fail", "configure", "rest", "rest",
		}), 5, 40).Draw(rt, "steps")
		var failed error
		synctest.Test(t, func(t *testing.T) { failed = playIdle(t, steps) })
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

func playIdle(t *testing.T, steps []string) (failed error) {
	sink := &memory{}
	var mu sync.Mutex
	asks, wakes, wanted := 0, 0, 0
	outcome := ""
	var th *Thread
	e := &engine{stream: func(ctx context.Context, _ int, _ *llm.Request, yield func(llm.Event, error) bool) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		say("ok", yield)
	}}
	fail := func(format string, args ...any) {
		if failed == nil {
			failed = fmt.Errorf(format, args...)
		}
	}
	th, stop := idleThread(t, e, sink, starter{"goal", func(string) ([]llm.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		asks++
		if th.archived.Load() {
			fail("asked while the thread is archived")
		}
		if len(th.st.queue) > 0 || th.st.busy() { // the owner asks
			fail("asked with %d submissions in the queue, busy %v", len(th.st.queue), th.st.busy())
		}
		if outcome == "fail" {
			return nil, errors.New("broken")
		}
		if wanted > 0 {
			wanted--
			return goOn, nil
		}
		return nil, nil
	}})
	var work sync.WaitGroup
	for _, step := range steps {
		switch step {
		case "submit", "shaped":
			s := input(step)
			if step == "shaped" {
				s.OutputSchema = []byte(`{}`)
			}
			work.Go(func() { _, _ = th.Submit(t.Context(), s) }) // owned by the test: work waits
		case "mail", "quiet mail":
			work.Go(func() { _, _ = th.Post(t.Context(), mail(step, step == "mail")) }) // as above
		case "interrupt":
			_ = th.Interrupt(t.Context(), orchestrate.ErrInterrupted)
		case "archive", "unarchive":
			work.Go(func() { _ = th.Archive(t.Context(), step == "archive") }) // as above
		case "configure":
			work.Go(func() { _ = th.Configure(t.Context(), Change{Cwd: fmt.Sprint("/", len(sink.all()))}) }) // as above
		case "wake":
			mu.Lock()
			wakes++
			mu.Unlock()
			th.Wake()
		case "want":
			mu.Lock()
			outcome, wanted = "", wanted+2
			mu.Unlock()
		case "fail":
			mu.Lock()
			outcome = "fail"
			mu.Unlock()
		case "rest":
			time.Sleep(10 * time.Second) // in the bubble
		}
	}
	time.Sleep(time.Hour) // in the bubble
	work.Wait()
	synctest.Wait()
	completed := 0
	for _, ev := range sink.all() {
		if end, ok := ev.Body.(event.TurnEnded); ok && end.Status == event.TurnCompleted {
			completed++
		}
	}
	if asks > completed+wakes {
		fail("asked %d times after %d completed turns and %d wake-ups", asks, completed, wakes)
	}
	if th.st.busy() {
		fail("busy after an hour")
	}
	stop()
	return failed
}

// Waiters, submissions and mail meet turns: each waiter learns of what came, and none waits for what is there.
func TestSignalOfAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		got := make(chan orchestrate.Arrival, 8)
		var th *Thread
		e.stream = func(ctx context.Context, n int, _ *llm.Request, yield func(llm.Event, error) bool) {
			if n%2 == 1 {
				a, err := th.Signal().Wait(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- a
			}
			say("ok", yield)
		}
		th, stop := startThread(t, e, &memory{})
		defer stop()
		submitOrFail(t, th, input("one"))
		synctest.Wait()
		submitOrFail(t, th, input("two"))
		synctest.Wait()
		submitOrFail(t, th, input("three"))
		synctest.Wait()
		if _, err := th.Post(t.Context(), mail("m", false)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(got)
		var all []orchestrate.Arrival
		for a := range got {
			all = append(all, a)
		}
		if want := []orchestrate.Arrival{orchestrate.InputArrival, orchestrate.MailArrival}; !slices.Equal(all, want) {
			t.Errorf("arrivals %v, want %v", all, want)
		}
	})
}
