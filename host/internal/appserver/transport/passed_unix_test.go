//go:build unix

package transport

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"golang.org/x/sys/unix"
)

// pair returns the client's end of a socket, and the number of the server's.
func pair(t *testing.T) (net.Conn, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "client")
	defer func() { _ = f.Close() }()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, fds[1]
}

// The client of a passed socket is served, and when it leaves, the server ends as soon as no turn is running.
func TestPassedSocketDrains(t *testing.T) {
	conn, fd := pair(t)
	draining, idle := make(chan struct{}), make(chan struct{})
	s, err := Listen(t.Context(), Config{Address: Address{Kind: Passed, FD: fd}, Idle: func(context.Context) { close(draining); <-idle }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { // ends with the socket
		ended <- s.Serve(t.Context(), func(_ context.Context, stream rpc.Stream, p Peer) {
			if p.Kind != Passed || p.Launched {
				t.Errorf("peer %+v", p)
			}
			for {
				msg, err := stream.Read()
				if err != nil {
					return
				}
				if stream.Write(msg) != nil || stream.(interface{ Flush() error }).Flush() != nil {
					return
				}
			}
		})
	}()
	client := rpc.Lines(conn, conn, conn)
	if err := client.Write([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := client.(interface{ Flush() error }).Flush(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Read(); err != nil || string(got) != "{\"a\":1}\n" {
		t.Fatalf("%q, %v", got, err)
	}
	_ = client.Close()
	<-draining
	select {
	case err := <-ended:
		t.Fatalf("the server ended while a turn was running: %v", err)
	default:
	}
	close(idle)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A descriptor that is no connected socket is refused.
func TestPassedIsNoSocket(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if _, err := Listen(t.Context(), Config{Address: Address{Kind: Passed, FD: fd}}); err == nil {
		t.Error("a file was taken for a socket")
	}
	for _, url := range []string{"fd://", "fd://2", "fd://-1", "fd://x", "fd://99999999"} {
		if a, err := ParseListen(url); err == nil {
			t.Errorf("%s became %+v", url, a)
		}
	}
	if a, err := ParseListen("fd://3"); err != nil || a.String() != "fd://3" {
		t.Errorf("fd://3 became %v, %v", a, err)
	}
}
