package tool

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// streamPlugin answers a number of calls on each stream.
type streamPlugin struct {
	gantryv1.UnimplementedToolServiceServer
	calls int
	ended chan error // how the host has ended a stream; nil: in order
}

func (p *streamPlugin) Call(stream gantryv1.ToolService_CallServer) error {
	for range p.calls {
		m, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.ended <- err
				return err
			}
			p.ended <- nil
			return nil
		}
		started := convert.CallEventToProto(contract.Started{KeepStream: m.GetStart().GetKeepStream()})
		if err := errors.Join(stream.Send(started), stream.Send(convert.CallEventToProto(contract.Text(m.GetStart().GetCallId())))); err != nil {
			return err
		}
	}
	return nil
}

func serveStreams(t *testing.T, p *streamPlugin) *grpc.ClientConn {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	srv := grpc.NewServer()
	gantryv1.RegisterToolServiceServer(srv, p)
	served := make(chan struct{})
	go func() { // owned by the test: its cleanup waits
		defer close(served)
		_ = srv.Serve(ln)
	}()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		<-served
	})
	return conn
}

// callOver makes a call over a stream.
func callOver(s *stream, id string) (string, error) {
	if err := s.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: &gantryv1.CallStart{CallId: id, KeepStream: true}}}); err != nil && err != io.EOF {
		return "", err
	}
	r, err := receive(s, contract.CallCaps{}, func(contract.CallEvent) {})
	if err != nil {
		return "", err
	}
	return r.Parts[0].(*contract.TextPart).Text, nil
}

func TestStreamsAreUsedAgain(t *testing.T) {
	p := &streamPlugin{calls: 100, ended: make(chan error, 10)}
	lease := &plugin.Lease{Conn: serveStreams(t, p), Generation: 1}
	var ss streams
	call := func(lease *plugin.Lease, id string) *stream {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel() // a stream outlives the call
		s, err := ss.take(ctx, lease)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := callOver(s, id); got != id || err != nil || !s.kept {
			t.Errorf("%q, %v, kept: %v", got, err, s.kept)
		}
		return s
	}
	first := call(lease, "a")
	ss.put(first)
	if second := call(lease, "b"); second != first || !second.used {
		t.Error("the stream that waits was not used")
	}
	other := call(lease, "c")
	if other == first || other.used {
		t.Error("a stream was used for two calls at once")
	}
	ss.put(first)
	ss.put(other)

	// A stream leads to one process.
	next := &plugin.Lease{Conn: lease.Conn, Generation: 2}
	if s := call(next, "d"); s.used {
		t.Error("a stream to an earlier process was used")
	} else {
		s.end()
	}
	for range 3 {
		if err := <-p.ended; err != nil {
			t.Errorf("a stream was not ended in order: %v", err)
		}
	}
	if len(ss.idle) > 0 {
		t.Errorf("%d streams wait", len(ss.idle))
	}

	var taken []*stream
	for range maxIdleStreams + 1 {
		taken = append(taken, call(next, "e"))
	}
	for _, s := range taken {
		ss.put(s)
	}
	if err := <-p.ended; err != nil || len(ss.idle) != maxIdleStreams {
		t.Errorf("%d streams wait; one was ended: %v", len(ss.idle), err)
	}
	ss.waiting(0) // ends all
}

// A plugin may end a stream between calls. What was sent on it then has had no effect and is sent again, unlike a call that the plugin
// has answered.
func TestStreamEndsBetweenCalls(t *testing.T) {
	p := &streamPlugin{calls: 1, ended: make(chan error, 10)}
	lease := &plugin.Lease{Conn: serveStreams(t, p), Generation: 1}
	var ss streams
	s, err := ss.take(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := callOver(s, "a"); err != nil {
		t.Fatal(err)
	}
	ss.put(s)
	if s, err = ss.take(t.Context(), lease); err != nil || !s.used {
		t.Fatal(s, err)
	}
	defer s.end()
	_, err = callOver(s, "b")
	if !s.endedBetweenCalls(err) {
		t.Errorf("a call that was not answered: %v", err)
	}
	s.begun = true
	if s.endedBetweenCalls(err) {
		t.Error("a call that has begun would be made again")
	}
	s.begun, s.used = false, false
	if s.endedBetweenCalls(err) {
		t.Error("a plugin that never answers would be called for ever")
	}
}
