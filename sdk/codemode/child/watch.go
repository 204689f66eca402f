package child

import (
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// watch ends a script that has used up its time.
type watch struct {
	r      *runner
	reason atomic.Pointer[string]
	stop   chan struct{} // closed when the time is used up
}

// newWatch starts the clocks.
func newWatch(r *runner, l *frame.Limits) *watch {
	w := &watch{r: r, stop: make(chan struct{})}
	go w.run(time.Duration(l.CPUMillis)*time.Millisecond, time.Duration(l.WallMillis)*time.Millisecond, time.Now(), processorTime()) // ends with the process
	return w
}

func (w *watch) stopped() bool { return w != nil && w.reason.Load() != nil }

// failure returns the error of a script whose time is used up.
func (w *watch) failure() *frame.Error {
	return &frame.Error{Message: *w.reason.Load(), Cause: frame.Timeout}
}

// run interrupts the script when one of its limits is reached, and ends the process if the engine does not react: it looks for
// interrupts between the script's own steps only, not within the long ones of built-in functions. It does so before the owner kills
// the process, so that the result says why.
func (w *watch) run(cpu, wall time.Duration, start time.Time, spent time.Duration) {
	for {
		left, reason := wall-time.Since(start), "Execution timed out after "+wall.String()
		if l := cpu - (processorTime() - spent); l < left {
			left, reason = l, "Execution timed out: the script used "+cpu.String()+" of processor time"
		}
		if left <= 0 {
			w.reason.Store(&reason)
			close(w.stop)
			break
		}
		<-time.After(max(left/2, time.Millisecond)) // the next limit can't be reached earlier than in left, on one processor
	}
	for end := time.Now().Add(frame.Grace * 4 / 5); time.Now().Before(end); {
		w.r.vm.Interrupt() // again, since one that comes while the engine does not run is lost
		<-time.After(5 * time.Millisecond)
	}
	w.r.finishUnanswered(w.failure())
}

// finishUnanswered sends the last message in place of the engine's goroutine, and ends the process.
func (r *runner) finishUnanswered(e *frame.Error) {
	_ = r.send(frame.FromChild{Done: &frame.Done{Error: e}})
	r.exit(1)
}
