package threadsocket

import (
	"context"
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

// watch closes the connection if the host does not answer. It counts checks instead of time, so that a client that was itself
// stopped does not blame the host.
func (c *Client) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for missed := 0; ; {
		select {
		case <-c.rpc.DisconnectNotify():
			return
		case <-tick.C:
		}
		if c.stalled.Load() {
			missed = 0 // the client itself is not reading, so it can't receive answers
			continue
		}
		if c.heard.Swap(false) {
			missed = 0
		} else if missed++; missed >= mostMissed {
			c.end(&SilentError{PID: c.pid})
			_ = c.rpc.Close() // ends waiting requests; an error means that it is closed already
			return
		}
		// Ping in a separate goroutine: a large request that the host does not read would block the loop.
		if c.pinging.CompareAndSwap(false, true) {
			c.watching.Go(func() { // ends when the ping is written, or with the connection
				defer c.pinging.Store(false)
				_, _ = c.rpc.DispatchCall(context.Background(), methodPing, nil) // if the connection is closed, the loop notices it as well
			})
		}
	}
}
