package hostsocket

import (
	"errors"
	"net"
	"os"
	"sync"
)

// endpoint is a listener with two sources of connections: a listening socket, to which a process connects by path, and
// connect, by which the host connects a confined process, whose own sockets can't connect to anything.
type endpoint struct {
	address net.UnixAddr
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// backlog is how many connections may wait to be accepted: as many as there can be calls that each make one, since a connection too many
// is refused.
const backlog = maxStreams

func newEndpoint(path string) *endpoint {
	return &endpoint{address: net.UnixAddr{Name: path, Net: "unix"}, conns: make(chan net.Conn, backlog), closed: make(chan struct{})}
}

var errRefused = errors.New("connection refused")

// connect returns the process's end of a new connection.
func (e *endpoint) connect() (_ *os.File, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_, _ = ours.Close(), theirs.Close()
		}
	}()
	select {
	case <-e.closed:
		return nil, errRefused
	default:
	}
	select {
	case e.conns <- ours:
		return theirs, nil
	default:
		return nil, errRefused
	}
}

// serve adds the connections that ln accepts, until ln or the endpoint is closed.
func (e *endpoint) serve(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		select {
		case e.conns <- c:
		case <-e.closed:
			_ = c.Close()
			return
		}
	}
}

// Accept implements [net.Listener].
func (e *endpoint) Accept() (net.Conn, error) {
	select {
	case c := <-e.conns:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (e *endpoint) Close() error {
	e.once.Do(func() { close(e.closed) })
	for {
		select {
		case c := <-e.conns:
			_ = c.Close()
		default:
			return nil
		}
	}
}

// Addr implements [net.Listener].
func (e *endpoint) Addr() net.Addr { return &e.address }
