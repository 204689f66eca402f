package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// viewing is a view that the kit has opened.
type viewing struct {
	stream grpc.BidiStreamingClient[gantryv1.ViewRequest, gantryv1.ViewResponse]
	cancel context.CancelFunc
	events chan *gantryv1.ViewResponse // closed at the end of the stream
	err    error                       // why it ended, after events is closed; nil: in order
}

// openView opens a view of a session, for all kinds. The caller must call close.
func (p *process) openView(ctx context.Context, session string) (*viewing, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.tools().View(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	v := &viewing{stream: stream, cancel: cancel, events: make(chan *gantryv1.ViewResponse)}
	v.send(&gantryv1.ViewRequest{Request: &gantryv1.ViewRequest_Open{Open: &gantryv1.ViewOpen{
		ThreadId: threadID, SessionId: session, Size: &gantryv1.ViewSize{Width: 80, Height: 24},
		Kinds: []gantryv1.ViewKind{gantryv1.ViewKind_VIEW_KIND_TERMINAL, gantryv1.ViewKind_VIEW_KIND_SCREEN},
	}}})
	// Owner: the caller, who calls close.
	go func() {
		defer close(v.events)
		for {
			m, err := stream.Recv()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					v.err = err
				}
				return
			}
			select {
			case v.events <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return v, nil
}

func (v *viewing) send(r *gantryv1.ViewRequest) { _ = v.stream.Send(r) } // the receiver gets the error

func (v *viewing) close() {
	v.cancel()
	for range v.events { // ends with the stream
	}
}

// next waits for an event. It returns nil at the end of the stream, and late if there is none in time.
func (v *viewing) next(limit time.Duration) (e *gantryv1.ViewResponse, late bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case e := <-v.events:
		return e, false
	case <-timer.C:
		return nil, true
	}
}

// how describes the end of the stream.
func (v *viewing) how() string {
	if v.err == nil {
		return "the stream ended"
	}
	return fmt.Sprintf("the stream ended with status %s: %s", codeName(status.Code(v.err)), status.Convert(v.err).Message())
}

// checkView opens a view of a session that a call has left.
func checkView(ctx context.Context, k *kit, p *process) verdict {
	limit := responseTimeout + k.cfg.Slack
	unknown, err := p.openView(ctx, "kit-unknown")
	if err != nil {
		return broken(err)
	}
	defer unknown.close()
	e, late := unknown.next(limit)
	switch code := status.Code(unknown.endedWith(e, late)); {
	case code == codes.Unimplemented:
		return skipped("", "it has no views")
	case late:
		return failed("answer NOT_FOUND for an unknown session", "no answer within %v", limit)
	case code != codes.NotFound:
		return failed("answer NOT_FOUND for an unknown session", "View of an unknown session: %s, want status NOT_FOUND", unknown.answer(e))
	}
	leaves := k.withBehaviour(Leaves)
	if len(leaves) == 0 {
		return skipped(needsExample(Leaves, "leaves a session"), "no example leaves a session")
	}
	t, err := k.perform(ctx, p, k.cfg.Calls[leaves[0]], nil)
	if err != nil {
		return broken(err)
	}
	id := t.result.GetSessionId()
	if id == "" {
		return skipped("", "%s left no session", name(k.cfg.Calls[leaves[0]]))
	}
	defer func() {
		_, _ = call(ctx, k, p, p.tools().StopSession, &gantryv1.StopSessionRequest{ThreadId: threadID, SessionId: id})
	}()
	v, err := p.openView(ctx, id)
	if err != nil {
		return broken(err)
	}
	defer v.close()
	return k.watchView(v, limit)
}

// endedWith returns the status of a stream that has ended without an event.
func (v *viewing) endedWith(e *gantryv1.ViewResponse, late bool) error {
	if e != nil || late {
		return nil
	}
	return v.err
}

// answer describes an event, or the end of the stream.
func (v *viewing) answer(e *gantryv1.ViewResponse) string {
	if e == nil {
		return v.how()
	}
	return fmt.Sprintf("%T", e.GetEvent())
}

// watchView checks the order of the events, and that a frame waits for the acknowledgement of the one before.
func (k *kit) watchView(v *viewing, limit time.Duration) verdict {
	e, late := v.next(limit)
	switch {
	case late:
		return failed("send opened as soon as the view is open", "no event within %v", limit)
	case e.GetOpened() == nil:
		return failed("send opened first", "the first event of a view: %s", v.answer(e))
	case e.GetOpened().GetKind() == gantryv1.ViewKind_VIEW_KIND_UNSPECIFIED:
		return failed("say in opened which of the requested kinds the view has", "the view has no kind")
	}
	kind := e.GetOpened().GetKind()
	var seen uint64
	var unacknowledged bool
	var end int64
	for until := time.Now().Add(settle); ; {
		e, late := v.next(time.Until(until))
		if late {
			break
		}
		switch {
		case e == nil || e.GetClosed() != nil:
			return failed("keep the view open as long as the session runs", "the view ended while the session was running: %s", v.answer(e))
		case e.GetFrame() == nil:
			continue
		case unacknowledged:
			return failed("send no frame before the one before it was acknowledged", "frame %d came before frame %d was acknowledged", e.GetFrame().GetNumber(), seen)
		}
		f := e.GetFrame()
		if f.GetNumber() != seen+1 {
			return failed("number frames from 1, without gaps", "frame %d follows frame %d", f.GetNumber(), seen)
		}
		seen = f.GetNumber()
		if (f.GetPicture() != nil) != (kind == gantryv1.ViewKind_VIEW_KIND_SCREEN) || (f.GetOutput() != nil) != (kind == gantryv1.ViewKind_VIEW_KIND_TERMINAL) {
			return failed("send frames of the kind that opened names", "frame %d is not of the kind %s", seen, kind)
		}
		if o := f.GetOutput(); o.GetOffset() < end {
			return failed("send every byte once", "frame %d begins at byte %d, before the end of the frame before it, %d", seen, o.GetOffset(), end)
		}
		end = f.GetOutput().GetOffset() + int64(len(f.GetOutput().GetData()))
		if unacknowledged = seen > 1; !unacknowledged {
			v.send(&gantryv1.ViewRequest{Request: &gantryv1.ViewRequest_Ack{Ack: &gantryv1.ViewAck{Number: seen}}})
		}
	}
	v.send(&gantryv1.ViewRequest{Request: &gantryv1.ViewRequest_Close{Close: &gantryv1.ViewClose{}}})
	for e, late = v.next(limit); e != nil; e, late = v.next(limit) {
	}
	switch {
	case late:
		return failed("end the stream after close", "the view was still open %v after close", limit)
	case v.err != nil:
		return failed("end the stream in order after close", "after close, %s", v.how())
	}
	return passed("%d frames", seen)
}
