package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"
)

// connectClient connects a client with a server.
func connectClient(t *testing.T, client ClientConfig, server func(c func() *Conn) Config) *Client {
	t.Helper()
	ours, theirs := socketPair(t)
	c := NewClient(Lines(theirs, theirs, theirs), client)
	var conn *Conn
	ready := make(chan struct{})
	cfg := server(func() *Conn { <-ready; return conn })
	conn = New(Lines(ours, ours, ours), cfg)
	close(ready)
	ctx, cancel := context.WithCancel(t.Context())
	var ends sync.WaitGroup
	ends.Go(func() { _ = conn.Serve(ctx) })
	ends.Go(func() { _ = c.Serve(ctx) })
	t.Cleanup(func() {
		cancel()
		ends.Wait()
	})
	return c
}

func TestClientCalls(t *testing.T) {
	c := connectClient(t, ClientConfig{}, func(func() *Conn) Config {
		return Config{Handle: func(_ context.Context, r *Request) {
			if r.Method == "fail" {
				r.Fail(&Error{Code: InvalidParams, Message: "no", Data: map[string]string{"kind": "k"}})
				return
			}
			r.Reply(r.Params)
		}}
	})
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			var got struct{ N int }
			if err := c.Call(t.Context(), "echo", map[string]int{"N": i}, &got); err != nil || got.N != i {
				t.Errorf("call %d returned %d, %v", i, got.N, err)
			}
		})
	}
	calls.Wait()
	err := c.Call(t.Context(), "fail", nil, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != InvalidParams || e.Message != "no" || fmt.Sprintf("%s", e.Data) != `{"kind":"k"}` {
		t.Errorf("error %#v", err)
	}
	var n int
	if err := c.Call(t.Context(), "echo", "text", &n); err == nil || !strings.HasPrefix(err.Error(), "decode the result of echo: json: ") {
		t.Errorf("error %v", err)
	}
	if err := c.Call(t.Context(), "echo", func() {}, nil); err == nil || !strings.HasPrefix(err.Error(), "encode the parameters of echo: ") {
		t.Errorf("error %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.pending); n != 0 {
		t.Errorf("%d calls are pending", n)
	}
}

func TestClientReceivesInOrder(t *testing.T) {
	var got []string
	end := make(chan struct{})
	c := connectClient(t, ClientConfig{
		Notified: func(n Notification) {
			got = append(got, fmt.Sprintf("%s %s %d %d %d", n.Method, n.Params, n.Seq, n.Part, n.EmittedAtMs))
			if n.Method == "end" {
				close(end)
			}
		},
		Handle: func(_ context.Context, r *Request) { r.Reply("accept") },
	}, func(conn func() *Conn) Config {
		return Config{
			Handle: func(ctx context.Context, r *Request) {
				_ = conn().Notify(ctx, Notification{Method: "before", Params: "p", Seq: 1, Part: 3, EmittedAtMs: 2})
				r.Reply("started")
				_ = conn().Notify(ctx, Notification{Method: "after"})
				_ = conn().Request(ctx, StringID("q"), "ask", nil)
			},
			Answered: func(id ID, result json.RawMessage, _ *Error) {
				conn().Post("end", Notification{Method: "end", Params: fmt.Sprintf("%v %s", id, result)})
			},
		}
	})
	err := c.Start(t.Context(), "thread/start", nil, func(result json.RawMessage, err error) {
		got = append(got, fmt.Sprintf("result %s %v", result, err))
	})
	if err != nil {
		t.Fatal(err)
	}
	<-end
	want := []string{`before "p" 1 3 2`, `result "started" <nil>`, `after %!s(<nil>) 0 0 0`, `end "\"q\" \"accept\"" 0 0 0`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestClientCallsEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var log bytes.Buffer
		c := NewClient(Lines(theirs, theirs, theirs), ClientConfig{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
		served, called, started := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { served <- c.Serve(t.Context()) }() // owned by the test, which waits for it
		p := linePeer(ours)
		go func() { called <- c.Call(t.Context(), "slow", nil, nil) }() // owned by the test, which waits for it
		p.t = t
		p.expect(`{"id":1,"method":"slow"}`)
		go func() { // owned by the test, which waits for it
			if err := c.Start(t.Context(), "slow", nil, func(_ json.RawMessage, err error) { started <- err }); err != nil {
				t.Error(err)
			}
		}()
		p.expect(`{"id":2,"method":"slow"}`)
		// A caller that gives up does not miss what comes later.
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- c.Call(ctx, "slow", nil, nil) }() // owned by the test, which waits for it
		p.expect(`{"id":3,"method":"slow"}`)
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call returned %v", err)
		}
		p.write(`{"id":3,"result":1}`, `{"id":77,"result":1}`)
		p.leave()
		for _, c := range []chan error{called, started} {
			if err := <-c; err != ErrClosed {
				t.Errorf("a call returned %v", err)
			}
		}
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
		if err := c.Call(t.Context(), "late", nil, nil); err != ErrClosed {
			t.Errorf("a late call returned %v", err)
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", log.String())
		}
	})
}

// departed is the stream of a server that has sent its last messages and closed the connection. They are read after a message could not be
// sent to it, when the client has nothing else to do.
type departed struct {
	left   []string
	failed chan struct{} // closed when a message could not be sent
	closed atomic.Bool
}

func (s *departed) Read() ([]byte, error) {
	<-s.failed
	synctest.Wait()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if len(s.left) == 0 {
		return nil, io.EOF
	}
	line := s.left[0]
	s.left = s.left[1:]
	return []byte(line), nil
}

func (s *departed) Write([]byte) error {
	close(s.failed)
	return syscall.EPIPE
}

func (s *departed) Close() error {
	s.closed.Store(true)
	return nil
}

// What the server has sent before it closed the connection arrives, even if the client has noticed the end because it could not send.
func TestClientReceivesWhatWasSentBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &departed{left: []string{`{"method":"a"}`, `{"method":"b"}`}, failed: make(chan struct{})}
		var got []string
		c := NewClient(s, ClientConfig{Notified: func(n Notification) { got = append(got, n.Method) }})
		served := make(chan error, 1)
		go func() { served <- c.Serve(t.Context()) }() // owned by the test, which waits for it
		if err := c.Call(t.Context(), "late", nil, nil); err != ErrClosed {
			t.Errorf("a call returned %v", err)
		}
		if err := <-served; err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("received %q, %v", got, err)
		}
	})
}

// A client whose server takes nothing any more ends with its context, even if the server sends nothing either.
func TestClientOfADepartedServerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := NewClient(Lines(theirs, deaf{}, theirs), ClientConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- c.Serve(ctx) }() // owned by the test, which waits for it
		if err := c.Notify(t.Context(), "late", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case <-c.Done():
			t.Error("the connection has ended")
		default:
		}
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
		_ = ours.Close()
	})
}

type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, syscall.EPIPE }
