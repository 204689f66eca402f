package e2e_test

import (
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// A client outlives the server that is killed. All events whose numbers it has seen are in the log: otherwise other events would get
// these numbers, and the client would miss them when it resumes the thread.
func TestAppServerKilledKeepsWhatClientsSaw(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commandScript("echo one"))
	for seen := range 12 {
		c := r.AppServer()
		greet(t, c)
		thread := begin(t, c, map[string]any{})
		submit(t, c, thread, "hi")
		last := uint64(0)
		for n := 0; n <= seen; {
			m := c.Next()
			if m.Seq > last {
				last = m.Seq
				n++
			}
			if m.Method == "turn/completed" {
				break
			}
		}
		c.Kill()
		c = r.AppServer()
		greet(t, c)
		var log struct{ Data []struct{ Seq uint64 } }
		c.Call("gantry/thread/events", map[string]any{"threadId": thread, "limit": 1000}, &log)
		if n := len(log.Data); n == 0 || log.Data[n-1].Seq < last {
			t.Errorf("after %d numbers: the client saw event %d, the log ends earlier: %v", seen, last, log.Data)
		}
		c.Close()
	}
}
