package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/hashicorp/go-hclog"
	"gorm.io/gorm"
)

// sink is the write-behind side of the store. One goroutine owns the queue; another writes one batch after the other, so
// that the first keeps accepting meanwhile.
//
//	Append, PutArtifact ─┐             ┌─ batch ──► writer ─► database
//	Barrier, settle ─────┼─► owner ────┤
//	do ──────────────────┘   (queue)   └◄ outcome ──┘
type sink struct {
	in      chan *delivery
	waits   chan *wait
	closing chan struct{}
	gone    chan struct{} // closed when nothing is taken any more
	done    chan struct{} // closed when everything has ended

	write      func(context.Context, batch) outcome
	tend       func(context.Context) error
	onDegraded func(error) // may be nil
	log        hclog.Logger

	cancel   context.CancelCauseFunc // ends waiting for other processes
	once     sync.Once
	degraded atomic.Pointer[DegradedError]
	result   error // of the end; written before done is closed
}

// delivery is what somebody hands over, all or nothing.
type delivery struct {
	entries []entry
	reply   chan error // of capacity 1
}

// wait asks to be told when a place is reached.
type wait struct {
	waiter
	seq uint64
}

// operation is a change that somebody waits for, made in a transaction of its own.
type operation struct {
	ctx    context.Context // of who waits; its end ends waiting, not a transaction that has begun
	fn     func(tx *gorm.DB) error
	forget event.ThreadID // what is remembered of this thread is void afterwards
	reply  chan error     // of capacity 1; answered by the writer, or by the queue when the store degrades
	state  atomic.Int32
}

// An operation is begun by the writer or given up by who waits for it, whoever comes first. After that fn, which shares
// variables with who waits, is never run behind his back.
const (
	opWaiting int32 = iota
	opBegun
	opGivenUp
)

func (o *operation) begin() bool  { return o.state.CompareAndSwap(opWaiting, opBegun) }
func (o *operation) giveUp() bool { return o.state.CompareAndSwap(opWaiting, opGivenUp) }

// tendEvery is how much is written between two looks at what the database needs.
const tendEvery = 1 << 20

// start runs the sink until close.
func (s *sink) start(q *queue) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	s.in = make(chan *delivery)
	s.waits = make(chan *wait)
	s.closing = make(chan struct{})
	s.gone = make(chan struct{})
	s.done = make(chan struct{})
	go s.run(ctx, q) // owned by the store: close waits for it
}

func (s *sink) run(ctx context.Context, q *queue) {
	defer close(s.done)
	work, outcomes := make(chan batch), make(chan outcome)
	health := make(chan error)
	look := make(chan struct{}, 1)
	var children sync.WaitGroup
	children.Go(func() {
		for b := range work {
			outcomes <- s.write(ctx, b)
		}
	})
	children.Go(func() {
		for err := range health {
			if s.onDegraded != nil {
				s.onDegraded(err)
			}
		}
	})
	children.Go(func() {
		for range look {
			if err := s.tend(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("tend to the database", "err", err)
			}
		}
	})

	s.own(q, work, outcomes, health, look)
	close(s.gone)

	left := q.events()
	for _, w := range q.waiters {
		w.reply <- ErrClosed
	}
	if left > 0 {
		err := error(q.failed)
		if q.failed == nil {
			err = context.Cause(ctx)
		}
		s.result = fmt.Errorf("close store: %d events were not written: %w", left, err)
	}
	for _, e := range q.entries {
		if e.op != nil {
			e.op.reply <- ErrClosed
		}
	}
	s.cancel(ErrClosed) // tending under way
	close(work)
	close(health)
	close(look)
	children.Wait()
}

// own is the loop of the goroutine that owns the queue. It returns when the sink closes and nothing more can be written.
func (s *sink) own(q *queue, work chan<- batch, outcomes <-chan outcome, health chan<- error, look chan<- struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	closing := s.closing
	var (
		flight  batch
		reports []error // changes of health that the reporter has not taken yet
		written int
	)
	for {
		if b, ok := q.next(time.Now()); ok {
			flight = b
			work <- b // the writer is idle
		} else if q.closing && !q.flying {
			return
		}
		in := s.in
		if q.full() {
			in = nil // publishers wait, nothing is dropped
		}
		var wake <-chan time.Time
		if at, ok := q.wake(); ok {
			timer.Reset(time.Until(at))
			wake = timer.C
		}
		var reporter chan<- error
		var report error
		if len(reports) > 0 {
			reporter, report = health, reports[0]
		}
		select {
		case d := <-in:
			d.reply <- q.accept(d.entries, time.Now())
		case w := <-s.waits:
			q.await(&w.waiter, w.seq)
			q.send()
		case o := <-outcomes:
			for _, e := range flight.entries {
				written += e.size()
			}
			if q.finish(flight, o, time.Now()) {
				reports = s.changed(q, reports)
			}
			for thread, err := range o.conflicts {
				s.log.Error("thread is not stored any more", "thread", thread, "err", err)
			}
			s.degraded.Store(q.failed) // before anybody hears of it
			q.send()
			flight = batch{}
			if written >= tendEvery {
				written = 0
				select {
				case look <- struct{}{}:
				default: // one is under way
				}
			}
			if q.closing && q.failed != nil {
				return // the last try
			}
		case reporter <- report:
			reports = reports[1:]
		case <-wake:
		case <-closing:
			closing = nil
			q.closing = true
		}
	}
}

// send performs what the queue has decided. Replies have room for their one answer.
func (q *queue) send() {
	for _, a := range q.answers {
		a.reply <- a.err
	}
	clear(q.answers)
	q.answers = q.answers[:0]
}

// changed notes a change of health for the reporter. Changes alternate, so a third that meets two untold ones cancels
// the second.
func (s *sink) changed(q *queue, reports []error) []error {
	var err error
	if q.failed != nil {
		err = q.failed
		level := hclog.Warn
		if s.onDegraded != nil {
			level = hclog.Debug // who listens tells the user
		}
		s.log.Log(level, "store is degraded", "err", err, "waiting", q.failed.Waiting)
	} else {
		s.log.Info("store works again")
	}
	if len(reports) >= 2 {
		return reports[:1]
	}
	return append(reports, err)
}

// deliver hands entries over. It waits while the queue is full.
func (s *sink) deliver(ctx context.Context, entries ...entry) error {
	d := &delivery{entries: entries, reply: make(chan error, 1)}
	select {
	case s.in <- d:
		return <-d.reply // at once
	case <-s.gone:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await returns when what was accepted so far (of a thread up to seq) is committed, and with sync survives everything.
func (s *sink) await(ctx context.Context, thread event.ThreadID, seq uint64, sync bool) error {
	w := &wait{waiter: waiter{thread: thread, sync: sync, reply: make(chan error, 1)}, seq: seq}
	select {
	case s.waits <- w:
	case <-s.gone:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-w.reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// do runs fn in a transaction behind everything that was accepted before. fn may be run more than once, and never after do
// has returned.
func (s *sink) do(ctx context.Context, forget event.ThreadID, fn func(tx *gorm.DB) error) error {
	op := &operation{ctx: ctx, fn: fn, forget: forget, reply: make(chan error, 1)}
	if err := s.deliver(ctx, entry{op: op}); err != nil {
		return err
	}
	select {
	case err := <-op.reply:
		return err
	case <-ctx.Done():
		if op.giveUp() {
			return context.Cause(ctx)
		}
		return <-op.reply
	}
}

// close writes what was accepted and ends. When ctx ends first it gives up what could not be written yet.
func (s *sink) close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel(fmt.Errorf("%w: %w", ErrClosed, context.Cause(ctx)))
		<-s.done
	}
	return s.result
}
