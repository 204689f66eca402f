package wire

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// restTime is how long no RPC has run when a plugin gives memory back. Go's runtime would keep what a call has needed for minutes.
const restTime = 5 * time.Second

// rest calls free when no RPC has run for a while. Streams that last as long as the plugin do not count.
type rest struct {
	free    func()
	mu      sync.Mutex
	running int
	timer   *time.Timer // nil: nothing has run yet
}

func newRest() *rest {
	return &rest{free: func() {
		debug.FreeOSMemory()
		freeProgram()
	}}
}

func (r *rest) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running++; r.timer != nil {
		r.timer.Stop()
	}
}

func (r *rest) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running--; r.running > 0 {
		return
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(restTime, r.free)
		return
	}
	r.timer.Reset(restTime)
}

// stop is called when the plugin ends.
func (r *rest) stop() { r.begin() }

func (r *rest) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if counts(info.FullMethod) {
		r.begin()
		defer r.end()
	}
	return next(ctx, req)
}

func (r *rest) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	switch {
	case info.FullMethod == gantryv1.ToolService_Call_FullMethodName:
		calls := &restingStream{ServerStream: ss, rest: r}
		defer calls.end()
		return next(srv, calls)
	case counts(info.FullMethod):
		r.begin()
		defer r.end()
	}
	return next(srv, ss)
}

// restingStream is a stream on which the host makes one call after the other. Between them, nothing runs.
type restingStream struct {
	grpc.ServerStream
	rest  *rest
	calls atomic.Int64 // without a result
}

// RecvMsg implements grpc.ServerStream.
func (s *restingStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if r, ok := m.(*gantryv1.CallRequest); ok && err == nil && r.GetStart() != nil {
		s.calls.Add(1)
		s.rest.begin()
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (s *restingStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if r, ok := m.(*gantryv1.CallResponse); ok && r.GetResult() != nil && s.calls.Add(-1) >= 0 {
		s.rest.end()
	}
	return err
}

// end ends the calls that have got no result.
func (s *restingStream) end() {
	for range s.calls.Swap(0) {
		s.rest.end()
	}
}

// counts reports whether a plugin works while an RPC runs. Checks of its health are no work.
func counts(method string) bool {
	return strings.HasPrefix(method, "/gantry.") && !lasts(method)
}

// lasts reports whether a stream lasts as long as the plugin.
func lasts(method string) bool {
	return method == gantryv1.ToolService_Watch_FullMethodName || method == gantryv1.ToolService_Thread_FullMethodName
}
