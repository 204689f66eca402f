package transport

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// ServeConn serves a client of this user on a connection that has been accepted elsewhere, until the client leaves or ctx ends. The client
// sends messages, one per line, or an HTTP request for a websocket. Of cfg, only Logger, MaxHandshake and Views are used.
func ServeConn(ctx context.Context, cfg Config, c net.Conn, p Peer, handle Handler) {
	cfg.Address = Address{Kind: Unix}
	cfg = cfg.withDefaults()
	if err := c.SetDeadline(time.Now().Add(cfg.MaxHandshake)); err != nil {
		return
	}
	in := bufio.NewReader(c)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	handle = (&Server{cfg: cfg}).guard(handle)
	if first[0] != 'G' {
		if err := c.SetDeadline(time.Time{}); err == nil {
			serveStream(ctx, ctx, rpc.Lines(in, c, c), p, handle)
		}
		return
	}
	r, err := http.ReadRequest(in)
	if err != nil {
		cfg.Logger.Debug("client refused", "pid", p.PID, "err", err)
		return
	}
	w := newWeb(cfg, nil, "")
	w.ctx, w.kill, w.handle = ctx, ctx, handle
	answer := &response{conn: c, in: in, header: http.Header{}}
	w.ServeHTTP(answer, r.WithContext(context.WithValue(ctx, connKey{}, &conn{Conn: c, peer: p})))
	answer.WriteHeader(http.StatusOK)
}

// response answers the only request of a connection.
type response struct {
	conn   net.Conn
	in     *bufio.Reader
	header http.Header
	sent   bool // the status, or the connection was taken over
}

// Header implements [http.ResponseWriter].
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	if r.sent {
		return
	}
	r.sent = true
	r.header.Set("Connection", "close")
	fmt.Fprintf(r.conn, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status)) // the client may have left
	_ = r.header.Write(r.conn)
	fmt.Fprint(r.conn, "\r\n")
}

// Write implements [http.ResponseWriter].
func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.conn.Write(b)
}

// Hijack implements [http.Hijacker].
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.sent = true
	return r.conn, bufio.NewReadWriter(r.in, bufio.NewWriter(r.conn)), nil
}
