package turn_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// unreached is a try that reached nobody.
var unreached = turntest.Answer{Err: &llm.Error{Code: llm.ErrTransport, Message: "connection unreached", Retryable: true, Offline: true}}

// A model that can't be reached is waited for without a try being counted, as long as somebody has the patience.
func TestWaitingForAConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		away     int // looks in vain
		patience func(began time.Time) time.Duration
		others   bool
		status   event.TurnStatus
		requests int
		waits    int
		took     time.Duration // without the usual tries; 0: any
	}{
		"for ever":                 {20, func(time.Time) time.Duration { return turn.Forever }, false, event.TurnCompleted, 21, 20, (5 + 10 + 20 + 40 + 16*60) * time.Second},
		"not at all":               {20, func(time.Time) time.Duration { return 0 }, false, event.TurnFailed, 6, 0, 0},
		"a minute":                 {20, func(time.Time) time.Duration { return time.Minute }, false, event.TurnFailed, 10, 4, 0},
		"a minute, and it is back": {4, func(time.Time) time.Duration { return time.Minute }, false, event.TurnCompleted, 5, 4, time.Minute},
		"until everybody has left": {20, func(began time.Time) time.Duration {
			if time.Since(began) < 30*time.Second {
				return turn.Forever
			}
			return 0
		}, false, event.TurnFailed, 9, 3, 0},
		"where another stands in": {20, func(time.Time) time.Duration { return turn.Forever }, true, event.TurnFailed, 6, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers []turntest.Answer
				for range tc.away {
					answers = append(answers, unreached)
				}
				b := turntest.New(append(answers, turntest.Say(turntest.Text("done")))...)
				began := time.Now()
				b.OfflineWait = func() time.Duration { return tc.patience(began) }
				b.HasFallback = func() bool { return tc.others }
				res := b.Run(t, t.Context(), "go")
				if res.Status != tc.status || len(b.Requests()) != tc.requests {
					t.Errorf("%+v after %d requests, want %s after %d", res, len(b.Requests()), tc.status, tc.requests)
				}
				if took := time.Since(began); tc.took > 0 && took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				waits := 0
				for _, e := range b.Events() {
					if r, ok := e.Body.(event.StreamRetried); ok && r.Offline {
						waits++
						if r.Attempt != 0 || r.Max != 0 || r.Cause == "" {
							t.Errorf("notice %+v", r)
						}
					}
				}
				if waits != tc.waits {
					t.Errorf("%d waits, want %d", waits, tc.waits)
				}
			})
		})
	}
}

// Who waits for the network can be interrupted, and tries that reached somebody are counted as ever.
func TestWaitingForAConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(unreached, unreached, unreached)
		b.OfflineWait = func() time.Duration { return turn.Forever }
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Second, func() { cancel(orchestrate.ErrInterrupted) })
		began := time.Now()
		if res := b.Run(t, ctx, "go"); res.Status != event.TurnInterrupted || time.Since(began) != 10*time.Second {
			t.Errorf("%+v after %v", res, time.Since(began))
		}
		cut := turntest.Cut(turntest.Text("partial"))
		b = turntest.New(unreached, cut, unreached, cut, cut, cut, cut, cut)
		b.OfflineWait = func() time.Duration { return turn.Forever }
		if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnFailed || len(b.Requests()) != 8 {
			t.Errorf("%+v after %d requests", res, len(b.Requests()))
		}
		var attempts []int
		for _, e := range b.Events() {
			if r, ok := e.Body.(event.StreamRetried); ok && !r.Offline {
				attempts = append(attempts, r.Attempt)
			}
		}
		if fmt.Sprint(attempts) != "[1 2 3 4 5]" {
			t.Errorf("counted %v", attempts)
		}
	})
}
