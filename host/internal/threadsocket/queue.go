package threadsocket

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Methods about the queue of the thread, and about messages that only the model sees.
const (
	methodInject      = prefix + "inject"
	methodQueue       = prefix + "queue"
	methodQueueChange = prefix + "changeQueue"
	methodQueueStart  = prefix + "startQueued"
)

// QueueResult is the queue of the thread.
type QueueResult struct {
	Data []queue.Entry `json:"data"`
}

// QueueChangeParams change the queue of the thread.
type QueueChangeParams struct {
	OfThread
	Change queue.Change `json:"change"`
}

// QueueStartParams select an entry of the queue.
type QueueStartParams struct {
	OfThread
	ID event.ItemID `json:"id,omitempty"` // empty: the first
}

// InjectParams are messages that are added to the history, all of them or none, after the running turn.
type InjectParams struct {
	OfThread
	Messages []llm.Message `json:"messages"`
}

// Inject adds messages to the history of the thread.
func (c *Client) Inject(ctx context.Context, p InjectParams) error {
	p.Thread = c.thread
	return c.call(ctx, methodInject, p, nil)
}

// DecideQueue checks a change of a queue against the states of the thread's features, and returns the queue after it and the data of its
// [event.FeatureChanged]; nil: nothing changes. Adding a message of a client that the queue has already, or whose turn has begun, changes
// nothing.
func DecideQueue(state func(feature string) json.RawMessage, c queue.Change) (after []queue.Entry, data json.RawMessage, err error) {
	if c.Op == queue.Add && c.Entry != nil && c.Entry.ClientID != "" {
		if after, err = queue.EntriesOf(state(queue.ID)); err != nil {
			return nil, nil, err
		}
		_, begun := thread.MessageOf(state(thread.MessagesID), c.Entry.ClientID)
		if begun || slices.ContainsFunc(after, func(e queue.Entry) bool { return e.ClientID == c.Entry.ClientID }) {
			return after, nil, nil
		}
	}
	return queue.Decide(state(queue.ID), c)
}

// ChangeQueue changes the queue of a running thread and returns it; see [DecideQueue].
func ChangeQueue(ctx context.Context, t *thread.Thread, c queue.Change) (after []queue.Entry, err error) {
	err = t.Amend(ctx, "", queue.ID, func(json.RawMessage) (data json.RawMessage, err error) {
		after, data, err = DecideQueue(t.Feature, c)
		return data, err
	})
	if err == nil && c.Op == queue.Add {
		t.Wake()
	}
	return after, err
}

func (t *served) changeQueue(ctx context.Context, p QueueChangeParams) (QueueResult, error) {
	entries, err := ChangeQueue(ctx, t.Thread.Thread, p.Change)
	return QueueResult{entries}, err
}

func (t *served) startQueued(ctx context.Context, p QueueStartParams) (StartResult, error) {
	a, err := t.Supply(ctx, p.ID)
	return StartResult{Turn: a.Turn}, err
}

// Queue returns the queue of the thread.
func (c *Client) Queue(ctx context.Context) ([]queue.Entry, error) {
	var r QueueResult
	err := c.call(ctx, methodQueue, c.target(), &r)
	return r.Data, err
}

// ChangeQueue changes the queue of the thread and returns it.
func (c *Client) ChangeQueue(ctx context.Context, change queue.Change) ([]queue.Entry, error) {
	var r QueueResult
	err := c.call(ctx, methodQueueChange, QueueChangeParams{c.target(), change}, &r)
	return r.Data, err
}

// StartQueued begins a turn with an entry of the queue.
func (c *Client) StartQueued(ctx context.Context, p QueueStartParams) (r StartResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodQueueStart, p, &r)
	return r, err
}
