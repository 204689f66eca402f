//go:build unix

package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// mutant is the reference plugin with one rule broken.
type mutant struct {
	check string // the only one that must fail
	how   string
	// change breaks the rule inside the plugin; prepare breaks it in how the kit is told to start it.
	change  func(*reference)
	prepare func(*Config)
}

// name by which the mutant's process is told what it is.
func (m mutant) name() string { return m.check + "/" + m.how }

func stream(i grpc.StreamServerInterceptor) func(*reference) {
	return func(r *reference) { r.stream = i }
}

func unary(i grpc.UnaryServerInterceptor) func(*reference) {
	return func(r *reference) { r.unary = i }
}

// asProvider makes the mutant a provider.
func asProvider(change func(*reference)) func(*reference) {
	return func(r *reference) { r.provider = true; change(r) }
}

func prints(line func(h wire.Handshake) string) func(*reference) {
	return func(r *reference) { r.line = line }
}

func refused(code codes.Code) error { return status.Error(code, "broken on purpose") }

// mutants lists at least one for each check.
func mutants() []mutant {
	all := [][]mutant{byHandMutants(), startMutants(), configureMutants(), messageMutants(), toolMutants(), callMutants(), providerMutants(), endMutants()}
	var out []mutant
	for _, group := range all {
		out = append(out, group...)
	}
	return out
}

func byHandMutants() []mutant {
	return []mutant{
		{check: "binary.runs", how: "not executable", prepare: func(c *Config) { c.Path = "reference_test.go" }},
		{check: "binary.runs", how: "missing", prepare: func(c *Config) { c.Path = "no-such-file" }},
		{check: "cookie", how: "status 0", change: func(r *reference) {
			r.byHand = func() int { fmt.Fprintln(os.Stderr, "a host starts this"); return 0 }
		}},
		{check: "cookie", how: "hint on stdout", change: func(r *reference) {
			r.byHand = func() int { fmt.Println("a host starts this"); return 1 }
		}},
		{check: "cookie", how: "no hint", change: func(r *reference) { r.byHand = func() int { return 1 } }},
		{check: "cookie", how: "serves", change: func(r *reference) { r.byHand = func() int { pause(time.Hour); return 1 } }},
		{check: "describe.flag", how: "indented", change: func(r *reference) {
			r.flag = func(out string) (string, int) { return strings.ReplaceAll(out, `,"`, ",\n  \""), 0 }
		}},
		{check: "describe.flag", how: "status 3", change: func(r *reference) {
			r.flag = func(out string) (string, int) { return out, 3 }
		}},
		{check: "describe.flag", how: "no JSON", change: func(r *reference) {
			r.flag = func(string) (string, int) { return "reference 1.2.3\n", 0 }
		}},
		{check: "version.flag", how: "version only", change: func(r *reference) { r.version = "1.2.3" }},
		{check: "describe.constant", how: "depends on the time zone", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Description += " TZ=" + os.Getenv("TZ") }
		}},
		{check: "describe.constant", how: "depends on the folder", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Instructions, _ = os.Getwd() }
		}},
		{check: "manifest.valid", how: "version", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Version = "one" }
		}},
		{check: "manifest.valid", how: "another contract", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.ContractVersions = []uint32{2} }
		}},
		{check: "config.schema", how: "default of another type", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) {
				m.Config.Attributes = append(m.Config.Attributes, contract.ConfigAttribute{
					Name: "height", Type: json.RawMessage(`"number"`), Default: json.RawMessage(`"high"`),
				})
			}
		}},
	}
}

func startMutants() []mutant {
	return []mutant{
		{check: "start.handshake", how: "noise before it", change: prints(func(h wire.Handshake) string { return "listening\n" + h.String() + "\n" })},
		{check: "start.handshake", how: "another core version", change: prints(func(h wire.Handshake) string { h.Core = 2; return h.String() + "\n" })},
		{check: "start.handshake", how: "another protocol", change: prints(func(h wire.Handshake) string { h.Protocol = "netrpc"; return h.String() + "\n" })},
		{check: "start.handshake", how: "nobody listens there", change: prints(func(h wire.Handshake) string { h.Address += "x"; return h.String() + "\n" })},
		{check: "start.handshake", how: "exits", change: func(r *reference) {
			r.begin = func() { fmt.Fprintln(os.Stderr, "no licence found"); os.Exit(4) }
		}},
		{check: "start.handshake", how: "TCP", change: func(r *reference) {
			r.listen = func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
			r.line = func(h wire.Handshake) string { h.Network = "tcp"; return h.String() + "\n" }
		}},
		{check: "start.socket", how: "in the temporary folder", change: func(r *reference) {
			r.listen = func(string) (net.Listener, error) {
				return net.Listen("unix", filepath.Join(os.TempDir(), fmt.Sprintf("r%d", os.Getpid())))
			}
		}},
		{check: "start.socket", how: "in a folder below", change: func(r *reference) {
			r.listen = func(dir string) (net.Listener, error) {
				if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
					return nil, err
				}
				return net.Listen("unix", filepath.Join(dir, "below", "r"))
			}
		}},
		{
			check: "start.time", how: "slow", prepare: func(c *Config) { c.StartBudget, c.Slack = time.Second, time.Second },
			change: func(r *reference) {
				r.begin = func() { // the first time only, for the sake of the other checks
					if f, err := os.OpenFile(filepath.Join(os.TempDir(), "started"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
						_ = f.Close()
						pause(2500 * time.Millisecond)
					}
				}
			},
		},
		{check: "start.token", how: "none needed", change: func(r *reference) {
			r.exempt = []string{"/gantry.v1.PluginService/", "/gantry.v1.ToolService/"}
		}},
		{check: "start.token", how: "none needed for streams", change: func(r *reference) { r.exempt = []string{"/gantry.v1.ToolService/"} }},
		{check: "start.health", how: "not serving", change: func(r *reference) { r.health = grpc_health_v1.HealthCheckResponse_NOT_SERVING }},
		{check: "start.health", how: "needs the token", change: func(r *reference) { r.closed = true }},
		{check: "start.mtls", how: "plain", change: func(r *reference) { r.plain = true }},
		{check: "start.mtls", how: "anybody", change: func(r *reference) { r.anybody = true }},
		{check: "start.bare", how: "needs HOME", change: func(r *reference) {
			r.begin = func() {
				if _, err := os.UserHomeDir(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}},
		{check: "start.bare", how: "writes where it stands", change: unary(onConfigure(
			func(_ *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if err := os.WriteFile("reference.log", nil, 0o600); err != nil {
					return &gantryv1.ConfigureResponse{Diagnostics: []*gantryv1.Diagnostic{{Summary: err.Error()}}}, nil
				}
				return next()
			}))},
		{check: "describe.equal", how: "another description", change: func(r *reference) {
			r.described = func(m *contract.Manifest) { m.Description = "Says something else when it runs." }
		}},
		{check: "describe.equal", how: "changes", change: unary(onUnary(gantryv1.PluginService_Describe_FullMethodName,
			func() func(context.Context, any, grpc.UnaryHandler) (any, error) {
				var calls atomic.Int32
				return func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
					resp, err := next(ctx, req)
					if err == nil && calls.Add(1) == 2 {
						m := resp.(*gantryv1.DescribeResponse)
						m.Manifest.Features = append(m.Manifest.Features, "second-thoughts")
					}
					return resp, err
				}
			}()))},
	}
}

// diagnosed finds the mistakes of the kit in a block.
func diagnosed(req *gantryv1.ConfigureRequest, resp *gantryv1.ConfigureResponse) (block map[string]json.RawMessage, bad bool) {
	_ = json.Unmarshal(req.GetConfigJson(), &block)
	return block, len(resp.GetDiagnostics()) > 0
}

// onMistake changes the answer to a block with the kind of mistake that is asked for.
func onMistake(kind string, do func(*gantryv1.ConfigureResponse) (*gantryv1.ConfigureResponse, error)) func(*reference) {
	return unary(onConfigure(func(req *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
		resp, err := next()
		if err != nil {
			return resp, err
		}
		block, bad := diagnosed(req, resp)
		is := "type"
		if _, unknown := block[unknownAttribute]; unknown {
			is = "unknown"
		} else if isNull(block["region"]) {
			is = "missing"
		}
		if !bad || is != kind {
			return resp, nil
		}
		return do(resp)
	}))
}

func configureMutants() []mutant {
	status := func(*gantryv1.ConfigureResponse) (*gantryv1.ConfigureResponse, error) {
		return nil, refused(codes.InvalidArgument)
	}
	accept := func(*gantryv1.ConfigureResponse) (*gantryv1.ConfigureResponse, error) {
		return &gantryv1.ConfigureResponse{}, nil
	}
	path := func(p ...*gantryv1.PathStep) func(r *gantryv1.ConfigureResponse) (*gantryv1.ConfigureResponse, error) {
		return func(r *gantryv1.ConfigureResponse) (*gantryv1.ConfigureResponse, error) {
			for _, d := range r.GetDiagnostics() {
				d.Path = p
			}
			return r, nil
		}
	}
	elsewhere := &gantryv1.PathStep{Step: &gantryv1.PathStep_Name{Name: "nowhere"}}
	var configures atomic.Int32
	return []mutant{
		{check: "configure.accepts", how: "refuses", change: unary(onConfigure(
			func(*gantryv1.ConfigureRequest, func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				return &gantryv1.ConfigureResponse{Diagnostics: []*gantryv1.Diagnostic{{Summary: "the service is closed"}}}, nil
			}))},
		{check: "configure.accepts", how: "needs more", prepare: func(c *Config) { c.Config = nil }, change: func(*reference) {}},
		{check: "configure.again", how: "only once", change: unary(onConfigure(
			func(_ *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if configures.Add(1) > 1 {
					return nil, refused(codes.FailedPrecondition)
				}
				return next()
			}))},
		{check: "configure.type", how: "status", change: onMistake("type", status)},
		{check: "configure.type", how: "accepted", change: onMistake("type", accept)},
		{check: "configure.type", how: "no path", change: onMistake("type", path())},
		{check: "configure.type", how: "wrong path", change: onMistake("type", path(elsewhere))},
		{check: "configure.type", how: "stays broken", change: func(r *reference) {
			var broken atomic.Bool
			r.unary = onConfigure(func(_ *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if broken.Load() {
					return nil, refused(codes.FailedPrecondition)
				}
				resp, err := next()
				for _, d := range resp.GetDiagnostics() {
					if p := d.GetPath(); len(p) > 0 && p[0].GetName() == "station" {
						broken.Store(true)
					}
				}
				return resp, err
			})
		}},
		{check: "configure.missing", how: "status", change: onMistake("missing", status)},
		{check: "configure.missing", how: "accepted", change: onMistake("missing", accept)},
		{check: "configure.unknown", how: "accepted", change: onMistake("unknown", accept)},
		{check: "configure.unknown", how: "status", change: onMistake("unknown", status)},
		{check: "configure.unknown", how: "wrong path", change: onMistake("unknown", path(elsewhere))},
	}
}

func messageMutants() []mutant {
	return []mutant{
		{check: "message.large", how: "gRPC's default", change: func(r *reference) { r.largest = 4 << 20 }},
		{check: "message.limit", how: "no limit", change: func(r *reference) { r.largest = 64 << 20 }},
		{check: "command.unknown", how: "accepted", change: unary(onUnary(gantryv1.PluginService_Command_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) {
				return &gantryv1.CommandResponse{OutputJson: []byte("{}")}, nil
			}))},
		{check: "command.unknown", how: "fatal", change: unary(onUnary(gantryv1.PluginService_Command_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { os.Exit(2); return nil, nil }))},
		{check: "message.unknown", how: "strict Configure", change: unary(onConfigure(
			func(r *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if len(r.ProtoReflect().GetUnknown()) > 0 {
					return nil, refused(codes.InvalidArgument)
				}
				return next()
			}))},
		{check: "message.unknown", how: "strict control", change: stream(onStream(callMethod,
			func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
				ctx, cancel := context.WithCancelCause(ss.Context())
				defer cancel(nil)
				var unknown atomic.Bool
				err := next(&tapped{ServerStream: ss, ctx: ctx, recv: func(m any) (bool, error) {
					if m.(*gantryv1.CallRequest).GetControl() == nil {
						unknown.Store(true)
						cancel(errors.New("unknown control"))
					}
					return true, nil
				}, send: func(m any, send func(any) error) error {
					if m.(*gantryv1.CallResponse).GetResult() != nil {
						// The control is right behind start; wait for it, so that it is never overtaken.
						if waitFor(ctx, 300*time.Millisecond) {
							return refused(codes.InvalidArgument)
						}
					}
					return send(m)
				}})
				if unknown.Load() {
					return refused(codes.InvalidArgument)
				}
				return err
			}))},
		{check: "message.unknown", how: "strict start", change: stream(onStart(func(s *gantryv1.CallStart) error {
			if len(s.ProtoReflect().GetUnknown()) > 0 {
				return refused(codes.InvalidArgument)
			}
			return nil
		}))},
		{check: "message.old", how: "needs a generation", change: unary(onConfigure(
			func(r *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if r.GetGeneration() == 0 {
					return nil, refused(codes.InvalidArgument)
				}
				return next()
			}))},
		{check: "message.old", how: "needs caps", change: stream(onStart(func(s *gantryv1.CallStart) error {
			if s.GetCaps() == nil {
				return refused(codes.InvalidArgument)
			}
			return nil
		}))},
	}
}

// waitFor returns true when ctx ends within d.
func waitFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}

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

func providerMutants() []mutant {
	rows := func(rows ...*gantryv1.ModelRow) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.rows = rows } })
	}
	prepared := func(p *gantryv1.PrepareResponse) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.prepared = p } })
	}
	answer := func(do func(grpc.ServerStreamingServer[gantryv1.StreamResponse]) error) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.answer = do } })
	}
	return []mutant{
		{check: "models.rows", how: "twice the same id", change: rows(&gantryv1.ModelRow{Id: "small"}, &gantryv1.ModelRow{Id: "small"})},
		{check: "models.rows", how: "no id", change: rows(&gantryv1.ModelRow{})},
		{check: "models.rows", how: "negative", change: rows(&gantryv1.ModelRow{Id: "small", ContextWindow: -1})},
		{check: "models.rows", how: "status", change: asProvider(unary(onUnary(gantryv1.ProviderService_Models_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.Internal) })))},
		{check: "prepare.answers", how: "no URL", change: prepared(&gantryv1.PrepareResponse{Method: "POST"})},
		{check: "prepare.answers", how: "not there", change: asProvider(unary(onUnary(gantryv1.ProviderService_Prepare_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.Unimplemented) })))},
		{check: "prepare.redacts", how: "in a header", change: prepared(&gantryv1.PrepareResponse{
			Method: "POST", Url: "https://example.com", Headers: []*gantryv1.Header{{Name: "Authorization", Value: "Bearer " + secret}},
		})},
		{check: "prepare.redacts", how: "in the URL", change: prepared(&gantryv1.PrepareResponse{Method: "POST", Url: "https://example.com?key=" + secret})},
		{check: "stream.order", how: "no end", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, greeting()[:4]...)
		})},
		{check: "stream.order", how: "no beginning", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, greeting()[1:]...)
		})},
		{check: "stream.order", how: "something after the end", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, append(greeting(), llm.BlockStart{Kind: llm.BlockText, ID: "2"})...)
		})},
		{check: "stream.order", how: "status instead of error", change: answer(func(grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return refused(codes.Internal)
		})},
		{check: "stream.cancel", how: "fatal", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			if err := sendEvents(s, greeting()[:3]...); err != nil {
				return err
			}
			if waitFor(s.Context(), 200*time.Millisecond) {
				os.Exit(2)
			}
			return sendEvents(s, greeting()[3:]...)
		})},
		{check: "drain.refuses", how: "takes requests", change: asProvider(func(r *reference) {
			r.unary = onUnary(gantryv1.PluginService_Drain_FullMethodName, func(context.Context, any, grpc.UnaryHandler) (any, error) {
				return &gantryv1.DrainResponse{}, nil
			})
		})},
	}
}

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
