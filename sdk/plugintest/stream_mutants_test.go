//go:build unix

package plugintest

import (
	"context"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// streamMutants are wrong about the calls before and after one on its stream.
func streamMutants() []mutant {
	return []mutant{
		{check: "call.stream", how: "not offered", change: stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if s := m.GetStarted(); s != nil {
				s.KeepStream = true
			}
			return send(m)
		}))},
		{check: "call.stream", how: "no answer", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			starts := 0
			return next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
				if m.(*gantryv1.CallRequest).GetStart() != nil {
					starts++
				}
				return starts < 2, nil
			}})
		}))},
		{check: "call.stream", how: "fails", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			starts := 0
			err := next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
				if m.(*gantryv1.CallRequest).GetStart() != nil {
					starts++
				}
				if starts > 1 {
					return false, refused(codes.FailedPrecondition)
				}
				return true, nil
			}})
			if starts > 1 {
				return refused(codes.FailedPrecondition)
			}
			return err
		}))},
		{check: "call.stream", how: "ends during a call", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			starts := 0
			ctx, cancel := context.WithCancel(ss.Context())
			defer cancel()
			err := next(&tapped{ServerStream: ss, ctx: ctx, recv: func(m any) (bool, error) {
				if m.(*gantryv1.CallRequest).GetStart() != nil {
					starts++
				}
				if starts > 1 {
					cancel()
					return false, refused(codes.Canceled)
				}
				return true, nil
			}})
			if starts > 1 {
				return ss.SendMsg(startedEvent())
			}
			return err
		}))},
		{check: "call.stream", how: "cancelled too late", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			var answered, cancelled atomic.Bool
			return next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
				if m.(*gantryv1.CallRequest).GetCancel() != nil && answered.Load() {
					cancelled.Store(true)
				}
				return true, nil
			}, send: func(m any, send func(any) error) error {
				if m.(*gantryv1.CallResponse).GetResult() != nil {
					answered.Store(true)
					if cancelled.Load() {
						return send(resultEvent("cancelled", true))
					}
				}
				return send(m)
			}})
		}))},
		{check: "call.stream", how: "never ends", change: stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			kept := false
			err := next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
				kept = kept || m.(*gantryv1.CallRequest).GetStart().GetKeepStream()
				return true, nil
			}})
			if kept {
				<-ss.Context().Done()
			}
			return err
		}))},
		{check: "call.history", how: "any reader", change: func(r *reference) {
			var said atomic.Bool
			r.stream = onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				echoed, refers := false, false
				return next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
					if s := m.(*gantryv1.CallRequest).GetStart(); s.GetTool() == "echo" && anObject(s.GetInput()) {
						refers = said.Load()
						echoed = s.GetHistoryRevision() != ""
					}
					return true, nil
				}, send: func(m any, send func(any) error) error {
					if m.(*gantryv1.CallResponse).GetResult() == nil {
						return send(m)
					}
					if echoed {
						said.Store(true)
					}
					if refers {
						return send(resultEvent("as before", false))
					}
					return send(m)
				}})
			})
		}},
		{check: "call.denied", how: "writes", change: afterDenial(func(_ context.Context, _ *tool.Call, path string) {
			_ = os.WriteFile(path, []byte("all the same"), 0o600)
		})},
		{check: "call.denied", how: "runs", change: afterDenial(func(ctx context.Context, c *tool.Call, _ string) {
			_ = c.Authorize(ctx, contract.ExecEffect{Argv: []string{"true"}, Cwd: "/"})
			_ = c.Command(ctx, "true").Run()
		})},
		{check: "call.denied", how: "connects", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Capabilities = append(m.Capabilities, capabilityNetwork) }
			r.denied = func(ctx context.Context, c *tool.Call, _ string) {
				_ = c.Authorize(ctx, contract.NetworkEffect{Host: "127.0.0.1", Port: 9})
				var conn net.Conn
				if conn, _ = c.Env().DialContext(ctx, "tcp", "127.0.0.1:9"); conn != nil {
					_ = conn.Close()
				}
			}
		}},
		{check: "call.denied", how: "ends", change: afterDenial(func(context.Context, *tool.Call, string) { os.Exit(3) })},
	}
}

func afterDenial(do func(ctx context.Context, c *tool.Call, path string)) func(*reference) {
	return func(r *reference) { r.denied = do }
}
