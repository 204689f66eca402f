package tool

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/internal/stack"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

const (
	// defaultGrace is the time for the result after a cancellation without a grace period.
	defaultGrace = 2 * time.Second
	// graceMargin is the time reserved for the result to reach the host before the end of the grace period.
	graceMargin = 100 * time.Millisecond
	// maxDigestBytes is the maximum length of an assessment's digest.
	maxDigestBytes = 128
)

// Watch implements ToolService.
func (s *Server) Watch(_ *gantryv1.WatchRequest, stream grpc.ServerStreamingServer[gantryv1.WatchResponse]) error {
	for {
		set, changed := s.tools.current()
		if err := stream.Send(set); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.closing.Done():
			return nil
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// Thread implements ToolService.
func (s *Server) Thread(req *gantryv1.ThreadRequest, stream grpc.ServerStreamingServer[gantryv1.ThreadResponse]) error {
	env := s.env()
	if env == nil {
		return status.Errorf(codes.FailedPrecondition, "plugin %q is not configured: Configure must succeed first", s.plugin.Name)
	}
	t := s.threads.get(req.GetThreadId(), env)
	if root := req.GetRootThreadId(); root != "" && root != t.id { // which may never use the plugin itself
		s.adoptSessions(stream.Context(), env, s.threads.get(root, env)) // before a call of the thread, which waits for its family, can use them
	}
	t.open(req.GetCwd(), req.GetThreadToken(), req.GetParentThreadId(), req.GetRootThreadId(), req.GetAgentPath())
	s.adoptSessions(stream.Context(), env, t)
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.closing, func() { cancel(context.Cause(s.closing)) })
	defer stop()
	var hook sync.WaitGroup
	var failed error // of the plugin's Thread, before the stream ended
	if s.plugin.Thread != nil {
		hook.Go(func() {
			err := s.guard("thread", func() error { return s.plugin.Thread(ctx, t) })
			if err != nil && ctx.Err() == nil {
				failed = status.Errorf(codes.Internal, "plugin %q: thread %s: %v", s.plugin.Name, t.id, err)
				cancel(failed)
			}
		})
	}
	err := t.run(ctx, stream.Send)
	cancel(nil)
	hook.Wait()
	return cmp.Or(failed, err)
}

// StopSession implements ToolService.
func (s *Server) StopSession(ctx context.Context, req *gantryv1.StopSessionRequest) (*gantryv1.StopSessionResponse, error) {
	if s.plugin.StopSession != nil {
		if env := s.env(); env != nil {
			s.adoptSessions(ctx, env, s.threads.get(req.GetThreadId(), env))
		}
		err := s.guard("stop session", func() error { return s.plugin.StopSession(ctx, req.GetThreadId(), req.GetSessionId()) })
		if err != nil {
			return nil, status.Errorf(codes.Internal, "plugin %q: stop session %s: %v", s.plugin.Name, req.GetSessionId(), err)
		}
	}
	return &gantryv1.StopSessionResponse{}, nil
}

// EndThread implements ToolService.
func (s *Server) EndThread(ctx context.Context, req *gantryv1.EndThreadRequest) (*gantryv1.EndThreadResponse, error) {
	defer s.threads.end(req.GetThreadId())
	if s.plugin.EndThread != nil {
		if err := s.guard("end thread", func() error { return s.plugin.EndThread(ctx, req.GetThreadId()) }); err != nil {
			return nil, status.Errorf(codes.Internal, "plugin %q: end thread %s: %v", s.plugin.Name, req.GetThreadId(), err)
		}
	}
	return &gantryv1.EndThreadResponse{}, nil
}

// Assess implements ToolService. An error of the plugin's code is an early answer, so that the call does not run.
func (s *Server) Assess(ctx context.Context, req *gantryv1.AssessRequest) (*gantryv1.AssessResponse, error) {
	leave, err := s.gate.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	r := convert.AssessRequestFromProto(req)
	env := s.env()
	t, ok := s.tools.find(r.Namespace, r.Tool)
	if !ok {
		return early(unsupported(r.Namespace, r.Tool)), nil
	}
	if t.assess == nil {
		return nil, status.Errorf(codes.InvalidArgument, "tool %q is not assessed", r.Tool)
	}
	c := &AssessCall{req: r, tool: t, env: env, thread: s.threads.get(r.ThreadID, env)}
	s.adoptSessions(ctx, env, c.thread)
	var a *contract.Assessment
	err = s.guard("tool "+r.Tool, func() (err error) {
		a, err = t.assess(ctx, c, r.Input)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return early(errorResult(ctx, err)), nil
	case a == nil:
		return early(Errorf("tool %q returned no assessment", r.Tool)), nil
	case len(a.Digest) > maxDigestBytes:
		return early(Errorf("tool %q: the digest of the assessment has %d bytes; the maximum is %d", r.Tool, len(a.Digest), maxDigestBytes)), nil
	}
	msg := convert.AssessmentToProto(a)
	if a.Early != nil {
		msg.Early = s.fitter(env, contract.CallCaps{}).fit(ctx, a.Early)
	}
	return msg, nil
}

func early(r *Result) *gantryv1.AssessResponse {
	return &gantryv1.AssessResponse{Early: convert.ResultToProto(r)}
}

func unsupported(namespace, name string) *Result {
	return Errorf("unsupported call: %s%s", namespace, name)
}

// Call implements ToolService.
func (s *Server) Call(stream grpc.BidiStreamingServer[gantryv1.CallRequest, gantryv1.CallResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetStart() == nil {
		return status.Error(codes.InvalidArgument, "the first message of a call must be start")
	}
	calls := &callStream{server: s, stream: stream, next: make(chan *served)}
	c, err := calls.begin(first.GetStart())
	if err != nil {
		return err
	}
	// Owned by this RPC: ends when the host closes its side of the stream, at the latest with the RPC.
	go calls.receive()
	for c != nil {
		if err := calls.run(c); err != nil || !c.call.out.keep {
			return err
		}
		select {
		case c = <-calls.next:
		case <-s.closing.Done():
			return nil
		}
	}
	return nil
}

// callStream is a stream on which the host makes calls, one after the other.
type callStream struct {
	server *Server
	stream grpc.BidiStreamingServer[gantryv1.CallRequest, gantryv1.CallResponse]
	next   chan *served // the calls after the first one; closed when there are no more
	latest *served      // to which the host's messages apply; used by receive alone, once that has begun
}

// served is a call on a stream.
type served struct {
	call       *Call
	stop       *stopper
	leave      func() // the gate
	cancelHard context.CancelCauseFunc
	cancelSoft context.CancelCauseFunc
}

// begin lets a call pass the gate.
func (cs *callStream) begin(start *gantryv1.CallStart) (*served, error) {
	s := cs.server
	leave, err := s.gate.enter(cs.stream.Context(), true)
	if err != nil {
		return nil, err
	}
	c := &served{leave: leave}
	var hard, soft context.Context
	hard, c.cancelHard = context.WithCancelCause(cs.stream.Context())
	soft, c.cancelSoft = context.WithCancelCause(hard)
	c.call = s.newCall(convert.CallStartFromProto(start), soft, hard)
	c.stop = &stopper{call: c.call, cancel: c.cancelSoft}
	cs.latest = c
	return c, nil
}

// run runs a call to its result.
func (cs *callStream) run(sc *served) error {
	s, c := cs.server, sc.call
	defer sc.cancelHard(ErrEnded)
	defer sc.cancelSoft(ErrEnded)
	defer sc.stop.release()
	if d := s.deadline(c.start.Caps); d > 0 {
		defer c.clock.afterFunc(d, func() { sc.stop.stop(reasonDeadline, defaultGrace) }).Stop()
	}
	shutdown := context.AfterFunc(s.closing, func() { sc.stop.stop("shutdown", s.closeGrace()) })
	defer shutdown()
	// Owned by the server: Drain and Close wait for it, even if the host has ended the RPC before the handler returned.
	go func() {
		stack.Grow()
		defer sc.leave()
		// If the handler calls runtime.Goexit, the call below doesn't return, but the host still gets a result.
		defer c.out.end(convert.ResultToProto(Errorf("tool %s ended without a result", c.start.Tool)))
		c.out.end(s.handle(c))
	}()
	if err := c.out.run(c.hard, cs.stream.Send); err != nil {
		return status.FromContextError(context.Canceled).Err()
	}
	return nil
}

func (s *Server) newCall(start *contract.CallStart, soft, hard context.Context) *Call {
	env := s.env()
	f := s.fitter(env, start.Caps)
	maxOutput := start.Caps.MaxOutputBytes
	if maxOutput <= 0 {
		maxOutput = positive(env.HostLimits.MaxOutputBytes, defaultOutputBytes)
	}
	return &Call{
		start: start, env: env, thread: s.threads.get(start.ThreadID, env), soft: soft, hard: hard,
		out: newOutbox(maxOutput, int(f.message-messageMargin), start.KeepStream), clock: newClock(),
	}
}

func (s *Server) fitter(env *Env, caps contract.CallCaps) fitter {
	inline := positive(env.HostLimits.MaxInlineBytes, defaultInlineBytes)
	if caps.MaxInlineBytes > 0 {
		inline = min(inline, caps.MaxInlineBytes)
	}
	return fitter{
		inline: inline, message: max(2*messageMargin, positive(env.HostLimits.MaxMessageBytes, defaultMessageBytes)),
		store: env.PutArtifact, warn: func(msg string, args ...any) { s.logger.Warn(msg, args...) },
	}
}

// positive returns n if it is positive, or else otherwise.
func positive(n, otherwise int64) int64 { return cmp.Or(max(n, 0), otherwise) }

// deadline returns the call's deadline, or else the plugin's own limit; 0: none.
func (s *Server) deadline(caps contract.CallCaps) time.Duration {
	return time.Duration(positive(caps.DeadlineMS, s.plugin.Limits.CallMS)) * time.Millisecond
}

// handle runs the tool and converts its result, error or panic to a message.
func (s *Server) handle(c *Call) *gantryv1.CallResult {
	fit := s.fitter(c.env, c.start.Caps)
	t, ok := s.tools.find(c.start.Namespace, c.start.Tool)
	if !ok {
		return fit.fit(c.hard, unsupported(c.start.Namespace, c.start.Tool))
	}
	c.tool = t
	s.adoptSessions(c.soft, c.env, c.thread)
	var r *Result
	err := s.guard("tool "+c.start.Tool, func() (err error) {
		r, err = t.run(c.soft, c, c.start.Input)
		return err
	})
	switch {
	case err != nil:
		r = errorResult(c.soft, err)
	case r == nil:
		r = &Result{}
	}
	var msg *gantryv1.CallResult
	if err := s.guard("result of tool "+c.start.Tool, func() error { msg = fit.fit(c.hard, r); return nil }); err != nil {
		return convert.ResultToProto(errorResult(c.soft, err))
	}
	return msg
}

// receive receives the host's messages.
func (cs *callStream) receive() {
	defer close(cs.next)
	for {
		msg, err := cs.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				cs.latest.call.out.abandon()
			}
			return
		}
		switch m := msg.GetControl().(type) {
		case *gantryv1.CallRequest_Start:
			if !cs.latest.call.out.keep {
				return // it is not to be answered
			}
			c, err := cs.begin(m.Start)
			if err != nil {
				return // without an answer, so that the host learns the reason on another stream
			}
			select {
			case cs.next <- c:
			case <-cs.stream.Context().Done(): // the host has ended the stream, or the plugin ends
				c.leave()
				return
			}
		case *gantryv1.CallRequest_Pause:
			cs.latest.call.clock.pause()
		case *gantryv1.CallRequest_Resume:
			cs.latest.call.clock.resume()
		case *gantryv1.CallRequest_Cancel:
			grace := time.Duration(m.Cancel.GetGraceMs()) * time.Millisecond
			if grace <= 0 {
				grace = defaultGrace
			}
			cs.latest.stop.stop(m.Cancel.GetReason(), grace)
		}
	}
}
