package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gorilla/websocket"
)

// joined is a connection of two pipes.
type joined struct {
	io.Reader
	io.WriteCloser
	net.Conn // for the methods that the client does not need
}

func (j joined) Read(b []byte) (int, error)  { return j.Reader.Read(b) }
func (j joined) Write(b []byte) (int, error) { return j.WriteCloser.Write(b) }
func (j joined) Close() error                { return j.WriteCloser.Close() }
func (j joined) SetDeadline(time.Time) error { return nil }

func (j joined) SetReadDeadline(time.Time) error  { return nil }
func (j joined) SetWriteDeadline(time.Time) error { return nil }

// A client that speaks websocket over a proxy's stdin and stdout is served like one at the socket.
func TestProxy(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	r := start(t, Config{Address: Address{Kind: Unix}}, echo)
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	proxied := make(chan error, 1)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		proxied <- Proxy(t.Context(), strings.TrimPrefix(r.URL(), "unix://"), in, out)
		_ = out.Close()
	})
	d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) {
		return joined{Reader: fromProxy, WriteCloser: toProxy}, nil
	}}
	c, _, err := d.Dial("ws://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, c, "hello")
	echoes(t, c, strings.Repeat("x", 1<<20))
	_ = toProxy.Close()
	left(t, c)
	if err := await(t, proxied, "the end of the proxy"); err != nil {
		t.Error(err)
	}
}

// The proxy changes no byte, whatever they are, and passes the end on in both directions.
func TestProxyCopiesBytes(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	path := filepath.Join(home(t), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	all := strings.Repeat("\x00\n\xff\r\n", 1<<16)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		if err != nil || string(b) != all {
			t.Errorf("%d bytes arrived, %v", len(b), err)
		}
		_, _ = c.Write(b)
	})
	var out strings.Builder
	if err := Proxy(t.Context(), path, strings.NewReader(all), &out); err != nil || out.String() != all {
		t.Errorf("%d bytes came back, %v", out.Len(), err)
	}
}

func TestProxyEnds(t *testing.T) {
	t.Parallel()
	skipWithoutSockets(t)
	r := start(t, Config{Address: Address{Kind: Unix}}, echo)
	path := strings.TrimPrefix(r.URL(), "unix://")
	in, client := io.Pipe()
	defer client.Close()

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	proxied := make(chan error, 1)
	go func() { proxied <- Proxy(ctx, path, in, io.Discard) }() // ends with ctx
	if _, err := client.Write([]byte("G")); err != nil {        // it is connected
		t.Fatal(err)
	}
	cancel(cause)
	if err := await(t, proxied, "the end of the proxy"); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}

	in, second := io.Pipe() // the first one may still be read
	defer second.Close()
	go func() { proxied <- Proxy(t.Context(), path, in, failing{cause}) }() // ends with the first write
	if _, err := second.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := await(t, proxied, "the end of the proxy"); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}

	r.cancel(cause)
	await(t, r.result, "the end of Serve")
	err := Proxy(t.Context(), path, in, io.Discard)
	if err == nil {
		t.Fatal("a proxy without a server")
	}
	if message, next := hint.Split(err); !strings.Contains(message, "no app server listens on "+path) || !strings.Contains(next, "gantry app-server") {
		t.Errorf("%q, next %q", message, next)
	}
}
