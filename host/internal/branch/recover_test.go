package branch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What is whole of a damaged thread goes on as a thread that is closed where it was cut off, and says so to the model. The event
// that adds A9 or O9 to the history is lost.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, story, left, output string }{
		{"between turns", "turn: D X U1 A1 turn: A9 U2 A2", "D X U1 A1", ""},
		{"in the middle of a turn", "turn: D X U1 A1 turn: U2 A9 A2", "D X U1 A1 U2", ""},
		{"behind a call", "turn: D X U1 C9 O9 A1", "D X U1 C9 O9", "the call had ended"},
		{"behind a compaction", "turn: D X U1 A1 turn: K[D2,X2,U1,S] turn: U2 A2 turn: U3 A9", "D2 X2 U1 S U2 A2 U3", ""},
		{"behind turns that were taken back", "turn: D X U1 A1 turn: U2 A2 (rollback 1) turn: U3 A3 turn: U4 A9", "D X U1 A1 U3 A3 U4", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := storetest.Config(t)
			s := storetest.Open(t, func(c *store.Config) { *c = cfg })
			w := newTeller(t, s)
			if err := w.run(test.story); err != nil {
				t.Fatal(err)
			}
			var lost uint64
			for e, err := range s.Events(t.Context(), w.id, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if h, ok := e.Body.(event.HistoryAdded); ok && (words(h.Messages) == "A9" || words(h.Messages) == "O9") {
					lost = e.Seq
				}
			}
			if _, _, err := branch.Recover(t.Context(), s, w.id); err == nil || !strings.Contains(err.Error(), "is not damaged; next: ") {
				t.Errorf("a whole thread is recovered: %v", err)
			}
			storetest.DeleteEvent(t, cfg, w.id, lost)

			if _, err := branch.Resume(t.Context(), s, w.id); !errors.As(err, new(*store.DamageError)) {
				t.Fatalf("the thread is resumed: %v", err)
			}
			if _, err := branch.Fork(t.Context(), s, s, w.id, branch.Point{Before: "1"}, ""); err != nil {
				t.Errorf("it can't be forked before the damage: %v", err)
			}
			id, damage, err := branch.Recover(t.Context(), s, w.id)
			if err != nil || damage.Good != lost-1 {
				t.Fatalf("recovered up to %+v, %v", damage, err)
			}
			state, err := branch.Resume(t.Context(), s, id)
			if err != nil {
				t.Fatal(err)
			}
			last := len(state.Messages) - 1
			if text := state.Messages[last].Text(); !strings.HasPrefix(text, "<record_lost>") {
				t.Errorf("the last thing that the model reads is %q", text)
			}
			if got := words(state.Messages[:last]); got != test.left {
				t.Errorf("left: %s, want %s", got, test.left)
			}
			if r, ok := state.Messages[last-1].Parts[0].(*llm.ToolResult); ok != (test.output != "") || ok && !strings.HasPrefix(llm.Message{Parts: r.Content}.Text(), test.output) {
				t.Errorf("before it the model reads %+v", r)
			}
			if state.OpenTurn != "" || len(state.Open) > 0 || state.Start.ForkedFrom != w.id {
				t.Errorf("it is not closed: %+v", state)
			}
		})
	}
}
