//go:build unix

package plugintest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func toolMutants() []mutant {
	watch := func(change func(*gantryv1.WatchResponse)) func(*reference) {
		return stream(onStream(gantryv1.ToolService_Watch_FullMethodName, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			return next(&tapped{ServerStream: ss, send: func(m any, send func(any) error) error {
				change(m.(*gantryv1.WatchResponse))
				return send(m)
			}})
		}))
	}
	thread := func(do func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error) func(*reference) {
		return stream(onStream(gantryv1.ToolService_Thread_FullMethodName, do))
	}
	goesOn := func(do func(c *tool.CommandCall) error) func(*reference) { return func(r *reference) { r.again = do } }
	return []mutant{
		{check: "watch.first", how: "silent", change: stream(onStream(gantryv1.ToolService_Watch_FullMethodName,
			func(ss grpc.ServerStream, _ func(grpc.ServerStream) error) error { <-ss.Context().Done(); return nil }))},
		{check: "watch.first", how: "no revision", change: watch(func(w *gantryv1.WatchResponse) { w.Revision = "" })},
		{check: "watch.first", how: "not there", change: stream(onStream(gantryv1.ToolService_Watch_FullMethodName,
			func(grpc.ServerStream, func(grpc.ServerStream) error) error { return refused(codes.Unimplemented) }))},
		{check: "watch.lasts", how: "ends", change: stream(onStream(gantryv1.ToolService_Watch_FullMethodName,
			func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				ctx, cancel := context.WithCancel(ss.Context())
				defer cancel()
				_ = next(&tapped{ServerStream: ss, ctx: ctx, send: func(m any, send func(any) error) error {
					defer cancel()
					return send(m)
				}})
				return nil
			}))},
		{check: "tools.schema", how: "not an object", change: watch(func(w *gantryv1.WatchResponse) {
			w.Tools[0].InputSchemaJson = []byte(`{"type":"string"}`)
		})},
		{check: "tools.schema", how: "name", change: watch(func(w *gantryv1.WatchResponse) {
			w.Tools = append(w.Tools, &gantryv1.ToolDescriptor{Name: "two words", InputSchemaJson: []byte(`{"type":"object"}`)})
		})},
		{check: "tools.schema", how: "no caller", change: watch(func(w *gantryv1.WatchResponse) {
			w.Tools[0].Exposure, w.Tools[0].Nesting = gantryv1.Exposure_EXPOSURE_HIDDEN, gantryv1.Nesting_NESTING_NEVER
		})},
		{check: "capabilities.declared", how: "state", change: func(r *reference) {
			r.during = func(_ context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().GetState(c.Hard(), &gantryv1.GetStateRequest{Key: "k"})
				return nil
			}
		}},
		{check: "command.effects", how: "stores a secret", change: func(r *reference) {
			r.status = func(ctx context.Context, c *tool.CommandCall) error {
				_, err := c.Env().Client().StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: "token", Value: "a secret"})
				return err
			}
		}},
		{check: "command.next", how: "undeclared", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) {
				for i := range m.Commands {
					m.Commands[i].CallsTool = false
				}
			}
		}},
		{check: "command.next", how: "no such tool", change: goesOn(func(c *tool.CommandCall) error { return c.CallTool("shout", text{}) })},
		{check: "command.next", how: "no such command", change: goesOn(func(c *tool.CommandCall) error { return c.Continue("echo", text{}) })},
		{check: "command.next", how: "no object", change: goesOn(func(c *tool.CommandCall) error { return c.CallTool("echo", "loud") })},
		{check: "command.next", how: "with changes", change: goesOn(func(c *tool.CommandCall) error {
			return errors.Join(c.Set("south", "region"), c.CallTool("echo", text{}))
		})},
		{check: "spawn.limits", how: "negative", change: func(r *reference) {
			r.during = func(_ context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(c.Hard(), &gantryv1.SpawnRequest{
					Argv: []string{"true"}, Cwd: "/", Limits: &gantryv1.ProcessLimits{MemoryBytes: -1},
				})
				return nil
			}
		}},
		{check: "spawn.folders", how: "elsewhere", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(ctx, &gantryv1.SpawnRequest{Argv: []string{"true"}, Cwd: "/", Narrow: true, Folders: []string{"/usr"}})
				return nil
			}
		}},
		{check: "spawn.folders", how: "all data", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(ctx, &gantryv1.SpawnRequest{Argv: []string{"true"}, Cwd: "/", Narrow: true, Folders: []string{c.Env().DataDir}})
				return nil
			}
		}},
		{check: "spawn.folders", how: "not narrow", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(ctx, &gantryv1.SpawnRequest{Argv: []string{"true"}, Cwd: "/", Folders: []string{c.Env().DataDir + "/sub"}})
				return nil
			}
		}},
		{check: "spawn.owner", how: "no session", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(ctx, &gantryv1.SpawnRequest{Argv: []string{"true"}, Cwd: "/", Owner: gantryv1.ProcessOwner_PROCESS_OWNER_ROOT})
				return nil
			}
		}},
		{check: "spawn.declared", how: "unknown", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_ = c.Env().Declared(ctx, "helper.other").Start()
				return nil
			}
		}},
		{check: "spawn.declared", how: "with arguments", change: func(r *reference) {
			r.during = func(ctx context.Context, c *tool.Call) error {
				_, _ = c.Env().Client().Spawn(ctx, &gantryv1.SpawnRequest{Declared: "helper.cat", Argv: []string{"true"}})
				return nil
			}
		}},
		{check: "permissions.exec", how: "by itself", change: func(r *reference) {
			r.during = func(ctx context.Context, _ *tool.Call) error { return exec.CommandContext(ctx, "true").Run() }
		}},
		{check: "permissions.network", how: "undeclared", change: func(r *reference) {
			r.during = func(context.Context, *tool.Call) error {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				defer ln.Close()
				conn, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					return err
				}
				return conn.Close()
			}
		}},
		{check: "permissions.read", how: "a key", change: func(r *reference) {
			r.during = func(context.Context, *tool.Call) error {
				_, _ = os.ReadFile(filepath.Join(os.Getenv("HOME"), ".ssh", "id_ed25519"))
				return nil
			}
		}},
		{check: "permissions.write", how: "the working folder", change: func(r *reference) {
			r.during = func(_ context.Context, c *tool.Call) error {
				return os.WriteFile(filepath.Join(c.Cwd(), "notes"), []byte("a note"), 0o600)
			}
		}},
		{check: "thread.stream", how: "ends", change: thread(func(grpc.ServerStream, func(grpc.ServerStream) error) error { return nil })},
		{check: "thread.stream", how: "not there", change: thread(func(grpc.ServerStream, func(grpc.ServerStream) error) error { return refused(codes.Unimplemented) })},
		{check: "thread.stream", how: "long context", change: thread(func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			if err := ss.SendMsg(&gantryv1.ThreadResponse{Event: &gantryv1.ThreadResponse_Context{
				Context: &gantryv1.ContextText{Key: "k", Text: strings.Repeat("x", maxContextText+1)},
			}}); err != nil {
				return err
			}
			return next(ss)
		})},
		{check: "thread.unknown", how: "EndThread", change: unary(onUnary(gantryv1.ToolService_EndThread_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.NotFound) }))},
		{check: "thread.unknown", how: "StopSession", change: unary(onUnary(gantryv1.ToolService_StopSession_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.NotFound) }))},
		{check: "call.assess", how: "status", change: unary(onUnary(gantryv1.ToolService_Assess_FullMethodName,
			func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
				if !anObject(req.(*gantryv1.AssessRequest).GetInput()) {
					return nil, refused(codes.InvalidArgument)
				}
				return next(ctx, req)
			}))},
		{check: "call.assess", how: "language", change: unary(onUnary(gantryv1.ToolService_Assess_FullMethodName,
			func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
				resp, err := next(ctx, req)
				if r, ok := resp.(*gantryv1.AssessResponse); ok && r.GetEarly() == nil {
					r.Effects = append(r.Effects, &gantryv1.Effect{Kind: &gantryv1.Effect_SessionInput{
						SessionInput: &gantryv1.SessionInputEffect{SessionId: "1", Text: "1 + 1", Language: "Python 3"},
					}})
				}
				return resp, err
			}))},
		{check: "call.assess", how: "service without a name", change: unary(onUnary(gantryv1.ToolService_Assess_FullMethodName,
			func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
				resp, err := next(ctx, req)
				if r, ok := resp.(*gantryv1.AssessResponse); ok && r.GetEarly() == nil {
					r.Effects = append(r.Effects, &gantryv1.Effect{Kind: &gantryv1.Effect_Service{
						Service: &gantryv1.ServiceEffect{Action: "create_issue"},
					}})
				}
				return resp, err
			}))},
		{check: "call.assess", how: "long digest", change: unary(onUnary(gantryv1.ToolService_Assess_FullMethodName,
			func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
				resp, err := next(ctx, req)
				if r, ok := resp.(*gantryv1.AssessResponse); ok && r.GetEarly() == nil {
					r.Digest = strings.Repeat("d", maxDigest+1)
				}
				return resp, err
			}))},
	}
}

func callMutants() []mutant {
	afterResult := func(do func(m *gantryv1.CallResponse, send func(any) error) error) func(*reference) {
		return stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if m.GetResult() == nil {
				return send(m)
			}
			return do(m, send)
		}))
	}
	output := func(change func(d *gantryv1.OutputDelta, send func(any) error) error) func(*reference) {
		return stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if d := m.GetOutput(); d != nil && len(d.GetData()) < 1000 { // the flood stays as it is
				return change(d, send)
			}
			return send(m)
		}))
	}
	item := func(code *gantryv1.CodeItem) func(*reference) {
		return stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if s := m.GetStarted(); s != nil {
				s.Item = &gantryv1.Item{Kind: &gantryv1.Item_Code{Code: code}}
			}
			return send(m)
		}))
	}
	badArguments := func(do func(ss grpc.ServerStream) error) func(*reference) {
		return stream(onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
			bad := false
			err := next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
				if !anObject(m.(*gantryv1.CallRequest).GetStart().GetInput()) {
					bad = true
					return false, errors.New("bad arguments")
				}
				return true, nil
			}})
			if bad {
				return do(ss)
			}
			return err
		}))
	}
	unknownTool := "gantry_plugintest_unknown"
	return []mutant{
		{check: "call.order", how: "no started", change: stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if m.GetStarted() != nil {
				return nil
			}
			return send(m)
		}))},
		{check: "call.order", how: "output before started", change: stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if m.GetStarted() != nil {
				if err := send(outputEvent(0, nil)); err != nil {
					return err
				}
			}
			return send(m)
		}))},
		{check: "call.order", how: "started twice", change: stream(onSend(func(m *gantryv1.CallResponse, send func(any) error) error {
			if m.GetStarted() != nil {
				if err := send(startedEvent()); err != nil {
					return err
				}
			}
			return send(m)
		}))},
		{check: "call.order", how: "no result", change: afterResult(func(*gantryv1.CallResponse, func(any) error) error { return nil })},
		{check: "call.order", how: "two results", change: afterResult(func(m *gantryv1.CallResponse, send func(any) error) error {
			if err := send(m); err != nil {
				return err
			}
			return send(m)
		})},
		{check: "call.order", how: "output after the result", change: afterResult(func(m *gantryv1.CallResponse, send func(any) error) error {
			if err := send(m); err != nil {
				return err
			}
			return send(outputEvent(0, []byte("late")))
		})},
		{check: "call.order", how: "goes on after the result", change: stream(onStream(callMethod,
			func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				err := next(ss)
				<-ss.Context().Done()
				return err
			}))},
		{check: "call.arguments", how: "status", change: badArguments(func(grpc.ServerStream) error { return refused(codes.InvalidArgument) })},
		{check: "call.arguments", how: "success", change: badArguments(func(ss grpc.ServerStream) error {
			if err := ss.SendMsg(startedEvent()); err != nil {
				return err
			}
			return ss.SendMsg(resultEvent("whatever", false))
		})},
		{check: "call.arguments", how: "says nothing", change: badArguments(func(ss grpc.ServerStream) error {
			if err := ss.SendMsg(startedEvent()); err != nil {
				return err
			}
			return ss.SendMsg(&gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: &gantryv1.CallResult{IsError: true}}})
		})},
		{check: "call.unknown", how: "status", change: stream(instead(unknownTool, func(grpc.ServerStream) error { return refused(codes.NotFound) }))},
		{check: "call.unknown", how: "fatal", change: stream(instead(unknownTool, func(grpc.ServerStream) error { os.Exit(2); return nil }))},
		{check: "call.unknown", how: "success", change: stream(instead(unknownTool, func(ss grpc.ServerStream) error {
			if err := ss.SendMsg(startedEvent()); err != nil {
				return err
			}
			return ss.SendMsg(resultEvent("whatever", false))
		}))},
		{check: "call.example", how: "error", change: stream(instead("note", func(ss grpc.ServerStream) error {
			if err := ss.SendMsg(startedEvent()); err != nil {
				return err
			}
			return ss.SendMsg(resultEvent("no notes today", true))
		}))},
		{check: "call.item", how: "no language", change: item(&gantryv1.CodeItem{Source: "1 + 1"})},
		{check: "call.item", how: "no code", change: item(&gantryv1.CodeItem{Language: "python"})},
		{check: "call.nested", how: "only for the model", change: stream(onStart(func(s *gantryv1.CallStart) error {
			if len(s.GetParents()) > 0 {
				return refused(codes.FailedPrecondition)
			}
			return nil
		}))},
		{check: "call.output", how: "wrong offset", change: output(func(d *gantryv1.OutputDelta, send func(any) error) error {
			return send(outputEvent(d.GetOffset()+7, d.GetData()))
		})},
		{check: "call.output", how: "large delta", change: output(func(d *gantryv1.OutputDelta, send func(any) error) error {
			return send(outputEvent(d.GetOffset(), []byte(strings.Repeat("x", maxDelta+1))))
		})},
		{check: "call.output", how: "half a character", change: output(func(d *gantryv1.OutputDelta, send func(any) error) error {
			at := strings.Index(string(d.GetData()), "ü") + 1
			if at == 0 {
				return send(outputEvent(d.GetOffset(), d.GetData()))
			}
			if err := send(outputEvent(d.GetOffset(), d.GetData()[:at])); err != nil {
				return err
			}
			return send(outputEvent(d.GetOffset()+int64(at), d.GetData()[at:]))
		})},
		{check: "call.output", how: "no cap", change: stream(onStart(func(s *gantryv1.CallStart) error {
			if s.GetCaps().GetMaxOutputBytes() == 1 {
				s.Caps.MaxOutputBytes = 0
			}
			return nil
		}))},
		{check: "call.parallel", how: "ten at once", change: func(r *reference) {
			var running atomic.Int32
			r.stream = onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				defer running.Add(-1)
				if running.Add(1) > 10 {
					return refused(codes.Internal)
				}
				pause(400 * time.Millisecond) // all hundred are there by then
				return next(ss)
			})
		}},
		{check: "call.cancel", how: "ignored", change: stream(onRecv(func(m *gantryv1.CallRequest) bool { return m.GetCancel() == nil }))},
		{check: "call.cancel", how: "no result", change: stream(onStream(callMethod,
			func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				cancelled := atomic.Bool{}
				err := next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
					if m.(*gantryv1.CallRequest).GetCancel() != nil {
						cancelled.Store(true)
					}
					return true, nil
				}, send: func(m any, send func(any) error) error {
					if cancelled.Load() {
						return nil
					}
					return send(m)
				}})
				if cancelled.Load() {
					return refused(codes.Canceled)
				}
				return err
			}))},
		{check: "call.deadline", how: "ignored", change: stream(onStart(func(s *gantryv1.CallStart) error {
			if s.GetCaps().GetDeadlineMs() > 0 {
				s.Caps.DeadlineMs = 0
			}
			return nil
		}))},
		{check: "call.crash", how: "fatal", change: stream(instead("crash", func(grpc.ServerStream) error { os.Exit(2); return nil }))},
		{check: "call.crash", how: "status", change: stream(instead("crash", func(grpc.ServerStream) error { return refused(codes.Internal) }))},
		{check: "call.backpressure", how: "gathers", prepare: func(c *Config) { c.flood = 5 * time.Second }, change: func(r *reference) {
			var gathered [][]byte
			var mu sync.Mutex
			r.stream = instead("flood", func(ss grpc.ServerStream) error {
				if err := ss.SendMsg(startedEvent()); err != nil {
					return err
				}
				for range 200 {
					water := make([]byte, 1<<20)
					for i := range water {
						water[i] = 1
					}
					mu.Lock()
					gathered = append(gathered, water)
					mu.Unlock()
				}
				<-ss.Context().Done()
				return nil
			})
		}},
	}
}
