//go:build unix

package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// serveDescriptors answers one client with what answer does, after it has read the token.
func serveDescriptors(t *testing.T, answer func(token string, conn *net.UnixConn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "d")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	// Owner: the test, whose clean-up waits for it.
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return
		}
		answer(strings.TrimSuffix(line, "\n"), conn.(*net.UnixConn))
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return socket
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestSendDescriptors(t *testing.T) {
	r, w := pipe(t)
	socket := serveDescriptors(t, func(token string, conn *net.UnixConn) {
		if token != "one-time" {
			return
		}
		if err := wire.SendDescriptors(conn, []*os.File{r, w}); err != nil {
			t.Error(err)
		}
	})
	files, err := wire.ReceiveDescriptors(t.Context(), socket, "one-time", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer files[0].Close()
	if _, err := files[1].WriteString("through the received end"); err != nil {
		t.Fatal(err)
	}
	files[1].Close()
	w.Close() // the sender kept its own copy
	b, err := io.ReadAll(files[0])
	if err != nil || string(b) != "through the received end" {
		t.Fatalf("read %q, %v", b, err)
	}
}

func TestReceivedDescriptorEndsAReadWhenClosed(t *testing.T) {
	r, _ := pipe(t)
	socket := serveDescriptors(t, func(_ string, conn *net.UnixConn) { _ = wire.SendDescriptors(conn, []*os.File{r}) })
	files, err := wire.ReceiveDescriptors(t.Context(), socket, "x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := files[0].SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatalf("no deadlines on a received pipe: %v", err)
	}
	if _, err := files[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read = %v", err)
	}
	files[0].Close()
}

func TestReceiveDescriptorsRefuses(t *testing.T) {
	r, w := pipe(t)
	tests := []struct {
		name   string
		answer func(string, *net.UnixConn)
		want   string
	}{
		{"a closed socket", func(string, *net.UnixConn) {}, "token"},
		{"too many", func(_ string, c *net.UnixConn) { _ = wire.SendDescriptors(c, []*os.File{r, w, r}) }, "3 descriptors instead of 2"},
		{"too few", func(_ string, c *net.UnixConn) { _ = wire.SendDescriptors(c, []*os.File{r}) }, "1 descriptors instead of 2"},
		{"none", func(_ string, c *net.UnixConn) { _, _ = c.Write([]byte{0}) }, "0 descriptors instead of 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			socket := serveDescriptors(t, tt.answer)
			files, err := wire.ReceiveDescriptors(t.Context(), socket, "x", 2)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v, want an error with %q", files, err, tt.want)
			}
		})
	}
	if _, err := wire.ReceiveDescriptors(t.Context(), "/nowhere/at/all", "x", 1); err == nil {
		t.Error("a missing socket is no error")
	}
	if _, err := wire.ReceiveDescriptors(t.Context(), "/nowhere", "x", 0); err == nil || !strings.Contains(err.Error(), "1 to") {
		t.Errorf("no descriptors wanted: %v", err)
	}
}

func TestRefusedDescriptorsAreClosed(t *testing.T) {
	r, w := pipe(t)
	socket := serveDescriptors(t, func(_ string, c *net.UnixConn) { _ = wire.SendDescriptors(c, []*os.File{w, w, w}) })
	if _, err := wire.ReceiveDescriptors(t.Context(), socket, "x", 1); err == nil {
		t.Fatal("accepted three descriptors instead of one")
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil { // only so that a leak is a failure, not a hang
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the pipe still has a writer: read %d, %v", n, err)
	}
}

func TestReceiveDescriptorsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the turn was interrupted")
	socket := serveDescriptors(t, func(_ string, conn *net.UnixConn) {
		cancel(cause)
		_, _ = conn.Read(make([]byte, 1)) // says nothing until the other side goes
	})
	if _, err := wire.ReceiveDescriptors(ctx, socket, "x", 1); !errors.Is(err, cause) {
		t.Errorf("error = %v, want the cause", err)
	}
}
