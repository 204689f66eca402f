package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// queues has the methods about the queues of threads.
type queues struct{ *Server }

// queuedInput converts the input of an entry. What the client wrote is kept for those who edit it.
func queuedInput(in []protocol.UserInput) (parts []llm.Part, form json.RawMessage, err error) {
	if len(in) == 0 {
		return nil, nil, rpc.Errorf(rpc.InvalidRequest, "input must not be empty")
	}
	converted, err := input(in, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	form, err = json.Marshal(in)
	return converted.Parts, form, err
}

// queuedSubmission converts an entry for clients.
func queuedSubmission(e hub.Queued) protocol.QueuedSubmission {
	out := protocol.QueuedSubmission{ID: string(e.ID), ClientUserMessageID: e.ClientID, Input: []protocol.UserInput{}}
	if e.Form != nil && json.Unmarshal(e.Form, &out.Input) == nil {
		return out
	}
	for _, p := range e.Parts {
		switch p := p.(type) {
		case *llm.Text:
			out.Input = append(out.Input, protocol.UserInput{Body: protocol.TextInput{Text: p.Text}})
		case *llm.Media:
			url := "data:" + p.MediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
			out.Input = append(out.Input, protocol.UserInput{Body: protocol.ImageInput{URL: url}})
		}
	}
	return out
}

func (s queues) add(ctx context.Context, c *call, p protocol.ThreadQueueAddParams) (out protocol.ThreadQueueAddResponse, err error) {
	parts, form, err := queuedInput(p.Input)
	if err != nil {
		return out, err
	}
	e := hub.Queued{ID: event.NewItemID(), ClientID: p.ClientUserMessageID, Parts: parts, Form: form}
	after, err := s.change(ctx, c, p.ThreadID, hub.QueueChange{Op: hub.QueueAdd, Entry: &e})
	if err != nil {
		return out, err
	}
	// The queue may have had it already. If its turn has begun, the entry is gone like any other whose turn has begun.
	if i := slices.IndexFunc(after, func(is hub.Queued) bool { return is.ClientID != "" && is.ClientID == e.ClientID }); i >= 0 {
		e = after[i]
	}
	out.QueuedSubmission = queuedSubmission(e)
	return out, nil
}

func (s queues) list(ctx context.Context, _ *call, p protocol.ThreadQueueListParams) (out protocol.ThreadQueueListResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	entries, err := s.cfg.Hub.Queue(ctx, id)
	if err != nil {
		return out, err
	}
	from := 0
	if cursor := deref(p.Cursor); cursor != "" {
		if from = slices.IndexFunc(entries, func(e hub.Queued) bool { return string(e.ID) == cursor }) + 1; from == 0 {
			return out, rpc.Errorf(rpc.InvalidRequest, "invalid cursor: %s", cursor)
		}
	}
	out.Data = []protocol.QueuedSubmission{}
	limit := len(entries)
	if p.Limit != nil {
		limit = int(min(max(1, *p.Limit), 1<<20))
	}
	for _, e := range entries[from:] {
		if len(out.Data) == limit {
			out.NextCursor = &out.Data[limit-1].ID
			break
		}
		out.Data = append(out.Data, queuedSubmission(e))
	}
	return out, nil
}

func (s queues) update(ctx context.Context, c *call, p protocol.ThreadQueueUpdateParams) (out protocol.ThreadQueueUpdateResponse, err error) {
	parts, form, err := queuedInput(p.Input)
	if err != nil {
		return out, err
	}
	id := event.ItemID(p.QueuedSubmissionID)
	after, err := s.change(ctx, c, p.ThreadID, hub.QueueChange{Op: hub.QueueUpdate, Entry: &hub.Queued{ID: id, Parts: parts, Form: form}})
	if err != nil {
		return out, err
	}
	if i := slices.IndexFunc(after, func(e hub.Queued) bool { return e.ID == id }); i >= 0 {
		out.QueuedSubmission = queuedSubmission(after[i])
	}
	return out, nil
}

// change changes the queue of a thread. The notification follows the response.
func (s queues) change(ctx context.Context, c *call, thread string, change hub.QueueChange) ([]hub.Queued, error) {
	id, err := threadID(thread)
	if err != nil {
		return nil, err
	}
	c.afterwards(c.hold(id))
	return s.cfg.Hub.ChangeQueue(ctx, id, change)
}

func (s queues) delete(ctx context.Context, c *call, p protocol.ThreadQueueDeleteParams) (out protocol.ThreadQueueDeleteResponse, err error) {
	_, err = s.change(ctx, c, p.ThreadID, hub.QueueChange{Op: hub.QueueDelete, ID: event.ItemID(p.QueuedSubmissionID)})
	if err != nil && hub.ErrorOf(err).Code == hub.NotFound {
		return out, nil
	}
	out.Deleted = err == nil
	return out, err
}

func (s queues) reorder(ctx context.Context, c *call, p protocol.ThreadQueueReorderParams) (out protocol.ThreadQueueReorderResponse, err error) {
	change := hub.QueueChange{Op: hub.QueueOrder}
	for _, id := range p.QueuedSubmissionIDs {
		change.Order = append(change.Order, event.ItemID(id))
	}
	_, err = s.change(ctx, c, p.ThreadID, change)
	return out, err
}

func (s queues) start(ctx context.Context, c *call, p protocol.ThreadQueueStartParams) (out protocol.ThreadQueueStartResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	t, err := s.cfg.Hub.Resume(ctx, id, hub.ResumeParams{})
	if err != nil {
		return out, err
	}
	if err := c.follow(ctx, t); err != nil {
		return out, err
	}
	c.afterwards(c.hold(t.ID()))
	a, err := t.StartQueued(ctx, event.ItemID(deref(p.QueuedSubmissionID)))
	out.Turn = inProgress(a.Turn)
	return out, err
}
