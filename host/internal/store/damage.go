package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// DamageError says that the stored events of a thread are not the ones that were written: bytes have changed, or rows are
// missing. Reading ends with it, after the last event before the damage. The thread can't be continued, since new events
// would not follow what is left; [Store.Recover] copies the undamaged events to a new thread.
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
		return hint.Line(s+"; no event before the damage is left", e.NextStep())
	}
	s += fmt.Sprintf("; it is intact up to event %d", e.Good)
	if e.Last > e.Good {
		s += fmt.Sprintf(" of %d", e.Last)
	}
	return hint.Line(s, e.NextStep())
}

// NextStep implements [hint.Stepper].
func (e *DamageError) NextStep() string {
	const restore = "restore the database from a backup"
	if e.Good == 0 {
		return fmt.Sprintf("%s, or remove the thread: `gantry threads delete %s`", restore, e.Thread)
	}
	return fmt.Sprintf("`gantry threads recover %s` copies the intact events to a new thread; or %s", e.Thread, restore)
}

// Unwrap returns what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

// unreadableError says that the columns of a row have values of other types than they should.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("a row of the log can't be read: %v", e.err)
}
func (e *unreadableError) Unwrap() error { return e.err }

// length is the number of a thread's last event, from two sources that should agree.
type length struct {
	row uint64 // in the thread's row
	log uint64 // in the log; 0: there is no event
}

// short returns what is wrong with a log whose last readable event is last, or nil.
func (l length) short(last uint64) error {
	switch {
	case last < l.row:
		return missing(last + 1)
	case l.log > l.row:
		return fmt.Errorf("the listing says that it ends with event %d, but it ends with event %d", l.row, l.log)
	}
	return nil
}

func missing(seq uint64) error { return fmt.Errorf("event %d is missing", seq) }

// verify returns what is wrong with a row that should be the event with this number, or nil.
func (r *eventRow) verify(seq uint64) error {
	switch {
	case r.Seq != seq:
		return missing(seq)
	case r.Sum == noSum && !json.Valid([]byte(r.Body)), r.Sum != noSum && r.Sum != r.checksum():
		return fmt.Errorf("event %d is not what was written", seq)
	}
	return nil
}

// noSum is the checksum of events that were stored before events had checksums.
const noSum = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the value of Sum for an undamaged row. It does not include the thread, because a fork copies rows. It detects
// damage by hardware, not manipulation.
func (r *eventRow) checksum() int64 {
	head := binary.AppendUvarint(make([]byte, 0, 64), r.Seq)
	head = binary.AppendVarint(head, r.Time)
	head = binary.AppendUvarint(head, uint64(len(r.TurnID)))
	head = append(head, r.TurnID...)
	head = binary.AppendUvarint(head, uint64(len(r.Kind)))
	head = append(head, r.Kind...)
	return int64(crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, []byte(r.Body)))
}
