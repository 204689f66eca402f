package network_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/network"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy before an internet of one server, which answers to every name.
type world struct {
	t      *testing.T
	addr   string
	origin *httptest.Server

	mu     sync.Mutex
	dialed []netip.AddrPort
	said   []string
	asked  []string
}

// begin serves a proxy. What has an address in 93.184.216.0/24 is the origin.
func begin(t *testing.T, rules network.Rules, ask func(network.Request) bool) *world {
	t.Helper()
	return beginAt(t, rules, ask, "")
}

// beginAt serves a proxy before another origin.
func beginAt(t *testing.T, rules network.Rules, ask func(network.Request) bool, origin string) *world {
	t.Helper()
	w := &world{t: t}
	w.origin = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			fmt.Fprint(rw, "first")
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/switch":
			conn, buf, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			line, _ := buf.ReadString('\n')
			fmt.Fprintf(conn, "echo %s", line)
		default:
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s host=%s body=%s auth=%s via=%s", r.Method, r.URL.Path, r.Host, b, r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Hop"))
		}
	}))
	t.Cleanup(w.origin.Close)
	cfg := network.Config{
		Rules:    func() network.Rules { return rules },
		Resolver: names{"open.test": {"93.184.216.34"}, "www.open.test": {"93.184.216.35"}, "asked.test": {"93.184.216.36"}, "inside.open.test": {"10.0.0.1"}, "down.open.test": {"93.184.215.1"}},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, to)
			w.mu.Unlock()
			if !strings.HasPrefix(to.String(), "93.184.216.") {
				return nil, fmt.Errorf("%v is down", to)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", cmp.Or(origin, w.origin.Listener.Addr().String()))
		},
		Audit: func(q network.Request, d network.Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.said = append(w.said, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %v %s", q.Protocol, q.Target(), q.Method, d.Reason, d.Allow, d.NamedHost)))
		},
	}
	if ask != nil {
		cfg.Ask = func(_ context.Context, q network.Request, _ string) bool {
			w.mu.Lock()
			w.asked = append(w.asked, q.URL())
			w.mu.Unlock()
			return ask(q)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		network.New(cfg).Serve(ctx, ln)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

func open(t testing.TB) network.Rules {
	return network.Rules{Allow: patterns(t, "**.open.test"), Deny: patterns(t, "bad.open.test")}
}

// raw sends bytes and returns what comes back until the proxy closes.
func (w *world) raw(request string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(conn)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	w := begin(t, open(t), nil)
	for _, tc := range []struct{ name, request, want string }{
		{"allowed", "GET http://open.test/x HTTP/1.1\r\nHost: open.test\r\n\r\n", "GET /x host=open.test body= auth= via="},
		{"with a port", "GET http://open.test:80/x HTTP/1.1\r\nHost: open.test\r\n\r\n", "GET /x host=open.test:80"},
		{"fields of the hop stay", "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\nProxy-Authorization: x\r\nConnection: X-Hop\r\nX-Hop: y\r\n\r\n", "auth= via=\x00"},
		{"a body", "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\n\r\nabc", "POST / host=open.test body=abc"},
		{"a body in chunks", "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "body=abc"},
		{"a body that waits", "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 100 Continue"},
		{"without a Host line", "GET http://open.test/x HTTP/1.0\r\n\r\n", "GET /x host=open.test"},
		{"not allowed", "GET http://nope.test/ HTTP/1.1\r\nHost: nope.test\r\n\r\n", "403 Forbidden\x00X-Proxy-Error: blocked-by-allowlist\x00\"reason\":\"not_allowed\""},
		{"denied", "GET http://bad.open.test/ HTTP/1.1\r\nHost: bad.open.test\r\n\r\n", "403 Forbidden\x00X-Proxy-Error: blocked-by-denylist\x00\"reason\":\"denied\""},
		{"private", "GET http://inside.open.test/ HTTP/1.1\r\nHost: inside.open.test\r\n\r\n", "blocked-by-allowlist\x00not_allowed_local"},
		{"metadata", "GET http://169.254.169.254/ HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "blocked-by-allowlist\x00not_allowed_local"},
		{"another Host", "GET http://open.test/ HTTP/1.1\r\nHost: nope.test\r\n\r\n", "400 Bad Request"},
		{"two Hosts", "GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\nHost: nope.test\r\n\r\n", "400 Bad Request"},
		{"another port in the Host line", "GET http://open.test/ HTTP/1.1\r\nHost: open.test:81\r\n\r\n", "400 Bad Request"},
		{"no proxy's request", "GET / HTTP/1.1\r\nHost: open.test\r\n\r\n", "400 Bad Request"},
		{"another scheme", "GET ftp://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", "400 Bad Request"},
		{"https without CONNECT", "GET https://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n", "400 Bad Request"},
		{"no HTTP", "hello\r\n\r\n", "400 Bad Request"},
		{"no port", "GET http://open.test:x/ HTTP/1.1\r\nHost: open.test\r\n\r\n", "400 Bad Request"},
		{"both lengths", "POST http://open.test/ HTTP/1.1\r\nHost: open.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400 Bad Request"},
		{"too long", "GET http://open.test/" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\nHost: open.test\r\n\r\n", "431 "},
		{"down", "GET http://down.open.test/ HTTP/1.1\r\nHost: down.open.test\r\n\r\n", "502 Bad Gateway"},
		{"a tunnel", "CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\nGET /in HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\n\r\n", "200 Connection established\r\n\r\nHTTP/1.1 200 OK\x00GET /in host=open.test"},
		{"a tunnel that is not allowed", "CONNECT nope.test:443 HTTP/1.1\r\nHost: nope.test:443\r\n\r\n", "403 Forbidden\x00\"protocol\":\"https\""},
		{"a tunnel with another Host", "CONNECT open.test:443 HTTP/1.1\r\nHost: nope.test:443\r\n\r\n", "400 Bad Request"},
		{"a tunnel to what is down", "CONNECT down.open.test:443 HTTP/1.1\r\nHost: down.open.test:443\r\n\r\n", "502 Bad Gateway"},
		{"another protocol behind", "GET http://open.test/switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n", "101 Switching Protocols\x00echo hello"},
		{"each request is judged", "GET http://open.test/1 HTTP/1.1\r\nHost: open.test\r\n\r\nGET http://www.open.test/2 HTTP/1.1\r\nHost: www.open.test\r\n\r\nGET http://nope.test/ HTTP/1.1\r\nHost: nope.test\r\n\r\n",
			"GET /1\x00GET /2\x00403 Forbidden"},
		{"a body and another request", "POST http://open.test/1 HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\n\r\nabcGET http://open.test/2 HTTP/1.1\r\nHost: open.test\r\n\r\n", "POST /1\x00body=abc\x00GET /2"},
	} {
		got := w.raw(tc.request)
		rest := got
		for part := range strings.SplitSeq(tc.want, "\x00") {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s: %q lacks %q", tc.name, got, part)
			}
			rest = after
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.dialed {
		if !network.Public(a.Addr()) {
			t.Errorf("%v was dialled", a)
		}
	}
	var blocked struct{ Status, Host, Reason, Decision, Source, Protocol, Message string }
	_, body, _ := strings.Cut(w.raw("GET http://nope.test/ HTTP/1.1\r\nHost: nope.test\r\n\r\n"), "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &blocked); err != nil || blocked.Status != "blocked" || blocked.Host != "nope.test" || blocked.Decision != "deny" || blocked.Message == "" {
		t.Errorf("%q: %+v, %v", body, blocked, err)
	}
	count := map[string]int{}
	for _, s := range w.said {
		count[s]++
	}
	if count["http nope.test:80 GET not_allowed false"] != 1 || count["https open.test:443 CONNECT allowed true"] != 1 {
		t.Errorf("told: %q", w.said)
	}
}

func TestLimitedMethods(t *testing.T) {
	t.Parallel()
	rules := open(t)
	rules.Limited = true
	w := begin(t, rules, func(network.Request) bool { return true })
	got := w.raw("GET http://open.test/1 HTTP/1.1\r\nHost: open.test\r\n\r\nPOST http://open.test/2 HTTP/1.1\r\nHost: open.test\r\nContent-Length: 1\r\n\r\nx")
	if !strings.Contains(got, "GET /1") || !strings.Contains(got, "X-Proxy-Error: blocked-by-method-policy") || strings.Contains(got, "POST /2") {
		t.Errorf("%q", got)
	}
	if got := w.raw("CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n"); !strings.Contains(got, "X-Proxy-Error: blocked-by-mitm-required") {
		t.Errorf("%q", got)
	}
	if got := w.raw("\x05\x01\x00\x05\x01\x00\x03\x09open.test\x00\x50"); got != "\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%q", got)
	}
	for name, tc := range map[string]struct{ request, want string }{
		"a body":           {"GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\n\r\nabc", "body_not_allowed"},
		"a body in chunks": {"OPTIONS http://open.test/ HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "body_not_allowed"},
		"a WebSocket":      {"GET http://open.test/switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nPOST / HTTP/1.1\r\nHost: bad.test\r\n\r\n", "upgrade_not_allowed"},
		"in a list":        {"GET http://open.test/switch HTTP/1.1\r\nHost: open.test\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\nUpgrade: x\r\n\r\n", "upgrade_not_allowed"},
	} {
		if got := w.raw(tc.request); !strings.Contains(got, "X-Proxy-Error: blocked-by-method-policy") || !strings.Contains(got, tc.want) || strings.Contains(got, "101 ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	// HTTP/2 is not asked for; whether the server changes the protocol all the same makes no difference.
	if got := w.raw("GET http://open.test/switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\nhello\n"); !strings.Contains(got, "502 Bad Gateway") || strings.Contains(got, "echo") {
		t.Errorf("%q", got)
	}
	if got := w.raw("GET http://open.test/3 HTTP/1.1\r\nHost: open.test\r\nContent-Length: 0\r\n\r\n"); !strings.Contains(got, "GET /3") {
		t.Errorf("%q", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) > 0 {
		t.Errorf("asked about %q", w.asked)
	}
}

func TestSOCKS(t *testing.T) {
	t.Parallel()
	w := begin(t, open(t), nil)
	const greet, fine, ok = "\x05\x01\x00", "\x05\x00", "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	refused := func(code string) string { return fine + "\x05" + code + "\x00\x01\x00\x00\x00\x00\x00\x00" }
	name := func(cmd, host string) string {
		return greet + "\x05" + cmd + "\x00\x03" + string(rune(len(host))) + host + "\x00\x50"
	}
	for _, tc := range []struct{ name, request, want string }{
		{"allowed", name("\x01", "open.test") + "GET /s HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\n\r\n", fine + ok + "HTTP/1.1 200 OK"},
		{"not allowed", name("\x01", "nope.test"), refused("\x02")},
		{"denied", name("\x01", "bad.open.test"), refused("\x02")},
		{"an address", greet + "\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50", refused("\x02")},
		{"an address of IPv6", greet + "\x05\x01\x00\x04" + strings.Repeat("\x00", 15) + "\x01\x00\x50", refused("\x02")},
		{"mapped", greet + "\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01\x00\x50", refused("\x02")},
		{"down", name("\x01", "down.open.test"), refused("\x04")},
		{"bind", name("\x02", "open.test"), refused("\x07")},
		{"UDP", name("\x03", "open.test"), refused("\x07")},
		{"another kind of address", greet + "\x05\x01\x00\x09\x00\x00\x00\x50", refused("\x08")},
		{"only with a password", "\x05\x01\x02", "\x05\xff"},
		{"no methods", "\x05\x00", ""},
		{"cut off", "\x05\x01\x00\x05\x01\x00\x03\x20abc", fine},
		{"an empty name", greet + "\x05\x01\x00\x03\x00\x00\x50", refused("\x02")},
	} {
		if got := w.raw(tc.request); !strings.HasPrefix(got, tc.want) || len(tc.want) < 20 && got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What is neither allowed nor denied is asked about once for a connection's host, and only that.
func TestAsking(t *testing.T) {
	t.Parallel()
	yes := begin(t, open(t), func(q network.Request) bool { return q.Host == "asked.test" || q.Host == "unresolved.test" })
	get := "GET http://asked.test/x HTTP/1.1\r\nHost: asked.test\r\n\r\n"
	if got := yes.raw(get); !strings.Contains(got, "GET /x host=asked.test") {
		t.Errorf("%q", got)
	}
	yes.raw(strings.Replace(get, "GET", "POST", 1))
	yes.raw("CONNECT asked.test:443 HTTP/1.1\r\nHost: asked.test:443\r\n\r\n")
	for _, host := range []string{"no.test", "unresolved.test", "bad.open.test", "127.0.0.1", "inside.open.test"} {
		if got := yes.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); !strings.Contains(got, "403 Forbidden") {
			t.Errorf("%s: %q", host, got)
		}
	}
	yes.mu.Lock()
	defer yes.mu.Unlock()
	if got := strings.Join(yes.asked, " "); got != "http://asked.test:80 https://asked.test:443 http://no.test:80 http://unresolved.test:80" {
		t.Errorf("asked: %q", got)
	}
}

// A client of Go's own uses it, also with answers that come bit by bit.
func TestClient(t *testing.T) {
	t.Parallel()
	w := begin(t, open(t), nil)
	proxy, err := url.Parse("http://" + w.addr)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for i := range 3 {
		resp, err := client.Post("http://open.test/p", "text/plain", bytes.NewReader(bytes.Repeat([]byte("x"), 100<<10)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Contains(b, bytes.Repeat([]byte("x"), 100<<10)) {
			t.Fatalf("%d: %d bytes, %v", i, len(b), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://open.test/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(bufio.NewReader(resp.Body), first); err != nil || string(first) != "first" {
		t.Errorf("%q, %v", first, err)
	}
}

// A connection to a server serves further requests that were judged with the same addresses, but only those that can be repeated.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	resolver := struct{ names }{names{"a.test": {"93.184.216.34"}, "b.test": {"93.184.216.34"}}}
	var mu sync.Mutex
	var dialed []string
	origin := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, r.Host) }))
	t.Cleanup(origin.Close)
	allowed := open(t)
	allowed.Allow = patterns(t, "*")
	p := network.New(network.Config{
		Rules: func() network.Rules {
			mu.Lock()
			defer mu.Unlock()
			return allowed
		}, Resolver: resolver,
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			mu.Lock()
			dialed = append(dialed, to.String())
			mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", origin.Listener.Addr().String())
		},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		p.Serve(ctx, ln)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	address, err := url.Parse("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address)}}
	t.Cleanup(client.CloseIdleConnections)
	for _, tc := range []struct {
		method, host string
		before       func()
		dials        int
	}{
		{"GET", "a.test", nil, 1}, {"GET", "a.test", nil, 0}, {"HEAD", "a.test", nil, 0},
		{"POST", "a.test", nil, 1}, {"GET", "a.test", nil, 0},
		{"GET", "b.test", nil, 1}, // another host at the same address
		{"GET", "a.test", func() { resolver.names["a.test"] = []string{"93.184.216.35"} }, 1},
		{"GET", "a.test", func() { allowed.Deny = patterns(t, "a.test") }, -1},
	} {
		mu.Lock()
		if tc.before != nil {
			tc.before()
		}
		dialed = nil
		mu.Unlock()
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+tc.host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		n := len(dialed)
		mu.Unlock()
		switch {
		case tc.dials < 0 && res.StatusCode != http.StatusForbidden:
			t.Errorf("%+v: %s although it is denied now", tc, res.Status)
		case tc.dials >= 0 && (n != tc.dials || tc.method != "HEAD" && string(body) != tc.host):
			t.Errorf("%s %s: %d connections, want %d; the server says %q", tc.method, tc.host, n, tc.dials, body)
		}
	}
}
