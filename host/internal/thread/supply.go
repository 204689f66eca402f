package thread

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Supplier is a [Feature] that has input of the user for turns to come. Like a [Starter] it is asked when the thread is idle, but before
// all of them. The input is published as [event.InputAccepted] before its turn begins, with which the feature must drop it.
type Supplier interface {
	Feature
	// NextInput returns the input whose item has an ID, or the first one if id is empty; false: there is none. It must not block, and it
	// must not call the thread.
	NextInput(state json.RawMessage, id event.ItemID) (turn.Input, bool)
}

// Lasting is a [Feature] whose state stays as it is when turns are reverted.
type Lasting interface {
	Feature
	Lasting()
}

// ErrNoInput says that a [Supplier] does not have the input that a turn was to begin with.
var ErrNoInput = errors.New("the input is not waiting any more")

// Amend changes the state of a feature: decide returns the data of an [event.FeatureChanged] for the current state. Between the two,
// nothing else changes it with Amend or [Revise], and no turn begins with its input. When Amend returns without an error, the change survives
// a restart of the host. Data nil: nothing is published. id is the turn for which it is done; empty: none.
func (t *Thread) Amend(ctx context.Context, id event.TurnID, feature string, decide func(state json.RawMessage) (data json.RawMessage, err error)) error {
	seq, err := revise(ctx, t, id, feature, decide)
	if err != nil || seq == 0 {
		return err
	}
	crashpoint.At(crashpoint.InputAccepted, "")
	err = t.bus.Barrier(ctx, seq)
	crashpoint.At(crashpoint.InputDurable, "")
	return err
}

// Revise is [Thread.Amend] for a change that need not survive a crash of the host.
func Revise(ctx context.Context, t *Thread, id event.TurnID, feature string, decide func(state json.RawMessage) (data json.RawMessage, err error)) error {
	_, err := revise(ctx, t, id, feature, decide)
	return err
}

func revise(ctx context.Context, t *Thread, id event.TurnID, feature string, decide func(state json.RawMessage) (json.RawMessage, error)) (uint64, error) {
	if err := t.Opened(ctx); err != nil {
		return 0, err
	}
	return t.amending.amend(ctx, func() (uint64, error) {
		data, err := decide(t.Feature(feature))
		if err != nil || data == nil {
			return 0, err
		}
		return t.bus.Publish(ctx, id, event.FeatureChanged{Feature: feature, Data: data})
	})
}

// Supply begins a turn with input that a [Supplier] has: the one whose item has the ID, or the first one if id is empty. It returns
// [ErrBusy] while a turn runs, and [ErrNoInput].
func (t *Thread) Supply(ctx context.Context, id event.ItemID) (Accepted, error) {
	if t.archived.Load() {
		return Accepted{}, ErrArchived
	}
	m := supplyMsg{id: id, reply: make(chan Accepted, 1)}
	select {
	case t.alone <- exclusiveMsg{supply: &m}:
	case <-t.done:
		return Accepted{}, ErrClosed
	case <-ctx.Done():
		return Accepted{}, context.Cause(ctx)
	}
	select {
	case a := <-m.reply:
		return a, a.refused
	case <-t.done:
		return Accepted{}, ErrClosed // the input is still waiting, or in the log
	}
}

// amending is a mutex whose lock can be cancelled.
type amending chan struct{}

// amend runs f while no other caller does.
func (a amending) amend(ctx context.Context, f func() (uint64, error)) (uint64, error) {
	select {
	case a <- struct{}{}:
		defer func() { <-a }()
		return f()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// supplyMsg asks for a turn with input of a [Supplier].
type supplyMsg struct {
	id    event.ItemID  // empty: the first
	reply chan Accepted // one slot; nil: no caller waits
}

// supply takes input from a supplier, as work between two turns, and then starts its turn.
type supply struct{ supplyMsg }

func (a supply) perform(ctx context.Context, t *Thread) {
	t.st.alone = true
	t.turns.Go(func() { // owned by the thread: end waits
		m := supplied{supplyMsg: a.supplyMsg, turn: event.NewTurnID()}
		_, m.err = t.amending.amend(ctx, func() (seq uint64, err error) {
			input, ok, err := t.st.suppliers.next(t.Feature, a.id)
			switch {
			case err != nil:
				return 0, err
			case !ok:
				return 0, ErrNoInput
			}
			m.input = input
			// With this event the feature drops the input, and a resumed thread has it in its history.
			return t.bus.Publish(ctx, "", event.InputAccepted{
				Turn: m.turn, Item: m.input.Item, Message: llm.Message{Role: llm.RoleUser, Parts: m.input.Parts}, ClientID: m.input.ClientID, Queued: true,
			})
		})
		crashpoint.At(crashpoint.InputAccepted, "")
		t.results <- m // received by Run or by end
	})
}

// suppliers are the suppliers of a thread. They do not change.
type suppliers []Supplier

// next returns the input with an ID, or the first one. A panic becomes an error.
func (s suppliers) next(state func(feature string) json.RawMessage, id event.ItemID) (in turn.Input, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			in, ok, err = turn.Input{}, false, &panicError{p, debug.Stack()}
		}
	}()
	for _, one := range s {
		if in, ok := one.NextInput(state(one.ID()), id); ok {
			return in, true, nil
		}
	}
	return turn.Input{}, false, nil
}

// supplied ends the work of supply.
type supplied struct {
	supplyMsg
	turn  event.TurnID
	input turn.Input
	err   error
}

func (m supplied) tell(o *owner) []action {
	o.alone = false
	switch {
	case m.err == nil:
		sub := submitMsg{Submission: Submission{Input: m.input}, id: m.turn, accepted: m.reply, taken: true}
		if sub.accepted == nil {
			sub.accepted = make(chan Accepted, 1)
		}
		return []action{startTurn{sub}}
	case m.reply != nil:
		m.reply <- Accepted{refused: m.err}
	case !errors.Is(m.err, ErrNoInput):
		o.asks = false // it would fail again
		return append([]action{report{"queue", m.err}}, o.next()...)
	}
	return o.next()
}

// supplies returns the action that takes input from a supplier, if there is any. An error is found again by the action, which reports it.
func (o *owner) supplies() []action {
	if _, ok, err := o.suppliers.next(o.state, ""); ok || err != nil {
		return []action{supply{}}
	}
	return nil
}
