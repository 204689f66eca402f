package wire

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// streamWorkers is the number of goroutines that handle one RPC after the other. Their stacks have already grown, which takes a tenth
// of a millisecond in a new goroutine. If none of them is idle, an RPC gets a new goroutine, so this is not a limit.
const streamWorkers = 8

// newServer creates the gRPC server with the services that all plugins have in common. shutdown is called at most once.
func newServer(ending context.Context, cfg ServeConfig, token string, creds credentials.TransportCredentials, pauses *rest, shutdown func()) (
	*grpc.Server, *health.Server,
) {
	tokenUnary, tokenStream := RequireToken(token, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/",
		"/"+controllerDesc.ServiceName+"/", "/"+stdioDesc.ServiceName+"/")
	recoverUnary, recoverStream := recoverPanics(cfg.Stderr)
	srv := grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes),
		grpc.InitialWindowSize(WindowBytes),
		grpc.InitialConnWindowSize(WindowBytes),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.ChainUnaryInterceptor(tokenUnary, pauses.unary, recoverUnary),
		grpc.ChainStreamInterceptor(tokenStream, pauses.stream, recoverStream, endLongStreams(ending)),
	)
	hs := health.NewServer()
	hs.SetServingStatus(HealthService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(srv, hs)
	srv.RegisterService(&controllerDesc, controller{shutdown: sync.OnceFunc(shutdown)})
	srv.RegisterService(&stdioDesc, stdio{ending: ending})
	return srv, hs
}

// endLongStreams cancels the streams that last as long as the plugin when ending ends, so that a graceful stop doesn't
// wait for them.
func endLongStreams(ending context.Context) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if !lasts(info.FullMethod) {
			return next(srv, ss)
		}
		ctx, cancel := context.WithCancelCause(ss.Context())
		defer cancel(nil)
		stop := context.AfterFunc(ending, func() { cancel(context.Cause(ending)) })
		defer stop()
		return next(srv, streamWithContext{ServerStream: ss, ctx: ctx})
	}
}

type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (s streamWithContext) Context() context.Context { return s.ctx }

// recoverPanics makes a panic in a handler fail that call only. The stack goes to stderr.
func recoverPanics(stderr io.Writer) (grpc.UnaryServerInterceptor, grpc.StreamServerInterceptor) {
	caught := func(method string, err *error) {
		if v := recover(); v != nil {
			reportPanic(stderr, method, v)
			*err = status.Errorf(codes.Internal, "panic in %s: %v", method, v)
		}
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer caught(info.FullMethod, &err)
		return next(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer caught(info.FullMethod, &err)
		return next(srv, ss)
	}
	return unary, stream
}

// reportPanic writes the panic and its stack. The text doesn't begin with "panic:", which the host would take for a crash of the
// process.
func reportPanic(stderr io.Writer, where string, v any) {
	fmt.Fprintf(stderr, "recovered from a panic in %s: %v\n%s", where, v, debug.Stack())
}

// These are the services of go-plugin that hosts need. They are described by hand, because registering their proto files a second time
// would conflict with the library in a process that uses both. Empty messages are identical on the wire.

// controller begins the shutdown and answers. The graceful stop waits until the answer has been sent.
type controller struct{ shutdown func() }

var controllerDesc = grpc.ServiceDesc{
	ServiceName: "plugin.GRPCController",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Shutdown",
		Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := &emptypb.Empty{}
			if err := dec(in); err != nil {
				return nil, err
			}
			call := func(context.Context, any) (any, error) {
				srv.(controller).shutdown()
				return &emptypb.Empty{}, nil
			}
			if interceptor == nil {
				return call(ctx, in)
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/plugin.GRPCController/Shutdown"}, call)
		},
	}},
	Metadata: "grpc_controller.proto",
}

// stdio keeps its stream open and sends nothing, because the host reads the plugin's stdout and stderr directly.
type stdio struct{ ending context.Context }

func (s stdio) stream(ss grpc.ServerStream) error {
	if err := ss.RecvMsg(&emptypb.Empty{}); err != nil {
		return err
	}
	select {
	case <-ss.Context().Done():
	case <-s.ending.Done():
	}
	return nil
}

var stdioDesc = grpc.ServiceDesc{
	ServiceName: "plugin.GRPCStdio",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName:    "StreamStdio",
		Handler:       func(srv any, ss grpc.ServerStream) error { return srv.(stdio).stream(ss) },
		ServerStreams: true,
	}},
	Metadata: "grpc_stdio.proto",
}
