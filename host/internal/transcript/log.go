package transcript

import (
	"context"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// Limits of pages of events.
const (
	defaultEvents = 100
	maxEvents     = 1000
)

// EventsRequest asks for a page of a log. Only one of Cursor, After and Before may be set.
type EventsRequest struct {
	Request
	After  *uint64 // the page begins with the event after this one, in ascending order
	Before *uint64 // the page begins with the event before this one, in descending order
}

// EventsPage returns a page of a thread's log as it is stored, with reverted turns. The default limit is 100, the maximum 1,000; a page
// with large events has fewer. The default order is ascending, except with Before.
func EventsPage(ctx context.Context, r Reader, thread event.ThreadID, req EventsRequest) (protocol.GantryThreadEventsResponse, error) {
	out := protocol.GantryThreadEventsResponse{Data: []protocol.GantryThreadEvent{}}
	order := protocol.Ascending
	if req.Before != nil {
		order = protocol.Descending
	}
	w, err := req.window(thread, ofEvents, order)
	if err != nil {
		return out, err
	}
	if w.Limit = defaultEvents; req.Limit != nil {
		w.Limit = int(min(max(*req.Limit, 1), maxEvents))
	}
	set := 0
	for _, is := range []bool{req.Cursor != "", req.After != nil, req.Before != nil} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return out, hint.New("`cursor`, `afterSeq` and `beforeSeq` exclude each other", "pass one of them")
	case req.After != nil && w.Descending, req.Before != nil && !w.Descending:
		return out, hint.New("`afterSeq` is for ascending order, `beforeSeq` for descending order", "leave out sortDirection, or pass the other one")
	case req.After != nil:
		w.At = *req.After
	case req.Before != nil && *req.Before == 0:
		return out, nil
	case req.Before != nil:
		w.At = *req.Before
	}
	entries, more, err := r.Log(ctx, w)
	if err != nil {
		return out, err
	}
	seqs := make([]uint64, len(entries))
	for i, e := range entries {
		seqs[i] = e.Seq
		out.Data = append(out.Data, eventOf(e))
	}
	out.NextCursor, out.BackwardsCursor = cursors(thread, ofEvents, seqs, more)
	return out, nil
}

func eventOf(e store.LogEntry) protocol.GantryThreadEvent {
	out := protocol.GantryThreadEvent{Seq: e.Seq, Time: e.Time.UTC().Format(time.RFC3339Nano), Kind: e.Kind, Body: e.Body}
	if e.Turn != "" {
		out.TurnID = new(string(e.Turn))
	}
	return out
}
