package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func says(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{&llm.Text{Text: text}}}
}

// A later review goes on in the session of the one before, and shows what was said since.
func TestReviewsShareASession(t *testing.T) {
	r := &reviewed{answers: []any{`{"outcome":"allow"}`}}
	turn := r.turn()
	q := request("ls")
	review := func() {
		t.Helper()
		if ruling, ok, err := turn.Review(t.Context(), q); err != nil || !ok || ruling.Choice != approval.Approve {
			t.Fatalf("ruling = %+v, %v, %v", ruling, ok, err)
		}
	}
	review()
	q.History = append(q.History, says(llm.RoleAssistant, "now the second one"))
	review()
	review()
	if r.opened != 1 || len(r.closed) != 0 {
		t.Fatalf("%d sessions, closed %v", r.opened, r.closed)
	}
	first, second, third := r.questions[0], r.questions[1], r.questions[2]
	if !strings.Contains(first, ": conversation begins ===\n[1] user: clean up") || strings.Contains(first, reminder) {
		t.Errorf("the first question:\n%s", first)
	}
	if !strings.Contains(second, ": conversation since the last review begins ===\n[2] agent: now the second one") || strings.Contains(second, "clean up") ||
		!strings.Contains(second, reminder) {
		t.Errorf("the second question:\n%s", second)
	}
	if !strings.Contains(third, "(nothing was said)") || strings.Contains(third, reminder) || len(third) >= len(second) {
		t.Errorf("the third question:\n%s", third)
	}
	// The next turn of the thread has another breaker, and the same session.
	turn = turn.Guardian.Turn("t1", "u2", "small", r)
	review()
	if r.opened != 1 {
		t.Errorf("%d sessions", r.opened)
	}
	// A history that is another one is shown as a whole.
	q.History = []llm.Message{says(llm.RoleUser, "something else"), says(llm.RoleAssistant, "x"), says(llm.RoleAssistant, "y")}
	review()
	if last := r.questions[4]; !strings.Contains(last, ": conversation begins ===\n[1] user: something else") || r.opened != 1 {
		t.Errorf("after the history has changed, in %d sessions:\n%s", r.opened, last)
	}
	turn.End("t1")
	if !slices.Equal(r.closed, []event.ThreadID{"child1"}) {
		t.Errorf("closed at the thread's end: %v", r.closed)
	}
	review()
	if r.opened != 2 || !strings.Contains(r.questions[5], "[1] user") {
		t.Errorf("%d sessions:\n%s", r.opened, r.questions[5])
	}
}

// A session ends with what it was begun for, when something goes wrong in it, and when it has grown.
func TestSessionsEnd(t *testing.T) {
	t.Run("another folder", func(t *testing.T) {
		r := &reviewed{answers: []any{`{"outcome":"allow"}`}, key: "/a"}
		turn := r.turn()
		_, _, _ = turn.Review(t.Context(), request("ls"))
		r.key = "/b"
		_, _, _ = turn.Review(t.Context(), request("ls"))
		if r.opened != 2 || len(r.closed) != 1 || !strings.Contains(r.questions[1], "clean up") {
			t.Errorf("%d sessions, closed %v", r.opened, r.closed)
		}
	})
	t.Run("noise", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &reviewed{answers: []any{`{"outcome":"allow"}`, "noise", `{"outcome":"allow"}`}}
			turn := r.turn()
			_, _, _ = turn.Review(t.Context(), request("ls"))
			_, _, _ = turn.Review(t.Context(), request("ls"))
			if e := r.ended(); r.opened != 2 || e.Attempts != 2 || fmt.Sprint(e.Threads) != "[child1 child2]" || !strings.Contains(r.questions[2], "clean up") {
				t.Errorf("%d sessions, %+v", r.opened, e)
			}
		})
	})
	t.Run("many reviews", func(t *testing.T) {
		r := &reviewed{answers: []any{`{"outcome":"allow"}`}}
		turn := r.turn()
		for range maxReviews + 1 {
			_, _, _ = turn.Review(t.Context(), request("ls"))
		}
		if r.opened != 2 {
			t.Errorf("%d sessions", r.opened)
		}
	})
	t.Run("long questions", func(t *testing.T) {
		r := &reviewed{answers: []any{`{"outcome":"allow"}`}}
		turn := r.turn()
		for range 6 {
			_, _, _ = turn.Review(t.Context(), request("echo "+strings.Repeat("x", 25_000)))
		}
		if r.opened != 2 {
			t.Errorf("%d sessions", r.opened)
		}
	})
}

// Two calls at once are not reviewed in one session; what the second one had for itself ends with it.
func TestReviewsAtOnce(t *testing.T) {
	r := &reviewed{}
	turn := r.turn()
	r.answers = []any{func() string {
		r.answers[0] = `{"outcome":"allow"}`
		_, _, _ = turn.Review(t.Context(), request("pwd"))
		turn.End("t1") // and the thread ends meanwhile
		return `{"outcome":"allow"}`
	}, `{"outcome":"allow"}`}
	if ruling, _, err := turn.Review(t.Context(), request("ls")); err != nil || ruling.Choice != approval.Approve {
		t.Errorf("ruling = %+v, %v", ruling, err)
	}
	if !slices.Equal(r.closed, []event.ThreadID{"child2", "child1"}) {
		t.Errorf("closed: %v", r.closed)
	}
}
