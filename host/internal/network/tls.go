package network

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// unrecognizedName is the alert that ends a connection whose name is not the one that was judged.
var unrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

var errNamed = errors.New("the name is known")

// serverName reads the first message of a TLS client, and what it names. It takes from in at most what such a message may have.
func serverName(ctx context.Context, in io.Reader) (name string, err error) {
	c := tls.Server(onlyReads{in}, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errNamed
	}})
	if err = c.HandshakeContext(ctx); errors.Is(err, errNamed) {
		return name, nil
	}
	return "", err
}

// onlyReads is a connection of which the other side hears nothing.
type onlyReads struct{ io.Reader }

func (onlyReads) Write(b []byte) (int, error)      { return len(b), nil }
func (onlyReads) Close() error                     { return nil }
func (onlyReads) LocalAddr() net.Addr              { return nil }
func (onlyReads) RemoteAddr() net.Addr             { return nil }
func (onlyReads) SetDeadline(time.Time) error      { return nil }
func (onlyReads) SetReadDeadline(time.Time) error  { return nil }
func (onlyReads) SetWriteDeadline(time.Time) error { return nil }

// named looks at the ClientHello with which a client begins a tunnel. It has to name the host that was judged, and nothing for one that
// was judged by its address: otherwise a server with many names would be a way to any of them. The reader has all that the client
// said; not ok: nothing of it may go out.
func (p *Proxy) named(ctx context.Context, q Request, conn net.Conn, in *bufio.Reader) (_ io.Reader, ok bool) {
	slow := time.AfterFunc(headTimeout, func() { conn.Close() })
	defer slow.Stop()
	var said bytes.Buffer
	name, err := serverName(ctx, io.TeeReader(in, &said))
	_, address := netip.ParseAddr(q.Host)
	switch {
	case err == nil && name != "" && hosts.Normalize(name) == q.Host, err == nil && name == "" && address == nil:
		return io.MultiReader(&said, in), true
	}
	p.mismatch(q, conn, name)
	return nil, false
}

// mismatch ends the TLS connection of a client that has named another host, or none.
func (p *Proxy) mismatch(q Request, conn net.Conn, name string) {
	p.tell(q, Decision{Reason: NameMismatch, Source: ModeGuard, Named: name})
	_, _ = conn.Write(unrecognizedName)
}
