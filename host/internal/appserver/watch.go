package appserver

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
)

// A host answers a ping at once, whatever its threads do. One that is stopped, or hangs, answers nothing; after this many
// pings without a word the client gives up. 10 s: a healthy host on a loaded machine needs a fraction of a second.
const (
	pingEvery  = 2 * time.Second
	mostMissed = 5
)

// SilentError says that the host's process is there and does not answer: it is stopped, or hangs. What was asked of it
// meanwhile may still be done if it goes on.
type SilentError struct {
	PID int // 0: the system does not tell
}

// Error implements error.
func (e *SilentError) Error() string {
	who := "the host"
	if e.PID != 0 {
		who = fmt.Sprintf("the host with pid %d", e.PID)
	}
	return hint.Line(fmt.Sprintf("%s has not answered for %v", who, mostMissed*pingEvery), e.NextStep())
}

// NextStep says how to find out what the process does.
func (e *SilentError) NextStep() string {
	if e.PID == 0 {
		return "see whether its process is stopped, and continue it or end it"
	}
	return fmt.Sprintf("look at it with `ps -o stat,cmd -p %[1]d`; if it is stopped (T), continue it with `kill -CONT %[1]d`; "+
		"if it hangs, end it with `kill -KILL %[1]d`", e.PID)
}

// watch gives the connection up when the host is silent. It counts looks and not time: a client that was stopped itself
// must not take its own absence for the host's.
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
			missed = 0 // nothing is read, so nothing can be heard: it is our own reader that is slow
			continue
		}
		if c.heard.Swap(false) {
			missed = 0
		} else if missed++; missed >= mostMissed {
			c.end(&SilentError{PID: c.pid})
			_ = c.rpc.Close() // ends what waits; a connection that is closed already is as good
			return
		}
		// Concurrent this loop: a large request that the host does not read stands before the ping.
		if c.pinging.CompareAndSwap(false, true) {
			c.watching.Go(func() { // ends when the ping is written, or with the connection
				defer c.pinging.Store(false)
				_, _ = c.rpc.DispatchCall(context.Background(), methodPing, nil) // closed: the loop sees it, too
			})
		}
	}
}
