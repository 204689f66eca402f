package thread

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
)

// maxQueued is how many submissions wait for a turn; beyond it Submit waits. codex-compatible.
const maxQueued = 512

type submitMsg struct {
	Submission
	accepted chan Accepted // one slot
	// claimed by the owner, who then acts on it, or by the submitter, who then went away. Who comes second leaves it.
	claimed *atomic.Bool
	// taken: the owner claimed it before its turn starts, since it has stopped another one for it.
	taken bool
}

func (m submitMsg) claim() bool { return m.claimed.CompareAndSwap(false, true) }

type interruptMsg struct {
	cause error
	reply chan error // one slot
}

// aloneMsg asks to run something while no turn runs.
type aloneMsg struct {
	run   func(context.Context) error
	reply chan error // one slot
}

type turnMsg struct {
	id     event.TurnID
	result turn.Result
}

// action is what the owner decided to do.
type action interface{ isAction() }

type (
	startTurn struct{ sub submitMsg }
	steerTurn struct{ sub submitMsg }
	joinTurn  struct{ sub submitMsg }
	runAlone  struct{ aloneMsg }
	stopTurn  struct {
		cause error
		reply chan error // nil: nobody waits
	}
)

func (startTurn) isAction() {}
func (steerTurn) isAction() {}
func (joinTurn) isAction()  {}
func (runAlone) isAction()  {}
func (stopTurn) isAction()  {}

// owner is the state of a thread and the decisions about it: no time, no goroutines, no I/O.
type owner struct {
	turn   event.TurnID // that runs; empty: idle
	task   bool         // the running turn takes no input: it makes the history shorter
	busy   bool         // something runs alone: no turn begins
	queue  []submitMsg  // waits for the running turn to end
	inbox  *turn.Inbox
	cancel context.CancelCauseFunc
}

func (o *owner) full() bool { return len(o.queue) >= maxQueued }

// submit: an idle thread starts a turn, a busy one steers it. A submission that sets something a running turn can't
// change waits for its end, as does everything while the history is made shorter. That itself waits for nobody.
func (o *owner) submit(m submitMsg) []action {
	switch {
	case o.busy:
		o.queue = append(o.queue, m)
		return nil
	case o.turn == "":
		return []action{startTurn{m}}
	case m.Compact && o.task:
		return []action{joinTurn{m}}
	case m.Compact:
		if !m.claim() {
			return nil
		}
		m.taken = true
		o.queue = slices.Insert(o.queue, 0, m)
		return []action{stopTurn{cause: orchestrate.ErrReplaced}}
	case o.task || m.OutputSchema != nil || m.Model != "":
		o.queue = append(o.queue, m)
		return nil
	default:
		return []action{steerTurn{m}}
	}
}

// refused: the turn had ended when it should have been steered; its end is on the way.
func (o *owner) refused(m submitMsg) { o.queue = append(o.queue, m) }

func (o *owner) interrupt(m interruptMsg) []action {
	if o.turn == "" {
		m.reply <- ErrIdle
		return nil
	}
	return []action{stopTurn(m)}
}

// alone runs what must not meet a turn. It does not wait for one: whoever asks knows better what to do about it.
func (o *owner) alone(m aloneMsg) []action {
	if o.turn != "" || o.busy {
		m.reply <- ErrBusy
		return nil
	}
	o.busy = true
	return []action{runAlone{m}}
}

func (o *owner) turnEnded(turnMsg) []action {
	o.turn, o.inbox, o.cancel, o.task, o.busy = "", nil, nil, false, false
	return o.next()
}

// next starts the first one that waits and is still wanted.
func (o *owner) next() []action {
	for len(o.queue) > 0 {
		m := o.queue[0]
		o.queue = o.queue[1:]
		if m.taken || !m.claimed.Load() {
			return []action{startTurn{m}}
		}
	}
	return nil
}

// perform acts. It starts work and never waits for it.
func (t *Thread) perform(ctx context.Context, acts []action) {
	for _, a := range acts {
		switch a := a.(type) {
		case startTurn:
			if a.sub.taken || a.sub.claim() {
				t.start(ctx, a.sub)
			} else {
				t.perform(ctx, t.st.next())
			}
		case steerTurn:
			if !a.sub.claim() {
				continue // the submitter went away
			}
			if t.st.inbox.Add(a.sub.Input) {
				a.sub.accepted <- Accepted{Turn: t.st.turn, Steered: true}
			} else {
				a.sub.claimed.Store(false)
				t.st.refused(a.sub)
			}
		case joinTurn:
			if a.sub.claim() {
				a.sub.accepted <- Accepted{Turn: t.st.turn, Steered: true}
			}
		case runAlone:
			t.turns.Go(func() { // owned by the thread: end waits
				err := t.runAlone(ctx, a.run)
				t.results <- turnMsg{} // before the answer: who has it finds the thread idle
				a.reply <- err
			})
		case stopTurn:
			t.st.cancel(a.cause)
			if a.reply != nil {
				a.reply <- nil
			}
		}
	}
}

func (t *Thread) start(ctx context.Context, sub submitMsg) {
	id := event.NewTurnID()
	ctx, cancel := context.WithCancelCause(ctx)
	t.st.turn, t.st.cancel, t.st.inbox, t.st.task = id, cancel, &turn.Inbox{}, sub.Compact
	inbox := t.st.inbox
	sub.accepted <- Accepted{Turn: id}
	t.turns.Go(func() { // owned by the thread: end waits
		defer cancel(nil)
		res := t.runTurn(ctx, id, sub.Submission, inbox)
		t.results <- turnMsg{id, res} // received by Run or by end
	})
}
