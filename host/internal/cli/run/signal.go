package run

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// leaveAfter is how long the second Ctrl-C gives the host to end its processes.
const leaveAfter = 3 * time.Second

// interruptOnSignal: the first Ctrl-C interrupts the turn, the second leaves; SIGTERM leaves.
func (a *app) interruptOnSignal(ctx context.Context, t *thread.Thread) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// A terminal that is gone ends the run like SIGTERM: the turn is closed, nothing is left behind. Under nohup it goes on.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	// Nobody acts on this one: it is taken so that writing to a reader that is gone is an error instead of our end. It
	// comes for every such write, a dead plugin's socket included.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() { // owned by the caller: stop ends it and waits
		defer close(finished)
		for count := 0; ; {
			select {
			case <-done:
				if count == 0 {
					signal.Stop(signals)
					return
				}
				// A second Ctrl-C must not cut off the clean-up of the interrupted run. The goroutine ends with the process.
				go func() {
					s := <-signals
					<-time.After(leaveAfter)
					os.Exit(EndBy(s))
				}()
				return
			case s := <-signals:
				count++
				if count == 1 && s == os.Interrupt {
					fmt.Fprintln(a.Stderr, "\ninterrupting; press Ctrl-C again to exit")
					_ = t.Interrupt(ctx, orchestrate.ErrInterrupted) // an idle thread has nothing to interrupt
					continue
				}
				if s != os.Interrupt {
					a.EndedBy = s
				}
				time.AfterFunc(leaveAfter, func() { os.Exit(EndBy(s)) }) // the host's own end did not come
				a.Leave(orchestrate.ErrShutdown)
				<-done
				signal.Stop(signals)
				return
			}
		}
	}()
	return func() {
		signal.Stop(broken)
		close(done)
		<-finished
	}
}

// EndBy ends this process by a signal that asked it to end, now that everything is cleaned up: who waits for it sees why it
// ended. It returns the exit status for a process that goes on, as on systems that have no signals.
func EndBy(s os.Signal) int {
	number, ok := s.(syscall.Signal)
	if !ok || s == os.Interrupt {
		return 1
	}
	signal.Reset(s)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		<-time.After(leaveAfter) // the signal is on its way
	}
	return 128 + int(number)
}
