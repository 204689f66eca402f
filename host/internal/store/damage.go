package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// DamageError says that what is stored of a thread is not what was written: bytes have changed, or rows are gone. Reading ends
// with it, behind the last event before the damage. Nobody can go on with the thread from there, since what would be written
// does not follow; [Store.Recover] makes a thread of what is whole.
type DamageError struct {
	Thread event.ThreadID
	Where  string // the database
	Good   uint64 // number of the last event before the damage; 0: there is none
	Last   uint64 // number of the last event that was stored
	Err    error  // what is wrong
}

// Error implements error.
func (e *DamageError) Error() string {
	s := fmt.Sprintf("thread %s is damaged in %s: %v", e.Thread, e.Where, e.Err)
	if e.Good == 0 {
		return hint.Line(s+"; nothing before it is left", e.NextStep())
	}
	s += fmt.Sprintf("; it is whole up to event %d", e.Good)
	if e.Last > e.Good {
		s += fmt.Sprintf(" of %d", e.Last)
	}
	return hint.Line(s, e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *DamageError) NextStep() string {
	const restore = "restore a copy of the database"
	if e.Good == 0 {
		return fmt.Sprintf("%s, or remove the thread: `gantry threads delete %s`", restore, e.Thread)
	}
	return fmt.Sprintf("`gantry threads recover %s` makes a new thread of that, and leaves this one as it is; or %s", e.Thread, restore)
}

// Unwrap returns what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

// unreadableError says that a row has something else in it than its columns hold.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("a row of its log can't be read: %v", e.err)
}
func (e *unreadableError) Unwrap() error { return e.err }

// length is what a store says of how long a thread is, in two places and at one moment.
type length struct {
	row uint64 // by the thread's row
	log uint64 // by its last event; 0: there is none
}

// short tells what is wrong with a log that ends with an event; nil: nothing.
func (l length) short(last uint64) error {
	switch {
	case last < l.row:
		return missing(last + 1)
	case l.log > l.row:
		return fmt.Errorf("the listing says that it ends with event %d, and it does with %d", l.row, l.log)
	}
	return nil
}

// lengthOf reads both; found is false where the thread has no row.
func lengthOf(g *gorm.DB, thread event.ThreadID) (l length, found bool, err error) {
	rows, err := g.Raw("SELECT seq, COALESCE((SELECT MAX(seq) FROM events WHERE thread_id = ?), 0) FROM threads WHERE id = ?",
		string(thread), string(thread)).Rows()
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

// between reads a span page by page, and looks at each event before it is given out: a gap, or an event that is not what was
// written, ends it with a [*DamageError].
func (s *Store) between(g *gorm.DB, thread event.ThreadID, in span) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for at := in; ; {
			rows, more, readErr := eventPage(g, thread, at)
			for _, r := range rows {
				if err := r.whole(at.after + 1); err != nil {
					yield(event.Event{}, s.damaged(g, thread, at.after, err))
					return
				}
				if !yield(r.event()) {
					return
				}
				at.after = r.Seq
			}
			switch {
			case readErr != nil:
				yield(event.Event{}, s.unread(g, thread, at.after, readErr))
				return
			case more && at.after < at.upto:
				continue
			case at.upto != math.MaxInt64 && at.after < at.upto:
				yield(event.Event{}, s.damaged(g, thread, at.after, missing(at.after+1)))
			}
			return
		}
	}
}

func missing(seq uint64) error { return fmt.Errorf("its event %d is missing", seq) }

// whole tells what is wrong with a row that should be the event of this number; nil: nothing.
func (r *eventRow) whole(seq uint64) error {
	switch {
	case r.Seq != seq:
		return missing(seq)
	case r.Sum == noSum && !json.Valid([]byte(r.Body)), r.Sum != noSum && r.Sum != r.checksum():
		return fmt.Errorf("its event %d is not what was written", seq)
	}
	return nil
}

// unread is the error of a read: a [*DamageError] where the database says that it is damaged itself.
func (s *Store) unread(g *gorm.DB, thread event.ThreadID, good uint64, err error) error {
	err = s.db.Explain(err)
	_, row := errors.AsType[*unreadableError](err)
	if ctx := g.Statement.Context; ctx.Err() == nil && (row || database.IsDamaged(err)) {
		return s.damaged(g, thread, good, err)
	}
	return fmt.Errorf("read events of thread %s: %w", thread, err)
}

// damaged makes the error, unless the thread was deleted meanwhile.
func (s *Store) damaged(g *gorm.DB, thread event.ThreadID, good uint64, why error) error {
	l, found, err := lengthOf(g, thread)
	if ctx := g.Statement.Context; ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && !found && l.log == 0 {
		return &NotFoundError{What: "thread", ID: string(thread)}
	}
	if e, ok := errors.AsType[*database.Error](why); ok {
		why = e.Err // where it is, and what helps, is said already
	}
	return &DamageError{Thread: thread, Where: s.db.Where(), Good: good, Last: max(l.row, l.log), Err: why}
}
