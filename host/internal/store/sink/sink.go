// Package sink is the write-behind side of the store: it accepts entries at once and commits them in batches.
//
// It owns: the queue, the size and time of batches, who waits for which commit, the degraded state in which nothing can be
// written, and retries. It must not know: what an entry contains, how a batch is written.
//
// Start with [Start] and [Sink.Deliver]; queue.go makes the decisions.
package sink

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/hashicorp/go-hclog"
	"gorm.io/gorm"
)

// Config contains the limits of a sink and what it calls.
type Config struct {
	BatchRows  int           // a batch of this many entries is written at once
	BatchDelay time.Duration // how long an entry waits for others to share its commit

	// Publishers wait while the queue contains more than this.
	QueueRows, QueueBytes int
	// A degraded sink that keeps more than this in memory returns a [*FullError].
	KeepRows, KeepBytes int

	Where string // the database, for messages

	// Write writes a batch. It is called by one goroutine, with one batch at a time.
	Write func(context.Context, Batch) Outcome
	// Maintain maintains the database after every MiB that was written, concurrently with Write.
	Maintain func(context.Context) error
	// OnDegraded is called with a [*DegradedError] when writing stops working, and with nil when it works again. It may be
	// nil. It has a goroutine of its own.
	OnDegraded func(error)
	Log        hclog.Logger
}

// Sink accepts entries and writes them in the background. One goroutine decides when which entries of the queue are written; another
// writes one batch after the other. Entries enter the queue in the goroutine that delivers them, while there is room. Methods may be
// called from several goroutines.
//
//	Deliver ──► queue      ┌─ batch ──► Config.Write ─► database
//	              │        │
//	Await ──────► owner ───┤
//	Do ───────────┘        └◄ outcome ──┘
type Sink struct {
	cfg     Config
	mu      sync.Mutex // of queue
	queue   *queue
	kick    chan struct{}  // has a value if the owner must look at the queue
	in      chan *delivery // that wait for room
	waits   chan *wait
	closing chan struct{}
	gone    chan struct{} // closed when nothing is accepted any more
	done    chan struct{} // closed when all goroutines have ended

	cancel   context.CancelCauseFunc // ends waiting for other processes
	once     sync.Once
	degraded atomic.Pointer[DegradedError]
	result   error // of the end; written before done is closed
}

// delivery is a group of entries, which are accepted together or not at all.
type delivery struct {
	entries []Entry
	reply   chan error // of capacity 1
}

// wait is a request to be notified when a position is committed.
type wait struct {
	waiter
	seq uint64
}

// Operation is a change with a transaction of its own, for which a caller of [Sink.Do] waits.
type Operation struct {
	ctx    context.Context // the caller's; its end cancels waiting, but not a transaction that has begun
	fn     func(tx *gorm.DB) error
	forget event.ThreadID // see [Sink.Do]
	reply  chan error     // of capacity 1; answered by the writer, or by the queue when the store degrades
	state  atomic.Int32
}

// Either the writer begins an operation or the caller gives it up, whichever comes first. fn shares variables with the
// caller, so it must not run after the caller has given up.
const (
	opWaiting int32 = iota
	opBegun
	opGivenUp
)

func (o *Operation) begin() bool  { return o.state.CompareAndSwap(opWaiting, opBegun) }
func (o *Operation) giveUp() bool { return o.state.CompareAndSwap(opWaiting, opGivenUp) }

// Run runs the operation with write, unless the caller has given it up. write runs fn in a transaction and returns when it is
// durable; its context ends with ctx or with the caller's.
func (o *Operation) Run(ctx context.Context, write func(ctx context.Context, fn func(tx *gorm.DB) error) error) {
	if !o.begin() {
		return
	}
	waiting, cancel := context.WithCancelCause(o.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	o.reply <- write(waiting, o.fn)
}

// maintainEvery is how much is written between two looks at what the database needs.
const maintainEvery = 1 << 20

// Start starts a sink, which runs until Close.
func Start(cfg Config) *Sink {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Sink{
		cfg: cfg, cancel: cancel, queue: newQueue(cfg), kick: make(chan struct{}, 1), in: make(chan *delivery), waits: make(chan *wait),
		closing: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run(ctx) // owned by the sink: Close waits for it
	return s
}

// Degraded returns nil while writing works, and the [*DegradedError] otherwise.
func (s *Sink) Degraded() error {
	if err := s.degraded.Load(); err != nil {
		return err
	}
	return nil
}

func (s *Sink) run(ctx context.Context) {
	defer close(s.done)
	work, outcomes := make(chan Batch), make(chan Outcome)
	health := make(chan error)
	look := make(chan struct{}, 1)
	var children sync.WaitGroup
	children.Go(func() {
		for b := range work {
			outcomes <- s.cfg.Write(ctx, b)
		}
	})
	children.Go(func() {
		for err := range health {
			if s.cfg.OnDegraded != nil {
				s.cfg.OnDegraded(err)
			}
		}
	})
	children.Go(func() {
		for range look {
			if err := s.cfg.Maintain(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("tend to the database", "err", err)
			}
		}
	})

	s.loop(work, outcomes, health, look)
	close(s.gone)

	s.mu.Lock()
	q := s.queue
	left := q.events()
	for _, w := range q.waiters {
		w.reply <- database.ErrClosed
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
			e.op.reply <- database.ErrClosed
		}
	}
	s.mu.Unlock()                // what the children call may still deliver, and is refused
	s.cancel(database.ErrClosed) // also ends running maintenance
	close(work)
	close(health)
	close(look)
	children.Wait()
}

// loop is the loop of the goroutine that owns the queue. It returns when the sink closes and nothing more can be written.
func (s *Sink) loop(work chan<- Batch, outcomes <-chan Outcome, health chan<- error, look chan<- struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	closing := s.closing
	var (
		flight  Batch
		reports []error // state changes to be passed to OnDegraded
		written int
	)
	q := s.queue
	for {
		s.mu.Lock()
		b, due := q.next(time.Now())
		ended := q.closing && !q.flying
		in := s.in
		if q.full() {
			in = nil // publishers wait; nothing is dropped
		}
		var wake <-chan time.Time
		if at, ok := q.wake(); ok {
			timer.Reset(time.Until(at))
			wake = timer.C
		}
		s.mu.Unlock()
		switch {
		case due:
			flight = b
			work <- b // the writer is idle
		case ended:
			return
		}
		var reporter chan<- error
		var report error
		if len(reports) > 0 {
			reporter, report = health, reports[0]
		}
		select {
		case <-s.kick:
		case d := <-in:
			s.mu.Lock()
			d.reply <- q.accept(d.entries, time.Now())
			s.mu.Unlock()
		case w := <-s.waits:
			s.mu.Lock()
			q.await(&w.waiter, w.seq)
			q.send()
			s.mu.Unlock()
		case o := <-outcomes:
			s.mu.Lock()
			for _, e := range flight.Entries {
				written += e.size()
			}
			if q.finish(flight, o, time.Now()) {
				reports = s.changed(q, reports)
			}
			for thread, err := range o.Conflicts {
				s.cfg.Log.Error("thread is not stored any more", "thread", thread, "err", err)
			}
			s.degraded.Store(q.failed) // before any reply is sent
			q.send()
			last := q.closing && q.failed != nil
			s.mu.Unlock()
			flight = Batch{}
			if written >= maintainEvery {
				written = 0
				select {
				case look <- struct{}{}:
				default: // it is running
				}
			}
			if last {
				return // this was the last try
			}
		case reporter <- report:
			reports = reports[1:]
		case <-wake:
		case <-closing:
			closing = nil
			s.mu.Lock()
			q.closing = true
			s.mu.Unlock()
		}
	}
}

// send sends the replies that the queue has decided. It does not block: each channel has room for its only reply.
func (q *queue) send() {
	for _, a := range q.answers {
		a.reply <- a.err
	}
	clear(q.answers)
	q.answers = q.answers[:0]
}

// changed adds a state change to the reports. Changes alternate, so a third change cancels the second if both are unreported.
func (s *Sink) changed(q *queue, reports []error) []error {
	var err error
	if q.failed != nil {
		err = q.failed
		level := hclog.Warn
		if s.cfg.OnDegraded != nil {
			level = hclog.Debug // OnDegraded notifies the user
		}
		s.cfg.Log.Log(level, "store is degraded", "err", err, "waiting", q.failed.Waiting)
	} else {
		s.cfg.Log.Info("store works again")
	}
	if len(reports) >= 2 {
		return reports[:1]
	}
	return append(reports, err)
}

// Deliver accepts all of the entries or none, and returns before they are committed; entries that are delivered together are
// committed together. It waits while the queue is full, until ctx ends.
func (s *Sink) Deliver(ctx context.Context, entries ...Entry) error {
	if accepted, err := s.accept(entries); accepted {
		return err
	}
	d := &delivery{entries: entries, reply: make(chan error, 1)}
	select {
	case s.in <- d:
		return <-d.reply // at once
	case <-s.gone:
		return database.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// accept puts entries into the queue, or returns why it refuses them, unless it is full.
func (s *Sink) accept(entries []Entry) (accepted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.full() {
		return false, nil
	}
	first, now := len(s.queue.entries) == 0, time.Now()
	if err := s.queue.accept(entries, now); err != nil {
		return true, err
	}
	if first || s.queue.due(now) { // otherwise the owner looks at it in time
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
	return true, nil
}

// Await returns when everything accepted so far is committed, or only the events of a thread up to seq if thread is set. With
// sync the commit must also survive a crash of the machine.
func (s *Sink) Await(ctx context.Context, thread event.ThreadID, seq uint64, sync bool) error {
	w := &wait{waiter: waiter{thread: thread, sync: sync, reply: make(chan error, 1)}, seq: seq}
	select {
	case s.waits <- w:
	case <-s.gone:
		return database.ErrClosed
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

// Do runs fn in a transaction of its own, after everything that was accepted before, and returns when it is durable. fn may
// run more than once, but never after Do has returned. What the sink remembers of the thread forget is void afterwards.
func (s *Sink) Do(ctx context.Context, forget event.ThreadID, fn func(tx *gorm.DB) error) error {
	op := &Operation{ctx: ctx, fn: fn, forget: forget, reply: make(chan error, 1)}
	if err := s.Deliver(ctx, Entry{op: op}); err != nil {
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

// Close writes what was accepted and ends the sink. When ctx ends first, it gives up what is not yet written, and the error
// says how many events that is.
func (s *Sink) Close(ctx context.Context) error {
	s.once.Do(func() { close(s.closing) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel(fmt.Errorf("%w: %w", database.ErrClosed, context.Cause(ctx)))
		<-s.done
	}
	return s.result
}
