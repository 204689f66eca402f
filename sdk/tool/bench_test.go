package tool_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// benchPlugin serves a plugin on a unix socket and returns a client.
func benchPlugin(b *testing.B, tools []tool.Tool) gantryv1.ToolServiceClient {
	b.Helper()
	s, err := tool.NewServer(tool.Plugin{Name: "bench", Version: "1.0.0", Tools: tools}, nil)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer()
	s.Register(srv)
	done := make(chan struct{})
	go func() { // owned by the benchmark, which waits for it
		defer close(done)
		_ = srv.Serve(ln)
	}()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		<-done
	})
	if _, err := gantryv1.NewPluginServiceClient(conn).Configure(b.Context(), &gantryv1.ConfigureRequest{}); err != nil {
		b.Fatal(err)
	}
	return gantryv1.NewToolServiceClient(conn)
}

func benchCall(b *testing.B, c gantryv1.ToolServiceClient) {
	stream, err := c.Call(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	start := &gantryv1.CallStart{ThreadId: "t", Tool: "x", Input: arguments("{}")}
	if err := stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: start}}); err != nil {
		b.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		if m.GetResult() != nil {
			if _, err := stream.Recv(); err == nil {
				b.Fatal("an event after the result")
			}
			return
		}
	}
}

// What the SDK and gRPC cost a call that does nothing.
func BenchmarkCall(b *testing.B) {
	c := benchPlugin(b, one("x", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return tool.Text("done"), nil }))
	for b.Loop() {
		benchCall(b, c)
	}
}

// A megabyte of output in lines.
func BenchmarkOutput(b *testing.B) {
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	c := benchPlugin(b, one("x", func(_ context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		for range 10_000 {
			if err := c.Output(line); err != nil {
				return nil, err
			}
		}
		return tool.Text("done"), nil
	}))
	b.SetBytes(1_000_000)
	for b.Loop() {
		benchCall(b, c)
	}
}
