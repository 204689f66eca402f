package approval_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// stream is the stream of a thread.
type stream struct {
	mu    sync.Mutex
	asked chan event.QuestionAsked
	all   []event.Body
}

func (s *stream) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	s.mu.Lock()
	s.all = append(s.all, bodies...)
	s.mu.Unlock()
	for _, b := range bodies {
		if q, ok := b.(event.QuestionAsked); ok {
			s.asked <- q
		}
	}
	return 1, nil
}

func (s *stream) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

func tree() (root, child *approval.Broker, atRoot, atChild *stream) {
	atRoot, atChild = &stream{asked: make(chan event.QuestionAsked, 8)}, &stream{asked: make(chan event.QuestionAsked, 8)}
	root, child = approval.NewBroker(atRoot), approval.NewBroker(atChild)
	child.Under(root, "/root/a")
	return root, child, atRoot, atChild
}

// A question of an agent is put to those at the root and those at its own thread; one answer resolves both.
func TestQuestionsOfAgents(t *testing.T) {
	for _, at := range []string{"root", "agent"} {
		root, child, atRoot, atChild := tree()
		if _, err := child.Ask(t.Context(), approval.Question{About: event.QuestionApproval, Call: "c"}); !errors.Is(err, approval.ErrNoApprover) {
			t.Fatal(err)
		}
		defer root.Attend()()
		got := make(chan approval.Answer, 1)
		go func() { // ends with the answer
			a, _ := child.Ask(t.Context(), approval.Question{About: event.QuestionApproval, Call: "c"})
			got <- a
		}()
		there, here := <-atRoot.asked, <-atChild.asked
		if there.ID != here.ID || there.Agent != "/root/a" || here.Agent != "" {
			t.Errorf("at the root %+v, at the agent %+v", there, here)
		}
		answers, other := root, child
		if at == "agent" {
			answers, other = child, root
		}
		if err := answers.Resolve(there.ID, approval.Answer{Choice: approval.Approve, By: "user"}); err != nil {
			t.Fatal(err)
		}
		if a := <-got; a.Choice != approval.Approve {
			t.Errorf("answer %+v", a)
		}
		if err := other.Resolve(there.ID, approval.Answer{Choice: approval.Deny}); !errors.Is(err, approval.ErrUnknownQuestion) {
			t.Errorf("a second answer: %v", err)
		}
		if atRoot.count() != 2 || atChild.count() != 2 {
			t.Errorf("%d events at the root, %d at the agent", atRoot.count(), atChild.count())
		}
	}
}

// What a person allows for the session holds for all agents, and what they allow for a turn for its agent alone.
func TestSessionOfAgents(t *testing.T) {
	root, child, _, _ := tree()
	child.Allow([]string{"k"})
	if !root.Allowed("t", []string{"k"}) || !child.Allowed("u", []string{"k"}) {
		t.Error("a key for the session is not shared")
	}
	child.AllowTurn("u", []string{"l"})
	if root.Allowed("t", []string{"l"}) || !child.Allowed("u", []string{"l"}) {
		t.Error("a key for a turn is shared")
	}
}
