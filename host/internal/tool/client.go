// Package tool is the typed client of a tool plugin: it watches its tools, has calls assessed, and runs them.
//
// It owns: the order of messages in a call, the deadline, which is suspended while a person is asked, soft and hard cancellation, and
// the bounds of what a plugin may send (nothing after its result, no more output than allowed). It must not know: why a call is made,
// how the policy decides, any tool by name.
//
// Start with [Client].
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"golang.org/x/sync/semaphore"
)

// Client calls the tools of one plugin slot. Safe for concurrent use.
type Client struct {
	slot    *plugin.Slot
	streams streams

	mu struct {
		sync.Mutex
		limit int32               // of concurrent calls, as the plugin has announced it
		slots *semaphore.Weighted // of this size; nil: no limit
	}
}

// New makes a client; the plugin is started by the first call that needs it.
func New(slot *plugin.Slot) *Client { return &Client{slot: slot} }

// Assess asks the plugin what a call would do.
func (c *Client) Assess(ctx context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	defer lease.Release()
	resp, err := gantryv1.NewToolServiceClient(lease.Conn).Assess(ctx, convert.AssessRequestToProto(&r))
	if err != nil {
		return nil, plugin.Classify(err, lease)
	}
	return convert.AssessmentFromProto(resp), nil
}

// Control controls a running call.
type Control struct {
	// When Soft ends, the plugin is asked to stop, with a reason that Reason returns for the cause. It has Grace to send its result;
	// then the call is cancelled.
	Soft   context.Context
	Reason func(cause error) string
	Grace  time.Duration
	// Waits receives true when a person is asked a question, which suspends the deadline, and false when it is answered. nil: there are
	// no questions.
	Waits <-chan bool
	// Reentrant says that the call is nested in a call of the same plugin.
	Reentrant bool
}

// ErrUnreached says that the plugin has no process, so the call had no effect. It wraps the reason.
var ErrUnreached = errors.New("the call did not reach its plugin")

// ErrGrace says that the call was cancelled because the plugin did not stop in time after it was asked to.
var ErrGrace = errors.New("the plugin did not stop within the grace period")

// ErrUnresponsive says that the call was cancelled because the plugin does not read its messages.
var ErrUnresponsive = errors.New("the plugin does not read what the host sends to its call")

// ErrDeadline says that the call exceeded its deadline.
var ErrDeadline = errors.New("the call ran longer than its deadline")

// Call runs a call. sink receives every event except the result, in order, from the caller's goroutine. The end of ctx cancels the call.
// The result is nil only with an error.
func (c *Client) Call(ctx context.Context, start contract.CallStart, ctl Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	// A call that has not begun needs no grace period, so the end of Soft also ends the wait for the plugin.
	waiting, stop := either(ctx, ctl.Soft)
	defer stop()
	lease, err := c.slot.Acquire(waiting)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	defer lease.Release()
	limits := lease.Manifest().Limits
	if start.Caps.DeadlineMS == 0 {
		start.Caps.DeadlineMS = limits.CallMS
	}
	done, err := c.queue(waiting, limits.MaxParallelCalls, ctl.Reentrant)
	if err != nil {
		return nil, err
	}
	defer done()
	start.KeepStream = true
	for {
		stream, err := c.streams.take(ctx, lease)
		if err != nil {
			return nil, plugin.Classify(err, lease)
		}
		result, err := c.callOn(ctx, stream, lease, start, ctl, sink)
		if !stream.endedBetweenCalls(err) {
			return result, err
		}
	}
}

// callOn runs a call on a stream.
func (c *Client) callOn(ctx context.Context, stream *stream, lease *plugin.Lease, start contract.CallStart, ctl Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	ctx, hard := context.WithCancelCause(ctx)
	defer hard(nil)
	unhook := context.AfterFunc(ctx, stream.cancel)
	// At once and not through the outbox, so that it leaves together with the stream's headers. The first message of a stream does not
	// wait for its receiver. A broken stream is reported where it is received from.
	err := stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: convert.CallStartToProto(&start)}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, plugin.Classify(err, lease)
	}
	finished := make(chan struct{})
	out := newOutbox(ctx, stream)
	go control(ctx, out, ctl, start.Caps.DeadlineMS, finished, hard) // owned by the call: ends when finished closes
	result, err := receive(stream, start.Caps, sink)
	ended := context.Cause(ctx)
	close(finished)
	// What is queued is sent, unless the plugin does not read.
	cancel := time.AfterFunc(sendTimeout, func() { hard(nil) })
	out.close()
	cancel.Stop()
	if err == nil && unhook() && stream.kept {
		c.streams.put(stream)
	} else {
		stream.end()
	}
	if err != nil {
		if cause := ended; cause != nil {
			if errors.Is(cause, ErrGrace) || errors.Is(cause, ErrDeadline) || errors.Is(cause, ErrUnresponsive) {
				lease.Overran()
			}
			return nil, cause
		}
		if errors.Is(err, errNoResult) {
			return nil, err
		}
		return nil, plugin.Classify(err, lease)
	}
	lease.Finished()
	return result, nil
}

// sendTimeout is how long the end of a call waits for messages that are still being sent.
const sendTimeout = 50 * time.Millisecond

// either returns a context that ends with the first of two contexts, with the same cause.
func either(ctx, soft context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(soft, func() { cancel(context.Cause(soft)) })
	return ctx, func() { stop(); cancel(nil) }
}

// queue waits until the plugin accepts another concurrent call. A reentrant call fails instead, as it could wait for itself.
func (c *Client) queue(ctx context.Context, limit int32, reentrant bool) (done func(), err error) {
	c.mu.Lock()
	if limit != c.mu.limit {
		c.mu.limit, c.mu.slots = limit, nil
		if limit > 0 {
			c.mu.slots = semaphore.NewWeighted(int64(limit))
		}
	}
	slots := c.mu.slots
	c.mu.Unlock()
	switch {
	case slots == nil:
		return func() {}, nil
	case reentrant && !slots.TryAcquire(1):
		return nil, fmt.Errorf("the plugin accepts at most %d concurrent calls, and this one is nested in one of them", limit)
	case reentrant:
	default:
		if err := slots.Acquire(ctx, 1); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return func() { slots.Release(1) }, nil
}

type callStream = interface {
	Send(*gantryv1.CallRequest) error
	Recv() (*gantryv1.CallResponse, error)
}

var errNoResult = errors.New("the plugin ended the call without a result")

// receive passes on events until the result.
func receive(stream callStream, caps contract.CallCaps, sink func(contract.CallEvent)) (*contract.Result, error) {
	var output int64
	for first := true; ; first = false {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errNoResult
		}
		if err != nil {
			return nil, err
		}
		ev, ok := convert.CallEventFromProto(resp)
		if !ok {
			continue // an event of a later version
		}
		switch ev := ev.(type) {
		case *contract.Result:
			return ev, nil
		case contract.Started:
			if !first {
				continue
			}
		case contract.Output:
			output += int64(len(ev.Data))
			if caps.MaxOutputBytes > 0 && output > caps.MaxOutputBytes {
				continue // the plugin ignores its limit
			}
		}
		sink(ev)
	}
}

// control applies ctl and the deadline to the call until finished is closed. It sends messages through out, so that a plugin that does
// not read can't stop the clock.
func control(ctx context.Context, out *outbox, ctl Control, deadlineMS int64, finished <-chan struct{}, hard context.CancelCauseFunc) {
	var deadline <-chan time.Time
	var timer *time.Timer
	left := time.Duration(deadlineMS) * time.Millisecond
	since := time.Now()
	arm := func() {
		if left > 0 {
			timer = time.NewTimer(left)
			deadline, since = timer.C, time.Now()
		}
	}
	arm()
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	soft := ctl.Soft.Done()
	var grace <-chan time.Time
	waits := ctl.Waits
	asking := 0 // number of open questions
	send := func(m *gantryv1.CallRequest) {
		if !out.put(m) {
			hard(ErrUnresponsive)
		}
	}
	cancel := func(reason string) {
		soft, deadline = nil, nil
		grace = time.After(ctl.Grace)
		send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{Cancel: &gantryv1.CallCancel{
			Reason: reason, GraceMs: ctl.Grace.Milliseconds(),
		}}})
	}
	var hardCause error = ErrGrace
	for {
		select {
		case <-finished:
			return
		case <-ctx.Done():
			return
		case <-soft:
			hardCause = errors.Join(context.Cause(ctl.Soft), ErrGrace)
			cancel(ctl.Reason(context.Cause(ctl.Soft)))
		case <-deadline:
			hardCause = ErrDeadline
			cancel("deadline")
		case <-grace:
			hard(hardCause)
			return
		case w, ok := <-waits:
			switch {
			case !ok:
				waits = nil
				continue
			case w:
				asking++
			default:
				asking--
			}
			if w && asking > 1 || !w && asking > 0 {
				continue // another question is open
			}
			if w && timer != nil {
				timer.Stop()
				left -= time.Since(since)
				deadline, timer = nil, nil
				left = max(left, time.Millisecond)
			} else if !w && timer == nil && grace == nil {
				arm()
			}
			send(pauseOrResume(w))
		}
	}
}

func pauseOrResume(pause bool) *gantryv1.CallRequest {
	if pause {
		return &gantryv1.CallRequest{Control: &gantryv1.CallRequest_Pause{Pause: &gantryv1.CallPause{}}}
	}
	return &gantryv1.CallRequest{Control: &gantryv1.CallRequest_Resume{Resume: &gantryv1.CallResume{}}}
}
