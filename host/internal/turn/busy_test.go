package turn_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A vendor that accepts no request for now is asked in one growing series, for as long as the limit says.
func TestBusyVendors(t *testing.T) {
	for _, tc := range []struct {
		name      string
		err       llm.Error
		wait      time.Duration
		retried   int // requests after the first one
		atLeast   time.Duration
		atMost    time.Duration
		fails     bool
		succeeded int // the request that succeeds; 0: none
	}{
		{"for good", llm.Error{Code: llm.ErrRateLimit, Status: 429, Retryable: true}, 5 * time.Minute, 13, 5 * time.Minute, 5*time.Minute + time.Second, true, 0},
		{"for a minute", llm.Error{Code: llm.ErrOverloaded, Status: 529, Retryable: true}, 5 * time.Minute, 9, 80 * time.Second, 125 * time.Second, false, 10},
		{"as long as it says", llm.Error{Code: llm.ErrRateLimit, Retryable: true, RetryAfter: 2 * time.Minute}, 5 * time.Minute, 3, 6 * time.Minute, 6 * time.Minute, true, 0},
		{"hardly at all", llm.Error{Code: llm.ErrProviderInternal, Status: 500, Retryable: true, RetryAfter: time.Millisecond}, 5 * time.Minute, 13, 13 * time.Millisecond, 20 * time.Millisecond, true, 0},
		{"no wait", llm.Error{Code: llm.ErrRateLimit, Status: 429, Retryable: true}, 0, 5, 5 * time.Second, 8 * time.Second, true, 0},
		{"final", llm.Error{Code: llm.ErrRateLimit, Status: 429}, 5 * time.Minute, 0, 0, 0, true, 0},
		{"another error", llm.Error{Code: llm.ErrTransport, Retryable: true}, 5 * time.Minute, 5, 5 * time.Second, 8 * time.Second, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := turntest.New()
				for i := range 40 {
					if i+1 == tc.succeeded {
						b.Answers = append(b.Answers, turntest.Say(turntest.Text("done")))
					}
					err := tc.err
					b.Answers = append(b.Answers, turntest.Answer{Err: &err})
				}
				b.Limits.BusyWait = tc.wait
				began := time.Now()
				res := b.Run(t, t.Context(), "go")
				took := time.Since(began)
				if n := len(b.Requests()) - 1; n != tc.retried || took < tc.atLeast || took > tc.atMost || (res.Problem != nil) != tc.fails {
					t.Errorf("asked again %d times in %v: %+v; want %d, %v to %v", n, took, res.Problem, tc.retried, tc.atLeast, tc.atMost)
				}
				last := int64(0)
				for _, e := range b.Events() {
					if r, ok := e.Body.(event.StreamRetried); ok && r.Busy {
						if r.DelayMS < last && r.DelayMS < 50_000 && tc.err.RetryAfter == 0 && tc.retried != 13 {
							t.Errorf("a delay of %d ms after one of %d", r.DelayMS, last)
						}
						last = r.DelayMS
					}
				}
			})
		})
	}
}
