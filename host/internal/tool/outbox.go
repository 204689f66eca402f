package tool

import (
	"context"
	"sync"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// outboxBound bounds the messages that wait for a plugin to read them. A call gets a pause and a resume for each question, and one
// cancel, so a plugin that leaves that many unread does not read at all.
const outboxBound = 64

// outbox queues messages and sends them in order, so that writers don't wait for a plugin that does not read.
type outbox struct {
	queue chan *gantryv1.CallRequest
	once  sync.Once
}

func newOutbox() *outbox { return &outbox{queue: make(chan *gantryv1.CallRequest, outboxBound)} }

// put queues a message; false: the queue is full. Calls of put and close must not be concurrent.
func (o *outbox) put(m *gantryv1.CallRequest) bool {
	select {
	case o.queue <- m:
		return true
	default:
		return false
	}
}

// close ends run once the queue is empty. Idempotent.
func (o *outbox) close() { o.once.Do(func() { close(o.queue) }) }

// run sends queued messages until close or the end of ctx, which is also the context of the stream. A broken stream is reported by its
// receiver.
func (o *outbox) run(ctx context.Context, stream callStream) {
	defer func() { _ = stream.CloseSend() }()
	for m := range o.queue {
		if ctx.Err() != nil || stream.Send(m) != nil {
			return
		}
	}
}
