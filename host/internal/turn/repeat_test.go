package turn_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func calls(n int, args func(i int) string) (out []turntest.Answer) {
	for i := range n {
		out = append(out, turntest.Say(turntest.Call(fmt.Sprint("c", i), "look", args(i))))
	}
	return out
}

func TestTheSameCallOverAndOver(t *testing.T) {
	same := func(int) string { return `{"a":1}` }
	for name, tc := range map[string]struct {
		args   func(int) string
		result func(n int) *contract.Result
		hints  []int // the calls that the model is told at
		ends   bool
	}{
		"same result":            {same, func(int) *contract.Result { return contract.Text("no such file") }, []int{3, 6, 12, 24}, true},
		"result with a time":     {same, func(n int) *contract.Result { return contract.Text(fmt.Sprintf("Wall time: %d.5 s\nno", n)) }, []int{3, 6, 12, 24}, true},
		"other results":          {same, func(n int) *contract.Result { return contract.Text(strings.Repeat("x", n)) }, nil, false},
		"other arguments":        {func(i int) string { return fmt.Sprintf(`{"a":%d}`, i) }, func(int) *contract.Result { return contract.Text("no") }, nil, false},
		"a session that goes on": {same, func(int) *contract.Result { return &contract.Result{SessionID: "1"} }, nil, false},
		"a call that waits": {same, func(int) *contract.Result {
			time.Sleep(10 * time.Second) // in the bubble
			return contract.Text("nothing new")
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := turntest.New(append(calls(60, tc.args), turntest.Say(turntest.Text("done")))...)
				n := 0
				b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "look"}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
					n++
					return tc.result(n), nil
				}}}
				res := b.Run(t, t.Context(), "go")
				if tc.ends {
					if n != 48 || res.Status != event.TurnFailed || res.Problem.Code != "loop" {
						t.Errorf("after %d calls: %+v", n, res)
					}
				} else if res.Status != event.TurnCompleted {
					t.Errorf("after %d calls: %+v", n, res)
				}
				var hints []int
				outputs := 0
				for _, m := range b.History.Messages() {
					switch {
					case m.Role == llm.RoleTool:
						outputs++
					case strings.Contains(m.Text(), "times in a row"):
						hints = append(hints, outputs)
					}
				}
				if fmt.Sprint(hints) != fmt.Sprint(tc.hints) {
					t.Errorf("hints behind the calls %v, want %v", hints, tc.hints)
				}
			})
		})
	}
}
