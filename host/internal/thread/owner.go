package thread

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxQueued is how many submissions wait for a turn; beyond it Submit waits. codex-compatible.
const maxQueued = 512

type submitMsg struct {
	Submission
	id       event.TurnID  // of the turn; empty: a new one
	into     event.TurnID  // the only turn that the input may join; empty: any
	accepted chan Accepted // one slot
	// claimed by the owner, which then handles the submission, or by a submitter that has given up. The second one to claim it
	// ignores it.
	claimed *atomic.Bool
	// taken: the owner has claimed it before its turn starts, because it has stopped another turn for it.
	taken bool
	// posted receives the turn that mail has started; nil: no caller waits.
	posted chan Posted
	// maintenance is brief work between two turns that changes what a turn owns; nil: this is a turn.
	maintenance func(context.Context)
}

func (m submitMsg) claim() bool { return m.claimed.CompareAndSwap(false, true) }

type interruptMsg struct {
	cause error
	turn  event.TurnID  // the only turn to interrupt; empty: any
	reply chan stopping // one slot
}

// stopping is the result of an interrupt.
type stopping struct {
	ended <-chan struct{} // closed when the turn has ended; nil: there was none
	err   error
}

// exclusiveMsg asks to run a function while no turn runs.
type exclusiveMsg struct {
	run   func(context.Context) error
	reply chan error // one slot
	// supply asks for a turn instead of run, which is nil then.
	supply *supplyMsg
}

// action returns what is done when no turn runs.
func (m exclusiveMsg) action() action {
	if m.supply != nil {
		return supply{*m.supply}
	}
	return runAlone{m}
}

// refuse tells the caller that a turn runs.
func (m exclusiveMsg) refuse() {
	if m.supply != nil {
		m.supply.reply <- Accepted{refused: ErrBusy}
		return
	}
	m.reply <- ErrBusy
}

// completion is what a goroutine of the thread reports when it ends.
type completion interface{ tell(*owner) []action }

type turnMsg struct {
	id     event.TurnID
	result turn.Result
}

// exclusiveDone ends work between two turns.
type exclusiveDone struct{}

// concurrentTask ends a task that ran beside turns.
type concurrentTask struct{ said []llm.Message }

func (m turnMsg) tell(o *owner) []action         { return o.turnEnded(m) }
func (exclusiveDone) tell(o *owner) []action     { return o.exclusiveEnded() }
func (m *concurrentTask) tell(o *owner) []action { return o.concurrentEnded(m) }

// owner is the state of a thread and the decisions about it: no clock, no goroutines, no I/O.
type owner struct {
	turn       event.TurnID   // the running turn; empty: the thread is idle, or exclusive work runs
	task       string         // kind of the running turn if it accepts no input; empty: it accepts input
	compacting bool           // the running turn compacts the history
	alone      bool           // work between two turns owns the history: no turn can start
	queue      []submitMsg    // waits for the end of the running turn
	behind     []exclusiveMsg // runs after the turn that is ending
	inbox      *turn.Inbox
	mail       *turn.Mailbox
	cancel     context.CancelCauseFunc
	ended      chan struct{}                               // closed when the running turn has ended
	beside     map[*concurrentTask]context.CancelCauseFunc // tasks that run beside turns
	starters   []Starter
	suppliers  suppliers
	state      func(feature string) json.RawMessage
	asks       bool          // the suppliers and starters are asked when the thread becomes idle
	archived   *atomic.Bool  // if set, no turn starts by itself
	leaves     bool          // the thread ends after this turn, or the next one
	left       []llm.Message // results of tasks that ended beside a turn without input, or after it
}

func (o *owner) full() bool { return len(o.queue) >= maxQueued }
func (o *owner) busy() bool { return o.turn != "" || o.alone }

// ends reports whether the turn has finished its work and is about to end.
func (o *owner) ends() bool { return o.turn != "" && o.inbox.Closed() }

// submit decides what to do with a submission. If the thread is idle it starts a turn, otherwise it joins the running one. It
// waits for the end of that turn if the turn accepts no input, or if the submission changes something that a running turn can't
// change. A submission that replaces the running turn stops it.
func (o *owner) submit(m submitMsg) []action {
	switch {
	case m.into != "":
		return o.steer(m)
	case m.Task != nil && m.Task.Concurrent && o.turn != "" && !o.ends():
		return []action{startConcurrent{m}}
	case !o.busy():
		return []action{start(m)}
	case m.takesTurn() && o.ends(): // the turn is over in any case: there is nothing to join or stop
		o.queue = slices.Insert(o.queue, 0, m)
		return nil
	case m.Compact && o.compacting:
		return []action{joinTurn{m}}
	case m.takesTurn():
		if !m.claim() {
			return nil
		}
		m.taken = true
		o.queue = slices.Insert(o.queue, 0, m)
		if o.turn == "" {
			return nil // alone work is brief
		}
		return []action{stopTurn{cause: orchestrate.ErrReplaced}}
	case o.turn == "" || o.task != "" || m.maintenance != nil || m.Task != nil || m.OutputSchema != nil || m.Change != (Change{}):
		o.queue = append(o.queue, m)
		return nil
	default:
		return []action{steerTurn{m}}
	}
}

func start(m submitMsg) action {
	if m.maintenance != nil {
		return startMaintenance{m}
	}
	return startTurn{m}
}

// refused queues input that the ending turn did not accept any more.
func (o *owner) refused(m submitMsg) { o.queue = append(o.queue, m) }

// interrupt stops the turn and the tasks beside it. If only one turn may be interrupted and it is ending already, its caller waits for
// the end.
func (o *owner) interrupt(m interruptMsg) []action {
	idle := o.turn == "" || o.ends()
	switch {
	case m.turn != "" && o.turn == "":
		m.reply <- stopping{err: ErrIdle}
		return nil
	case m.turn != "" && m.turn != o.turn:
		m.reply <- stopping{err: &OtherTurnError{m.turn, o.turn}}
		return nil
	case m.turn != "" && idle:
		m.reply <- stopping{ended: o.ended}
		return nil
	case idle && len(o.beside) == 0:
		m.reply <- stopping{err: ErrIdle}
		return nil
	case idle:
		return []action{stopConcurrent{m.cause, m.reply}}
	}
	return []action{stopConcurrent{cause: m.cause}, stopTurn{m.cause, m.reply}}
}

// between runs work that must not meet a turn. If a turn runs, the caller gets an error and decides what to do; if the turn is
// already ending, the work runs after it, because the caller may have seen its last event.
func (o *owner) between(m exclusiveMsg) []action {
	switch {
	case o.ends():
		o.behind = append(o.behind, m)
		return nil
	case o.busy():
		m.refuse()
		return nil
	}
	return []action{m.action()}
}

func (o *owner) turnEnded(m turnMsg) []action {
	o.asks = m.result.Status == event.TurnCompleted
	if o.ended != nil {
		close(o.ended)
	}
	o.turn, o.inbox, o.cancel, o.ended, o.task, o.compacting = "", nil, nil, nil, "", false
	return o.next()
}

func (o *owner) exclusiveEnded() []action {
	o.alone = false
	return o.next()
}

// concurrentEnded passes the results of a task to the running turn, or keeps them for the next one.
func (o *owner) concurrentEnded(m *concurrentTask) []action {
	delete(o.beside, m)
	switch {
	case len(m.said) == 0:
		return nil
	case o.turn != "" && o.task == "":
		return []action{addToTurn{m.said}}
	}
	o.left = append(o.left, m.said...)
	if o.busy() {
		return nil
	}
	return o.next()
}

// next decides what an idle thread does: record leftover results, run exclusive work, start the first submission that is still
// wanted, start a turn for mail, ask the features.
func (o *owner) next() []action {
	if len(o.left) > 0 {
		left := o.left
		o.left = nil
		return []action{keep{left}}
	}
	if len(o.behind) > 0 {
		m := o.behind[0]
		o.behind = o.behind[1:]
		return []action{m.action()}
	}
	for len(o.queue) > 0 {
		m := o.queue[0]
		o.queue = o.queue[1:]
		if m.taken || !m.claimed.Load() {
			return []action{start(m)}
		}
	}
	if acts := o.called(nil); acts != nil {
		return acts
	}
	return o.idle()
}
