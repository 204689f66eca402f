package tool

import (
	"context"
	"sync"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// outboxBound is how many messages wait for a plugin to read them. A call gets its start, a pause and a resume for each
// question, and one cancel: whoever leaves that many unread does not read at all.
const outboxBound = 64

// outbox sends messages in order, apart from who writes them: sending waits as long as the plugin does not read.
type outbox struct {
	queue chan *gantryv1.CallRequest
	once  sync.Once
}

func newOutbox() *outbox { return &outbox{queue: make(chan *gantryv1.CallRequest, outboxBound)} }

// put queues a message; false: too many wait. It belongs to one goroutine at a time, as close does.
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

// run sends what is queued until close or the end of ctx, which also ends a send that waits. A stream that breaks shows
// where it is received from.
func (o *outbox) run(ctx context.Context, stream callStream) {
	defer func() { _ = stream.CloseSend() }()
	for m := range o.queue {
		if ctx.Err() != nil || stream.Send(m) != nil {
			return
		}
	}
}
