package transcript

import (
	"context"
	"fmt"
	"math"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// ItemsRequest asks for a page of items.
type ItemsRequest struct {
	Request
	Turn event.TurnID // only items of this turn; empty: all
	Item string       // the item with which the page begins, instead of a cursor
	// Defer says which items have no output; [ItemsByID] has it.
	Defer protocol.ThreadItemOutputDeferral
}

// ItemsPage returns a page of a thread's items in the order in which they started; the default order is ascending. Open items have no text;
// those of a turn that does not run any more are the caller's to end, as those of [TurnsPage] are.
func ItemsPage(ctx context.Context, r Reader, thread event.ThreadID, req ItemsRequest) (protocol.ThreadItemsListResponse, error) {
	p := protocol.ThreadItemsListResponse{Data: []protocol.ThreadItemEntry{}}
	w, err := req.window(thread, ofItems, protocol.Ascending)
	if err != nil {
		return p, err
	}
	list := itemList{Reader: r, turns: map[event.TurnID]span{}}
	f := store.ItemFilter{Turn: req.Turn}
	if req.Turn != "" {
		t, err := list.turn(ctx, req.Turn)
		if err != nil {
			return p, err
		}
		f.From, f.Through = t.FirstSeq, t.through
	}
	if req.Item != "" {
		g := f
		g.IDs = []string{req.Item}
		anchor, err := r.Items(ctx, g, store.Window{Descending: true, Limit: 1})
		if err != nil {
			return p, err
		}
		if len(anchor) == 0 {
			return p, &store.NotFoundError{What: "item", ID: req.Item}
		}
		w.At, w.Inclusive = anchor[0].FirstSeq, true
	}
	found, err := list.collect(ctx, f, w, w.Limit)
	if err != nil {
		return p, err
	}
	more := len(found) == w.Limit
	if more {
		found = found[:len(found)-1]
	}
	firsts := make([]uint64, len(found))
	for i, it := range found {
		p.Data = append(p.Data, it.entry(req.Defer))
		firsts[i] = it.first
	}
	p.NextCursor, p.BackwardsCursor = cursors(thread, ofItems, firsts, more)
	return p, nil
}

// ItemsByID returns items of a turn, in the order in which they started. An item that the turn does not have is a
// [*store.NotFoundError].
func ItemsByID(ctx context.Context, r Reader, turn event.TurnID, ids []string) ([]protocol.ThreadItemEntry, error) {
	list := itemList{Reader: r, turns: map[event.TurnID]span{}}
	t, err := list.turn(ctx, turn)
	if err != nil {
		return nil, err
	}
	out := []protocol.ThreadItemEntry{}
	if len(ids) == 0 {
		return out, nil
	}
	found, err := list.collect(ctx, store.ItemFilter{Turn: turn, IDs: ids, From: t.FirstSeq, Through: t.through}, store.Window{}, 0)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, it := range found {
		have[it.shape.Body.Header().ID] = true
		out = append(out, it.entry(protocol.ThreadItemOutputDeferral{}))
	}
	for _, id := range ids {
		if !have[id] {
			return nil, &store.NotFoundError{What: "item", ID: id}
		}
	}
	return out, nil
}

// itemList reads items. It remembers the turns that it had to look up.
type itemList struct {
	Reader
	turns map[event.TurnID]span
}

// listed is an item of a list.
type listed struct {
	shape protocol.ThreadItem
	turn  string
	first uint64 // its first event
}

// entry returns the item in the form of lists of items.
func (it listed) entry(without protocol.ThreadItemOutputDeferral) protocol.ThreadItemEntry {
	h := it.shape.Body.Header()
	e := protocol.ThreadItemEntry{TurnID: it.turn, Item: it.shape, StartedAtMs: h.StartedAtMs, CompletedAtMs: h.CompletedAtMs}
	switch b := it.shape.Body.(type) {
	case protocol.CommandExecutionItem:
		if without.CommandExecution && b.AggregatedOutput != nil && *b.AggregatedOutput != "" {
			b.AggregatedOutput, e.OutputDeferred = nil, true
			e.Item.Body = b
		}
	case protocol.MCPToolCallItem:
		if without.MCPToolCall && b.Result != nil {
			b.Result, e.OutputDeferred = nil, true
			e.Item.Body = b
		}
	}
	return e
}

// chunk is how many rows are read at once if a list is read whole.
const chunk = 256

// collect returns the first n items of a window that are part of their turns; n is 0: all.
func (l itemList) collect(ctx context.Context, f store.ItemFilter, w store.Window, n int) ([]listed, error) {
	var out []listed
	for {
		w.Limit = chunk
		if n > 0 {
			w.Limit = min(n-len(out), chunk)
		}
		rows, err := l.Items(ctx, f, w)
		if err != nil {
			return nil, err
		}
		shown, err := l.read(ctx, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, shown...)
		if len(rows) < w.Limit || len(out) == n && n > 0 {
			return out, nil
		}
		w.At, w.Inclusive = rows[len(rows)-1].FirstSeq, false
	}
}

// read reads items, without those that are not part of their turns.
func (l itemList) read(ctx context.Context, rows []store.ItemInfo) ([]listed, error) {
	seqs := make([]uint64, 0, 2*len(rows))
	for _, row := range rows {
		seqs = append(seqs, row.FirstSeq, row.LastSeq)
	}
	events, err := eventsAt(ctx, l.Reader, seqs)
	if err != nil {
		return nil, err
	}
	items := make([]*item, len(rows))
	pending := map[*item]store.ItemInfo{}
	for i, row := range rows {
		if items[i], err = l.item(ctx, row, events); err != nil {
			return nil, err
		}
		if it := items[i]; it != nil && it.outlives() {
			pending[it] = row
		}
	}
	if err := l.exits(ctx, pending); err != nil {
		return nil, err
	}
	out := make([]listed, 0, len(rows))
	for i, it := range items {
		if it == nil {
			continue
		}
		if shape := it.shape(); !isBlank(shape) {
			out = append(out, listed{shape, it.turn, rows[i].FirstSeq})
		}
	}
	return out, nil
}

// exits ends commands that outlive their calls with their processes. It reads the ends of processes from the first command on until all
// are found: most processes end soon after their call.
func (l itemList) exits(ctx context.Context, pending map[*item]store.ItemInfo) error {
	if len(pending) == 0 {
		return nil
	}
	after := uint64(math.MaxInt64)
	for _, row := range pending {
		after = min(after, row.FirstSeq)
	}
	for len(pending) > 0 {
		exits, err := l.Exits(ctx, after, chunk)
		if err != nil {
			return err
		}
		for _, e := range exits {
			x, ok := e.Body.(event.SessionExited)
			for it, row := range pending {
				if ok && it.Session == x.Session && e.Seq > row.FirstSeq {
					it.exitedAt(x, e, row)
					delete(pending, it)
				}
			}
		}
		if len(exits) < chunk {
			break
		}
		after = exits[len(exits)-1].Seq
	}
	for it := range pending { // their processes run
		if it.Status != event.StatusAborted {
			it.text, it.ended, it.Status = []byte(it.Output), nil, event.StatusInProgress
		}
	}
	return nil
}

// item returns the item of a row; nil: it is not part of its turn.
func (l itemList) item(ctx context.Context, row store.ItemInfo, events map[uint64]event.Event) (*item, error) {
	begun, done := events[row.FirstSeq], events[row.LastSeq]
	var f Fold
	f.recent, f.event = row.Turn, begun
	if row.Turn == "" { // between turns: it belongs to the one before
		before, err := l.Turns(ctx, store.Window{At: row.FirstSeq, Descending: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(before) > 0 {
			f.recent = before[0].ID
		}
	}
	var it *item
	switch b := begun.Body.(type) {
	case event.ItemStarted:
		it = f.newItem(b.Item)
	case event.ItemCompleted:
		if b.Item.Type == event.ItemUserMessage && b.Item.Status == event.StatusDeclined {
			return nil, nil
		}
		it = f.newItem(b.Item)
	default: // of a later version
		return nil, nil
	}
	if b, ok := done.Body.(event.ItemCompleted); ok {
		it.Item, it.ended = b.Item, millis(done.Time)
		if it.spoken() && row.Followed {
			it.Status = event.StatusSuperseded
		}
		if !it.spoken() || it.Status != event.StatusAborted {
			return it, nil
		}
	}
	t, err := l.turn(ctx, f.recent)
	switch {
	case err != nil:
		return nil, fmt.Errorf("item %s: %w", it.id(), err)
	case t.ended == nil: // if it was cut off, the model may still repeat it
		it.ended = nil
	case it.ended == nil: // it has ended with its turn
		it.Status, it.ended = event.StatusAborted, t.ended
	}
	return it, nil
}

// turn returns the span of a turn. One that is not stored is without an end.
func (l itemList) turn(ctx context.Context, id event.TurnID) (span, error) {
	if t, ok := l.turns[id]; ok {
		return t, nil
	}
	info, err := l.Turn(ctx, id)
	if err != nil {
		return span{}, err
	}
	spans, err := bounded(ctx, l.Reader, []store.TurnInfo{info}, false)
	if err != nil {
		return span{}, err
	}
	l.turns[id] = spans[0]
	return spans[0], nil
}

// outlives reports whether the item is a command whose process may go on after the call.
func (it *item) outlives() bool {
	return it.Type == event.ItemCommand && !it.known && it.Session != "" && it.ExitCode == nil && it.ended != nil
}

// exitedAt ends a command with its process. A call that was aborted has ended already, unless the process ended before.
func (it *item) exitedAt(x event.SessionExited, e event.Event, row store.ItemInfo) {
	if e.Seq > row.LastSeq {
		if it.Status == event.StatusAborted {
			return
		}
		it.ended = millis(e.Time)
	}
	it.exited(x)
}

// eventsAt returns events by their numbers.
func eventsAt(ctx context.Context, r Reader, seqs []uint64) (map[uint64]event.Event, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	events, err := r.At(ctx, seqs)
	if err != nil {
		return nil, err
	}
	out := make(map[uint64]event.Event, len(events))
	for _, e := range events {
		out[e.Seq] = e
	}
	return out, nil
}
