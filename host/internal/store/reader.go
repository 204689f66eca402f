package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// A page contains up to pageRows events, or fewer if they are large. Between two pages no transaction is open: a slow consumer
// would otherwise hold a snapshot, and the write-ahead log could not be truncated meanwhile.
const (
	pageRows  = 256
	pageBytes = 4 << 20
)

// span is a range of events: those after the number after, up to and including upto.
type span struct{ after, upto uint64 }

// reader reads the events of one thread and detects damage.
type reader struct {
	db     *database.DB
	g      *gorm.DB // the connection or the transaction to read with
	thread event.ThreadID
}

// reader returns a reader that sees everything appended so far.
func (s *Store) reader(ctx context.Context, thread event.ThreadID) (reader, error) {
	g, err := s.db.Read(ctx)
	return reader{s.db.DB, g, thread}, err
}

// length reads how long the thread is; found is false if the thread has no row.
func (r reader) length() (l length, found bool, err error) {
	rows, err := r.g.Raw("SELECT seq, COALESCE((SELECT MAX(seq) FROM events WHERE thread_id = ?), 0) FROM threads WHERE id = ?",
		string(r.thread), string(r.thread)).Rows()
	if err != nil {
		return l, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if rows.Next() {
		found = true
		err = rows.Scan(&l.row, &l.log)
	}
	return l, found, errors.Join(err, rows.Err())
}

// page reads the first events of a span. With an error it returns the rows before it; more says whether the span may have
// further events.
func (r reader) page(in span) (page []eventRow, more bool, err error) {
	rows, err := r.g.Raw(`SELECT seq, turn_id, time, kind, body, sum FROM events WHERE thread_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
		string(r.thread), in.after, in.upto, pageRows).Rows()
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	size := 0
	for rows.Next() {
		row := eventRow{ThreadID: string(r.thread)}
		if err := rows.Scan(&row.Seq, &row.TurnID, &row.Time, &row.Kind, &row.Body, &row.Sum); err != nil {
			return page, false, &unreadableError{err}
		}
		page = append(page, row)
		if size += len(row.Body); size >= pageBytes {
			return page, true, rows.Err()
		}
	}
	return page, len(page) == pageRows, rows.Err()
}

// between yields the events of a span, page by page. It verifies each event before it yields it: a missing or changed event
// ends the sequence with a [*DamageError].
func (r reader) between(in span) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for at := in; ; {
			rows, more, readErr := r.page(at)
			for _, row := range rows {
				if err := row.verify(at.after + 1); err != nil {
					yield(event.Event{}, r.damaged(at.after, err))
					return
				}
				if !yield(row.event()) {
					return
				}
				at.after = row.Seq
			}
			switch {
			case readErr != nil:
				yield(event.Event{}, r.failed(at.after, readErr))
				return
			case more && at.after < at.upto:
				continue
			case at.upto != math.MaxInt64 && at.after < at.upto:
				yield(event.Event{}, r.damaged(at.after, missing(at.after+1)))
			}
			return
		}
	}
}

// failed returns the error of a read after the event good: a [*DamageError] if the cause is damage of the database.
func (r reader) failed(good uint64, err error) error {
	err = r.db.Explain(err)
	_, row := errors.AsType[*unreadableError](err)
	if ctx := r.g.Statement.Context; ctx.Err() == nil && (row || database.IsDamaged(err)) {
		return r.damaged(good, err)
	}
	return fmt.Errorf("read events of thread %s: %w", r.thread, err)
}

// damaged returns a [*DamageError], unless the thread was deleted meanwhile or the context has ended.
func (r reader) damaged(good uint64, why error) error {
	l, found, err := r.length()
	if ctx := r.g.Statement.Context; ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && !found && l.log == 0 {
		return &NotFoundError{What: "thread", ID: string(r.thread)}
	}
	if e, ok := errors.AsType[*database.Error](why); ok {
		why = e.Err // the DamageError names the database and the next step itself
	}
	return &DamageError{Thread: r.thread, Where: r.db.Where(), Good: good, Last: max(l.row, l.log), Err: why}
}
