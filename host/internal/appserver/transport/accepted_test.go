package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gorilla/websocket"
)

// accepted serves the clients of a socket that another part of the program listens on: it echoes their messages.
func accepted(t *testing.T) (dial func() net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { // ends with the listener; waited for below
		defer close(served)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			ServeConn(ctx, Config{MaxHandshake: time.Minute}, c, Peer{Kind: Unix, PID: 7}, func(_ context.Context, s rpc.Stream, p Peer) {
				for {
					msg, err := s.Read()
					if err != nil || s.Write(msg) != nil || p.PID != 7 {
						return
					}
					if f, ok := s.(interface{ Flush() error }); ok && f.Flush() != nil {
						return
					}
				}
			})
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		<-served
	})
	return func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// A client of a connection that was accepted elsewhere speaks lines or websocket, and an HTTP request is checked like others.
func TestAcceptedElsewhere(t *testing.T) {
	dial := accepted(t)
	c := dial()
	if _, err := io.WriteString(c, "{\"id\":1}\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, `{"id":1}`) {
		t.Errorf("lines: %q, %v", line, err)
	}
	_ = c.Close()

	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
	ws, resp, err := d.DialContext(t.Context(), "ws://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(`{"id":2}`)); err != nil {
		t.Fatal(err)
	}
	if _, msg, err := ws.ReadMessage(); err != nil || string(msg) != `{"id":2}` {
		t.Errorf("websocket: %q, %v", msg, err)
	}
	_ = ws.Close()

	for request, want := range map[string]string{
		"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n":                "200 OK",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                      "400 Bad Request",
		"GET / HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n\r\n":  "403 Forbidden",
		"GET nonsense\r\n\r\n":                                   "",
		"GARBAGE / HTTP/1.1\r\nHost: x\r\nConnection: x\r\n\r\n": "405 Method Not Allowed",
	} {
		c := dial()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		status, _, _ := strings.Cut(string(got), "\r\n")
		if err != nil || !strings.HasSuffix(status, want) || want == "" && status != "" {
			t.Errorf("%q: %q, %v, want %q", request, status, err, want)
		}
		_ = c.Close()
	}
}
