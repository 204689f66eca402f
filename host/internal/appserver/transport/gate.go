package transport

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/proctree"
	"github.com/hashicorp/go-hclog"
)

// gate accepts connections. Those whose request is not complete are bounded, and those of other users are closed.
type gate struct {
	net.Listener
	log     hclog.Logger
	pending chan struct{}
	closed  chan struct{}
	close   func() error
}

func newGate(ln net.Listener, maxPending int, log hclog.Logger) *gate {
	g := &gate{Listener: ln, log: log, pending: make(chan struct{}, maxPending), closed: make(chan struct{})}
	g.close = sync.OnceValue(func() error {
		close(g.closed)
		return ln.Close()
	})
	return g
}

// Accept implements [net.Listener]. The result is a *conn.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.pending <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			<-g.pending
			return nil, err
		}
		p := Peer{Kind: TCP, Addr: c.RemoteAddr().String()}
		if u, ok := c.(*net.UnixConn); ok {
			p, err = identify(u)
		}
		if err == nil {
			return &conn{Conn: c, peer: p, admitted: sync.OnceFunc(func() { <-g.pending })}, nil
		}
		g.log.Warn("client refused", "err", err)
		_ = c.Close()
	}
}

// Close implements [net.Listener].
func (g *gate) Close() error { return g.close() }

// refused reports whether the gate is closed.
func (g *gate) refused() bool {
	select {
	case <-g.closed:
		return true
	default:
		return false
	}
}

// conn is a client's connection. admitted makes room for the next one.
type conn struct {
	net.Conn
	peer     Peer
	admitted func()
}

// identified returns the client of a connection. Looking for the process at the other end of a TCP connection takes some milliseconds, so
// it is done for clients that are authenticated.
func (c *conn) identified() (Peer, error) {
	p := c.peer
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return p, nil
	}
	var err error
	p.Launched, err = proctree.ContainsTCP(tcp, os.Getpid())
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return p, err
}
