package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gorilla/websocket"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds a wait whose end is an event.
const patience = 20 * time.Second

// loopback is an address with a free port.
var loopback = Address{Kind: TCP, TCP: netip.MustParseAddrPort("127.0.0.1:0")}

// running is a server of a test.
type running struct {
	*Server
	t       *testing.T
	signals chan<- os.Signal
	cancel  context.CancelCauseFunc
	result  chan error
}

// start serves until the end of the test.
func start(t *testing.T, cfg Config, handle Handler) *running {
	t.Helper()
	signals := make(chan os.Signal)
	cfg.Signals = signals
	if cfg.Home == "" {
		cfg.Home = home(t)
	}
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Debug})
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := Listen(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{s, t, signals, cancel, make(chan error, 1)}
	ended := make(chan struct{})
	go func() { // ends with ctx; the cleanup waits for it
		defer close(ended)
		r.result <- s.Serve(ctx, handle)
	}()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		await(t, ended, "the end of the server")
	})
	return r
}

// home returns a folder whose path is short enough for sockets.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Errorf("%s did not happen", what)
	}
	return v
}

// ends checks the result of Serve.
func (r *running) ends(want error) {
	r.t.Helper()
	if err := await(r.t, r.result, "the end of Serve"); !errors.Is(err, want) || want == nil && err != nil {
		r.t.Errorf("Serve: %v, want %v", err, want)
	}
}

// host returns the Host header of a request to a server.
func (r *running) host() string {
	if host, ok := strings.CutPrefix(r.URL(), "ws://"); ok {
		return host
	}
	if host, ok := strings.CutPrefix(r.URL(), "http://"); ok {
		return strings.TrimSuffix(strings.TrimSuffix(host, pathMCP), "/")
	}
	return "localhost"
}

// conn opens a connection.
func (r *running) conn() net.Conn {
	r.t.Helper()
	network, addr, _ := strings.Cut(r.URL(), "://")
	switch network {
	case "ws":
		network = "tcp"
	case "http":
		network, addr = "tcp", r.host()
	}
	c, err := net.Dial(network, addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// dial does a websocket handshake.
func (r *running) dial(h http.Header) (*websocket.Conn, *http.Response, error) {
	r.t.Helper()
	d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return r.conn(), nil }}
	c, resp, err := d.Dial("ws://"+r.host()+"/", h)
	if err == nil {
		r.t.Cleanup(func() { _ = c.Close() })
		_ = c.SetReadDeadline(time.Now().Add(patience))
	}
	return c, resp, err
}

// client returns a websocket client.
func (r *running) client() *websocket.Conn {
	r.t.Helper()
	c, _, err := r.dial(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// ask sends a request as it is and returns status and body of the response.
func (r *running) ask(request string) (int, string) {
	r.t.Helper()
	c := r.conn()
	if _, err := io.WriteString(c, request); err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Errorf("%.80q: %v", request, err)
		return 0, ""
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, ""
	}
	b, _ := io.ReadAll(resp.Body) // a request that was not read to its end resets the connection
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// echoes checks that a client is served.
func echoes(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, b, err := c.ReadMessage(); err != nil || string(b) != text {
		t.Errorf("%.80q, %v, want %.80q", b, err, text)
	}
}

// left checks that the server has ended the connection.
func left(t *testing.T, c *websocket.Conn) {
	t.Helper()
	_, b, err := c.ReadMessage()
	if e, ok := errors.AsType[net.Error](err); err == nil || ok && e.Timeout() {
		t.Errorf("%q, %v, want the end", b, err)
	}
}

// echo answers each message with itself.
func echo(ctx context.Context, s rpc.Stream, _ Peer) {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	for {
		m, err := s.Read()
		if err != nil {
			return
		}
		if send(s, bytes.TrimSpace(m)) != nil {
			return
		}
	}
}

// send writes a message and flushes it.
func send(s rpc.Stream, m []byte) error {
	if err := s.Write(m); err != nil {
		return err
	}
	if f, ok := s.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}
