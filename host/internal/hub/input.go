package hub

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxClientID is the maximum length of a client's identity of a message, in bytes. Usually it is a UUID.
const maxClientID = 256

// turn converts input.
func (in Input) turn() (turn.Input, error) {
	for key := range in.Context {
		if !contextKey(key) {
			return turn.Input{}, fmt.Errorf("invalid key %.80q of additional context: use 1 to 64 letters, digits, dashes and underscores", key)
		}
	}
	if len(in.ClientID) > maxClientID {
		return turn.Input{}, fmt.Errorf("the client's id of a message has %d bytes; it must have at most %d", len(in.ClientID), maxClientID)
	}
	return turn.Input{Parts: in.Parts, Context: in.Context, ClientID: in.ClientID, Continue: in.Continue, Adjust: in.adjust}, nil
}

// wire returns the input for another process: as text, which older versions understand, or as parts if it is more than text.
func (in Input) wire() (text string, parts llm.Parts) {
	if len(in.Parts) == 1 {
		if t, ok := in.Parts[0].(*llm.Text); ok {
			return t.Text, nil
		}
	}
	return "", in.Parts
}

func (in Input) wireContext() map[string]threadsocket.AdditionalContext {
	out := map[string]threadsocket.AdditionalContext{}
	for key, text := range in.Context {
		out[key] = threadsocket.AdditionalContext{Value: text}
	}
	return out
}

// contextKey reports whether a key is valid as part of an element's name.
func contextKey(key string) bool {
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return key != "" && len(key) <= 64
}

// Kinds of a [QueueChange].
const (
	QueueAdd    = queue.Add
	QueueUpdate = queue.Update
	QueueDelete = queue.Delete
	QueueOrder  = queue.Order
)

// StartQueued begins a turn with an entry of the queue; "": the first one. While a turn runs, the error has the code [Busy].
func (t *Thread) StartQueued(ctx context.Context, id event.ItemID) (Accepted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Accepted{}, err
	}
	return r.startQueued(ctx, id)
}

// Inject adds messages to the history that the model sees, all of them or none, without a turn. It waits for the end of a running turn.
// The messages survive a crash of the process. A call among them must have its output among them.
func (t *Thread) Inject(ctx context.Context, ms []llm.Message) error {
	r, err := t.current(ctx)
	if err != nil {
		return err
	}
	return r.inject(ctx, ms)
}

func (l *local) inject(ctx context.Context, ms []llm.Message) error {
	done, err := l.use()
	if err != nil {
		return err
	}
	defer done()
	return l.thread.Inject(ctx, ms...)
}

func (r *relay) inject(ctx context.Context, ms []llm.Message) error {
	return r.asked(r.client.Inject(ctx, threadsocket.InjectParams{Messages: ms}))
}

func (l *local) queued(context.Context) ([]Queued, error) {
	return queue.EntriesOf(l.thread.Feature(queue.ID))
}

func (l *local) changeQueue(ctx context.Context, c QueueChange) ([]Queued, error) {
	done, err := l.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return threadsocket.ChangeQueue(ctx, l.thread, c)
}

func (l *local) startQueued(ctx context.Context, id event.ItemID) (Accepted, error) {
	done, err := l.use()
	if err != nil {
		return Accepted{}, err
	}
	defer done()
	a, err := l.thread.Supply(ctx, id)
	return accepted(a), err
}

func (r *relay) queued(ctx context.Context) ([]Queued, error) {
	entries, err := r.client.Queue(ctx)
	return entries, r.asked(err)
}

func (r *relay) changeQueue(ctx context.Context, c QueueChange) ([]Queued, error) {
	entries, err := r.client.ChangeQueue(ctx, c)
	return entries, r.asked(err)
}

func (r *relay) startQueued(ctx context.Context, id event.ItemID) (Accepted, error) {
	a, err := r.client.StartQueued(ctx, threadsocket.QueueStartParams{ID: id})
	return Accepted{Turn: a.Turn}, r.asked(err)
}

// GoalStatus is the status of a goal.
type GoalStatus = goal.Status

// GoalView returns a goal of a thread as clients see it; nil: there is none.
func GoalView(id event.ThreadID, g *Goal) any {
	if v := goal.ViewOf(id, g); v != nil {
		return v
	}
	return nil
}

// Statuses of goals that front ends set.
const (
	GoalActive = goal.Active
	GoalPaused = goal.Paused
	// GoalComplete is what a model has reached.
	GoalComplete = goal.Complete
)

// Goal returns the goal of the thread; nil: it has none.
func (t *Thread) Goal(ctx context.Context) (*Goal, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.goal(ctx)
}

// ChangeGoal changes the goal of the thread and returns it; nil: it has none. See [Editor.ChangeGoal].
func (t *Thread) ChangeGoal(ctx context.Context, c GoalChange) (*Goal, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.changeGoal(ctx, c)
}

func (l *local) goal(ctx context.Context) (*Goal, error) {
	k, err := host.GoalOf(l.space.host, l.thread.ID())
	if err != nil {
		return nil, err
	}
	return k.Goal(ctx, "")
}

func (l *local) changeGoal(ctx context.Context, c GoalChange) (*Goal, error) {
	done, err := l.use()
	if err != nil {
		return nil, err
	}
	defer done()
	k, err := host.GoalOf(l.space.host, l.thread.ID())
	if err != nil {
		return nil, err
	}
	return k.Change(ctx, "", c)
}

// relayedGoal reaches the goal of a thread of another process.
type relayedGoal struct{ of *relay }

func (r relayedGoal) goal(ctx context.Context) (*Goal, error) {
	g, err := r.of.client.Goal(ctx)
	return g, r.of.asked(err)
}

func (r relayedGoal) changeGoal(ctx context.Context, c GoalChange) (*Goal, error) {
	g, err := r.of.client.ChangeGoal(ctx, c)
	return g, r.of.asked(err)
}
