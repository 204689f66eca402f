package transcript

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// Clients are told the plan and get no item; a call that has failed tells them nothing.
func TestPlan(t *testing.T) {
	it := event.Item{
		ID: "i", Call: "c", Type: event.ItemPlan, Status: event.StatusInProgress,
		Arguments: json.RawMessage(`{"explanation":"why","plan":[{"step":"a","status":"completed"},{"step":"b","status":"in_progress"},{"step":"c","status":"pending"}]}`),
	}
	done, failed := it, it
	done.Status, failed.Status = event.StatusCompleted, event.StatusFailed
	var f Fold
	var all []Change
	for _, b := range []event.Body{
		event.TurnStarted{}, event.ItemStarted{Item: it}, event.ItemCompleted{Item: done}, event.ItemStarted{Item: it}, event.ItemCompleted{Item: failed},
	} {
		all = append(all, f.Apply(event.Event{Thread: "th", Turn: "tu", Body: b})...)
	}
	var plans []string
	for _, c := range all {
		switch p := c.Params.(type) {
		case protocol.ItemStartedNotification, protocol.ItemCompletedNotification:
			t.Errorf("an item: %+v", p)
		case protocol.TurnPlanUpdatedNotification:
			b, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, string(b))
		}
	}
	want := `{"threadId":"th","turnId":"tu","explanation":"why","plan":[{"step":"a","status":"completed"},{"step":"b","status":"inProgress"},{"step":"c","status":"pending"}]}`
	if len(plans) != 1 || plans[0] != want {
		t.Errorf("plans %q, want %q", plans, want)
	}
}
