package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/hub"
)

// leaveAfter is how long the host may take to stop its processes after the second Ctrl-C.
const leaveAfter = 3 * time.Second

// interruptOnSignal handles signals: the first Ctrl-C interrupts the turn, the second exits; SIGTERM exits. stop reports whether there was a
// Ctrl-C.
func (a *app) interruptOnSignal(ctx context.Context, t *hub.Thread) (stop func() (interrupted bool)) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// A closed terminal ends the run like SIGTERM: the turn ends and all processes stop. Under nohup the run continues.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	// SIGPIPE is caught only so that writing to a closed pipe or socket, such as a dead plugin's, returns an error instead of
	// ending this process.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	done := make(chan struct{})
	finished := make(chan struct{})
	interrupted := false
	go func() { // owned by the caller: stop ends it and waits
		defer close(finished)
		for count := 0; ; {
			select {
			case <-done:
				if count == 0 {
					signal.Stop(signals)
					return
				}
				// owned by the process: a second Ctrl-C must not cut off the clean-up of the interrupted run.
				go func() {
					s := <-signals
					<-time.After(leaveAfter)
					os.Exit(EndBy(s))
				}()
				return
			case s := <-signals:
				count++
				interrupted = interrupted || s == os.Interrupt
				if count == 1 && s == os.Interrupt {
					fmt.Fprintln(a.Stderr, "\ninterrupting; press Ctrl-C again to exit")
					// Ends with the turn. An idle thread has nothing to interrupt.
					go func() { _ = t.Interrupt(ctx, "") }()
					continue
				}
				if s != os.Interrupt {
					a.EndedBy = s
				}
				time.AfterFunc(leaveAfter, func() { os.Exit(EndBy(s)) }) // the host did not stop in time
				a.Leave()
				<-done
				signal.Stop(signals)
				return
			}
		}
	}()
	return func() bool {
		signal.Stop(broken)
		close(done)
		<-finished
		return interrupted
	}
}

// EndBy ends this process with the signal that asked it to end, after the clean-up, so that the parent sees the cause. It returns
// an exit status on systems without signals.
func EndBy(s os.Signal) int {
	number, ok := s.(syscall.Signal)
	if !ok || s == os.Interrupt {
		return 1
	}
	signal.Reset(s)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		<-time.After(leaveAfter) // until the signal arrives
	}
	return 128 + int(number)
}
