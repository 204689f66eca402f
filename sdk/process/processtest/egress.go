package processtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
)

// Egress returns the path of the socket for connections to other machines, a proxy that connects to every host.
func (h *Host) Egress() string { return filepath.Join(h.dir, "net.sock") }

// Connected returns the addresses that the plugin has asked the socket to connect to, in order.
func (h *Host) Connected() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.connected)
}

// connect serves the connections of the socket until it is closed.
func (h *Host) connect(ln net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		open.Go(func() { // ends with the connection, or with the host
			defer conn.Close()
			h.tunnel(conn)
		})
	}
}

// tunnel connects a connection to the host that it requests.
func (h *Host) tunnel(conn net.Conn) {
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil || r.Method != http.MethodConnect {
		return
	}
	h.mu.Lock()
	h.mu.connected = append(h.mu.connected, r.Host)
	h.mu.Unlock()
	to, err := (&net.Dialer{}).DialContext(h.life, "tcp", r.Host)
	if err != nil {
		fmt.Fprintf(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%s", len(err.Error()), err)
		return
	}
	defer to.Close()
	stop := make(chan struct{})
	defer close(stop)
	h.tasks.Go(func() { // ends with the tunnel
		select {
		case <-h.life.Done():
			conn.Close()
			to.Close()
		case <-stop:
		}
	})
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var up sync.WaitGroup
	defer up.Wait()
	up.Go(func() { // ends with the plugin's side of the connection
		_, _ = io.Copy(to, in)
		_ = to.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(conn, to)
	conn.Close()
}
