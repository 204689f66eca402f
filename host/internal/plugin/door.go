package plugin

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// door is a listener for the connections of a process: those that it makes to the path of a socket, and those that the host makes for a
// confined one, whose sockets reach nothing by themselves.
type door struct {
	address net.UnixAddr
	conns   chan net.Conn
	shut    chan struct{}
	once    sync.Once
}

// doorBacklog is how many connections may wait to be accepted.
const doorBacklog = 32

func newDoor(path string) *door {
	return &door{address: net.UnixAddr{Name: path, Net: "unix"}, conns: make(chan net.Conn, doorBacklog), shut: make(chan struct{})}
}

var errRefused = errors.New("nothing listens there")

// connect returns the process's end of a new connection.
func (d *door) connect() (_ *os.File, err error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_, _ = ours.Close(), theirs.Close()
		}
	}()
	select {
	case <-d.shut:
		return nil, errRefused
	default:
	}
	select {
	case d.conns <- ours:
		return theirs, nil
	default:
		return nil, errRefused
	}
}

// admit lets those in that another listener accepts, until that or the door is closed.
func (d *door) admit(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		select {
		case d.conns <- c:
		case <-d.shut:
			_ = c.Close()
			return
		}
	}
}

// Accept implements [net.Listener].
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	for {
		select {
		case c := <-d.conns:
			_ = c.Close()
		default:
			return nil
		}
	}
}

// Addr implements [net.Listener].
func (d *door) Addr() net.Addr { return &d.address }

// doors are those of one process: to the host's services, and to where descriptors are handed over.
type doors struct{ services, descriptors *door }

func newDoors(dir string) doors {
	return doors{newDoor(filepath.Join(dir, servicesSocket)), newDoor(filepath.Join(dir, descriptorsSocket))}
}

// connect connects the process to what a path names, if that is one of the two.
func (d doors) connect(path string) (*os.File, error) {
	for _, one := range []*door{d.services, d.descriptors} {
		if filepath.Clean(path) == one.address.Name {
			return one.connect()
		}
	}
	return nil, syscall.EPERM
}

func (d doors) close() {
	if d.services != nil { // otherwise its folder was never made
		_, _ = d.services.Close(), d.descriptors.Close()
	}
}
