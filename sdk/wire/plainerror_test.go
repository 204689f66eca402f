package wire

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The error of a failed call reads as the message from the other side, and the status code is still available.
func TestPlainErrors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	refused := status.Error(codes.FailedPrecondition, "the disk is full; next: make room")
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method == "/test/Empty" {
			return nil
		}
		return refused
	}))
	go server.Serve(ln) // ends with Stop
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+ln.Addr().String(), append(PlainErrors(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })

	check := func(err error) {
		t.Helper()
		if status.Code(fmt.Errorf("wrapped: %w", err)) != codes.FailedPrecondition || err.Error() != "the disk is full; next: make room" {
			t.Errorf("the error of the call is %q with code %v", err, status.Code(err))
		}
	}
	open := func(method string) grpc.ClientStream {
		t.Helper()
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	check(conn.Invoke(t.Context(), "/test/Unary", &emptypb.Empty{}, &emptypb.Empty{}))
	check(open("/test/Stream").RecvMsg(&emptypb.Empty{}))
	if err := open("/test/Empty").RecvMsg(&emptypb.Empty{}); err != io.EOF {
		t.Errorf("the end of a stream is %v, want io.EOF", err)
	}
}
