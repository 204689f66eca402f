package orchestrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// What a call has started and its plugin may not know of ends with a call that was stopped: its plugin has lost the response, or will not
// say what it was. What a plugin that has crashed has started is for its next process to adopt.
func TestStoppedCallIsInterrupted(t *testing.T) {
	aborted := contract.Text("stopped")
	aborted.Aborted = true
	left := contract.Text("stopped, and the session goes on")
	left.Aborted, left.SessionID = true, "s1"
	for name, c := range map[string]struct {
		result      *contract.Result
		err         error
		interrupted bool
	}{
		"result":              {result: contract.Text("done")},
		"deadline":            {err: tool.ErrDeadline, interrupted: true},
		"deadline, obeyed":    {result: aborted, interrupted: true},
		"session declared":    {result: left},
		"reads no messages":   {err: tool.ErrUnresponsive, interrupted: true},
		"ends without result": {err: errors.New("the plugin ended the call without a result"), interrupted: true},
		"crash":               {err: &plugin.Error{Plugin: "p", Crash: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var interrupted bool
			f := &family{bench: &bench{}}
			f.do = func(ctx context.Context, l *orchestrate.Live, _ contract.CallStart, _ tool.Control) (*contract.Result, error) {
				_, done, err := l.Join(ctx)
				if err != nil {
					return nil, err
				}
				defer done()
				l.OnInterrupt(func() { interrupted = true }) // which the end of the call waits for
				return c.result, c.err
			}
			f.dispatch(t, t.Context())
			if interrupted != c.interrupted {
				t.Errorf("interrupted: %v", interrupted)
			}
		})
	}
}
