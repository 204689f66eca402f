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
	// Output is collected until it reaches flushBytes or has waited for flushAfter. A program that writes line by line then
	// causes at most 50 messages per second, and the delay is too short to be noticed.
	flushBytes = 16 << 10
	flushAfter = 20 * time.Millisecond
	// maxPendingBytes is the maximum amount of queued output. When it is reached, Output blocks.
	maxPendingBytes = 64 << 10
	// maxPendingEvents is the maximum length of the queue for other events.
	maxPendingEvents = 64
	// maxDeltas is the maximum number of deltas of one call. Invalid bytes are sent one by one, so a program that prints a
	// binary file would flood all subscribers. Matches codex.
	maxDeltas = 10_000
)

// outbox is the queue of events that a call has to send. Handlers add events and a single goroutine (run) sends them in that order,
// so that no lock is held while sending.
type outbox struct {
	maxOutput int64 // maximum output of the call in bytes
	maxEvent  int   // maximum size of an event in bytes
	keep      bool  // the stream is kept for another call
	dropped   atomic.Int64

	wake chan struct{} // has one token when the sender should check the queue
	done chan struct{} // closed by end and abandon; after that, nothing is accepted

	mu struct {
		sync.Mutex
		queue    []pending
		bytes    int           // of output in the queue
		accepted int64         // of output, during the whole call
		room     chan struct{} // closed when there is room again; nil: no handler is waiting
		since    time.Time     // when the oldest output was queued, or when the call began if nothing has been sent
		last     *gantryv1.CallResponse
		ended    bool
	}

	// Owned by run.
	started bool
	tail    []byte // an incomplete character at the end of the output so far
	offset  int64
	deltas  int
}

// pending is one entry of the queue: output, or an event.
type pending struct {
	output []byte
	event  *gantryv1.CallResponse
}

func newOutbox(maxOutput int64, maxEvent int, keep bool) *outbox {
	o := &outbox{maxOutput: maxOutput, maxEvent: maxEvent, keep: keep, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.mu.since = time.Now()
	return o
}

// event queues an event, and blocks while the queue is full. ctx is the call's hard context.
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

// output queues output, and blocks while the queue is full. It does not retain p.
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

// put calls add with the lock held, repeatedly as the queue gets room, until add returns true.
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

// end queues the result after all events, unless there is one already. It reports whether it was queued.
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

// abandon makes the outbox reject everything, because the host has stopped receiving.
func (o *outbox) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mu.ended {
		o.mu.ended = true
		close(o.done)
	}
}

// run sends the queued events until the result has been sent or ctx ends.
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

// take removes and returns the events to be sent now, followed by the result if it is there. If there is nothing to be sent yet,
// wait is the time after which take should be called again; 0: when wake has a token.
func (o *outbox) take() (batch []pending, last *gantryv1.CallResponse, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.last == nil {
		onlyOutput := len(o.mu.queue) == 1 && o.mu.queue[0].event == nil && o.mu.bytes < flushBytes
		if onlyOutput || len(o.mu.queue) == 0 && !o.started {
			// The event that announces the call is delayed as well, because the handler may add its item.
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
			// The call was announced without its item.
			if item := p.event.GetStarted().GetItem(); item != nil {
				err = send(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Item{Item: item}})
			}
		case p.event.GetStarted() != nil:
			o.started = true
			p.event.GetStarted().KeepStream = o.keep
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
		note := &gantryv1.Note{Text: fmt.Sprintf("%d bytes of output are not shown, because the call has reached its output limit", n)}
		if err := o.announced(send, &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Note{Note: note}}); err != nil {
			return err
		}
	}
	return o.announced(send, last)
}

// announced sends an event, preceded by Started if nothing has been sent. e may be nil.
func (o *outbox) announced(send func(*gantryv1.CallResponse) error, e *gantryv1.CallResponse) error {
	if !o.started {
		o.started = true
		err := send(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Started{Started: &gantryv1.CallStarted{KeepStream: o.keep}}})
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
