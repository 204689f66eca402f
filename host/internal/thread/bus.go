package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Policy says what happens when a subscriber is slower than the thread.
type Policy int

// The policies. Lossless: the thread waits as long as the subscriber still reads; one that has stopped reading is disconnected
// with [ErrStalled]. Coalesce: deltas of one item are merged, other events never are. Disconnect: the subscription ends with
// [ErrLagged], and the subscriber resumes after its last event.
const (
	Lossless Policy = iota + 1
	Coalesce
	Disconnect
)

// queueBound is how many events are queued for one subscriber: a screenful of deltas. Beyond it the policy applies.
const queueBound = 1024

// coalesceBound is the same for [Coalesce], where merged deltas make a queue much shorter than the stream. Beyond it the
// subscription ends with [ErrLagged].
const coalesceBound = 16 * queueBound

// mergeReach is how far back a delta is merged, in queued events: the number of items that may grow at once. mergeBytes limits a
// merged delta: appending to a longer one would cost more than another event.
const (
	mergeReach = 32
	mergeBytes = 64 << 10
)

// ErrLagged ends a subscription that was too slow. Resume after the Seq of the last durable event received.
var ErrLagged = errors.New("the subscriber fell behind and was disconnected; subscribe again after its last event")

// stallBound is how long the thread waits for a lossless subscriber that reads nothing: longer than a reader works on one event,
// and short for a turn that it keeps from ending.
const stallBound = time.Minute

// ErrStalled ends a lossless subscription that stopped reading. It is an [ErrLagged] too: the log has the missed events.
var ErrStalled error = stalledError{}

type stalledError struct{}

func (stalledError) Error() string {
	return fmt.Sprintf("the reader of the thread's events read none for %v while the thread was waiting for it, and was disconnected; "+
		"the thread continues, and its log has every event", stallBound)
}

func (stalledError) Is(target error) bool { return target == ErrLagged }

// ErrClosed is returned after the thread has ended.
var ErrClosed = errors.New("the thread is closed")

// Sink stores durable events.
type Sink interface {
	Append(ctx context.Context, evs ...event.Event) error
	Barrier(ctx context.Context, thread event.ThreadID, seq uint64) error
}

// bus orders a thread's events, stores the durable ones and delivers all of them to the subscribers. A mutex makes publishing
// atomic: when Publish returns, the events are in every queue and on their way to the store. Lock order: publishing, then the lock
// of one subscriber; nothing is sent or awaited under a subscriber's lock.
type bus struct {
	thread event.ThreadID
	sink   Sink
	now    func() time.Time
	// observe is called with events before they are delivered; nil: not called.
	observe func([]event.Event)

	publishing chan struct{} // a mutex whose Lock can be cancelled
	hurry      chan struct{} // closed when publishers stop waiting for lossless subscribers
	hurryOnce  sync.Once
	features   atomic.Pointer[map[string]json.RawMessage] // copy of st.state.Features, for readers
	st         struct {                                   // guarded by publishing
		seq   uint64
		state State // as of the last event, without what grows: messages and results of calls
		subs  map[*Subscription]struct{}
		// promised is input whose sender is waiting for an acknowledgement; true: it is in the history.
		promised map[event.ItemID]bool
		closed   bool
		began    bool          // the first turn has started
		opening  []event.Event // events before the first turn, at most queueBound
	}
}

func newBus(id event.ThreadID, sink Sink, lastSeq uint64) *bus {
	b := &bus{thread: id, sink: sink, now: time.Now, publishing: make(chan struct{}, 1), hurry: make(chan struct{})}
	b.st.seq = lastSeq
	b.st.state = State{}.outline()
	b.st.subs = map[*Subscription]struct{}{}
	b.st.promised = map[event.ItemID]bool{}
	b.features.Store(&map[string]json.RawMessage{})
	return b
}

func (b *bus) lock(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case b.publishing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *bus) unlock() { <-b.publishing }

// Publish adds bodies to the stream, in order and without other events in between. It returns the sequence number of the last
// durable event. It waits for the store's queue and for lossless subscribers.
func (b *bus) Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error) {
	if err := b.lock(ctx); err != nil {
		return 0, err
	}
	defer b.unlock()
	return b.publishLocked(ctx, turn, bodies)
}

// publishLocked is Publish for callers that hold publishing.
func (b *bus) publishLocked(ctx context.Context, turn event.TurnID, bodies []event.Body) (uint64, error) {
	if b.st.closed {
		return b.st.seq, ErrClosed
	}
	stalled, err := b.publish(ctx, turn, bodies)
	for ; stalled > 0; stalled-- { // one notice each; publishing it may find further stalled subscribers
		more, err := b.publish(ctx, turn, []event.Body{event.Notice{
			Level: "warning", Text: fmt.Sprintf("a reader of this thread read no event for %v and was disconnected; the thread continues", stallBound),
		}})
		if err != nil {
			break // the store reports the cause itself
		}
		stalled += more
	}
	return b.st.seq, err
}

// publish returns how many subscribers it disconnected because they had stopped reading. The caller holds publishing.
func (b *bus) publish(ctx context.Context, turn event.TurnID, bodies []event.Body) (stalled int, err error) {
	var few [2]event.Event // usually there is one event: a delta
	evs := few[:0]
	var durable []event.Event
	at := b.now().UTC()
	for _, body := range bodies {
		switch c := body.(type) {
		case event.HistoryCompacted:
			c.Thread = b.st.state.checkpoint()
			body = c
		case event.ThreadReverted:
			body = b.st.state.reverted(c)
		}
		e := event.Event{Thread: b.thread, Turn: turn, Time: at, Body: body}
		if e.Durable() {
			b.st.seq++
			e.Seq = b.st.seq
			durable = append(durable, e)
		}
		evs = append(evs, e)
	}
	if len(durable) > 0 {
		// The order is fixed and the events count from here on, so the store gets them even if ctx ends.
		if err := b.sink.Append(context.WithoutCancel(ctx), durable...); err != nil {
			// The store accepts all of them or none. Reuse the numbers, or it would reject every later event.
			b.st.seq -= uint64(len(durable))
			return 0, fmt.Errorf("store events of thread %s: %w", b.thread, err)
		}
	}
	for _, e := range durable {
		b.st.state.follow(e)
		b.heard(e)
	}
	if len(durable) > 0 && len(b.st.state.features) > 0 {
		states := b.st.state.Features
		b.features.Store(&states)
	}
	b.keepOpening(evs)
	return b.offer(evs), nil
}

// keepOpening keeps the events before the first turn for subscribers that come right after the thread has started.
func (b *bus) keepOpening(evs []event.Event) {
	if b.st.began {
		return
	}
	b.st.opening = append(b.st.opening, evs...)
	b.st.began = len(b.st.opening) > queueBound
	for _, e := range evs {
		if _, ok := e.Body.(event.TurnStarted); ok {
			b.st.began = true
		}
	}
	if b.st.began {
		b.st.opening = nil
	}
}

// offer delivers events to the subscribers and returns how many of them had stopped reading. The caller holds publishing.
func (b *bus) offer(evs []event.Event) (stalled int) {
	if b.observe != nil {
		b.observe(evs)
	}
	for s := range b.st.subs {
		if s.offer(evs, b.hurry) {
			continue
		}
		delete(b.st.subs, s)
		if s.hasStalled() {
			stalled++
		}
	}
	return stalled
}

// announce delivers an event that the store refused, without a number, so that no caller waits for it forever.
func (b *bus) announce(turn event.TurnID, body event.Body) {
	b.publishing <- struct{}{} // held while a publisher waits for the slowest subscriber
	defer b.unlock()
	b.offer([]event.Event{{Thread: b.thread, Turn: turn, Time: b.now().UTC(), Body: body}})
}

// disconnectSlow ends lossless subscriptions instead of waiting for them, now and from now on.
func (b *bus) disconnectSlow() { b.hurryOnce.Do(func() { close(b.hurry) }) }

// Barrier returns when everything up to seq is durable.
func (b *bus) Barrier(ctx context.Context, seq uint64) error {
	return b.sink.Barrier(ctx, b.thread, seq)
}

// flush returns when the log has everything that was published.
func (b *bus) flush(ctx context.Context) error {
	seq, err := b.Publish(ctx, "")
	if err == nil {
		err = b.Barrier(ctx, seq)
	}
	if err != nil {
		return fmt.Errorf("the log of the thread is incomplete: %w", err)
	}
	return nil
}

func (b *bus) subscribe(ctx context.Context, p Policy) (*Subscription, error) {
	if err := b.lock(ctx); err != nil {
		return nil, err
	}
	defer b.unlock()
	if b.st.closed {
		return nil, ErrClosed
	}
	s := &Subscription{policy: p, from: b.st.seq, last: b.st.seq, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	s.mu.queue = slices.Clone(b.st.opening)
	for _, e := range b.st.opening {
		if e.Durable() {
			s.from = e.Seq - 1
			break
		}
	}
	b.st.subs[s] = struct{}{}
	return s, nil
}

// close ends all subscriptions and returns the sequence number of the last durable event.
func (b *bus) close() uint64 {
	b.publishing <- struct{}{} // held briefly
	defer b.unlock()
	b.st.closed = true
	for s := range b.st.subs {
		s.end(ErrClosed)
	}
	clear(b.st.subs)
	return b.st.seq
}

// Subscription receives a thread's events from the moment it was created. Next must be called by one goroutine only.
type Subscription struct {
	policy Policy
	from   uint64
	last   uint64
	wake   chan struct{}
	room   chan struct{}
	done   chan struct{}

	taken    []event.Event // removed from the queue, and not returned yet; used by Next only
	spare    []event.Event // memory of taken, reused for the queue; used by Next only
	returned atomic.Int64  // number of events returned by Next: a reader that still works on what it took has not stalled

	mu struct {
		sync.Mutex
		queue []event.Event
		err   error // set once; Next returns it after the queue
	}
}

// After returns the sequence number of the last durable event before the subscription.
func (s *Subscription) After() uint64 { return s.from }

// Last returns the sequence number of the last durable event at the time of the subscription. It is greater than After if events before
// the thread's first turn are repeated.
func (s *Subscription) Last() uint64 { return s.last }

// Next waits for an event. After the last one it returns [ErrClosed], [ErrLagged] or [ErrStalled].
func (s *Subscription) Next(ctx context.Context) (event.Event, error) {
	if len(s.taken) == 0 {
		if err := s.take(ctx); err != nil {
			return event.Event{}, err
		}
	}
	e := s.taken[0]
	s.taken[0] = event.Event{} // do not keep it alive
	s.taken = s.taken[1:]
	s.returned.Add(1)
	return e, nil
}

// More reports whether the next event is already there. It is for the goroutine that calls Next.
func (s *Subscription) More() bool { return len(s.taken) > 0 }

// take waits for events and takes all queued ones at once, so that under load there is one lock operation for many events.
func (s *Subscription) take(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.mu.queue) > 0 {
			s.taken, s.mu.queue, s.spare = s.mu.queue, s.spare, s.mu.queue[:0]
			s.mu.Unlock()
			notify(s.room)
			return nil
		}
		err := s.mu.err
		s.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the subscription. It is idempotent.
func (s *Subscription) Close() { s.end(ErrClosed) }

func (s *Subscription) end(err error) {
	s.mu.Lock()
	first := s.mu.err == nil
	if first {
		s.mu.err = err
	}
	s.mu.Unlock()
	if first {
		close(s.done)
	}
	notify(s.wake)
}

func (s *Subscription) hasStalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err == ErrStalled
}

// offer queues events and reports whether the subscription is still open.
func (s *Subscription) offer(evs []event.Event, hurry <-chan struct{}) bool {
	for i := 0; i < len(evs); {
		s.mu.Lock()
		if s.mu.err != nil {
			s.mu.Unlock()
			return false
		}
		merged := s.policy == Coalesce && s.mergeLocked(evs[i])
		bound := queueBound
		if s.policy == Coalesce {
			bound = coalesceBound
		}
		full := !merged && len(s.mu.queue) >= bound
		if !full {
			if !merged {
				s.mu.queue = append(s.mu.queue, evs[i])
			}
			i++
		}
		s.mu.Unlock()
		if !full {
			continue
		}
		if s.policy != Lossless {
			s.end(ErrLagged)
			return false
		}
		notify(s.wake)
		if err := s.awaitRoom(hurry); err != nil {
			s.end(err)
			return false
		}
	}
	notify(s.wake)
	return true
}

// awaitRoom waits until the full queue has been taken. An error ends the subscription.
func (s *Subscription) awaitRoom(hurry <-chan struct{}) error {
	returned := s.returned.Load()
	patient := time.NewTimer(stallBound)
	defer patient.Stop()
	for {
		select {
		case <-s.room:
			return nil
		case <-s.done:
			return ErrClosed
		case <-hurry:
			return ErrLagged
		case <-patient.C:
			now := s.returned.Load()
			if now == returned {
				return ErrStalled
			}
			returned = now
			patient.Reset(stallBound)
		}
	}
}

// mergeLocked appends a delta to the queued delta that it continues without a gap. Deltas of other items may be in between, other
// events may not.
func (s *Subscription) mergeLocked(e event.Event) bool {
	d, ok := e.Body.(event.ItemDelta)
	if !ok {
		return false
	}
	for i := len(s.mu.queue) - 1; i >= max(0, len(s.mu.queue)-mergeReach); i-- {
		l, ok := s.mu.queue[i].Body.(event.ItemDelta)
		if !ok {
			return false
		}
		if l.Item != d.Item || l.Delta != d.Delta {
			continue
		}
		switch {
		case d.Delta == event.DeltaProgress:
			l.Text = d.Text
		case l.Offset+int64(len(l.Text)) != d.Offset || len(l.Text)+len(d.Text) > mergeBytes:
			return false
		default:
			l.Text += d.Text
		}
		s.mu.queue[i].Body = l
		return true
	}
	return false
}

// notify wakes a waiter. The channel has room for one token.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
