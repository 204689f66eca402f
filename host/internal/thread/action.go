package thread

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// action is a decision of the owner.
type action interface {
	// perform starts work and never waits for it. Only the goroutine of Run calls it.
	perform(ctx context.Context, t *Thread)
}

type (
	startTurn        struct{ sub submitMsg }
	startMaintenance struct{ sub submitMsg }
	startConcurrent  struct{ sub submitMsg }
	steerTurn        struct{ sub submitMsg }
	joinTurn         struct{ sub submitMsg }
	refuse           struct {
		sub submitMsg
		why error
	}
	runAlone  struct{ exclusiveMsg }
	addToTurn struct{ said []llm.Message } // results of concurrent tasks, for the running turn
	keep      struct{ said []llm.Message } // the same, if no turn runs
	report    struct {
		feature string
		err     error
	}
	stopTurn struct {
		cause error
		reply chan stopping // nil: no caller waits
	}
	stopConcurrent struct {
		cause error
		reply chan stopping // as above
	}
)

func perform(ctx context.Context, t *Thread, acts []action) {
	for _, a := range acts {
		a.perform(ctx, t)
	}
}

func (a startTurn) perform(ctx context.Context, t *Thread) {
	if !a.sub.taken && !a.sub.claim() {
		perform(ctx, t, t.st.next())
		return
	}
	id := cmp.Or(a.sub.id, event.NewTurnID())
	ctx, cancel := context.WithCancelCause(ctx)
	t.st.turn, t.st.cancel, t.st.inbox, t.st.task = id, cancel, t.signal.NewInbox(), a.sub.kind()
	t.st.ended = make(chan struct{})
	t.st.compacting, t.st.leaves = a.sub.Compact, t.st.leaves || a.sub.ExitAfterTurn
	run := turnRun{thread: t, id: id, sub: a.sub.Submission, inbox: t.st.inbox}
	a.sub.accepted <- Accepted{Turn: id}
	if a.sub.posted != nil {
		a.sub.posted <- Posted{Turn: id, Began: true}
	}
	t.turns.Go(func() { // owned by the thread: end waits
		defer cancel(nil)
		res := run.run(ctx)
		t.results <- turnMsg{id, res} // received by Run or by end
	})
}

func (a startMaintenance) perform(ctx context.Context, t *Thread) {
	if !a.sub.claim() {
		perform(ctx, t, t.st.next())
		return
	}
	goExclusive(ctx, t, func(ctx context.Context) (answer func()) {
		a.sub.maintenance(ctx)
		return func() { a.sub.accepted <- Accepted{} }
	})
}

// A concurrent task outlives the turn beside which it started.
func (a startConcurrent) perform(ctx context.Context, t *Thread) {
	if !a.sub.claim() {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	id := t.st.turn
	m := &concurrentTask{}
	t.st.beside[m] = cancel
	a.sub.accepted <- Accepted{Turn: id, Concurrent: true}
	t.turns.Go(func() { // owned by the thread: end waits
		defer cancel(nil)
		m.work(ctx, *a.sub.Task, Worker{t, id, func(_ context.Context, ms ...llm.Message) error {
			m.said = append(m.said, ms...)
			return nil
		}})
		t.results <- m // received by Run or by end
	})
}

func (a steerTurn) perform(_ context.Context, t *Thread) {
	switch {
	case !a.sub.claim(): // the submitter has given up
	case a.sub.Input.Adjust != (turn.Adjustment{}):
		var refused error
		if !t.st.inbox.Adjust(a.sub.Input.Adjust) {
			refused = ErrNoTurn
		}
		a.sub.accepted <- Accepted{Turn: t.st.turn, Steered: true, refused: refused}
	case t.st.inbox.Add(a.sub.Input):
		a.sub.accepted <- Accepted{Turn: t.st.turn, Steered: true}
	case a.sub.into != "":
		a.sub.accepted <- Accepted{refused: ErrNoTurn}
	default:
		a.sub.claimed.Store(false)
		t.st.refused(a.sub)
	}
}

func (a joinTurn) perform(_ context.Context, t *Thread) {
	if a.sub.claim() {
		a.sub.accepted <- Accepted{Turn: t.st.turn, Steered: true}
	}
}

func (a refuse) perform(context.Context, *Thread) {
	if a.sub.claim() {
		a.sub.accepted <- Accepted{refused: a.why}
	}
}

func (a runAlone) perform(ctx context.Context, t *Thread) {
	goExclusive(ctx, t, func(ctx context.Context) (answer func()) {
		err := a.call(ctx, t)
		return func() { a.reply <- err } // the thread is idle when the caller gets the answer
	})
}

func (a addToTurn) perform(_ context.Context, t *Thread) {
	if !t.st.inbox.Add(turn.Input{Notes: a.said}) {
		t.st.left = append(t.st.left, a.said...) // the turn is ending
	}
}

func (a keep) perform(ctx context.Context, t *Thread) {
	goExclusive(ctx, t, func(ctx context.Context) (answer func()) {
		if err := record(ctx, t, a.said...); err != nil {
			t.cfg.Logger.Error("results of a concurrent task not recorded", "thread", t.cfg.ID, "err", err)
		}
		return nil
	})
}

// The owner must not wait for subscribers, so the notice is published by a goroutine.
func (a report) perform(ctx context.Context, t *Thread) {
	log := t.cfg.Logger.With("thread", t.cfg.ID, "feature", a.feature, "err", a.err)
	if p, ok := errors.AsType[*panicError](a.err); ok {
		log = log.With("stack", string(p.stack))
	}
	log.Warn("feature could not decide on the next turn")
	t.turns.Go(func() { // owned by the thread: end waits
		text, next := hint.Split(a.err)
		_, err := t.bus.Publish(ctx, "", event.Notice{
			Level: "warning", Text: fmt.Sprintf("feature %q could not decide on the next turn: %s", a.feature, text),
			Next: cmp.Or(next, "Say how to continue."),
		})
		if err != nil {
			t.cfg.Logger.Warn("event not published", "thread", t.cfg.ID, "err", err)
		}
	})
}

func (a stopTurn) perform(_ context.Context, t *Thread) {
	t.st.cancel(a.cause)
	if a.reply != nil {
		a.reply <- stopping{ended: t.st.ended}
	}
}

func (a stopConcurrent) perform(_ context.Context, t *Thread) {
	for _, cancel := range t.st.beside {
		cancel(a.cause)
	}
	if a.reply != nil {
		a.reply <- stopping{}
	}
}
