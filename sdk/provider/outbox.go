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
	// outboxEvents is how many events may wait for the host; beyond it emit blocks, so that a slow host slows the vendor's
	// stream down.
	outboxEvents = 256
	// batchEvents and batchBytes bound one message. A batch is what has gathered while the message before was on its way.
	batchEvents = 64
	batchBytes  = 256 << 10
)

// outbox sends events in order from a goroutine of its own, so that those which gather while one message is being written
// travel together in the next. A lone event leaves at once.
type outbox struct {
	ctx    context.Context // of the stream
	send   func(*gantryv1.StreamResponse) error
	wake   chan struct{} // holds one token: the sender, which found nothing, looks again
	room   chan struct{} // holds one token: something has left the queue
	broken chan struct{} // closed by the sender when sending failed
	sender sync.WaitGroup

	terminal bool // touched by emit only

	mu struct {
		sync.Mutex
		queue  []*gantryv1.LlmEvent
		closed bool  // nothing more will come
		err    error // of sending
	}
}

func newOutbox(ctx context.Context, send func(*gantryv1.StreamResponse) error) *outbox {
	o := &outbox{ctx: ctx, send: send, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), broken: make(chan struct{})}
	o.sender.Go(o.run)
	return o
}

// emit hands one event over. It is called by one goroutine at a time.
func (o *outbox) emit(e llm.Event) error {
	p := convert.EventToProto(e)
	if p == nil {
		return fmt.Errorf("the event %T of kind %s can't be sent", e, llm.EventName(e))
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

// put queues an event if there is room.
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
	if len(o.mu.queue) == 1 { // as long as there are more the sender does not wait
		notify(o.wake)
	}
	return true, nil
}

// close sends what still waits and returns when that is done, with the error of sending. Further calls return the same.
func (o *outbox) close() error {
	o.mu.Lock()
	o.mu.closed = true
	o.mu.Unlock()
	notify(o.wake)
	o.sender.Wait()
	return o.mu.err // nobody writes it any more
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

// batch waits until something waits and takes it, up to the bounds of a message. It returns nothing when nothing will come.
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

// notify wakes a waiter; the channel has room for one token.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
