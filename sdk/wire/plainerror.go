package wire

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// PlainErrors reduces the errors of a client's calls to the text from the other side, for people: without the status code
// and the library's own text. The code is still available through status.Code.
func PlainErrors() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, resp any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return plain(invoke(ctx, method, req, resp, cc, opts...))
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, plain(err)
			}
			return plainStream{s}, nil
		}),
	}
}

type plainStream struct{ grpc.ClientStream }

// SendMsg implements [grpc.ClientStream].
func (s plainStream) SendMsg(m any) error { return plain(s.ClientStream.SendMsg(m)) }

// RecvMsg implements [grpc.ClientStream].
func (s plainStream) RecvMsg(m any) error { return plain(s.ClientStream.RecvMsg(m)) }

// plainError is an error of a call that reads as the message of its status alone.
type plainError struct{ err error }

func plain(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if s, ok := status.FromError(err); !ok || s.Message() == "" {
		return err
	}
	return plainError{err}
}

// Error implements error.
func (w plainError) Error() string { return status.Convert(w.err).Message() }

// Unwrap returns the library's error.
func (w plainError) Unwrap() error { return w.err }

// GRPCStatus returns the status for status.FromError.
func (w plainError) GRPCStatus() *status.Status { return status.Convert(w.err) }
