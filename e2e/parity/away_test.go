package parity_test

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// goesAway moves the service to an address where nobody listens until comes is called. The address stays the scenario's.
func (s *scenario) goesAway() (comes func()) {
	s.t.Helper()
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	check(err)
	socket := os.NewFile(uintptr(fd), "the service's address")
	s.t.Cleanup(func() { socket.Close() })
	check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(fd)
	check(err)
	url := fmt.Sprintf("http://127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	config := filepath.Join(s.Home, "gantry.hcl")
	b, err := os.ReadFile(config)
	check(err)
	s.Write(config, strings.ReplaceAll(string(b), s.service.URL, url))
	return func() {
		s.t.Helper()
		check(syscall.Listen(fd, 16))
		ln, err := net.FileListener(socket)
		check(err)
		h := httptest.NewUnstartedServer(s.service)
		h.Listener.Close()
		h.Listener = ln
		h.Start()
		s.t.Cleanup(h.Close)
	}
}
