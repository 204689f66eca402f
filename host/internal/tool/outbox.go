package tool

import (
	"context"
	"sync"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// outboxBound bounds the messages that wait for a plugin to read them. A call gets a pause and a resume for each question, and one
// cancel, so a plugin that leaves that many unread does not read at all.
const outboxBound = 64

// outbox queues messages and sends them in order, so that writers don't wait for a plugin that does not read. Its goroutine starts with
// the first message: most calls get none.
type outbox struct {
	ctx    context.Context // of the stream
	stream callStream

	mu     sync.Mutex
	queue  chan *gantryv1.CallRequest // nil: there was no message
	sent   chan struct{}              // closed when nothing is sent any more
	closed bool
}

func newOutbox(ctx context.Context, stream callStream) *outbox {
	return &outbox{ctx: ctx, stream: stream}
}

// put queues a message; false: the queue is full. After close, it does nothing.
func (o *outbox) put(m *gantryv1.CallRequest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return true
	}
	if o.queue == nil {
		o.queue, o.sent = make(chan *gantryv1.CallRequest, outboxBound), make(chan struct{})
		go o.run() // owned by the outbox: close waits for it
	}
	select {
	case o.queue <- m:
		return true
	default:
		return false
	}
}

// close waits until what is queued is sent, or for the end of the stream's context. Nothing is sent after it.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	queue, sent := o.queue, o.sent
	o.mu.Unlock()
	if queue != nil {
		close(queue)
		<-sent
	}
}

// run sends queued messages until close or the end of the context. A broken stream is reported by its receiver.
func (o *outbox) run() {
	defer close(o.sent)
	for m := range o.queue {
		if o.ctx.Err() != nil || o.stream.Send(m) != nil {
			return
		}
	}
}
