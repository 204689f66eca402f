package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// planEvents is a turn with two plans and a call that has failed.
func planEvents() []event.Event {
	plan := func(id event.ItemID, status event.ItemStatus, args string) event.Item {
		return event.Item{ID: id, Type: event.ItemPlan, Tool: "update_plan", Status: status, Arguments: json.RawMessage(args)}
	}
	const first, second = `{"plan":[{"step":"look","status":"in_progress"},{"step":"write","status":"pending"}]}`,
		`{"explanation":"seen\u001b[31m","plan":[{"step":"look","status":"completed"},{"step":"write","status":"in_progress"},{"step":"test","status":"pending"}]}`
	var out []event.Event
	for _, b := range []event.Body{
		event.TurnStarted{},
		event.ItemStarted{Item: plan("a", event.StatusInProgress, first)}, event.ItemCompleted{Item: plan("a", event.StatusCompleted, first)},
		event.ItemStarted{Item: plan("b", event.StatusInProgress, second)}, event.ItemCompleted{Item: plan("b", event.StatusCompleted, second)},
		event.ItemStarted{Item: plan("c", event.StatusInProgress, first)}, event.ItemCompleted{Item: plan("c", event.StatusDeclined, first)},
		event.ItemCompleted{Item: event.Item{ID: "m", Type: event.ItemAgentMessage, Status: event.StatusCompleted, Text: "ok"}},
		event.TurnEnded{Status: event.TurnCompleted},
	} {
		out = append(out, event.Event{Body: b})
	}
	return out
}

// All plans of a turn are one item, which ends with the turn.
func TestPlanLines(t *testing.T) {
	var b strings.Builder
	j := newJSONL(&b)
	for _, e := range planEvents() {
		if err := j.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"type":"turn.started"}
{"type":"item.started","item":{"id":"item_0","type":"todo_list","items":[{"text":"look","completed":false},{"text":"write","completed":false}]}}
{"type":"item.updated","item":{"id":"item_0","type":"todo_list","items":[{"text":"look","completed":true},{"text":"write","completed":false},{"text":"test","completed":false}]}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"ok"}}
{"type":"item.completed","item":{"id":"item_0","type":"todo_list","items":[{"text":"look","completed":true},{"text":"write","completed":false},{"text":"test","completed":false}]}}
`
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("lines:\n%s\nwant:\n%s", got, want)
	}
}

func TestPlanShown(t *testing.T) {
	var b strings.Builder
	h := NewHuman(&b, false, false)
	for _, e := range planEvents() {
		h.Event(e)
	}
	for _, want := range []string{
		"• plan\n  ▸ look\n  ○ write\n", "• plan\n  seen[31m\n  ✓ look\n  ▸ write\n  ○ test\n", "• update_plan ", "✗ refused",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q lacks %q", b.String(), want)
		}
	}
}
