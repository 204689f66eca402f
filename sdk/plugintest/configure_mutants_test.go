//go:build unix

package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

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
						if waitFor(ctx, time.Second) {
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
