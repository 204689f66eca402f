package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// bench is a team of a root and two agents, which is not connected with threads.
func bench() (t *team, root, a, b *member) {
	t = &team{Agents: New(Config{Limits: usual})}
	t.mu.tree, t.mu.waits = newTree(usual, "r"), map[*waiting]struct{}{}
	root = t.mu.tree.members[Root]
	root.busy = true
	a, _, _ = t.mu.tree.spawn(root, "a")
	b, _, _ = t.mu.tree.spawn(root, "b")
	return t, root, a, b
}

func (t *team) idle(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.busy = false
	t.tellWaitingLocked()
}

// A wait ends with mail, with input before mail, at its time, with its call, and at once where nobody is at work; it asks nobody meanwhile.
func TestWait(t *testing.T) {
	letter := event.Mail{Author: "/root/a", Recipient: "/root", Type: event.MailAnswer, Text: "x"}
	for _, tc := range []struct {
		what   string
		before func(*turn.Mailbox, *turn.Inbox)
		then   func(*team, *member, *member, *turn.Mailbox, *turn.Inbox)
		want   string
		late   bool
		after  time.Duration
	}{
		{what: "mail is there", before: func(m *turn.Mailbox, _ *turn.Inbox) { m.Add(letter) }, want: waitCompleted},
		{what: "input is there", before: func(m *turn.Mailbox, i *turn.Inbox) { m.Add(letter); i.Add(turn.Input{}) }, want: waitInterrupted},
		{what: "mail comes", then: func(_ *team, _, _ *member, m *turn.Mailbox, _ *turn.Inbox) { m.Add(letter) }, want: waitCompleted, after: time.Second},
		{what: "input comes", then: func(_ *team, _, _ *member, _ *turn.Mailbox, i *turn.Inbox) { i.Add(turn.Input{}) }, want: waitInterrupted, after: time.Second},
		{what: "one is done", then: func(t *team, a, _ *member, _ *turn.Mailbox, _ *turn.Inbox) { t.idle(a) }, want: waitTimedOut, late: true, after: time.Minute},
		{what: "all are done", then: func(t *team, a, b *member, _ *turn.Mailbox, _ *turn.Inbox) { t.idle(a); t.idle(b) }, want: waitUseless, after: time.Second},
		{what: "all are done and have answered", then: func(t *team, a, b *member, m *turn.Mailbox, _ *turn.Inbox) {
			t.idle(a)
			m.Add(letter)
			t.idle(b)
		}, want: waitCompleted, after: time.Second},
		{what: "nothing happens", want: waitTimedOut, late: true, after: time.Minute},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				team, root, a, b := bench()
				box := turn.NewMailbox(nil)
				signal := turn.NewSignal(box)
				inbox := signal.NewInbox()
				if tc.before != nil {
					tc.before(box, inbox)
				}
				if tc.then != nil {
					time.AfterFunc(time.Second, func() { tc.then(team, a, b, box, inbox) })
				}
				began := time.Now()
				got, late, err := team.wait(t.Context(), signal, root, time.Minute)
				if err != nil || got != tc.want || late != tc.late || time.Since(began) != tc.after {
					t.Errorf("%q %v %v after %v, want %q %v after %v", got, late, err, time.Since(began), tc.want, tc.late, tc.after)
				}
				if len(team.mu.waits) != 0 {
					t.Error("the wait is still noted")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		team, root, _, _ := bench()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(orchestrate.ErrInterrupted) })
		if _, _, err := team.wait(ctx, turn.NewSignal(turn.NewMailbox(nil)), root, time.Minute); !errors.Is(err, orchestrate.ErrInterrupted) {
			t.Error("an interrupt:", err)
		}
	})
}

// A roster that is folded from events is what the tree needs after a restart.
func TestRoster(t *testing.T) {
	f := Feature{}
	apply := func(raw []byte, b event.Body) []byte { return f.Apply(raw, event.Event{Body: b}) }
	raw := apply(nil, changed(change{Spawned: &entry{Path: "/root/a", Thread: "1", Parent: "r", State: Running}}))
	raw = apply(raw, changed(change{Spawned: &entry{Path: "/root/b", Thread: "2", Parent: "r", State: Running}}))
	raw = apply(raw, changed(change{Spawned: &entry{Path: "/root/c", Thread: "3", Parent: "r", State: Running}}))
	raw = apply(raw, changed(change{Failed: "/root/c"}))
	raw = apply(raw, event.MailPosted{Mail: event.Mail{Author: "/root/a", Type: event.MailAnswer, Item: "i"}})
	raw = apply(raw, changed(change{Path: "/root/b", State: Interrupted, Stopped: true}))
	r := rosterOf(raw)
	if len(r.Agents) != 2 || r.Agents[0].State != Completed || !r.Agents[1].Stopped || r.Answers["/root/a"] != "i" {
		t.Errorf("%+v", r)
	}
	if raw = apply(raw, event.ThreadForked{}); raw != nil {
		t.Errorf("a copy has agents: %s", raw)
	}
}
