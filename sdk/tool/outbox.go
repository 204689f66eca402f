package tool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// flushBytes and flushAfter say when output that waits for more is sent all the same: a program that writes line by
	// line then costs 50 messages a second at most, and nobody sees that it was held back.
	flushBytes = 16 << 10
	flushAfter = 20 * time.Millisecond
	// maxPendingBytes is the output that waits when the host is slow; beyond it Output waits for the host.
	maxPendingBytes = 64 << 10
	// maxPendingEvents is the same for everything else.
	maxPendingEvents = 64
	// maxDeltas is the most deltas of one call. Bytes that are no text go one by one, and a program that prints a binary
	// must not flood everybody who watches. Codex-compatible.
	maxDeltas = 10_000
)

// outbox is what a call still has to send. Handlers put, one goroutine (run) sends: so no lock is held while sending,
// and the order is that of putting.
type outbox struct {
	maxOutput int64 // bytes of output that are accepted
	maxEvent  int   // bytes of one message
	dropped   atomic.Int64

	wake chan struct{} // holds one token: look again
	done chan struct{} // closed by end and by gone: nothing is accepted any more

	mu struct {
		sync.Mutex
		queue    []pending
		bytes    int           // of output in queue
		accepted int64         // bytes of output, over the whole call
		room     chan struct{} // closed when there is room again; nil: nobody waits
		since    time.Time     // of the oldest output in queue, or of the call while nothing was sent
		last     *gantryv1.CallResponse
		ended    bool
	}

	// Owned by run.
	started bool
	tail    []byte // the beginning of a character
	offset  int64
	deltas  int
}

// pending is one entry of the queue: output, or an event.
type pending struct {
	output []byte
	event  *gantryv1.CallResponse
}

func newOutbox(maxOutput int64, maxEvent int) *outbox {
	o := &outbox{maxOutput: maxOutput, maxEvent: maxEvent, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.mu.since = time.Now()
	return o
}

// event queues an event and waits for room while there are too many. ctx is the call's hard one.
func (o *outbox) event(ctx context.Context, e contract.CallEvent) error {
	msg := convert.CallEventToProto(e)
	if size := proto.Size(msg); size > o.maxEvent {
		return fmt.Errorf("tool: event of %d bytes is over the limit of %d", size, o.maxEvent)
	}
	return o.put(ctx, func() bool {
		if len(o.mu.queue) >= maxPendingEvents {
			return false
		}
		o.mu.queue = append(o.mu.queue, pending{event: msg})
		return true
	})
}

// output queues output and waits for room while too much is waiting. It keeps nothing of p.
func (o *outbox) output(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		err := o.put(ctx, func() bool {
			if left := o.maxOutput - o.mu.accepted; int64(len(p)) > left {
				o.dropped.Add(int64(len(p)) - left)
				p = p[:left]
			}
			n := min(len(p), maxPendingBytes-o.mu.bytes)
			if n <= 0 {
				return len(p) == 0
			}
			o.addOutputLocked(p[:n])
			p = p[n:]
			return len(p) == 0
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *outbox) addOutputLocked(p []byte) {
	if o.mu.bytes == 0 {
		o.mu.since = time.Now()
	}
	o.mu.bytes += len(p)
	o.mu.accepted += int64(len(p))
	if last := len(o.mu.queue) - 1; last >= 0 && o.mu.queue[last].event == nil {
		o.mu.queue[last].output = append(o.mu.queue[last].output, p...)
		return
	}
	o.mu.queue = append(o.mu.queue, pending{output: append([]byte(nil), p...)})
}

// put calls add under the lock, and again whenever there is room, until it returns true.
func (o *outbox) put(ctx context.Context, add func() bool) error {
	for {
		o.mu.Lock()
		if o.mu.ended || ctx.Err() != nil {
			o.mu.Unlock()
			return ErrEnded
		}
		done := add()
		if !done && o.mu.room == nil {
			o.mu.room = make(chan struct{})
		}
		room := o.mu.room
		o.mu.Unlock()
		o.wakeSender()
		if done {
			return nil
		}
		select {
		case <-room:
		case <-o.done:
			return ErrEnded
		case <-ctx.Done():
			return ErrEnded
		}
	}
}

func (o *outbox) wakeSender() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// end queues the result behind everything else. Only the first one counts; it reports whether this was it.
func (o *outbox) end(r *gantryv1.CallResult) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ended {
		return false
	}
	o.mu.ended = true
	o.mu.last = &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: r}}
	close(o.done)
	o.wakeSender()
	return true
}

// abandon says that nobody listens any more.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mu.ended {
		o.mu.ended = true
		close(o.done)
	}
}

// run sends what was put until the result is sent or ctx ends.
func (o *outbox) run(ctx context.Context, send func(*gantryv1.CallResponse) error) error {
	defer o.abandon()
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	for {
		batch, last, wait := o.take()
		if err := o.send(batch, last, send); err != nil {
			return err
		}
		if last != nil {
			return nil
		}
		timer.Stop()
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-o.wake:
		case <-due:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take returns what is to be sent now, and how long the rest may wait; 0: until something happens.
func (o *outbox) take() (batch []pending, last *gantryv1.CallResponse, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.last == nil {
		onlyOutput := len(o.mu.queue) == 1 && o.mu.queue[0].event == nil && o.mu.bytes < flushBytes
		if onlyOutput || len(o.mu.queue) == 0 && !o.started {
			// Also what announces the call waits a moment, for the item that the handler may have.
			if wait = flushAfter - time.Since(o.mu.since); wait > 0 {
				return nil, nil, wait
			}
			if len(o.mu.queue) == 0 {
				return []pending{{}}, nil, 0
			}
		}
	}
	batch, last = o.mu.queue, o.mu.last
	o.mu.queue, o.mu.bytes = nil, 0
	if o.mu.room != nil {
		close(o.mu.room)
		o.mu.room = nil
	}
	return batch, last, 0
}

func (o *outbox) send(batch []pending, last *gantryv1.CallResponse, send func(*gantryv1.CallResponse) error) error {
	for _, p := range batch {
		var err error
		switch {
		case p.event.GetStarted() != nil && o.started:
			// The call was announced before its item was known.
			if item := p.event.GetStarted().GetItem(); item != nil {
				err = send(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Item{Item: item}})
			}
		case p.event.GetStarted() != nil:
			o.started = true
			err = send(p.event)
		case p.event != nil:
			err = o.announced(send, p.event)
		case len(p.output) > 0:
			err = o.sendOutput(p.output, false, send)
		default:
			err = o.announced(send, nil)
		}
		if err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	if err := o.sendOutput(nil, true, send); err != nil {
		return err
	}
	if n := o.dropped.Load(); n > 0 {
		note := &gantryv1.Note{Text: fmt.Sprintf("%d bytes of output are not shown: the limit for one call was reached", n)}
		if err := o.announced(send, &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Note{Note: note}}); err != nil {
			return err
		}
	}
	return o.announced(send, last)
}

// announced sends an event after the one that must be first.
func (o *outbox) announced(send func(*gantryv1.CallResponse) error, e *gantryv1.CallResponse) error {
	if !o.started {
		o.started = true
		err := send(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Started{Started: &gantryv1.CallStarted{}}})
		if err != nil {
			return err
		}
	}
	if e == nil {
		return nil
	}
	return send(e)
}

func (o *outbox) sendOutput(p []byte, last bool, send func(*gantryv1.CallResponse) error) error {
	if len(o.tail) > 0 {
		p = append(o.tail, p...)
		o.tail = nil
	}
	for {
		n := nextDelta(p, last)
		if n == 0 {
			o.tail = append([]byte(nil), p...)
			return nil
		}
		if o.deltas == maxDeltas {
			o.dropped.Add(int64(len(p)))
			return nil
		}
		o.deltas++
		delta := &gantryv1.OutputDelta{Offset: o.offset, Data: p[:n]}
		if err := o.announced(send, &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Output{Output: delta}}); err != nil {
			return err
		}
		o.offset += int64(n)
		p = p[n:]
	}
}
