package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// outboxEvents is the maximum number of queued events. When it is reached, emit blocks, so that a slow host slows down the
	// vendor's stream.
	outboxEvents = 256
	// batchEvents and batchBytes limit the size of a message, which contains the events queued while the previous one was sent.
	batchEvents = 64
	batchBytes  = 256 << 10
)

// outbox sends events in order from its own goroutine. Events that are queued while a message is being written are sent together in
// the next one. A single event is sent immediately.
type outbox struct {
	ctx    context.Context // of the stream
	send   func(*gantryv1.StreamResponse) error
	wake   chan struct{} // has one token when the sender should check the queue
	room   chan struct{} // has one token when the queue has room
	broken chan struct{} // closed when sending has failed
	sender sync.WaitGroup

	terminal bool // whether the last event was emitted; used only by emit and after it

	mu struct {
		sync.Mutex
		queue  []*gantryv1.LlmEvent
		closed bool  // no more events will be queued
		err    error // of sending
	}
}

func newOutbox(ctx context.Context, send func(*gantryv1.StreamResponse) error) *outbox {
	o := &outbox{ctx: ctx, send: send, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), broken: make(chan struct{})}
	o.sender.Go(o.run)
	return o
}

// emit queues an event, and blocks while the queue is full. It must not be called concurrently.
func (o *outbox) emit(e llm.Event) error {
	p := convert.EventToProto(e)
	if p == nil {
		return fmt.Errorf("invalid event %T of kind %s", e, llm.EventName(e))
	}
	switch e.(type) {
	case llm.Finish, *llm.Error:
		o.terminal = true
	}
	for {
		if o.ctx.Err() != nil {
			return context.Cause(o.ctx)
		}
		if taken, err := o.put(p); taken || err != nil {
			return err
		}
		select {
		case <-o.room:
		case <-o.broken:
		case <-o.ctx.Done():
		}
	}
}

// put queues an event, unless the queue is full.
func (o *outbox) put(p *gantryv1.LlmEvent) (taken bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.mu.err != nil:
		return false, o.mu.err
	case o.mu.closed:
		return false, errors.New("the request is over")
	case len(o.mu.queue) >= outboxEvents:
		return false, nil
	}
	o.mu.queue = append(o.mu.queue, p)
	if len(o.mu.queue) == 1 { // otherwise the sender is not waiting
		notify(o.wake)
	}
	return true, nil
}

// close waits until the queue has been sent, and returns the error of sending. Further calls return the same error.
func (o *outbox) close() error {
	o.mu.Lock()
	o.mu.closed = true
	o.mu.Unlock()
	notify(o.wake)
	o.sender.Wait()
	return o.mu.err // the sender has ended, so no lock is needed
}

func (o *outbox) run() {
	convert.WarmEvents()
	for {
		events := o.batch()
		if len(events) == 0 {
			return
		}
		if err := o.send(&gantryv1.StreamResponse{Events: events}); err != nil {
			o.mu.Lock()
			o.mu.err = err
			o.mu.Unlock()
			close(o.broken)
			return
		}
	}
}

// batch waits for events and removes at most as many as fit into a message. It returns nil when the outbox is closed and empty.
func (o *outbox) batch() []*gantryv1.LlmEvent {
	for {
		o.mu.Lock()
		queue, closed := o.mu.queue, o.mu.closed
		n, size := 0, 0
		for n < min(len(queue), batchEvents) && size < batchBytes {
			size += proto.Size(queue[n])
			n++
		}
		o.mu.queue = queue[n:]
		o.mu.Unlock()
		if n > 0 {
			notify(o.room)
			return queue[:n:n]
		}
		if closed {
			return nil
		}
		<-o.wake
	}
}

// notify puts a token into a channel with room for one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
