package wire

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
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

func newRest() *rest { return &rest{free: debug.FreeOSMemory} }

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
	if counts(info.FullMethod) {
		r.begin()
		defer r.end()
	}
	return next(srv, ss)
}

// counts reports whether a plugin works while an RPC runs. Checks of its health are no work.
func counts(method string) bool {
	return strings.HasPrefix(method, "/gantry.") && !lasts(method)
}

// lasts reports whether a stream lasts as long as the plugin.
func lasts(method string) bool {
	return method == gantryv1.ToolService_Watch_FullMethodName || method == gantryv1.ToolService_Thread_FullMethodName
}
