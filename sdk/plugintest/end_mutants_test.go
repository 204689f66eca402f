//go:build unix

package plugintest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func endMutants() []mutant {
	drain := func(do func(ctx context.Context, r *gantryv1.DrainRequest, next func(context.Context) (*gantryv1.DrainResponse, error)) (*gantryv1.DrainResponse, error)) func(*reference) {
		return unary(onUnary(gantryv1.PluginService_Drain_FullMethodName, func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
			r := req.(*gantryv1.DrainRequest)
			return do(ctx, r, func(ctx context.Context) (*gantryv1.DrainResponse, error) {
				resp, err := next(ctx, r)
				if err != nil {
					return nil, err
				}
				return resp.(*gantryv1.DrainResponse), nil
			})
		}))
	}
	type drained = func(context.Context) (*gantryv1.DrainResponse, error)
	childAt := func(mark bool) func(*reference) {
		return func(r *reference) {
			r.begin = func() {
				c := exec.Command("sleep", "20") // what the kit can't find of it ends soon all the same
				if !mark {
					c.Env = []string{"PATH=" + os.Getenv("PATH")}
					c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				}
				if err := c.Start(); err != nil {
					panic(err)
				}
			}
		}
	}
	return []mutant{
		{check: "drain.counts", how: "always 0", change: drain(func(ctx context.Context, _ *gantryv1.DrainRequest, next drained) (*gantryv1.DrainResponse, error) {
			_, err := next(ctx)
			return &gantryv1.DrainResponse{}, err
		})},
		{check: "drain.counts", how: "no deadline", change: drain(func(ctx context.Context, r *gantryv1.DrainRequest, next drained) (*gantryv1.DrainResponse, error) {
			r.DeadlineMs = 60_000
			return next(ctx)
		})},
		{check: "drain.refuses", how: "takes calls", change: func(r *reference) {
			var running atomic.Int32
			r.stream = onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				running.Add(1)
				defer running.Add(-1)
				return next(ss)
			})
			drain(func(ctx context.Context, q *gantryv1.DrainRequest, _ drained) (*gantryv1.DrainResponse, error) {
				// It waits as it should, and refuses nothing.
				for deadline := time.Now().Add(time.Duration(q.GetDeadlineMs()) * time.Millisecond); running.Load() > 0 && time.Now().Before(deadline); {
					waitFor(ctx, 10*time.Millisecond)
				}
				return &gantryv1.DrainResponse{StillRunning: running.Load()}, nil
			})(r)
		}},
		{check: "drain.finishes", how: "aborts", change: func(r *reference) {
			draining := make(chan struct{})
			r.stream = onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				ended := make(chan error, 1)
				// Owner: the process, which ends soon.
				go func() { ended <- next(ss) }()
				select {
				case err := <-ended:
					return err
				case <-draining:
					return refused(codes.Aborted)
				}
			})
			var once sync.Once
			drain(func(ctx context.Context, _ *gantryv1.DrainRequest, next drained) (*gantryv1.DrainResponse, error) {
				defer once.Do(func() { close(draining) })
				return next(ctx)
			})(r)
		}},
		{check: "session.handover", how: "nothing", change: func(r *reference) { r.adopts = "nothing" }},
		{check: "session.handover", how: "by another name", change: func(r *reference) { r.adopts = "by another name" }},
		{check: "session.handover", how: "for good", change: func(r *reference) { r.adopts = "for good" }},
		{check: "stop.exits", how: "stays", change: func(r *reference) { r.deafTo = "Stop" }},
		{check: "stop.exits", how: "status 3", change: func(r *reference) {
			r.last = func(reason string) {
				if reason == "Stop" {
					r.exit = 3
				}
			}
		}},
		{check: "call.hangup", how: "runs on", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			return next(&tapped{ServerStream: ss, ctx: context.WithoutCancel(ss.Context())})
		}))},
		{check: "shutdown.exits", how: "stays", change: func(r *reference) { r.deafTo = "shutdown" }},
		{check: "shutdown.exits", how: "not there", change: func(r *reference) { r.noController = true }},
		{check: "shutdown.exits", how: "no answer", change: func(r *reference) { r.unanswered = true }},
		{check: "shutdown.exits", how: "status 3", change: func(r *reference) {
			r.last = func(reason string) {
				if reason == "shutdown" {
					r.exit = 3
				}
			}
		}},
		{check: "shutdown.socket", how: "left", change: func(r *reference) { r.keepSocket = true }},
		{check: "shutdown.children", how: "a child", change: childAt(true)},
		{check: "shutdown.children", how: "a child in hiding", change: childAt(false)},
		{check: "sigterm.exits", how: "ignored", change: func(r *reference) { r.deafTo = "SIGTERM" }},
		{check: "lifeline.exits", how: "ignored", change: func(r *reference) { r.deafTo = "lifeline" }},
		{check: "host.killed", how: "insists on last words", change: func(r *reference) {
			signal.Ignore(syscall.SIGPIPE)
			r.last = func(string) {
				for {
					if _, err := fmt.Fprintln(os.Stderr, "goodbye"); err == nil {
						return
					}
					pause(20 * time.Millisecond)
				}
			}
		}},
		{check: "restart.leaves", how: "temporary files", change: func(r *reference) {
			r.begin = func() {
				if f, err := os.CreateTemp("", "reference"); err == nil {
					_ = f.Close()
				}
			}
		}},
	}
}
