package turn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

var someInput = turn.Input{Parts: []llm.Part{&llm.Text{Text: "hi"}}}

// A waiter returns for what arrived before it began to wait, and for input before mail. Waiting takes nothing away.
func TestSignalSeesWhatArrivedBefore(t *testing.T) {
	mail := turn.NewMailbox(nil)
	s := turn.NewSignal(mail)
	wait := func(want orchestrate.Arrival, inTime bool) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		if !inTime {
			cancel(errTimeUp)
		}
		defer cancel(nil)
		if got, err := s.Wait(ctx); got != want || (err == nil) != inTime || !inTime && !errors.Is(err, errTimeUp) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	wait(orchestrate.NoArrival, false)
	mail.Add(event.Mail{Text: "m"})
	wait(orchestrate.MailArrival, true)
	inbox := s.NewInbox()
	wait(orchestrate.MailArrival, true)
	inbox.Add(someInput)
	wait(orchestrate.InputArrival, true)
	wait(orchestrate.InputArrival, true)
	if n := len(inbox.Close()); n != 1 {
		t.Errorf("%d inputs left, want 1", n)
	}
	wait(orchestrate.MailArrival, true)
	if inbox.Add(someInput) {
		t.Error("a closed inbox takes input")
	}
	wait(orchestrate.MailArrival, true)
	s.NewInbox().Add(someInput)
	wait(orchestrate.InputArrival, true)
}

var errTimeUp = errors.New("time is up")

// No wake-up is lost: once everything rests, callers wait only where nothing is left to read, whatever the order of arrivals, reads,
// turns and callers was. What a caller is told of was there.
func TestSignalLosesNoWakeUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"wait", "wait", "leave", "input", "mail", "read", "turn", "rest", "rest"}), 20, 80).Draw(rt, "steps")
		var failed error
		synctest.Test(t, func(t *testing.T) { failed = playSignal(t, steps) })
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

func playSignal(t *testing.T, steps []string) (failed error) {
	mail := turn.NewMailbox(nil)
	s := turn.NewSignal(mail)
	inbox := s.NewInbox()
	var work sync.WaitGroup
	var mu sync.Mutex
	waiting := map[int]context.CancelFunc{}
	was := orchestrate.NoArrival // the most urgent that anything was since the last rest
	note := func(a orchestrate.Arrival) {
		if was == orchestrate.NoArrival || a == orchestrate.InputArrival {
			was = a
		}
	}
	pending := func() orchestrate.Arrival {
		switch {
		case !inbox.Empty():
			return orchestrate.InputArrival
		case mail.Pending():
			return orchestrate.MailArrival
		}
		return orchestrate.NoArrival
	}
	fail := func(format string, args ...any) {
		if failed == nil {
			failed = fmt.Errorf(format, args...)
		}
	}
	for i, step := range steps {
		switch step {
		case "wait":
			ctx, cancel := context.WithCancel(t.Context())
			mu.Lock()
			waiting[i] = cancel
			mu.Unlock()
			work.Go(func() { // owned by the test: work waits
				a, err := s.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				delete(waiting, i)
				if (a == orchestrate.NoArrival) != (err != nil) || a != orchestrate.NoArrival && was == orchestrate.NoArrival {
					fail("step %d: %v, %v, where %v was the most that was there", i, a, err, was)
				}
			})
		case "leave":
			mu.Lock()
			for _, cancel := range waiting {
				cancel()
				break
			}
			mu.Unlock()
		case "input":
			mu.Lock()
			note(orchestrate.InputArrival) // first: a caller may return before Add does
			mu.Unlock()
			inbox.Add(someInput)
		case "mail":
			mu.Lock()
			note(orchestrate.MailArrival) // first: a caller may return before Add does
			mu.Unlock()
			mail.Add(event.Mail{Text: "m"})
		case "read":
			inbox.Take()
		case "turn":
			inbox.Close()
			inbox = s.NewInbox()
		case "rest":
			synctest.Wait()
			mu.Lock()
			if p := pending(); p != orchestrate.NoArrival && len(waiting) > 0 {
				fail("step %d: %d callers wait, though %v waits to be read", i, len(waiting), p)
			}
			was = pending()
			mu.Unlock()
		}
	}
	mu.Lock()
	for _, cancel := range waiting {
		cancel()
	}
	mu.Unlock()
	work.Wait()
	return failed
}

// The same with true concurrency: each arrival wakes all callers, who may come before it, after it or with it.
func TestSignalUnderConcurrency(t *testing.T) {
	for round := range 2000 {
		mail := turn.NewMailbox(nil)
		s := turn.NewSignal(mail)
		inbox := s.NewInbox()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { // owned by the test: work waits
				if _, err := s.Wait(ctx); err != nil {
					t.Error("a wake-up was lost:", err)
				}
			})
		}
		work.Go(func() {
			if round%2 == 0 {
				mail.Add(event.Mail{Text: "m"})
			} else {
				inbox.Add(someInput)
			}
		})
		work.Wait()
		cancel()
	}
}
