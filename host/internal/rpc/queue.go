package rpc

import (
	"context"
	"sync"
	"time"
)

const (
	batchBytes   = 64 << 10 // written at once; a larger batch would keep Post from replacing what is not sent yet
	itemOverhead = 96       // bytes of memory that a queued message costs besides its buffer
	maxSpare     = 256      // buffers kept for reuse
	maxSpareSize = 2 << 10  // and how large each may be
)

// queue contains the messages that are not sent yet. Its bound is one for Notify; answers and posts always enter.
type queue struct {
	bound int
	stall time.Duration // 0: none
	room  func()        // called without the lock after messages were sent

	versioned bool // messages have the member "jsonrpc"

	mu      sync.Mutex
	items   []item
	first   uint64            // number of items[0]
	posts   map[string]uint64 // numbers of the items with a key
	bytes   int               // queued, or being written
	spare   [][]byte
	wake    chan struct{} // has a token when the writer has something to do
	relaxed chan struct{} // closed when bytes falls to the bound; nil: nobody waits
	closed  bool          // Notify is refused
	ending  bool          // the writer ends when the queue is empty
	gone    bool          // nothing is written any more
	watch   *time.Timer   // runs while bytes is above the bound
	stalled chan struct{} // closed by watch
}

type item struct {
	text []byte
	key  string
}

func (it item) cost() int { return cap(it.text) + itemOverhead }

func newQueue(bound int, stall time.Duration, room func()) *queue {
	return &queue{bound: bound, stall: stall, room: room, wake: make(chan struct{}, 1), stalled: make(chan struct{})}
}

// push queues a message. It does not wait.
func (q *queue) push(e *envelope) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(e, "")
}

// post queues a message in the place of the one with the same key.
func (q *queue) post(key string, e *envelope) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, ok := q.posts[key]
	if !ok {
		q.add(e, key)
		return
	}
	it := &q.items[n-q.first]
	q.bytes -= it.cost()
	it.text = e.append(it.text[:0], q.versioned)
	q.bytes += it.cost()
	q.watchBytes()
}

// wait queues a message as soon as the queue is not above its bound.
func (q *queue) wait(ctx context.Context, done <-chan struct{}, e *envelope) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return ErrClosed
		}
		if q.bytes <= q.bound {
			q.add(e, "")
			q.mu.Unlock()
			return nil
		}
		if q.relaxed == nil {
			q.relaxed = make(chan struct{})
		}
		relaxed := q.relaxed
		q.mu.Unlock()
		select {
		case <-relaxed:
		case <-ctx.Done():
		case <-done:
		}
	}
}

func (q *queue) add(e *envelope, key string) {
	if q.gone {
		return
	}
	var buf []byte
	if size := e.size(); size <= maxSpareSize && len(q.spare) > 0 {
		last := len(q.spare) - 1
		buf, q.spare = q.spare[last], q.spare[:last]
	} else if size <= maxSpareSize {
		buf = make([]byte, 0, max(size, 256))
	} else {
		buf = make([]byte, 0, size)
	}
	if key != "" {
		if q.posts == nil {
			q.posts = map[string]uint64{}
		}
		q.posts[key] = q.first + uint64(len(q.items))
	}
	it := item{e.append(buf, q.versioned), key}
	q.items = append(q.items, it)
	q.bytes += it.cost()
	q.watchBytes()
	q.signal()
}

// take waits for messages and returns the first ones, to be handed back to sent. It returns none when the queue has ended.
func (q *queue) take(batch []item) []item {
	for {
		q.mu.Lock()
		if q.gone {
			q.mu.Unlock()
			return nil
		}
		if len(q.items) > 0 {
			batch = q.head(batch)
			q.mu.Unlock()
			return batch
		}
		if q.ending {
			q.mu.Unlock()
			return nil
		}
		q.mu.Unlock()
		<-q.wake
	}
}

func (q *queue) head(batch []item) []item {
	n, size := 0, 0
	for n < len(q.items) && size < batchBytes {
		it := q.items[n]
		size += len(it.text)
		if it.key != "" {
			delete(q.posts, it.key)
		}
		batch = append(batch, it)
		q.items[n] = item{}
		n++
	}
	q.items = q.items[n:]
	q.first += uint64(n)
	if len(q.items) == 0 {
		q.items = nil // gives up the memory of a long queue
	}
	return batch
}

// sent notes that a batch was written.
func (q *queue) sent(batch []item) {
	q.mu.Lock()
	for i, it := range batch {
		if q.gone {
			break
		}
		q.bytes -= it.cost()
		if cap(it.text) <= maxSpareSize && len(q.spare) < maxSpare {
			q.spare = append(q.spare, it.text[:0])
		}
		batch[i] = item{}
	}
	if q.watch != nil { // this is progress
		q.watch.Stop()
		q.watch = nil
	}
	q.watchBytes()
	if q.bytes <= q.bound && q.relaxed != nil {
		close(q.relaxed)
		q.relaxed = nil
	}
	q.mu.Unlock()
	q.room()
}

// watchBytes runs the timer of a client that does not read.
func (q *queue) watchBytes() {
	if q.bytes <= q.bound {
		if q.watch != nil {
			q.watch.Stop()
			q.watch = nil
		}
		return
	}
	if q.watch != nil || q.stall <= 0 || q.gone {
		return
	}
	var watch *time.Timer
	watch = time.AfterFunc(q.stall, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.watch == watch { // neither stopped nor replaced in the meantime
			close(q.stalled)
			q.stall, q.watch = 0, nil
		}
	})
	q.watch = watch
}

// above reports whether the queue has more than n times the bytes of its bound.
func (q *queue) above(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > n*q.bound
}

// refuse lets Notify fail from now on.
func (q *queue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// end lets the writer end when it has written everything.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.ending = true, true
	q.signal()
}

// abandon drops everything.
func (q *queue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.gone = true, true
	q.items, q.posts, q.spare, q.bytes = nil, nil, nil, 0
	if q.watch != nil {
		q.watch.Stop()
		q.watch = nil
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
