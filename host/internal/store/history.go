package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

// History reads pages of one thread's turns and items, without those that were reverted. A page costs what it holds, however long the
// thread is.
type History struct {
	store  *Store
	thread event.ThreadID
}

// History returns the history of a thread. A thread that does not exist has an empty one.
func (s *Store) History(thread event.ThreadID) History { return History{s, thread} }

// Window is a part of an ordered list.
type Window struct {
	// At is the number of the row's first event at which the window begins; 0: the list's beginning, or its end if Descending is set.
	At        uint64
	Inclusive bool // the row At belongs to the window
	// Descending reverses the order of the rows.
	Descending bool
	Limit      int // maximum number of rows; at least 1
}

// clause returns the condition, order and limit of a window on a column.
func (w Window) clause(column string) (condition, order string, args []any) {
	compare := ">"
	order = " ORDER BY " + column + " LIMIT ?"
	if w.Descending {
		compare, order = "<", " ORDER BY "+column+" DESC LIMIT ?"
	}
	if w.Inclusive {
		compare += "="
	}
	if w.At > 0 {
		condition, args = " AND "+column+" "+compare+" ?", []any{w.At}
	}
	return condition, order, append(args, max(w.Limit, 1))
}

// Turns returns the turns of a window, without HasInput and Preview.
func (h History) Turns(ctx context.Context, w Window) ([]TurnInfo, error) {
	g, err := h.store.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	condition, order, args := w.clause("first_seq")
	var rows []turnRow
	err = g.Raw("SELECT id, first_seq, last_seq, status, started_at, ended_at FROM turns WHERE thread_id = ? AND "+revertOfTurn+" = 0"+condition+order,
		append([]any{string(h.thread)}, args...)...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list turns: %w", h.store.db.Explain(err))
	}
	turns := make([]TurnInfo, len(rows))
	for i, r := range rows {
		turns[i] = TurnInfo{
			ID: event.TurnID(r.ID), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, Status: r.Status, Started: database.Time(r.StartedAt), Ended: database.Time(r.EndedAt),
		}
	}
	return turns, nil
}

// Turn returns a turn of the thread, without HasInput and Preview, or a [*NotFoundError].
func (h History) Turn(ctx context.Context, id event.TurnID) (TurnInfo, error) {
	g, err := h.store.db.Read(ctx)
	if err != nil {
		return TurnInfo{}, err
	}
	var rows []turnRow
	if err := g.Where("thread_id = ? AND id = ? AND "+revertOfTurn+" = 0", string(h.thread), string(id)).Find(&rows).Error; err != nil {
		return TurnInfo{}, fmt.Errorf("find turn %q: %w", id, h.store.db.Explain(err))
	}
	if len(rows) == 0 {
		return TurnInfo{}, &NotFoundError{What: "turn", ID: string(id)}
	}
	r := rows[0]
	return TurnInfo{
		ID: event.TurnID(r.ID), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, Status: r.Status, Started: database.Time(r.StartedAt), Ended: database.Time(r.EndedAt),
	}, nil
}

// ItemInfo locates an item. The events FirstSeq and LastSeq have its content; they are the same if it has not completed, or was complete
// from the start.
type ItemInfo struct {
	ID       event.ItemID
	Turn     event.TurnID
	Call     event.CallID
	Type     event.ItemType
	Status   event.ItemStatus
	FirstSeq uint64
	LastSeq  uint64
	// Followed: in the same turn, the model said or thought something after the item.
	Followed bool
}

// ItemFilter selects items. Its zero value selects all.
type ItemFilter struct {
	Turn  event.TurnID // items of the turn, and those between turns
	Types []event.ItemType
	IDs   []string // of items, or of their calls
	Said  string   // only messages of users and agents that contain the text, ignoring case; empty: all items
	// From and Through are the numbers of the first event, from and up to which items are listed; 0: no limit.
	From, Through uint64
}

// revertOfItem is an expression for the event that reverted an item, or 0.
var revertOfItem = fmt.Sprintf(revertOf, "items", "first_seq")

// followed is an expression for [ItemInfo.Followed], which only items that were cut off need.
var followed = fmt.Sprintf(`(items.status = '%s' AND EXISTS (SELECT 1 FROM items later WHERE later.thread_id = items.thread_id
	AND later.turn_id = items.turn_id AND later.first_seq > items.last_seq AND later.type IN ('%s', '%s')))`,
	event.StatusAborted, event.ItemAgentMessage, event.ItemReasoning)

// Items returns the items of a window, in the order in which they started.
func (h History) Items(ctx context.Context, f ItemFilter, w Window) ([]ItemInfo, error) {
	g, err := h.store.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	condition, order, args := w.clause("items.first_seq")
	params := []any{string(h.thread)}
	var conditions strings.Builder
	where := func(sql string, args ...any) {
		conditions.WriteString(" AND " + sql)
		params = append(params, args...)
	}
	if f.Turn != "" {
		where("turn_id IN (?, '')", string(f.Turn))
	}
	if len(f.Types) > 0 {
		where("type IN ?", f.Types)
	}
	if len(f.IDs) > 0 {
		where("(items.id IN ? OR items.call_id <> '' AND items.call_id IN ?)", f.IDs, f.IDs)
	}
	if f.Said != "" {
		m, err := newMatch(g, []string{f.Said})
		if err != nil {
			return nil, fmt.Errorf("list items: %w", h.store.db.Explain(err))
		}
		where("items.last_seq IN (?)", m.passages(g).Select("passages.seq").Where("passages.thread_id = ?", string(h.thread)))
	}
	if f.From > 0 {
		where("items.first_seq >= ?", f.From)
	}
	if f.Through > 0 {
		where("items.first_seq <= ?", f.Through)
	}
	var rows []struct {
		ID, TurnID, CallID, Type, Status string
		FirstSeq, LastSeq                uint64
		Followed                         bool
	}
	err = g.Raw("SELECT id, turn_id, call_id, type, status, first_seq, last_seq, "+followed+" AS followed FROM items WHERE thread_id = ? AND "+
		revertOfItem+" = 0"+conditions.String()+condition+order, append(params, args...)...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list items: %w", h.store.db.Explain(err))
	}
	items := make([]ItemInfo, len(rows))
	for i, r := range rows {
		items[i] = ItemInfo{
			ID: event.ItemID(r.ID), Turn: event.TurnID(r.TurnID), Call: event.CallID(r.CallID), Type: event.ItemType(r.Type),
			Status: event.ItemStatus(r.Status), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, Followed: r.Followed,
		}
	}
	return items, nil
}

// At returns events by their numbers, in order. Errors are those of [Store.Events].
func (h History) At(ctx context.Context, seqs []uint64) ([]event.Event, error) {
	seqs = slices.Compact(slices.Sorted(slices.Values(seqs)))
	var out []event.Event
	for part := range slices.Chunk(seqs, pageRows) {
		got, err := h.read(ctx, "seq IN ?", "", part)
		if err != nil {
			return nil, err
		}
		for i, seq := range part {
			if i >= len(got) || got[i].Seq != seq {
				return nil, h.missing(ctx, seq)
			}
		}
		out = append(out, got...)
	}
	return out, nil
}

// Exits returns the first ends of sessions after an event, in order: at most limit.
func (h History) Exits(ctx context.Context, after uint64, limit int) ([]event.Event, error) {
	// The literal kind is that of the index events_exits.
	return h.read(ctx, "kind = 'session.exited' AND seq > ?", " LIMIT "+strconv.Itoa(max(limit, 1)), after)
}

// Usages returns the reports of usage in a turn, in order.
func (h History) Usages(ctx context.Context, t TurnInfo) ([]event.Event, error) {
	last := uint64(math.MaxInt64)
	if t.LastSeq != 0 {
		last = t.LastSeq
	}
	return h.read(ctx, "kind = ? AND seq BETWEEN ? AND ?", "", event.UsageReported{}.Kind(), t.FirstSeq, last)
}

// read returns the events that satisfy a condition, in order. rest follows the order in the statement.
func (h History) read(ctx context.Context, condition, rest string, args ...any) ([]event.Event, error) {
	r, err := h.store.reader(ctx, h.thread)
	if err != nil {
		return nil, err
	}
	var rows []eventRow
	err = r.g.Raw("SELECT thread_id, seq, turn_id, time, kind, body, sum FROM events WHERE thread_id = ? AND "+condition+" ORDER BY seq"+rest, append([]any{string(h.thread)}, args...)...).
		Scan(&rows).Error
	if err != nil {
		return nil, r.failed(0, err)
	}
	out := make([]event.Event, 0, len(rows))
	for _, row := range rows {
		if err := row.verify(row.Seq); err != nil {
			return nil, r.damaged(row.Seq-1, err)
		}
		e, err := row.event()
		if _, newer := errors.AsType[*DecodeError](err); err != nil && !newer {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// LogEntry is an event as it is stored.
type LogEntry struct {
	Seq  uint64
	Turn event.TurnID // empty: it is outside of turns
	Time time.Time
	Kind string
	Body json.RawMessage
}

// maxLogBytes limits the bodies in a part of a log. One event may be larger.
const maxLogBytes = 4 << 20

// Log returns the events of a window, including those of reverted turns and those of kinds that this version does not know. It returns
// fewer events than the window has if they are large; more says whether events follow. Errors are those of [Store.Events].
func (h History) Log(ctx context.Context, w Window) (entries []LogEntry, more bool, err error) {
	r, err := h.store.reader(ctx, h.thread)
	if err != nil {
		return nil, false, err
	}
	limit := max(w.Limit, 1)
	w.Limit = limit + 1
	condition, order, args := w.clause("seq")
	rows, err := r.g.Raw("SELECT seq, turn_id, time, kind, body, sum FROM events WHERE thread_id = ?"+condition+order, append([]any{string(h.thread)}, args...)...).Rows()
	if err != nil {
		return nil, false, r.failed(0, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	size := 0
	for rows.Next() {
		row := eventRow{ThreadID: string(h.thread)}
		if err := rows.Scan(&row.Seq, &row.TurnID, &row.Time, &row.Kind, &row.Body, &row.Sum); err != nil {
			return nil, false, r.failed(0, &unreadableError{err})
		}
		if len(entries) == limit || len(entries) > 0 && size+len(row.Body) > maxLogBytes {
			return entries, true, nil
		}
		if err := row.verify(row.Seq); err != nil {
			return nil, false, r.damaged(row.Seq-1, err)
		}
		size += len(row.Body)
		entries = append(entries, LogEntry{row.Seq, event.TurnID(row.TurnID), database.Time(row.Time), row.Kind, json.RawMessage(row.Body)})
	}
	if err := rows.Err(); err != nil {
		return nil, false, r.failed(0, err)
	}
	return entries, false, nil
}

// missing returns the error for an event that is not there.
func (h History) missing(ctx context.Context, seq uint64) error {
	r, err := h.store.reader(ctx, h.thread)
	if err != nil {
		return err
	}
	return r.damaged(seq-1, missing(seq))
}

// Between yields the events after the number after, up to and including upto. Errors are those of [Store.Events].
func (h History) Between(ctx context.Context, after, upto uint64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		r, err := h.store.reader(ctx, h.thread)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		r.between(span{after, upto})(yield)
	}
}

// Sort is what threads are sorted by.
type Sort string

// Keys of threads.
const (
	ByUpdated Sort = "" // when the last turn started or ended, or when the thread was named
	ByCreated Sort = "created_at"
)

// column returns the column of the key.
func (s Sort) column() string {
	if s == ByCreated {
		return "created_at"
	}
	return "updated_at"
}

// CursorBy returns the position right after t in a listing that is sorted by a key.
func (t ThreadInfo) CursorBy(s Sort) Cursor {
	if s == ByCreated {
		return Cursor{Updated: t.Created, ID: t.ID}
	}
	return t.Cursor()
}

// after returns the condition of the rows after the cursor in the filter's order.
func (f Filter) after() string {
	compare := "<"
	if f.Ascending {
		compare = ">"
	}
	if f.Inclusive {
		compare += "="
	}
	return "(" + f.Sort.column() + ", id) " + compare + " (?, ?)"
}

// order returns the order of a listing.
func (f Filter) order() string {
	direction := " DESC"
	if f.Ascending {
		direction = ""
	}
	return strings.Join([]string{f.Sort.column() + direction, "id" + direction}, ", ")
}
