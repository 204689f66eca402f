package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
)

// peer is a client that sees the bytes.
type peer struct {
	t      testing.TB
	conn   *Conn
	cancel context.CancelCauseFunc
	served chan error
	client *websocket.Conn // of that transport
	send   func(msg string) error
	recv   func() (string, error)
	begin  func() // receives the first byte of a message
	leave  func() // closes its end
}

// transports connect a peer and a stream.
var transports = []string{"lines", "websocket"}

// connect serves a connection to a peer.
func connect(t *testing.T, transport string, cfg Config) *peer {
	t.Helper()
	var p *peer
	var s Stream
	if transport == "lines" {
		ours, theirs := socketPair(t)
		p, s = linePeer(theirs), Lines(ours, ours, ours)
	} else {
		p, s = webPeer(t)
	}
	p.serve(t, s, cfg)
	return p
}

func (p *peer) serve(t testing.TB, s Stream, cfg Config) {
	p.t = t
	if cfg.Logger == nil {
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Debug})
	}
	p.conn = New(s, cfg)
	ctx, cancel := context.WithCancelCause(t.Context())
	p.cancel = cancel
	p.served = make(chan error, 1)
	go func() { p.served <- p.conn.Serve(ctx) }() // owned by the test; ends with the connection
	t.Cleanup(func() {
		p.leave()
		cancel(nil)
		if p.served != nil {
			<-p.served
		}
	})
}

// socketPair returns the ends of a connection with buffers.
func socketPair(t testing.TB) (ours, theirs *net.UnixConn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a.(*net.UnixConn), c.(*net.UnixConn)
}

func linePeer(c net.Conn) *peer {
	r := bufio.NewReader(c)
	return &peer{
		send:  func(msg string) error { _, err := io.WriteString(c, msg+"\n"); return err },
		recv:  func() (string, error) { line, err := r.ReadString('\n'); return strings.TrimSuffix(line, "\n"), err },
		begin: func() { _, _ = r.ReadByte() },
		leave: func() { _ = c.Close() },
	}
}

func webPeer(t testing.TB) (*peer, Stream) {
	t.Helper()
	upgraded := make(chan *websocket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		upgraded <- c
	}))
	t.Cleanup(srv.Close)
	c, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	p := &peer{
		client: c,
		send:   func(msg string) error { return c.WriteMessage(websocket.TextMessage, []byte(msg)) },
		recv:   func() (string, error) { _, b, err := c.ReadMessage(); return string(b), err },
		begin:  func() { _, _, _ = c.NextReader() },
		leave:  func() { _ = c.Close() },
	}
	return p, WebSocket(<-upgraded)
}

func (p *peer) write(msgs ...string) {
	p.t.Helper()
	for _, m := range msgs {
		if err := p.send(m); err != nil {
			p.t.Fatalf("send %.80s: %v", m, err)
		}
	}
}

// expect reads messages and compares them.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		got, err := p.recv()
		if err != nil {
			p.t.Fatalf("receive: %v; want %s", err, w)
		}
		if got != w {
			p.t.Fatalf("got %s\nwant %s", got, w)
		}
	}
}

// ended returns what Serve returns.
func (p *peer) ended() error {
	p.t.Helper()
	err := <-p.served
	p.served = nil
	return err
}

// echo answers every request with its parameters.
func echo(_ context.Context, r *Request) { r.Reply(r.Params) }

func each(t *testing.T, test func(t *testing.T, transport string)) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) { test(t, transport) })
	}
}

// route reads the route from the parameters, so that tests can choose it.
func route(method string, params json.RawMessage) Route {
	if method == "panic" {
		panic("oh")
	}
	var r Route
	_ = json.Unmarshal(params, &r)
	return r
}

func call(id int, r Route) string {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"id":%d,"method":"x","params":%s}`, id, b)
}

// steps lets a test see which handlers have started, and end them.
type steps struct {
	started chan int64
	end     [6]chan struct{}
}

// stepwise runs test with handlers that wait for it.
func stepwise(t *testing.T, cfg Config, test func(t *testing.T, p *peer, s *steps)) {
	var s steps
	cfg.Route, cfg.Handle = route, s.handle
	inBubble(t, cfg, func(t *testing.T, p *peer) {
		s.started = make(chan int64, len(s.end))
		for i := range s.end {
			s.end[i] = make(chan struct{})
		}
		test(t, p, &s)
	})
}

func (s *steps) handle(ctx context.Context, r *Request) {
	s.started <- r.ID.num
	select {
	case <-s.end[r.ID.num]:
	case <-ctx.Done():
	}
	r.Reply(nil)
}

func (s *steps) running(t *testing.T, want ...int64) {
	t.Helper()
	var got []int64
	for range want {
		got = append(got, <-s.started)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("started %v, want %v", got, want)
	}
	synctest.Wait()
	select {
	case n := <-s.started:
		t.Fatalf("%d has started too", n)
	default:
	}
}

// inBubble runs test with a connection over a pipe, so that it can wait until nothing happens.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, p *peer)) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := linePeer(theirs)
		p.serve(t, Lines(ours, ours, ours), cfg)
		test(t, p)
	})
}

// discard reads what is sent to p. Its goroutine ends with the connection.
func (p *peer) discard() {
	go func() { // owned by the test; ends with the connection
		for {
			if _, err := p.recv(); err != nil {
				return
			}
		}
	}()
}
