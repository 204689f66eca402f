package turn_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// The time of a turn ends what it does, says so, and leaves a history that can be gone on with.
func TestTimeOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(turntest.Say(turntest.Call("c1", "wait", `{}`)), turntest.Say(turntest.Text("done")))
		b.Limits.Time = time.Minute
		b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "wait"}, Run: func(ctx context.Context, _ contract.CallStart) (*contract.Result, error) {
			<-ctx.Done()
			return &contract.Result{Aborted: true}, nil
		}}}
		began := time.Now()
		res := b.Run(t, t.Context(), "go")
		if res.Status != event.TurnFailed || res.Problem.Code != "turn-time" || !strings.Contains(res.Problem.Next, "limits.turn_time") {
			t.Errorf("result = %+v, problem %+v", res, res.Problem)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("ended after %v", took)
		}
		b.Inbox = &turn.Inbox{}
		if res := b.Run(t, t.Context(), "go on"); res.LastMessage != "done" {
			t.Errorf("next turn: %+v", res)
		}
		wantRequest(t, b, 2, `
		user: go
		call c1: wait {}
		output c1: aborted by the turn's limit of time after 60.0s
		user: go on`)
	})
}
