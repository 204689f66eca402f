package threadsocket

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
)

// A host answers a ping at once, whatever its threads do. A stopped or hanging host does not answer, and the client gives up after
// this number of unanswered pings. 10 s: a healthy host on a loaded machine needs a fraction of a second.
const (
	pingEvery  = 2 * time.Second
	mostMissed = 5
)

// SilentError means that the host's process exists but does not answer, because it is stopped or hangs. It may still process
// earlier requests later.
type SilentError struct {
	PID int // 0: unknown
}

// Error implements error.
func (e *SilentError) Error() string {
	who := "the host"
	if e.PID != 0 {
		who = fmt.Sprintf("the host with pid %d", e.PID)
	}
	return hint.Line(fmt.Sprintf("%s has not answered for %v", who, mostMissed*pingEvery), e.NextStep())
}

// NextStep suggests how to find out what the process is doing.
func (e *SilentError) NextStep() string {
	if e.PID == 0 {
		return "see whether its process is stopped, and continue it or end it"
	}
	return fmt.Sprintf("look at it with `ps -o stat,cmd -p %[1]d`; if it is stopped (T), continue it with `kill -CONT %[1]d`; "+
		"if it hangs, end it with `kill -KILL %[1]d`", e.PID)
}

// OlderError means that the process is of an older version of gantry, which speaks another protocol.
type OlderError struct {
	PID int // 0: unknown
}

// Error implements error.
func (e *OlderError) Error() string {
	who := "the gantry that runs the thread"
	if e.PID != 0 {
		who += fmt.Sprintf(" (process %d)", e.PID)
	}
	return hint.Line(who+" is of another version", e.NextStep())
}

// NextStep says which process to restart.
func (e *OlderError) NextStep() string {
	if e.PID == 0 {
		return "end it, or wait for its end; then resume the thread"
	}
	return fmt.Sprintf("end process %d, or wait for its end; then resume the thread", e.PID)
}

// watch closes the connection if the host does not answer. It counts checks instead of time, so that a client that was itself
// stopped does not blame the host.
func (p *Process) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case <-p.rpc.Done():
			return
		case <-tick.C:
		}
		if p.heard.Swap(false) {
			missed = 0
		} else if missed++; missed >= mostMissed {
			p.fail(&SilentError{PID: p.pid})
			p.stop() // ends waiting requests
			return
		}
		// Ping in a separate goroutine: a large request that the host does not read would block the loop.
		if p.pinging.CompareAndSwap(false, true) {
			p.work.Go(func() { // ends when the ping is written, or with the connection
				defer p.pinging.Store(false)
				// If the connection is closed, the loop notices it as well.
				_ = p.rpc.Start(ctx, methodPing, nil, func(json.RawMessage, error) { p.heard.Store(true) })
			})
		}
	}
}
