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
	into     event.TurnID  // the turn that the input must join; empty: any
	accepted chan Accepted // one slot
	// claimed by the owner, who then acts on it, or by the submitter, who then went away. Who comes second leaves it.
	claimed *atomic.Bool
	// taken: the owner claimed it before its turn starts, since it has stopped another one for it.
	taken bool
	// posted is told of a turn that mail began; nil: nobody waits.
	posted chan Posted
	// errand is work between two turns that touches what a turn owns; nil: a turn. It takes moments.
	errand func(context.Context)
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

// ending is what a goroutine of the thread says when it has ended.
type ending interface{ tell(*owner) []action }

type turnMsg struct {
	id     event.TurnID
	result turn.Result
}

// betweenMsg ends work between two turns.
type betweenMsg struct{}

// besideMsg ends work beside a turn.
type besideMsg struct{ said []llm.Message }

func (m turnMsg) tell(o *owner) []action    { return o.turnEnded(m) }
func (betweenMsg) tell(o *owner) []action   { return o.aloneEnded() }
func (m *besideMsg) tell(o *owner) []action { return o.besideEnded(m) }

// owner is the state of a thread and the decisions about it: no time, no goroutines, no I/O.
type owner struct {
	turn       event.TurnID // that runs; empty: idle, or something runs alone
	task       string       // what the running turn does, where it takes no input; empty: it takes some
	compacting bool         // it makes the history shorter
	alone      bool         // something between two turns has the history: no turn begins
	queue      []submitMsg  // waits for the running turn to end
	behind     []aloneMsg   // runs when the turn has ended, whose end is on the way
	inbox      *turn.Inbox
	mail       *turn.Mailbox
	cancel     context.CancelCauseFunc
	beside     map[*besideMsg]context.CancelCauseFunc // runs beside turns
	starters   []Starter
	state      func(feature string) json.RawMessage
	asks       bool          // the starters are asked when the thread is idle
	archived   *atomic.Bool  // no turn begins by itself
	leaves     bool          // the thread is ended behind this turn, or the next
	left       []llm.Message // of what ended beside a turn that takes no input, or after it
}

func (o *owner) full() bool { return len(o.queue) >= maxQueued }
func (o *owner) busy() bool { return o.turn != "" || o.alone }

// ends tells that the turn has done its work, and its end is on the way.
func (o *owner) ends() bool { return o.turn != "" && o.inbox.Closed() }

// submit: an idle thread starts a turn, a busy one steers it. A submission that sets something a running turn can't
// change waits for its end, as does everything while a turn runs that takes no input. What takes the turn's place waits for
// nobody.
func (o *owner) submit(m submitMsg) []action {
	switch {
	case m.into != "":
		return o.steer(m)
	case m.Task != nil && m.Task.Concurrent && o.turn != "" && !o.ends():
		return []action{startConcurrent{m}}
	case !o.busy():
		return []action{start(m)}
	case m.takesTurn() && o.ends(): // whatever it did: there is nothing to join or to stop
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
			return nil // what runs alone takes moments
		}
		return []action{stopTurn{cause: orchestrate.ErrReplaced}}
	case o.turn == "" || o.task != "" || m.errand != nil || m.Task != nil || m.OutputSchema != nil || m.Change != (Change{}):
		o.queue = append(o.queue, m)
		return nil
	default:
		return []action{steerTurn{m}}
	}
}

func start(m submitMsg) action {
	if m.errand != nil {
		return startErrand{m}
	}
	return startTurn{m}
}

// refused: the turn had ended when it should have been steered; its end is on the way.
func (o *owner) refused(m submitMsg) { o.queue = append(o.queue, m) }

// interrupt stops the turn, and what is done beside it.
func (o *owner) interrupt(m interruptMsg) []action {
	switch idle := o.turn == "" || o.ends(); {
	case idle && len(o.beside) == 0:
		m.reply <- ErrIdle
		return nil
	case idle:
		return []action{stopConcurrent(m)}
	}
	return []action{stopConcurrent{cause: m.cause}, stopTurn(m)}
}

// between runs what must not meet a turn. It does not wait for one that is at work: whoever asks knows better what to do about
// it. A turn that takes no input any more has all but ended; who has seen its last event may ask before it has.
func (o *owner) between(m aloneMsg) []action {
	switch {
	case o.ends():
		o.behind = append(o.behind, m)
		return nil
	case o.busy():
		m.reply <- ErrBusy
		return nil
	}
	return []action{runAlone{m}}
}

func (o *owner) turnEnded(m turnMsg) []action {
	o.asks = m.result.Status == event.TurnCompleted
	o.turn, o.inbox, o.cancel, o.task, o.compacting = "", nil, nil, "", false
	return o.next()
}

func (o *owner) aloneEnded() []action {
	o.alone = false
	return o.next()
}

// besideEnded: the turn that runs learns of it, else the next one does.
func (o *owner) besideEnded(m *besideMsg) []action {
	delete(o.beside, m)
	switch {
	case len(m.said) == 0:
		return nil
	case o.turn != "" && o.task == "":
		return []action{tellTurn{m.said}}
	}
	o.left = append(o.left, m.said...)
	if o.busy() {
		return nil
	}
	return o.next()
}

// next starts the first one that waits and is still wanted, after what was left has been recorded; then a turn that mail asks for.
func (o *owner) next() []action {
	if len(o.left) > 0 {
		left := o.left
		o.left = nil
		return []action{keep{left}}
	}
	if len(o.behind) > 0 {
		m := o.behind[0]
		o.behind = o.behind[1:]
		return []action{runAlone{m}}
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
