package proctree

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// TestConnects is what the children of other tests run: it connects to a socket and waits for its end.
func TestConnects(t *testing.T) {
	path := os.Getenv("GANTRY_TEST_CONNECT")
	if path == "" {
		t.Skip("it is no test")
	}
	network := "unix"
	if address, ok := strings.CutPrefix(path, "tcp:"); ok {
		network, path = "tcp", address
	}
	conn, err := net.Dial(network, path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = bufio.NewReader(conn).ReadString('\n')
}

// Children and grandchildren are in the tree of this process and of its parent, but not in their own or in that of an unrelated one.
func TestContains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{"a child": {self, "-test.run=^TestConnects$"}, "a grandchild": {"/bin/sh", "-c", `"$0" -test.run='^TestConnects$'; true`, self}} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GANTRY_TEST_CONNECT="+path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := ln.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		peer, err := wire.PeerOf(conn)
		if err != nil {
			t.Fatal(err)
		}
		pid := peer.PID
		for root, want := range map[int]bool{os.Getpid(): true, os.Getppid(): true, pid: false, 1 << 22: false} {
			if got, err := Contains(conn, root, pid); err != nil || got != want {
				t.Errorf("%s: below %d: %v, %v", name, root, got, err)
			}
		}
		if got, err := Contains(conn, os.Getpid(), 0); err != nil || got {
			t.Errorf("a client outside of the namespace: %v, %v", got, err)
		}
		conn.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if got, err := Contains(conn, os.Getpid(), pid); err == nil {
			t.Errorf("%s that has ended: %v", name, got)
		}
	}
}
