// Package tool is the typed client of a tool plugin: it watches its tools, asks what a call would do, and runs calls.
//
// It owns: the order of messages in a call, the deadline that stands still while somebody is asked, soft and hard
// cancellation, and what a plugin may not do (events after its result, more output than allowed). It must not know:
// why a call is made, what policy thinks of it, any tool by name.
//
// Start with [Client].
package tool

import (
	"context"
	"errors"
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
	slot *plugin.Slot

	mu struct {
		sync.Mutex
		limit int32               // calls at once that the plugin announced
		slots *semaphore.Weighted // of that many; nil: any number
	}
}

// New makes a client; the plugin is started by the first call that needs it.
func New(slot *plugin.Slot) *Client { return &Client{slot: slot} }

// Assess asks what a call would do.
func (c *Client) Assess(ctx context.Context, r contract.AssessRequest) (*contract.Assessment, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	resp, err := gantryv1.NewToolServiceClient(lease.Conn).Assess(ctx, convert.AssessRequestToProto(&r))
	if err != nil {
		return nil, plugin.Classify(err, lease)
	}
	return convert.AssessmentFromProto(resp), nil
}

// Control steers a running call.
type Control struct {
	// Cancel is closed-over by the caller's soft context: when it ends, the plugin is asked to stop and has Grace to
	// send its result; then the call is ended hard.
	Soft   context.Context
	Reason func(cause error) string
	Grace  time.Duration
	// Waits tells that a person is being asked (true) or not any more (false). nil: never.
	Waits <-chan bool
	// Grants brings wider grants.
	Grants <-chan contract.GrantFacts
}

// ErrGrace says that the plugin did not answer a cancel in time; the call was ended hard.
var ErrGrace = errors.New("the plugin did not stop within the grace period")

// ErrDeadline says that the call took longer than it may.
var ErrDeadline = errors.New("the call ran longer than its deadline")

// Call runs a call. sink sees every event but the result, in order, on the caller's goroutine. When ctx ends the call
// is ended hard. The result is nil only with an error.
func (c *Client) Call(ctx context.Context, start contract.CallStart, ctl Control, sink func(contract.CallEvent)) (*contract.Result, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	limits := lease.Manifest().Limits
	if start.Caps.DeadlineMS == 0 {
		start.Caps.DeadlineMS = limits.CallMS
	}
	done, err := c.queue(ctx, ctl.Soft, limits.MaxParallelCalls)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, hard := context.WithCancelCause(ctx)
	defer hard(nil)
	stream, err := gantryv1.NewToolServiceClient(lease.Conn).Call(ctx)
	if err != nil {
		return nil, plugin.Classify(err, lease)
	}
	if err := stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: convert.CallStartToProto(&start)}}); err != nil {
		return nil, plugin.Classify(recvError(stream, err), lease)
	}

	finished := make(chan struct{})
	controlled := make(chan struct{})
	go func() { // owned by this call: ends when finished closes, which is waited for below
		defer close(controlled)
		control(ctx, stream, ctl, start.Caps.DeadlineMS, finished, hard)
	}()
	result, err := receive(stream, start.Caps, sink)
	close(finished)
	<-controlled
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			if errors.Is(cause, ErrGrace) || errors.Is(cause, ErrDeadline) {
				lease.Overran()
			}
			return nil, cause
		}
		return nil, plugin.Classify(err, lease)
	}
	lease.Finished()
	return result, nil
}

// queue waits until the plugin takes another call beside those that run.
func (c *Client) queue(ctx, soft context.Context, limit int32) (done func(), err error) {
	c.mu.Lock()
	if limit != c.mu.limit {
		c.mu.limit, c.mu.slots = limit, nil
		if limit > 0 {
			c.mu.slots = semaphore.NewWeighted(int64(limit))
		}
	}
	slots := c.mu.slots
	c.mu.Unlock()
	if slots == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(soft, func() { cancel(context.Cause(soft)) })()
	if err := slots.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { slots.Release(1) }, nil
}

type callStream = interface {
	Send(*gantryv1.CallRequest) error
	Recv() (*gantryv1.CallResponse, error)
	CloseSend() error
}

// recvError finds the status behind a failed Send, which only says EOF.
func recvError(stream callStream, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	_, err = stream.Recv()
	return err
}

func receive(stream callStream, caps contract.CallCaps, sink func(contract.CallEvent)) (*contract.Result, error) {
	var output int64
	for first := true; ; first = false {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the plugin ended the call without a result")
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
				continue // the plugin ignores its cap; the result tells what was lost
			}
		}
		sink(ev)
	}
}

// control forwards what steers the call until finished closes.
func control(ctx context.Context, stream callStream, ctl Control, deadlineMS int64, finished <-chan struct{}, hard context.CancelCauseFunc) {
	defer stream.CloseSend()
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
	waits, grants := ctl.Waits, ctl.Grants
	cancel := func(reason string) {
		soft, deadline = nil, nil
		_ = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{Cancel: &gantryv1.CallCancel{
			Reason: reason, GraceMs: ctl.Grace.Milliseconds(),
		}}}) // a broken stream shows in receive
		grace = time.After(ctl.Grace)
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
			if !ok {
				waits = nil
				continue
			}
			if w && timer != nil {
				timer.Stop()
				left -= time.Since(since)
				deadline, timer = nil, nil
				left = max(left, time.Millisecond)
			} else if !w && timer == nil && grace == nil {
				arm()
			}
			_ = stream.Send(pauseOrResume(w))
		case g, ok := <-grants:
			if !ok {
				grants = nil
				continue
			}
			_ = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_GrantAdded{
				GrantAdded: &gantryv1.CallGrantAdded{Grant: convert.GrantFactsToProto(g)}}})
		}
	}
}

func pauseOrResume(pause bool) *gantryv1.CallRequest {
	if pause {
		return &gantryv1.CallRequest{Control: &gantryv1.CallRequest_Pause{Pause: &gantryv1.CallPause{}}}
	}
	return &gantryv1.CallRequest{Control: &gantryv1.CallRequest_Resume{Resume: &gantryv1.CallResume{}}}
}
