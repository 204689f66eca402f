package box_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	rules "github.com/gantry-agent/gantry/host/internal/network"
)

// With the proxy as its network a sandbox reaches what the rules allow, and nothing by another way.
func TestProxiedNetwork(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here", program)
		}
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.Method) }))
	defer origin.Close()
	allowed, err := hosts.ParsePattern("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.proxied = true
	w.launcher, err = launch.New(launch.Config{
		LauncherPath: launcherPath, Confiners: []launch.Confiner{box.New(box.Config{Home: w.home, UserHome: filepath.Join(w.home, "user")})},
		Proxy: func(ctx context.Context, p *launch.Process, ln net.Listener) {
			if p.Owner().Call != "call" {
				t.Errorf("the owner is %+v", p.Owner())
			}
			rules.New(rules.Config{Rules: func() rules.Rules { return rules.Rules{Allow: []rules.Pattern{allowed}} }}).Serve(ctx, ln)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.launcher.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const socket = `python3 -c '
import errno, socket, sys
try:
  %s
  print("reached")
except OSError as e:
  print(errno.errorcode[e.errno])'`
	for _, tc := range []struct{ name, script, want string }{
		{"what is allowed", "curl -sS " + origin.URL, "hello GET"},
		{"by SOCKS", "curl -sS --noproxy '' -x $ALL_PROXY " + origin.URL, "hello GET"},
		{"with CONNECT", "curl -sS -p -X PUT " + origin.URL, "hello PUT"},
		{"a host that is not allowed", "curl -s -o /dev/null -w '%{http_code}' http://nope.test/", "403"},
		{"metadata", "curl -s -o /dev/null -w '%{http_code}' http://169.254.169.254/", "403"},
		{"past the proxy", "curl -sS --noproxy '*' " + origin.URL + " 2>&1", "onnect"},
		{"without its variables", "env -u HTTP_PROXY -u http_proxy -u ALL_PROXY -u all_proxy curl -sS " + origin.URL + " 2>&1", "onnect"},
		{"another network", fmt.Sprintf(socket, `socket.create_connection(("10.0.0.1", 80), 5)`), "ENETUNREACH"},
		{"a packet", fmt.Sprintf(socket, `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53))`), "ENETUNREACH"},
		{"sockets with a path", fmt.Sprintf(socket, `socket.socket(socket.AF_UNIX)`), "EPERM"},
		{"routes", fmt.Sprintf(socket, `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)`), "EPERM"},
		{"the hypervisor", fmt.Sprintf(socket, `socket.socket(40, socket.SOCK_STREAM)`), "EPERM"},
		{"a pair of sockets", fmt.Sprintf(socket, `a, b = socket.socketpair(); a.sendall(b"x"); b.recv(1)`), "reached"},
		{"a server of its own", fmt.Sprintf(socket, `s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())`), "reached"},
		{"another's place", fmt.Sprintf(socket, `socket.create_server(("127.0.0.1", 3128))`), "EADDRINUSE"},
		{"a name", fmt.Sprintf(socket, `socket.getaddrinfo("example.com", 80)`) + " 2>&1 | tail -1", "KeyError"},
		{"the variables", "echo $https_proxy $NO_PROXY $ALL_PROXY", "http://127.0.0.1:3128 socks5h://127.0.0.1:3128"},
	} {
		if out, _ := w.sh(tc.script); !strings.Contains(out, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, out, tc.want)
		}
	}
	// A descriptor of what listens is not left in the box.
	if out, _ := w.sh("ls /proc/self/fd | wc -l"); out != "4" { // three, and the folder itself
		t.Errorf("a process has %s descriptors", out)
	}
}

// Without a proxy there is no way out, so no process starts.
func TestProxiedWithoutAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proxied = true
	if _, err := w.spawn("true"); err == nil || !strings.Contains(err.Error(), "only through a proxy, and there is none") {
		t.Errorf("%v", err)
	}
	w.network = true
	if _, err := w.spawn("true"); err == nil {
		t.Error("all of the network and the proxy's")
	}
}
