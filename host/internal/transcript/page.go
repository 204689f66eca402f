package transcript

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// Reader reads the stored history of a thread. [store.History] implements it.
type Reader interface {
	Turns(ctx context.Context, w store.Window) ([]store.TurnInfo, error)
	Turn(ctx context.Context, id event.TurnID) (store.TurnInfo, error)
	Items(ctx context.Context, f store.ItemFilter, w store.Window) ([]store.ItemInfo, error)
	At(ctx context.Context, seqs []uint64) ([]event.Event, error)
	Exits(ctx context.Context, after uint64, limit int) ([]event.Event, error)
	Log(ctx context.Context, w store.Window) (entries []store.LogEntry, more bool, err error)
}

// Limits of pages. Compatible with codex.
const (
	defaultLimit = 25
	maxLimit     = 100
)

// Request asks for a page of a list.
type Request struct {
	Cursor string  // of an earlier page; empty: the beginning of the list in its order
	Limit  *uint32 // nil: 25; 0 means 1, and more than 100 means 100
	Order  protocol.SortDirection
}

func (r Request) limit() int {
	if r.Limit == nil {
		return defaultLimit
	}
	return int(min(max(*r.Limit, 1), maxLimit))
}

// CursorError says that a cursor is not one of the list.
type CursorError struct{ Cursor string }

// Error implements error.
func (e *CursorError) Error() string { return "invalid cursor: " + head(e.Cursor, maxCursor) }

// NextStep implements hint.Stepper.
func (e *CursorError) NextStep() string { return "pass a cursor as the list returned it, or none" }

// maxCursor bounds a cursor in a message, in bytes; those of this package are shorter.
const maxCursor = 256

// cursor is a position in the turns or the items of a thread. Its form is codex's; clients don't interpret it.
type cursor struct {
	Thread    event.ThreadID `json:"requestedThreadId"`
	Seq       uint64         `json:"rolloutOrdinal"` // first event of a turn or an item
	Inclusive bool           `json:"includeAnchor"`
	Skip      int            `json:"skip,omitempty"` // occurrences in the item
	Scope     scope          `json:"scope"`
}

type scope struct {
	Kind string `json:"kind"`
}

// Kinds of cursors.
const (
	ofTurns = "turns"
	ofItems = "itemsByCreatedAtOrdinal"

	ofOccurrences = "occurrences"
	ofEvents      = "events"
)

func (c cursor) text() *string {
	b, err := json.Marshal(c)
	if err != nil { // strings and numbers always marshal
		panic("transcript: marshal a cursor: " + err.Error())
	}
	return new(string(b))
}

// window returns the rows that a request asks for, and one more.
func (r Request) window(thread event.ThreadID, kind string, order protocol.SortDirection) (store.Window, error) {
	if r.Order != "" {
		order = r.Order
	}
	w := store.Window{Descending: order == protocol.Descending, Limit: r.limit() + 1}
	c, err := r.at(thread, kind)
	w.At, w.Inclusive = c.Seq, c.Inclusive
	return w, err
}

// at returns the position of the cursor; without one, the beginning.
func (r Request) at(thread event.ThreadID, kind string) (c cursor, err error) {
	if r.Cursor == "" {
		return c, nil
	}
	err = json.Unmarshal([]byte(r.Cursor), &c)
	if err != nil || c.Thread != thread || c.Scope.Kind != kind || c.Seq == 0 || c.Seq > math.MaxInt64 || c.Skip < 0 {
		return cursor{}, &CursorError{r.Cursor}
	}
	return c, nil
}

// cursors returns the cursors of a page, whose rows begin with the events firsts. more says that the list goes on. The next page begins
// after the last row; a page in the other direction begins with the first one.
func cursors(thread event.ThreadID, kind string, firsts []uint64, more bool) (next, backwards *string) {
	if len(firsts) == 0 {
		return nil, nil
	}
	at := func(seq uint64, inclusive bool) *string {
		return cursor{Thread: thread, Seq: seq, Inclusive: inclusive, Scope: scope{kind}}.text()
	}
	if more {
		next = at(firsts[len(firsts)-1], false)
	}
	return next, at(firsts[0], true)
}

// TurnsPage returns a page of a thread's turns. The default order is descending, the default view the summary. A turn that the log has no
// end of is in progress; only the caller knows whether it still runs, see [Stopped] and [WithOpen].
func TurnsPage(ctx context.Context, r Reader, thread event.ThreadID, req Request, view protocol.TurnItemsView) (protocol.TurnsPage, error) {
	w, err := req.window(thread, ofTurns, protocol.Descending)
	if err != nil {
		return protocol.TurnsPage{}, err
	}
	rows, err := r.Turns(ctx, w)
	if err != nil {
		return protocol.TurnsPage{}, err
	}
	more := len(rows) == w.Limit
	if more {
		rows = rows[:len(rows)-1]
	}
	if view == "" {
		view = protocol.ItemsSummary
	}
	turns, err := bounded(ctx, r, rows, w.Descending)
	if err != nil {
		return protocol.TurnsPage{}, err
	}
	p := protocol.TurnsPage{}
	if p.Data, err = showTurns(ctx, r, turns, view); err != nil {
		return protocol.TurnsPage{}, err
	}
	firsts := make([]uint64, len(rows))
	for i, row := range rows {
		firsts[i] = row.FirstSeq
	}
	p.NextCursor, p.BackwardsCursor = cursors(thread, ofTurns, firsts, more)
	return p, nil
}

// span is a turn and the events that belong to it: those before the next turn.
type span struct {
	store.TurnInfo
	through uint64 // 0: the turn is the last one
	ended   *int64 // in milliseconds; nil: it has not ended
}

// bounded returns the spans of turns that follow each other.
func bounded(ctx context.Context, r Reader, rows []store.TurnInfo, descending bool) ([]span, error) {
	out := make([]span, len(rows))
	if len(rows) == 0 {
		return out, nil
	}
	newest := rows[len(rows)-1]
	if descending {
		newest = rows[0]
	}
	next, err := r.Turns(ctx, store.Window{At: newest.FirstSeq, Limit: 1})
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		out[i].TurnInfo = row
		following := next
		switch {
		case descending && i > 0:
			following = rows[i-1 : i]
		case !descending && i < len(rows)-1:
			following = rows[i+1 : i+2]
		}
		switch {
		case row.LastSeq > 0:
			out[i].ended = millis(row.Ended)
		case len(following) > 0: // the log lacks its end
			out[i].ended = millis(following[0].Started)
		}
		if len(following) > 0 {
			out[i].through = following[0].FirstSeq - 1
		}
	}
	return out, nil
}

func showTurns(ctx context.Context, r Reader, turns []span, view protocol.TurnItemsView) ([]protocol.Turn, error) {
	var seqs []uint64
	for _, t := range turns {
		seqs = append(seqs, t.FirstSeq)
		if t.LastSeq > 0 {
			seqs = append(seqs, t.LastSeq)
		}
	}
	events, err := eventsAt(ctx, r, seqs)
	if err != nil {
		return nil, err
	}
	items, err := itemsOf(ctx, r, turns, view)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.Turn, len(turns))
	for i, t := range turns {
		out[i] = t.turn(events)
		out[i].ItemsView, out[i].Items = view, []protocol.ThreadItem{}
		if mine := items[string(t.ID)]; len(mine) > 0 {
			out[i].Items = mine
		}
	}
	return out, nil
}

// turn returns the turn without items, folded from its first and its last event.
func (t span) turn(events map[uint64]event.Event) protocol.Turn {
	var f Fold
	f.Apply(events[t.FirstSeq])
	out := protocol.Turn{ID: string(t.ID), Status: protocol.TurnInProgress, StartedAt: new(t.Started.Unix())}
	if running := f.Turn(); running != nil {
		out = *running
	}
	switch {
	case t.LastSeq > 0:
		for _, c := range f.Apply(events[t.LastSeq]) {
			if p, ok := c.Params.(protocol.TurnCompletedNotification); ok {
				out = p.Turn
			}
		}
	case t.ended != nil:
		out.Status, out.CompletedAt = protocol.TurnInterrupted, new(*t.ended/1000)
	}
	return out
}

// itemsOf returns the items of turns that follow each other, by turn.
func itemsOf(ctx context.Context, r Reader, turns []span, view protocol.TurnItemsView) (map[string][]protocol.ThreadItem, error) {
	out := map[string][]protocol.ThreadItem{}
	if len(turns) == 0 || view == protocol.ItemsNotLoaded {
		return out, nil
	}
	list := itemList{Reader: r, turns: map[event.TurnID]span{}}
	f := store.ItemFilter{From: turns[0].FirstSeq, Through: turns[0].through}
	for _, t := range turns {
		list.turns[t.ID] = t
		f.From = min(f.From, t.FirstSeq)
		if f.Through > 0 {
			f.Through = max(f.Through, t.through)
		}
		if t.through == 0 {
			f.Through = 0
		}
	}
	found, err := list.view(ctx, turns, f, view)
	for _, it := range found {
		out[it.turn] = append(out[it.turn], it.shape)
	}
	return out, err
}

// view returns the items of turns that a view shows.
func (l itemList) view(ctx context.Context, turns []span, f store.ItemFilter, view protocol.TurnItemsView) ([]listed, error) {
	if view == protocol.ItemsFull {
		return l.collect(ctx, f, store.Window{}, 0)
	}
	first, last, err := l.ends(ctx, turns, f)
	if err != nil {
		return nil, err
	}
	rows := slices.Concat(slices.Collect(maps.Values(first)), slices.Collect(maps.Values(last))) // the input precedes the message
	found, err := l.read(ctx, rows)
	if err != nil {
		return nil, err
	}
	for _, t := range turns {
		row, expected := last[t.ID]
		if !expected || slices.ContainsFunc(found, func(it listed) bool { return it.first == row.FirstSeq }) {
			continue
		}
		// The last message has no text.
		f := store.ItemFilter{Turn: t.ID, From: t.FirstSeq, Through: row.FirstSeq, Types: []event.ItemType{event.ItemAgentMessage}}
		before, err := l.collect(ctx, f, store.Window{Descending: true}, 1)
		if err != nil {
			return nil, err
		}
		found = append(found, before...)
	}
	return found, nil
}

// ends returns each turn's first input and its last message. It reads only where they are.
func (l itemList) ends(ctx context.Context, turns []span, f store.ItemFilter) (first, last map[event.TurnID]store.ItemInfo, err error) {
	first, last = map[event.TurnID]store.ItemInfo{}, map[event.TurnID]store.ItemInfo{}
	f.Types = []event.ItemType{event.ItemUserMessage, event.ItemMail, event.ItemAgentMessage}
	w := store.Window{Limit: 8 * chunk}
	for {
		rows, err := l.Items(ctx, f, w)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			id := row.Turn
			for _, t := range turns {
				if id == "" && t.FirstSeq < row.FirstSeq && (t.through == 0 || row.FirstSeq <= t.through) {
					id = t.ID
				}
			}
			_, has := first[id]
			switch {
			case row.Type != event.ItemAgentMessage && !has && row.Status != event.StatusDeclined:
				first[id] = row
			case row.Type == event.ItemAgentMessage && row.Status != event.StatusSuperseded && !row.Followed:
				last[id] = row
			}
		}
		if len(rows) < w.Limit {
			return first, last, nil
		}
		w.At = rows[len(rows)-1].FirstSeq
	}
}
