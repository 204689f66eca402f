package transport

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gorilla/websocket"
)

// A client that knows the token of a view gets binary messages; all that protects other connections protects these as well.
func TestConnectionsForFrames(t *testing.T) {
	t.Parallel()
	token := write(t, "the secret of the server")
	for name, cfg := range map[string]Config{
		"tcp":  {Address: loopback, Auth: Auth{Mode: CapabilityToken, TokenFile: token}},
		"unix": {Address: Address{Kind: Unix}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Address.Kind == Unix {
				skipWithoutSockets(t)
			}
			read := make(chan error, 1)
			cfg.Views = func(token string, p Peer) (Handler, bool) {
				return func(_ context.Context, s rpc.Stream, _ Peer) {
					_ = s.Write([]byte("frame")) // the test misses it otherwise
					_, err := s.Read()
					if err == nil {
						_, err = s.Read()
					}
					read <- err
				}, token == "known" && p.Kind == cfg.Address.Kind
			}
			r := start(t, cfg, echo)
			at := func(path string, h http.Header) (*websocket.Conn, int) {
				d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) { return r.conn(), nil }}
				c, resp, _ := d.Dial("ws://"+r.host()+path, h)
				if c != nil {
					t.Cleanup(func() { _ = c.Close() })
				}
				return c, resp.StatusCode
			}
			auth := http.Header{}
			if cfg.Address.Kind == TCP {
				auth.Set("Authorization", "Bearer the secret of the server")
				if _, status := at("/view/known", nil); status != http.StatusUnauthorized {
					t.Errorf("without the server's token: %d", status)
				}
			}
			if _, status := at("/view/other", auth); status != http.StatusNotFound {
				t.Errorf("unknown view: %d", status)
			}
			page := auth.Clone()
			page.Set("Origin", "http://localhost")
			if _, status := at("/view/known", page); status != http.StatusForbidden {
				t.Errorf("from a page: %d", status)
			}
			c, status := at("/view/known", auth)
			if c == nil {
				t.Fatalf("status %d", status)
			}
			if kind, b, err := c.ReadMessage(); kind != websocket.BinaryMessage || string(b) != "frame" {
				t.Errorf("message of kind %d: %q, %v", kind, b, err)
			}
			for _, m := range []string{`{"ack":1}`, strings.Repeat("x", maxAck+1)} {
				if err := c.WriteMessage(websocket.TextMessage, []byte(m)); err != nil {
					t.Fatal(err)
				}
			}
			if err := await(t, read, "the end of a client that sends too much"); err == nil {
				t.Error("a message over the limit was read")
			}
			if c, _ := at("/views", auth); c != nil {
				echoes(t, c, "an ordinary client")
			} else {
				t.Error("another path is refused")
			}
		})
	}
}
