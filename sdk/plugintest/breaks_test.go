//go:build unix

package plugintest

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Ways to break an rpc between the wire and a service that does it right.

// onUnary replaces the handler of one method.
func onUnary(method string, do func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if info.FullMethod != method {
			return next(ctx, req)
		}
		return do(ctx, req, next)
	}
}

// onConfigure sees every Configure; it may change the request and the answer.
func onConfigure(do func(req *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error)) grpc.UnaryServerInterceptor {
	return onUnary(gantryv1.PluginService_Configure_FullMethodName, func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
		return do(req.(*gantryv1.ConfigureRequest), func() (*gantryv1.ConfigureResponse, error) {
			resp, err := next(ctx, req)
			if err != nil {
				return nil, err
			}
			return resp.(*gantryv1.ConfigureResponse), nil
		})
	})
}

// onStream replaces the handler of one method.
func onStream(method string, do func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if info.FullMethod != method {
			return next(srv, ss)
		}
		return do(ss, func(ss grpc.ServerStream) error { return next(srv, ss) })
	}
}

// tapped is a stream whose messages can be changed on their way.
type tapped struct {
	grpc.ServerStream
	ctx  context.Context
	recv func(m any) (keep bool, err error)
	send func(m any, send func(any) error) error
}

// Context implements grpc.ServerStream.
func (t *tapped) Context() context.Context {
	if t.ctx != nil {
		return t.ctx
	}
	return t.ServerStream.Context()
}

// RecvMsg implements grpc.ServerStream.
func (t *tapped) RecvMsg(m any) error {
	for {
		if err := t.ServerStream.RecvMsg(m); err != nil || t.recv == nil {
			return err
		}
		if keep, err := t.recv(m); keep || err != nil {
			return err
		}
	}
}

// SendMsg implements grpc.ServerStream.
func (t *tapped) SendMsg(m any) error {
	if t.send == nil {
		return t.ServerStream.SendMsg(m)
	}
	return t.send(m, t.ServerStream.SendMsg)
}

const callMethod = gantryv1.ToolService_Call_FullMethodName

// onSend changes what a call sends.
func onSend(do func(m *gantryv1.CallResponse, send func(any) error) error) grpc.StreamServerInterceptor {
	return onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
		return next(&tapped{ServerStream: ss, send: func(m any, send func(any) error) error { return do(m.(*gantryv1.CallResponse), send) }})
	})
}

// onRecv changes what a call receives; false leaves the message out.
func onRecv(do func(m *gantryv1.CallRequest) bool) grpc.StreamServerInterceptor {
	return onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
		return next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) { return do(m.(*gantryv1.CallRequest)), nil }})
	})
}

// onStart sees the first message of a call before the call does. An error ends the rpc.
func onStart(do func(s *gantryv1.CallStart) error) grpc.StreamServerInterceptor {
	return onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
		return next(&tapped{ServerStream: ss, recv: func(m any) (bool, error) {
			if s := m.(*gantryv1.CallRequest).GetStart(); s != nil {
				return true, do(s)
			}
			return true, nil
		}})
	})
}

// instead answers a call of the tool without running it.
func instead(tool string, do func(ss grpc.ServerStream) error) grpc.StreamServerInterceptor {
	return onStream(callMethod, func(ss grpc.ServerStream, next func(grpc.ServerStream) error) error {
		first := &gantryv1.CallRequest{}
		if err := ss.RecvMsg(first); err != nil {
			return err
		}
		if start := first.GetStart(); start.GetTool() == tool && anObject(start.GetInput()) {
			return do(ss)
		}
		return next(&replay{ServerStream: ss, first: first})
	})
}

// anObject is false for arguments that no tool can work with.
func anObject(in *gantryv1.CallInput) bool {
	args := in.GetArgumentsJson()
	return len(args) == 0 || json.Valid(args) && args[0] == '{'
}

// replay gives the first message again.
type replay struct {
	grpc.ServerStream
	first *gantryv1.CallRequest // nil: given
}

// RecvMsg implements grpc.ServerStream.
func (r *replay) RecvMsg(m any) error {
	if r.first == nil {
		return r.ServerStream.RecvMsg(m)
	}
	m.(*gantryv1.CallRequest).Control = r.first.GetControl()
	r.first = nil
	return nil
}

func startedEvent() *gantryv1.CallResponse {
	return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Started{Started: &gantryv1.CallStarted{}}}
}

func resultEvent(text string, isError bool) *gantryv1.CallResponse {
	return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Result{Result: &gantryv1.CallResult{
		IsError: isError, Parts: []*gantryv1.ResultPart{{Content: &gantryv1.ResultPart_Text{Text: &gantryv1.TextPart{Text: text}}}},
	}}}
}

func outputEvent(offset int64, data []byte) *gantryv1.CallResponse {
	return &gantryv1.CallResponse{Event: &gantryv1.CallResponse_Output{Output: &gantryv1.OutputDelta{Offset: offset, Data: data}}}
}

// pause is a mutant's own slowness: part of what is tested, not a wait of the test.
func pause(d time.Duration) { <-time.After(d) }
