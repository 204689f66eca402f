package tool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// reasonDeadline is the reason of a cancellation by the deadline.
const reasonDeadline = "deadline"

// stopper cancels a call, and answers in its place if the handler does not return in time, so that the host always gets exactly
// one result.
type stopper struct {
	call   *Call
	cancel context.CancelCauseFunc

	mu struct {
		sync.Mutex
		asked    bool
		released bool
		until    time.Time
		timer    *time.Timer
	}
}

// stop cancels the handler's context. After the first time, it can only shorten the grace period.
func (s *stopper) stop(reason string, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now().Add(grace)
	if s.mu.released || s.mu.asked && !until.Before(s.mu.until) {
		return
	}
	if !s.mu.asked {
		s.cancel(&Cancelled{Reason: reason, Grace: grace})
	}
	s.mu.asked, s.mu.until = true, until
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
	s.mu.timer = time.AfterFunc(max(grace/2, grace-graceMargin), func() {
		text := fmt.Sprintf("aborted: the tool did not stop within %v", grace)
		if reason == reasonDeadline {
			text = fmt.Sprintf("the call exceeded its deadline, and the tool did not stop within %v. Its effects so far remain", grace)
		}
		r := contract.ErrorText(text)
		r.Aborted = true
		if s.call.out.end(convert.ResultToProto(r)) {
			s.call.env.Logger.Warn("call did not stop when it was cancelled", "tool", s.call.Tool(), "call", s.call.ID(), "reason", reason)
		}
	})
}

// release stops the timer, because the call has been answered.
func (s *stopper) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.released = true
	if s.mu.timer != nil {
		s.mu.timer.Stop()
	}
}
