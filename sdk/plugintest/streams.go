package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// streamedCalls is how many calls are made on one stream.
const streamedCalls = 3

type callStream = grpc.BidiStreamingClient[gantryv1.CallRequest, gantryv1.CallResponse]

// checkStream makes several calls on a stream, as far as the plugin keeps it.
func checkStream(ctx context.Context, k *kit, p *process) verdict {
	const next = "set keep_stream in started only if start has it; then answer every start on the stream until the host closes it, or end the stream without an error"
	c, ok := k.cheapCall()
	if !ok {
		return skipped(needsExample(Answers, "succeeds"), "no call to make")
	}
	running, err := p.begin(ctx, name(c), k.startOf(c))
	if err != nil {
		return failed(next, "%v", k.explain(ctx, p, err))
	}
	if t := running.finish(ctx, responseTimeout+k.cfg.Slack); t.keeps() {
		return failed(next, "%s: it set keep_stream in started, which start had not", t.what)
	}

	ctx, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	stream, err := p.tools().Call(ctx)
	if err != nil {
		return failed(next, "%v", k.explain(ctx, p, err))
	}
	for n := 1; n <= streamedCalls; n++ {
		start := k.startOf(c)
		start.KeepStream = true
		if n > 1 { // of the call before, whose result it has missed
			_ = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{Cancel: &gantryv1.CallCancel{Reason: "interrupted", GraceMs: exitTimeout.Milliseconds()}}})
		}
		t, err := exchange(stream, fmt.Sprintf("%s, call %d on its stream", name(c), n), start)
		switch {
		case n > 1 && len(t.events) == 0 && errors.Is(err, io.EOF):
			return passed("it ended the stream after %d calls", n-1)
		case err != nil && !errors.Is(err, io.EOF):
			return failed(next, "%s: %v", t.what, k.explain(ctx, p, err))
		}
		if err := t.checkOrder(); err != nil {
			return failed(next, "%v", err)
		}
		if err := k.sameKind(c, t); err != nil {
			return failed(next, "%v", err)
		}
		if n == 1 && !t.keeps() {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				return failed(next, "%s: it had not set keep_stream and did not end the RPC: %v", t.what, k.explain(ctx, p, err))
			}
			return passed("it keeps no streams")
		}
	}
	_ = stream.CloseSend() // Recv returns the error
	closed, stop := k.within(ctx, exitTimeout)
	defer stop()
	defer context.AfterFunc(closed, cancel)()
	if m, err := stream.Recv(); err == nil {
		return failed(next, "after the end of the stream by the host: it sent %s", eventName(m))
	} else if !errors.Is(err, io.EOF) {
		return failed(next, "it had not ended the stream %v after the host: %v", exitTimeout, k.explain(closed, p, err))
	}
	return passed("%d calls on one stream", streamedCalls)
}

// exchange makes a call on a stream and reads up to its result. It returns io.EOF if the stream ends before.
func exchange(s callStream, what string, start *gantryv1.CallStart) (*transcript, error) {
	t := &transcript{what: what}
	if err := s.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: start}}); err != nil && !errors.Is(err, io.EOF) {
		return t, err
	}
	for t.result == nil {
		m, err := s.Recv()
		if err != nil {
			return t, err
		}
		t.events, t.result = append(t.events, m), m.GetResult()
	}
	return t, nil
}

// keeps reports whether the plugin accepts another call on the stream of this one.
func (t *transcript) keeps() bool {
	for _, e := range t.events {
		if s := e.GetStarted(); s != nil {
			return s.GetKeepStream()
		}
	}
	return false
}
