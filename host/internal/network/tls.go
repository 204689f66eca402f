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

// unrecognizedName is the TLS alert that ends a connection whose server name is not the judged host.
var unrecognizedName = []byte{21, 3, 3, 0, 2, 2, 112}

var errNamed = errors.New("the name is known")

// serverName reads a ClientHello and returns its server name. It reads no more than the length of such a message allows.
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

// onlyReads is a connection that discards what is written to it.
type onlyReads struct{ io.Reader }

func (onlyReads) Write(b []byte) (int, error)      { return len(b), nil }
func (onlyReads) Close() error                     { return nil }
func (onlyReads) LocalAddr() net.Addr              { return nil }
func (onlyReads) RemoteAddr() net.Addr             { return nil }
func (onlyReads) SetDeadline(time.Time) error      { return nil }
func (onlyReads) SetReadDeadline(time.Time) error  { return nil }
func (onlyReads) SetWriteDeadline(time.Time) error { return nil }

// checkServerName checks the ClientHello at the beginning of a tunnel. It has to name the judged host, or none if that is an address: otherwise a
// client could reach any of the hosts that share a server. The reader returns everything that the client has sent; if not ok, nothing of
// it may be sent to the server.
func (p *Proxy) checkServerName(ctx context.Context, q Request, conn net.Conn, in *bufio.Reader) (_ io.Reader, ok bool) {
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

// mismatch ends the TLS connection of a client that has named another host or none.
func (p *Proxy) mismatch(q Request, conn net.Conn, name string) {
	p.audit(q, Decision{Reason: NameMismatch, Source: ModeGuard, NamedHost: name})
	_, _ = conn.Write(unrecognizedName)
}
