package branch_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// A thread that begins with the history of another one has that as it was then, whatever happens there later.
func TestInheritedHistory(t *testing.T) {
	s := storetest.Open(t)
	parent := newTeller(t, s)
	parent.log("turn: D1 X1 U1 A1 turn: U2 A2 C1")
	through := parent.seq
	child := func(of event.ThreadID, through uint64, messages, turns int) *teller {
		c := newTeller(t, s)
		c.id, c.seq = event.NewThreadID(), 0
		c.tell(event.ThreadStarted{Cwd: "/", Model: "first", Source: event.SourceAgent, Parent: of, Inherited: &event.Inherited{
			From: of, Through: through, Messages: messages, Turns: turns,
		}})
		return c
	}
	all := child(parent.id, through, 7, 0)
	all.log("turn: D7 U7 A7")
	two := child(parent.id, through, 7, 2)
	grandchild := child(all.id, all.seq, 8, 0)
	grandchild.log("turn: U8 A8")
	compacted := child(parent.id, through, 7, 0)
	compacted.log("turn: U9 K[U9,S9] A9")
	parent.log("O1 A3 turn: U3 K[U3,S3] A4")
	for _, tc := range []struct {
		what string
		id   event.ThreadID
		want string
	}{
		{"all", all.id, "D1 X1 U1 A1 U2 A2 C1 D7 U7 A7"},
		{"the last two turns", two.id, "U1 A1 U2"},
		{"of a child", grandchild.id, "D1 X1 U1 A1 U2 A2 C1 D7 U8 A8"},
		{"after a compaction", compacted.id, "U9 S9 A9"},
	} {
		st, err := branch.Resume(t.Context(), s, tc.id)
		if err != nil {
			t.Fatal(err)
		}
		if got := words(st.Messages); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.what, got, tc.want)
		}
	}
}
