package rig

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
)

// Transports are the ways in which clients connect to an app server.
func Transports() []string { return []string{"stdio", "unix", "ws"} }

// AppServerOn starts gantry app-server on a transport, and returns a client like that of [Rig.AppServer].
func (r *Rig) AppServerOn(transport string, args ...string) *Client {
	r.t.Helper()
	if transport == "stdio" {
		return r.AppServer(args...)
	}
	return r.Serve(transport, args...).Connect()
}

// Server is an app server for many clients.
type Server struct {
	*Run
	URL   string // unix://PATH, or ws://IP:PORT
	Token string // that clients have to send, if not ""
}

// Serve starts gantry app-server on a socket (unix), or on a websocket on loopback with a token (ws). It is killed with the test.
func (r *Rig) Serve(transport string, args ...string) *Server {
	r.t.Helper()
	s := &Server{}
	listen := []string{"app-server", "--listen", "unix://"}
	if transport == "ws" {
		s.Token = "a token that no other process knows"
		path := filepath.Join(r.Home, "token")
		if err := os.WriteFile(path, []byte(s.Token+"\n"), 0o600); err != nil {
			r.t.Fatal(err)
		}
		listen = []string{"app-server", "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-token-file", path}
	}
	s.Run = r.Start(append(listen, args...)...)
	s.listens()
	return s
}

// ServeMCP starts gantry mcp serve over HTTP on loopback, with a token. It is killed with the test.
func (r *Rig) ServeMCP(args ...string) *Server {
	r.t.Helper()
	s := &Server{Token: "a token that no other process knows"}
	r.Write(filepath.Join(r.Home, "token"), s.Token+"\n")
	s.Run = r.Start(append([]string{"mcp", "serve", "--http", "0", "--token-file", filepath.Join(r.Home, "token")}, args...)...)
	s.listens()
	return s
}

// listens waits for the address of a server that was started.
func (s *Server) listens() {
	s.rig.t.Helper()
	listening := regexp.MustCompile(`(?m)^listening on (\S+)$`)
	s.rig.Until("the server listens", func() bool {
		m := listening.FindStringSubmatch(s.Output())
		if m != nil {
			s.URL = m[1]
		}
		return m != nil
	})
}

// Dial opens a websocket with further headers, without the token. The caller closes it.
func (s *Server) Dial(header http.Header) (*websocket.Conn, *http.Response, error) {
	return s.dial("/", header)
}

// DialPath opens a websocket at a path as a client that may use the server. The caller closes it.
func (s *Server) DialPath(path string) (*websocket.Conn, *http.Response, error) {
	header := http.Header{}
	if s.Token != "" {
		header.Set("Authorization", "Bearer "+s.Token)
	}
	return s.dial(path, header)
}

func (s *Server) dial(at string, header http.Header) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{HandshakeTimeout: patience}
	url := s.URL + at
	if path, ok := strings.CutPrefix(s.URL, "unix://"); ok {
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		url = "ws://localhost" + at
	}
	return d.Dial(url, header)
}

// Open opens a websocket as a client that may use the server. It is closed with the test.
func (s *Server) Open() *websocket.Conn {
	t := s.rig.t
	t.Helper()
	conn, _, err := s.DialPath("/")
	if err != nil {
		t.Fatalf("%v\n%s", err, s.Output())
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return conn
}

// Connect returns a client that has not sent anything. Its messages are checked, in both directions, against the schemas that gantry
// generates.
func (s *Server) Connect() *Client {
	t := s.rig.t
	t.Helper()
	conn := s.Open()
	c := newClient(t, func() ([]byte, error) {
		_, b, err := conn.ReadMessage()
		return bytes.TrimSpace(b), err
	}, func(line []byte) error { return conn.WriteMessage(websocket.TextMessage, line) })
	c.stop = sync.OnceFunc(func() { _ = conn.Close() })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("app-server wrote:\n%s", s.Output())
		}
	})
	c.checked()
	return c
}
