package process_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// scriptedHost is a host whose processes are scripts of the test. It runs in memory, so that time costs nothing.
type scriptedHost struct {
	gantryv1.UnimplementedHostServiceServer
	attach  func(gantryv1.HostService_AttachServer) error
	wait    func(context.Context) (*gantryv1.WaitResponse, error)
	signals chan *gantryv1.SignalRequest
}

func (h *scriptedHost) Spawn(context.Context, *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	return &gantryv1.SpawnResponse{ProcessId: "p", Pid: 42}, nil
}

func (h *scriptedHost) Attach(s gantryv1.HostService_AttachServer) error { return h.attach(s) }

func (h *scriptedHost) Wait(ctx context.Context, _ *gantryv1.WaitRequest) (*gantryv1.WaitResponse, error) {
	return h.wait(ctx)
}

func (h *scriptedHost) Signal(_ context.Context, r *gantryv1.SignalRequest) (*gantryv1.SignalResponse, error) {
	if h.signals != nil {
		h.signals <- r
	}
	return &gantryv1.SignalResponse{}, nil
}

// serve returns a broker of the host, and ends both with the test.
func (h *scriptedHost) serve(t *testing.T) *process.Broker {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	srv := grpc.NewServer()
	gantryv1.RegisterHostServiceServer(srv, h)
	done := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(done)
		_ = srv.Serve(ln)
	}()
	conn, err := grpc.NewClient("passthrough:///host", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		<-done
	})
	return process.New(gantryv1.NewHostServiceClient(conn), "", "")
}

func stdout(s string) *gantryv1.AttachResponse {
	return &gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Stdout{Stdout: []byte(s)}}
}

func exited(code int32) *gantryv1.AttachResponse {
	return &gantryv1.AttachResponse{Output: &gantryv1.AttachResponse_Exited{Exited: &gantryv1.WaitResponse{ExitCode: code}}}
}

func forever(ctx context.Context) (*gantryv1.WaitResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestStreamThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scriptedHost{
			attach: func(s gantryv1.HostService_AttachServer) error {
				if err := s.Send(stdout("some")); err != nil {
					return err
				}
				<-s.Context().Done()
				return s.Context().Err()
			},
			wait: func(context.Context) (*gantryv1.WaitResponse, error) { return &gantryv1.WaitResponse{}, nil },
		}
		var out bytes.Buffer
		c := h.serve(t).Command(t.Context(), "server")
		c.Stdout = &out
		before := time.Now()
		if err := c.Run(); !errors.Is(err, process.ErrWaitDelay) {
			t.Errorf("error %v, want %v", err, process.ErrWaitDelay)
		}
		if took := time.Since(before); took < time.Second || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if out.String() != "some" {
			t.Errorf("output %q", out.String())
		}
	})
}

// The exit that the stream brings is enough, and what came before it is there.
func TestExitOverTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scriptedHost{wait: forever, attach: func(s gantryv1.HostService_AttachServer) error {
			for range 1000 {
				if err := s.Send(stdout(strings.Repeat("x", 1000))); err != nil {
					return err
				}
			}
			return s.Send(exited(4))
		}}
		out, err := h.serve(t).Command(t.Context(), "program").Output()
		if e, ok := errors.AsType[*process.ExitError](err); !ok || e.Code != 4 || len(out) != 1000_000 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}

func TestStreamThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scriptedHost{
			attach: func(gantryv1.HostService_AttachServer) error { return status.Error(codes.Internal, "the pipe burst") },
			wait:   func(context.Context) (*gantryv1.WaitResponse, error) { return &gantryv1.WaitResponse{}, nil },
		}
		_, err := h.serve(t).Command(t.Context(), "program").Output()
		if err == nil || !strings.Contains(err.Error(), "the pipe burst") {
			t.Errorf("error %v", err)
		}
	})
}

// A host that breaks its promise to kill must not hold up the answer of a call for ever.
func TestProcessThatSurvivesItsKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &scriptedHost{wait: forever, signals: make(chan *gantryv1.SignalRequest, 1), attach: func(s gantryv1.HostService_AttachServer) error {
			<-s.Context().Done()
			return s.Context().Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		c := h.serve(t).Command(ctx, "immortal")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cancel()
		err := c.Wait()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "did not end") {
			t.Errorf("error %v", err)
		}
		if r := <-h.signals; !r.GetKillTree() || r.GetProcessId() != "p" {
			t.Errorf("signal %v", r)
		}
	})
}
