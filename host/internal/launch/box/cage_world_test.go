//go:build linux

package box_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
)

// services starts sockets outside of the sandbox and returns the path of a stream socket. With @ before it, it is the name of an
// abstract one; with .d after it, the path of a datagram socket.
func (w *world) services() string {
	w.t.Helper()
	path := filepath.Join(filepath.Dir(w.ws), "services", "stream")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{path, "@" + path} {
		ln, err := net.Listen("unix", name)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { ln.Close() })
	}
	d, err := net.ListenPacket("unixgram", path+".d")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { d.Close() })
	return path
}

// shared returns a folder in the machine's /tmp, with one in it that the plugin's sandbox shows.
func (w *world) shared() string {
	w.t.Helper()
	dir := filepath.Join("/tmp", filepath.Base(filepath.Dir(w.ws)))
	if err := os.MkdirAll(filepath.Join(dir, "near"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { os.RemoveAll(dir) })
	for name, text := range map[string]string{"theirs": "", "near/script": "NEAR"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// Without namespaces nothing is hidden or private; what is denied stays denied.
func TestPluginSandboxWithoutNamespaces(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]string{
		"elsewhere":           `echo x > $OUT/x`,
		"temporary files":     `echo x > /tmp/gantry-cage-test-$$`,
		"shared memory":       `echo x > /dev/shm/gantry-cage-test-$$`,
		"the kernel":          `v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern`,
		"itself":              `echo 1 > /proc/self/oom_score_adj`,
		"a device":            `mkdir /dev/gantry-cage-test-$$`,
		"a terminal":          `python3 -c 'import os; os.openpty()'`,
		"a virtual machine":   `: <> /dev/fuse`,
		"a service's":         connect("SOCK_STREAM", "SERVICE"),
		"an abstract socket":  connect("SOCK_STREAM", "ABSTRACT"),
		"datagrams":           connect("SOCK_DGRAM", "DATAGRAM"),
		"to get rid of files": `rm $OUT/file`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			mine := filepath.Join(w.home, "data", "mine")
			if err := os.MkdirAll(filepath.Join(mine, "tmp"), 0o755); err != nil {
				t.Fatal(err)
			}
			cfg := pluginbox.Config{Home: w.home, UserHome: filepath.Join(filepath.Dir(w.ws), "userhome"), Own: []string{mine}, Tmp: filepath.Join(mine, "tmp"), Confined: true}
			if got := w.caged(cfg, false, "{ "+do+"\n} && echo worked"); strings.Contains(got, "worked") || !strings.Contains(got, "ermi") {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("what it needs", func(t *testing.T) {
		t.Parallel()
		w := prepared(t)
		mine := filepath.Join(w.home, "data", "mine")
		if err := os.MkdirAll(mine, 0o755); err != nil {
			t.Fatal(err)
		}
		got := w.caged(pluginbox.Config{Home: w.home, Own: []string{mine}, Confined: true}, false, `echo x > /dev/null && head -c 1 /dev/urandom > x && cat $OUT/file && echo worked`)
		if !strings.Contains(got, "as it was") || !strings.Contains(got, "worked") {
			t.Errorf("%q", got)
		}
	})
}

// With a network a plugin reaches other machines by sockets that it has created. Sockets of this machine stay out of reach.
func TestPluginSandboxWithNetwork(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	for name, tc := range map[string]struct{ do, says string }{
		"waiting":                 {`import socket; s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); s.connect(("127.0.0.1", ` + port + `)); print("reached", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))`, "reached 1"},
		"not waiting":             {`import asyncio; asyncio.run(asyncio.open_connection("127.0.0.1", ` + port + `)); print("reached")`, "reached"},
		"datagrams":               {`import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", 9)); print("reached")`, "reached"},
		"refused":                 {`import socket; socket.create_connection(("127.0.0.1", 1))`, "Connection refused"},
		"a service":               {`import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ["SERVICE"])`, "Operation not permitted"},
		"an address that changes": {changing, "reached only what may be"},
		"routes":                  {`import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); print("routes")`, "routes"},
		"the audit":               {`import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)`, "Operation not permitted"},
	} {
		for _, namespaces := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := prepared(t)
				mine := filepath.Join(w.home, "data", "mine")
				if err := os.MkdirAll(mine, 0o755); err != nil {
					t.Fatal(err)
				}
				got := w.caged(pluginbox.Config{Home: w.home, Own: []string{mine}, Confined: true, Network: true}, namespaces, "python3 -c '"+tc.do+"'")
				if !strings.Contains(got, tc.says) || strings.Contains(got, "REACHED") {
					t.Errorf("namespaces %v: %q, want %q", namespaces, got, tc.says)
				}
			})
		}
	}
}

// changing is a program with one thread that writes a service's address over a machine's while others connect.
const changing = `
import ctypes, os, socket, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
path = os.environ["SERVICE"].encode()
local = struct.pack("H", socket.AF_UNIX) + path + b"\0" * (108 - len(path))
machine = struct.pack("=H", socket.AF_INET) + struct.pack(">H4s", 1, bytes([127, 0, 0, 1])) + b"\0" * 102
area = ctypes.create_string_buffer(machine, 110)
ended = False
def change():
    while not ended:
        ctypes.memmove(area, local, 110)
        ctypes.memmove(area, machine, 110)
t = threading.Thread(target=change)
t.start()
for i in range(300):
    s = socket.socket(socket.AF_UNIX)
    if libc.connect(s.fileno(), area, 110) == 0:
        print("REACHED the service")
    s.close()
ended = True
t.join()
print("reached only what may be")`
