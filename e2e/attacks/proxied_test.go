package attacks_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// proxied are the rows about what is said in a tunnel, and to a proxy that lets some methods pass.
var proxied = []row{
	{id: "N20", attempt: "in a tunnel, a TLS alert, and then a ClientHello for another host: some servers skip the alert", required: "cut", codex: "", ours: "cut: a tunnel begins with a ClientHello or with no TLS record",
		flow: cut("\x15\x03\x01\x00\x02\x01\x5a"), tests: []string{"host/internal/network TestNamesInTunnels"}},
	{id: "N21", attempt: "the same with other records before the ClientHello: a change of the cipher, data, a heartbeat", required: "cut", codex: "", ours: "cut",
		flow: cut("\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x01\x01", "\x18\x03\x03\x00\x01\x01"), tests: []string{"host/internal/network TestNamesInTunnels"}},
	{id: "N22", attempt: "HTTP without TLS in a tunnel, with another Host", required: "400", codex: "", ours: "400; each request in a tunnel has to be for the tunnel's host",
		flow: inside("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "GET http://evil.test/ HTTP/1.1\r\n\r\n", "BREW / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), tests: []string{"host/internal/network TestHTTPInTunnels"}},
	{id: "N23", attempt: "the same in the second request of a tunnel", required: "400", codex: "", ours: "400",
		flow: inside("POST /first HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), tests: []string{"host/internal/network TestHTTPInTunnels"}},
	{id: "N24", attempt: "HTTP/2 without TLS in a tunnel, whose frames name another host", required: "400", codex: "", ours: "400",
		flow: inside("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), tests: []string{"host/internal/network TestHTTPInTunnels"}},
	{id: "N25", attempt: "a request line in a form that only some servers take: after empty lines or blanks, in small letters, of HTTP/0.9", required: "400, or cut", codex: "", ours: "cut before the line is complete",
		flow: late("\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", " GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "get / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "\nGET http://evil.test/\r\n\r\n"), tests: []string{"host/internal/network TestHTTPInTunnels"}},
	{id: "N26", attempt: "change to HTTP/2 or TLS by `Upgrade`, in a tunnel or without one, and name another host then", required: "refused", codex: "", ours: "such an `Upgrade` is not passed on", flow: upgraded,
		tests: []string{"host/internal/network TestHTTPInTunnels", "host/internal/network TestLimitedMethods"}},
	{id: "N27", attempt: "with `limited`: GET with `Upgrade: websocket`, and a POST to another host behind it", required: "refused", codex: "", ours: "403, `upgrade_not_allowed`",
		flow: limited("upgrade_not_allowed", "GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nPOST / HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 1\r\n\r\nx"), tests: []string{"host/internal/network TestLimitedMethods"}},
	{id: "N28", attempt: "with `limited`: GET, HEAD or OPTIONS with a body, whole or in chunks", required: "refused", codex: "", ours: "403, `body_not_allowed`",
		flow: limited("body_not_allowed", "GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nContent-Length: 6\r\n\r\nSECRET", "OPTIONS http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nSECRET\r\n0\r\n\r\n"), tests: []string{"host/internal/network TestLimitedMethods"}},
	{id: "N29", attempt: "with the whole network: the other forty families of sockets that the kernel has", required: "denied", codex: "", tries: []try{
		{call: "other families", says: notPermitted, box: "network"}, {call: "other families", says: notPermitted}, {call: "other families", says: notPermitted, box: "proxy"},
		{call: "UDP", works: true, box: "network", outside: untried}, {call: "TCP", works: true, box: "network", outside: untried},
	}},
	{id: "N30", attempt: "with the whole network: netlink to the firewall, to audit, to devices", required: "denied; routes and interfaces may be read", codex: "", tries: []try{
		{call: "other netlinks", says: notPermitted, box: "network"}, {call: "other netlinks", says: notPermitted}, {call: "other netlinks", says: notPermitted, box: "proxy"},
		{call: "routes", works: true, box: "network", outside: untried},
	}},
}

// origin is a server that says for which host it was asked. It changes the protocol when that is asked for.
func origin(t *testing.T) (addr string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprintf(rw, "REACHED %s %s", r.Method, r.Host)
			return
		}
		conn, buf, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		line, _ := buf.ReadString('\n')
		fmt.Fprintf(conn, "REACHED %s", line)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// says sends bytes to the proxy of a box, through a tunnel or without one, and returns what comes back.
func (w *world) says(t *testing.T, tunnel, say string, settings ...string) string {
	t.Helper()
	const script = `
import os, socket, urllib.parse
p = urllib.parse.urlparse(os.environ["http_proxy"])
s = socket.create_connection((p.hostname, p.port), timeout=60)
to = os.environ["TUNNEL"]
if to:
    s.sendall(("CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n\r\n").encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1)
    assert b" 200 " in head, head
try:
    s.sendall(bytes.fromhex(os.environ["SAY"]))
    s.shutdown(socket.SHUT_WR)
except OSError:
    pass
got = b""
try:
    while True:
        b = s.recv(4096)
        if not b: break
        got += b
except OSError as e:
    got += str(e).encode()
print("ANSWER", got.hex())`
	args := append([]string{"sandbox", "-C", w.ws, "-c", "sandbox.mode=workspace-write", "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1"]`}, settings...)
	r := w.gantry(t, []string{"TUNNEL=" + tunnel, "SAY=" + hex.EncodeToString([]byte(say))}, append(args, "--", "python3", "-c", script)...)
	_, text, ok := strings.Cut(r.output, "ANSWER ")
	text, _, _ = strings.Cut(text, "\n")
	got, err := hex.DecodeString(text)
	if !ok || err != nil {
		t.Fatalf("status %d, %q", r.status, r.output)
	}
	return string(got)
}

// control makes sure that the way is open for what is meant to pass.
func reaches(t *testing.T, w *world, to string) {
	t.Helper()
	if got := w.says(t, to, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "REACHED GET 127.0.0.1") {
		t.Errorf("the tunnel's own host is not reached: %q", got)
	}
}

// cut says in a tunnel what ends it with an alert.
func cut(say ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		to := origin(t)
		reaches(t, w, to)
		for _, s := range say {
			if got := w.says(t, to, s+"\x16\x03\x01\x00\x04abcd"); got != "\x15\x03\x03\x00\x02\x02\x70" {
				t.Errorf("%q: %q", s, got)
			}
		}
	}
}

// inside says in a tunnel what is refused as a request.
func inside(say ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		to := origin(t)
		reaches(t, w, to)
		for _, s := range say {
			if got := w.says(t, to, s); !strings.Contains(got, "400 Bad Request") || !strings.Contains(got, "gantry's network proxy") || strings.Contains(got, "evil.test") {
				t.Errorf("%q: %q", s, got)
			}
		}
	}
}

// late says in a tunnel what is cut without a word.
func late(say ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		to := origin(t)
		for _, s := range say {
			if got := w.says(t, to, s); strings.Contains(got, "REACHED") || strings.Contains(got, "HTTP/1.1") {
				t.Errorf("%q: %q", s, got)
			}
		}
	}
}

func upgraded(t *testing.T, w *world) {
	to := origin(t)
	for _, protocol := range []string{"h2c", "TLS/1.2, HTTP/1.1", "h2"} {
		ask := "GET %s HTTP/1.1\r\nHost: " + to + "\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\nevil.test\n"
		if got := w.says(t, "", fmt.Sprintf(ask, "http://"+to+"/")); strings.Contains(got, "101 ") || strings.Contains(got, "evil.test") {
			t.Errorf("%s: %q", protocol, got)
		}
		if got := w.says(t, to, fmt.Sprintf(ask, "/")); strings.Contains(got, "101 ") || strings.Contains(got, "evil.test") {
			t.Errorf("%s in a tunnel: %q", protocol, got)
		}
	}
	if got := w.says(t, to, "GET / HTTP/1.1\r\nHost: "+to+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello\n"); !strings.Contains(got, "REACHED hello") {
		t.Errorf("a WebSocket does not work: %q", got)
	}
}

// limited asks a proxy that lets GET, HEAD and OPTIONS pass.
func limited(reason string, say ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		to := origin(t)
		if _, _, err := net.SplitHostPort(to); err != nil {
			t.Fatal(err)
		}
		if got := w.says(t, "", fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n", to), "-c", "network.methods=limited"); !strings.Contains(got, "REACHED GET") {
			t.Errorf("GET does not work: %q", got)
		}
		for _, s := range say {
			if got := w.says(t, "", fmt.Sprintf(s, to), "-c", "network.methods=limited"); strings.Contains(got, "REACHED") || !strings.Contains(got, reason) {
				t.Errorf("%q: %q", s, got)
			}
		}
	}
}
