package render

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// What a turn cost stands behind its tokens, as far as it is known, and never as nothing when it is not.
func TestCostIsShown(t *testing.T) {
	for _, tc := range []struct {
		name         string
		turn, thread event.Cost
		human, json  string
	}{
		{"nobody knows", event.Cost{Unknown: 2}, event.Cost{Unknown: 5}, "3 out\n", `"reasoning_output_tokens":0}`},
		{"known", event.Cost{USD: 0.0132}, event.Cost{USD: 0.0132}, "3 out · $0.0132\n", `"cost_usd":0.0132}`},
		{"of a thread", event.Cost{USD: 0.0132}, event.Cost{USD: 1.5}, "3 out · $0.0132 · thread $1.50\n", `"cost_usd":1.5}`},
		{"in part", event.Cost{USD: 0.5, Unknown: 1}, event.Cost{USD: 0.5, Unknown: 1}, "3 out · at least $0.5000\n", `"cost_usd":0.5,"cost_incomplete":true}`},
		{"before", event.Cost{Unknown: 1}, event.Cost{USD: 2, Unknown: 1}, "3 out · thread at least $2.00\n", `"cost_usd":2,"cost_incomplete":true}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			used := event.Tokens{Input: 10, Output: 3}
			ended := event.TurnEnded{Status: event.TurnCompleted, Usage: used, TurnUsage: used, DurationMS: 1}
			ended.TurnUsage.Cost, ended.Usage.Cost = tc.turn, tc.thread
			var text, lines strings.Builder
			NewHuman(&text, false, false).Event(event.Event{Body: ended})
			if err := newJSONL(&lines).Event(event.Event{Body: ended}); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(text.String(), tc.human) || !strings.Contains(lines.String(), tc.json) {
				t.Errorf("%q and %q, want %q and %q", text.String(), lines.String(), tc.human, tc.json)
			}
		})
	}
}
