package sink

import (
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

const (
	// firstRetry and lastRetry are the shortest and the longest pause between two tries to write in the degraded state.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second

	// maxHeads limits the number of threads whose last event is remembered. Beyond it, threads without unwritten events are
	// forgotten; the writer then checks the order against the database.
	maxHeads = 4096

	// maxBatchBytes limits a batch, so that a few huge events don't hold the write lock for long.
	maxBatchBytes = 4 << 20
)

// Entry is one thing to write: an event, another value, or an operation.
type Entry struct {
	Thread event.ThreadID // of an event; empty otherwise
	Seq    uint64         // of an event
	Size   int            // memory that an event needs, in bytes; other entries count as [entrySize]
	Value  any            // what Config.Write stores; nil: nothing, since the event's thread is broken

	op   *Operation
	more bool // the next entry belongs to the same delivery, and is committed with this one
}

// entrySize is the assumed size of an entry that is not an event.
const entrySize = 256

func (e Entry) isEvent() bool { return e.Thread != "" }

func (e Entry) size() int {
	if e.isEvent() {
		return e.Size
	}
	return entrySize
}

// Batch is what one transaction writes: entries up to the first operation, or one operation. The entries of one delivery are
// in the same batch, which may exceed its limits for that.
type Batch struct {
	Entries []Entry
	// Sync says that this commit and all earlier ones must survive a crash of the machine, even if there are no entries.
	Sync bool
}

// Operation returns the operation that the batch consists of, or nil.
func (b Batch) Operation() *Operation {
	if len(b.Entries) == 1 {
		return b.Entries[0].op
	}
	return nil
}

// Outcome is the result of writing a batch.
type Outcome struct {
	Err       error                    // nothing of the batch was written
	Synced    bool                     // the commit survives a crash of the machine even if Batch.Sync is false
	Conflicts map[event.ThreadID]error // threads whose events were not written
}

// waiter waits until all entries up to a position are committed, or committed and synced.
type waiter struct {
	thread event.ThreadID // of a barrier
	pos    uint64
	sync   bool
	reply  chan error // of capacity 1
}

// answer is a reply that the owner still has to send.
type answer struct {
	reply chan error
	err   error
}

// head is the last accepted event of a thread: its number, and its position among all entries.
type head struct{ seq, pos uint64 }

// queue is the state of the sink: the accepted entries that are not committed, the waiters, and whether writing works. The sink's mutex
// guards it. It only makes decisions: it uses neither a clock nor the database, and leaves replies in answers.
//
// Positions: all entries ever accepted are numbered from 1. Those up to committed are in the database, those up to synced survive
// a crash of the machine: synced ≤ committed ≤ accepted() = committed + len(entries).
type queue struct {
	batchRows           int
	batchDelay          time.Duration
	maxRows, maxBytes   int    // beyond them publishers wait
	keepRows, keepBytes int    // beyond them a degraded store refuses
	where               string // the database, for messages
	entries             []Entry
	bytes               int
	oldest              time.Time // approximate time at which the first of entries was accepted
	committed, synced   uint64
	heads               map[event.ThreadID]head
	broken              map[event.ThreadID]error
	waiters             []*waiter
	flight              int  // number of entries in the batch that is being written
	flying              bool // a batch is being written
	closing             bool
	failed              *DegradedError // nil: writing works
	retryAt             time.Time
	retryPause          time.Duration
	answers             []answer
}

func newQueue(cfg Config) *queue {
	return &queue{
		batchRows: cfg.BatchRows, batchDelay: cfg.BatchDelay, maxRows: cfg.QueueRows, maxBytes: cfg.QueueBytes,
		keepRows: cfg.KeepRows, keepBytes: cfg.KeepBytes, where: cfg.Where,
		heads: map[event.ThreadID]head{}, broken: map[event.ThreadID]error{},
	}
}

func (q *queue) accepted() uint64 { return q.committed + uint64(len(q.entries)) }

// events returns the number of events among the entries.
func (q *queue) events() int {
	n := 0
	for _, e := range q.entries {
		if e.isEvent() {
			n++
		}
	}
	return n
}

// full reports whether publishers must wait. A degraded queue never makes them wait: it refuses entries beyond its limit.
func (q *queue) full() bool {
	if q.flying && q.flight == 1 && q.entries[0].op != nil && q.entries[0].op.forget != "" {
		return true // its caller may have its answer before the thread is forgotten here
	}
	return q.failed == nil && (len(q.entries) >= q.maxRows || q.bytes >= q.maxBytes)
}

// accept accepts all of the entries or none. It may exceed a limit by the size of one delivery.
func (q *queue) accept(entries []Entry, now time.Time) error {
	if q.closing {
		return database.ErrClosed
	}
	staged := make(map[event.ThreadID]head, 1)
	size := 0
	for i, e := range entries {
		size += e.size()
		if e.op != nil && q.failed != nil {
			return q.failed
		}
		if !e.isEvent() {
			continue
		}
		thread := e.Thread
		if err := q.broken[thread]; err != nil {
			return err
		}
		h, known := staged[thread]
		if !known {
			h, known = q.heads[thread]
		}
		if known && e.Seq != h.seq+1 {
			return &OrderError{Thread: thread, Seq: e.Seq, Want: h.seq + 1}
		}
		staged[thread] = head{seq: e.Seq, pos: q.accepted() + uint64(i) + 1}
	}
	if q.failed != nil && (len(q.entries) >= q.keepRows || q.bytes >= q.keepBytes) {
		return &FullError{Waiting: q.events(), Err: q.failed}
	}
	if len(q.entries) == 0 {
		q.oldest = now
	}
	for thread, h := range staged {
		q.heads[thread] = h
	}
	for i, e := range entries {
		e.more = i < len(entries)-1
		q.entries = append(q.entries, e)
	}
	q.bytes += size
	q.forgetIdle()
	return nil
}

func (q *queue) forgetIdle() {
	if len(q.heads) <= maxHeads {
		return
	}
	for thread, h := range q.heads {
		if h.pos <= q.synced {
			delete(q.heads, thread)
		}
	}
}

// await registers a waiter, or replies at once.
func (q *queue) await(w *waiter, seq uint64) {
	w.pos = q.accepted()
	if w.thread != "" {
		if err := q.broken[w.thread]; err != nil {
			q.reply(w.reply, err)
			return
		}
		// For a thread without a head, wait for everything that was accepted.
		if h, known := q.heads[w.thread]; known {
			if seq > h.seq {
				q.reply(w.reply, &OrderError{Thread: w.thread, Seq: seq, Want: h.seq + 1})
				return
			}
			w.pos = h.pos
		}
	}
	if q.reached(w) {
		q.reply(w.reply, nil)
		return
	}
	switch {
	case q.failed != nil:
		q.reply(w.reply, q.failed)
	case q.closing:
		q.reply(w.reply, database.ErrClosed)
	default:
		q.waiters = append(q.waiters, w)
	}
}

func (q *queue) reply(reply chan error, err error) {
	q.answers = append(q.answers, answer{reply, err})
}

func (q *queue) reached(w *waiter) bool {
	if w.sync {
		return q.synced >= w.pos
	}
	return q.committed >= w.pos
}

// next returns the batch to write now, if one is due, and marks it as being written.
func (q *queue) next(now time.Time) (Batch, bool) {
	if !q.due(now) {
		return Batch{}, false
	}
	n, bytes := 0, 0
	for n < len(q.entries) && (n < q.batchRows && bytes < maxBatchBytes || n > 0 && q.entries[n-1].more) {
		if q.entries[n].op != nil {
			if n == 0 {
				n = 1
			}
			break
		}
		bytes += q.entries[n].size()
		n++
	}
	// The batch is a copy, because entries may be cleared while it is being written.
	b := Batch{Entries: append([]Entry(nil), q.entries[:n]...)}
	reach := q.committed + uint64(n)
	b.Sync = q.closing && n == len(q.entries) || n == 1 && b.Entries[0].op != nil
	for _, w := range q.waiters {
		if w.sync && w.pos <= reach {
			b.Sync = true
		}
	}
	q.flight, q.flying = n, true
	return b, true
}

func (q *queue) due(now time.Time) bool {
	switch {
	case q.flying:
		return false
	case q.failed != nil && !q.closing:
		return !now.Before(q.retryAt)
	case len(q.waiters) > 0:
		return true
	case len(q.entries) == 0:
		return q.closing && q.synced < q.committed
	case q.closing, q.entries[0].op != nil, len(q.entries) >= q.batchRows, q.bytes >= maxBatchBytes:
		return true
	}
	for _, e := range q.entries[:min(len(q.entries), q.batchRows)] {
		if e.op != nil {
			return true // a caller waits for it
		}
	}
	return now.Sub(q.oldest) >= q.batchDelay
}

// wake returns the time at which next must be called again if nothing else happens.
func (q *queue) wake() (time.Time, bool) {
	switch {
	case q.flying:
	case q.failed != nil:
		return q.retryAt, true
	case len(q.entries) > 0:
		return q.oldest.Add(q.batchDelay), true
	}
	return time.Time{}, false
}

// finish processes the outcome of the batch that was being written. It reports whether the sink became degraded or recovered.
func (q *queue) finish(b Batch, o Outcome, now time.Time) (changed bool) {
	n := q.flight
	q.flight, q.flying = 0, false
	if o.Err != nil {
		return q.fail(o.Err, now)
	}
	for _, e := range q.entries[:n] {
		q.bytes -= e.size()
		if e.op != nil && e.op.forget != "" {
			delete(q.heads, e.op.forget)
			delete(q.broken, e.op.forget)
		}
	}
	rest := copy(q.entries, q.entries[n:])
	clear(q.entries[rest:])
	q.entries = q.entries[:rest]
	if rest == 0 && cap(q.entries) > 4*q.maxRows {
		q.entries = nil // releases the memory of a degraded period
	}
	q.oldest = now
	q.committed += uint64(n)
	if b.Sync || o.Synced {
		q.synced = q.committed
	}
	for thread, err := range o.Conflicts {
		q.breakThread(thread, err)
	}
	q.answer()
	changed = q.failed != nil
	q.failed, q.retryPause = nil, 0
	return changed
}

// answer replies to the waiters whose position is reached.
func (q *queue) answer() {
	keep := q.waiters[:0]
	for _, w := range q.waiters {
		if q.reached(w) {
			q.reply(w.reply, nil)
		} else {
			keep = append(keep, w)
		}
	}
	clear(q.waiters[len(keep):])
	q.waiters = keep
}

// breakThread drops the queued events of a thread that has a conflict: no event may be stored after a gap.
func (q *queue) breakThread(thread event.ThreadID, err error) {
	q.broken[thread] = err
	delete(q.heads, thread)
	for i, e := range q.entries {
		if e.Thread == thread {
			q.bytes += entrySize - e.size()
			q.entries[i] = Entry{more: e.more} // an empty entry keeps the positions of the others
		}
	}
	keep := q.waiters[:0]
	for _, w := range q.waiters {
		if w.thread == thread {
			q.reply(w.reply, err)
		} else {
			keep = append(keep, w)
		}
	}
	clear(q.waiters[len(keep):])
	q.waiters = keep
}

// fail makes the queue degraded: it keeps events, and ends all waits and operations with an error.
func (q *queue) fail(err error, now time.Time) (changed bool) {
	since := now
	if q.failed != nil {
		since = q.failed.Since
	}
	changed = q.failed == nil
	for i, e := range q.entries {
		if e.op != nil {
			q.reply(e.op.reply, err)
			q.entries[i] = Entry{}
		}
	}
	q.failed = &DegradedError{Where: q.where, Since: since, Waiting: q.events(), Err: err}
	for _, w := range q.waiters {
		q.reply(w.reply, q.failed)
	}
	clear(q.waiters)
	q.waiters = q.waiters[:0]
	q.retryPause = min(max(2*q.retryPause, firstRetry), lastRetry)
	q.retryAt = now.Add(q.retryPause)
	return changed
}
