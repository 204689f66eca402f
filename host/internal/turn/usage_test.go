package turn_test

import (
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func usage(in, out int64) llm.Usage { return llm.Usage{Input: &in, Output: &out} }

// Requests that are made side by side are all counted; the next turn begins at nothing and the thread goes on.
func TestMeter(t *testing.T) {
	m, b := turn.NewMeter(event.Tokens{Input: 1000, Total: 1000}, turn.Budget{}), turntest.New()
	var work sync.WaitGroup
	usd := 0.01
	for range 50 {
		work.Go(func() {
			if err := m.Report(t.Context(), b, "turn-1", event.UsageReported{Call: "c1", Usage: usage(10, 1), CostUSD: &usd}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	want := event.Tokens{Input: 500, Output: 50, Total: 550, Cost: event.Cost{USD: 0.5}}
	if used, total := m.Sum(); used != want || total != want.Add(event.Tokens{Input: 1000, Total: 1000}) {
		t.Errorf("used %+v of %+v", used, total)
	}
	var largest event.Tokens
	for _, e := range b.Events() {
		r := e.Body.(event.UsageReported)
		if r.Call != "c1" || r.Turn.Total+1000 != r.Total.Total {
			t.Errorf("report %+v", r)
		}
		largest = largest.Max(r.Total)
	}
	if _, total := m.Sum(); largest != total {
		t.Errorf("the largest sum in the log is %+v, want %+v", largest, total)
	}
	m.Begin()
	if used, total := m.Sum(); used != (event.Tokens{}) || total.Total != 1550 {
		t.Errorf("in the next turn: used %+v of %+v", used, total)
	}
}
