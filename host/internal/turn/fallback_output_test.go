package turn_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a call gives is cut as the model that goes on wants it.
func TestOutputsAreCutForTheModelThatGoesOn(t *testing.T) {
	spare := turntest.New(turntest.Say(turntest.Call("c2", "echo", `{}`)), turntest.Say(turntest.Text("done")))
	spare.Row.TruncationMode, spare.Row.TruncationLimit = "bytes", 2
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), down(llm.ErrQuotaExceeded, false))
	b.Tools = []turntest.Tool{echo("echo")}
	standIns(b, spare)
	b.Run(t, t.Context(), "go")
	if got := spare.Requests()[1]; !strings.Contains(got, "output c1: ran {}\n") || !strings.Contains(got, "chars truncated") {
		t.Errorf("the other model sees\n%s", got)
	}
}
