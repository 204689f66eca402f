package egress_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/egress"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a plugin's way out, and the names that it finds.
type world struct {
	t       *testing.T
	proxies *egress.Proxies
	socket  string

	mu      sync.Mutex
	rules   network.Rules
	names   map[string]string // addresses
	refused error
	audit   []string
	via     *url.URL
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	address, ok := w.names[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: host != "flaky.test"}
	}
	return []netip.Addr{netip.MustParseAddr(address)}, nil
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, names: map[string]string{}, socket: filepath.Join(t.TempDir(), "s")}
	w.proxies = egress.New(egress.Config{
		Rules: func(string) network.Rules {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.rules
		},
		Where: func(label string) string { return label + ".hcl:3" },
		Granted: func(plugin.Identity) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.refused
		},
		Audit: func(id plugin.Identity, q network.Request, d network.Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.audit = append(w.audit, fmt.Sprintf("%s %s %s", id, q.Target(), d.Reason))
		},
		Upstream: func(network.Request) (*url.URL, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.via, nil
		},
		Resolver: w,
	})
	ln, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // owned by the test: its cleanup waits
		defer close(served)
		w.proxies.Serve(t.Context(), plugin.Identity{Label: "p", Generation: 2}, ln)
	}()
	t.Cleanup(func() { ln.Close(); <-served })
	return w
}

func (w *world) set(local, public string) {
	w.t.Helper()
	parse := func(text string) (out []hosts.Pattern) {
		for f := range strings.FieldsSeq(text) {
			p, err := hosts.ParsePattern(f)
			if err != nil {
				w.t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = network.Rules{Allow: parse(local), Public: parse(public)}
}

// connect returns "" if the plugin reaches a target, and otherwise why not.
func (w *world) connect(target string) string {
	w.t.Helper()
	conn, err := net.Dial("unix", w.socket)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	var said struct{ Message string }
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return resp.Status
	}
	return said.Message
}

// With a proxy of the user's network, connections go through it, by name. What this machine knows of a name, and the rules, apply all the
// same.
func TestUpstream(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		user, password, _ := parseBasic(r.Header.Get("Proxy-Authorization"))
		asked = append(asked, r.Method+" "+r.Host+" "+user+" "+password)
		if password != "pw" {
			rw.WriteHeader(http.StatusProxyAuthRequired)
		}
	}))
	defer proxy.Close()
	w := begin(t)
	w.set("api.test inside.test flaky.test", "public.test")
	w.names = map[string]string{"inside.test": "10.0.0.1", "public.test": "8.8.8.8"}
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{"api.test:443": "there is no host api.test", "flaky.test:443": "the name flaky.test can't be resolved at the moment"} {
		if got := w.connect(target); got != want {
			t.Errorf("without a proxy: %q, want %q", got, want)
		}
	}
	via.User = url.UserPassword("me", "pw")
	w.mu.Lock()
	w.via = via
	w.mu.Unlock()
	for target, want := range map[string]string{
		"api.test:443": "", "public.test:8443": "", "inside.test:443": "private network", "stranger.test:443": "may not reach", "10.0.0.1:443": "private network",
	} {
		if got := w.connect(target); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	slices.Sort(asked)
	if got := strings.Join(asked, ", "); got != "CONNECT api.test:443 me pw, CONNECT public.test:8443 me pw" {
		t.Errorf("the proxy was asked for %s", got)
	}
	wrong := *via
	wrong.User = url.UserPassword("me", "secret-of-mine")
	w.mu.Lock()
	w.via = &wrong
	w.mu.Unlock()
	if got := w.connect("api.test:443"); !strings.HasPrefix(got, "502") {
		t.Errorf("%q", got)
	}
}

func parseBasic(header string) (user, password string, ok bool) {
	return (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth()
}

func TestAPluginReachesWhatItsBlockNames(t *testing.T) {
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	target := strings.TrimPrefix(origin.URL, "http://")
	w := begin(t)
	w.set(target, "127.0.0.1 api.test")
	w.names["api.test"], w.names["mine.test"] = "10.0.0.1", "127.0.0.1"
	const beyond, private = "neither the host of a URL in its block, p.hcl:3, nor in permissions { network } there", "on this machine or in a private network"
	for to, want := range map[string]string{
		target: "", "another" + strings.TrimPrefix(other.URL, "http://127.0.0.1"): beyond, strings.TrimPrefix(other.URL, "http://"): private,
		"evil.test:443": `plugin "p" may not reach evil.test:443: it is neither the host of a URL`, "169.254.169.254:80": private,
		"api.test:443": private, "mine.test:80": beyond, "localhost:80": private, "2130706433:80": private,
	} {
		if got := w.connect(to); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	w.mu.Lock()
	audit := strings.Join(w.audit, "\n")
	w.refused = errors.New("it is not granted the network")
	w.mu.Unlock()
	if !strings.Contains(audit, "p#2 "+target+" allowed") || !strings.Contains(audit, "p#2 evil.test:443 not_allowed") {
		t.Errorf("audited:\n%s", audit)
	}
	if got := w.connect(target); got != "it is not granted the network" {
		t.Errorf("without the capability: %q", got)
	}
}

// A name that the user has written may not lead to a private address, even if it was public before.
func TestRebinding(t *testing.T) {
	w := begin(t)
	w.set("rebound.test:80 10.0.0.1:80", "rebound.test")
	w.names["rebound.test"] = "127.0.0.1"
	if got := w.connect("rebound.test:80"); !strings.Contains(got, "in a private network") {
		t.Errorf("a name with a private address: %q", got)
	}
}

// Hosts that were authorized are reached at public addresses until that is revoked, and by no other plugin.
func TestPermit(t *testing.T) {
	w := begin(t)
	w.names["auth.test"], w.names["inner.test"] = "192.0.2.1", "127.0.0.1"
	refused := func(target, reason string) {
		t.Helper()
		if got := w.connect(target); !strings.Contains(got, reason) {
			t.Errorf("%s: %q, want %q", target, got, reason)
		}
	}
	const beyond, private = "neither the host of a URL", "in a private network"
	refused("auth.test:443", beyond)
	other := w.proxies.Permit("q", []contract.NetworkEffect{{Host: "auth.test"}})
	defer other()
	refused("auth.test:443", beyond)
	// 192.0.2.1 is for documentation and not public, so that nothing leaves the machine: that it is judged by its address shows that the
	// host is permitted.
	revoke := w.proxies.Permit("p", []contract.NetworkEffect{{Host: "Auth.test", Port: 443}, {Host: "inner.test"}, {Host: "127.0.0.1", Port: 80}, {Host: "*"}, {Host: "*.test"}})
	again := w.proxies.Permit("p", []contract.NetworkEffect{{Host: "auth.test", Port: 443}})
	refused("auth.test:443", private)
	refused("auth.test:80", beyond)
	refused("inner.test:443", private)
	refused("127.0.0.1:80", private)
	refused("else.test:443", beyond)
	revoke()
	refused("auth.test:443", private)
	refused("inner.test:443", beyond)
	again()
	refused("auth.test:443", beyond)
}

// A rule that asks about a host refuses it, and is named.
func TestARuleThatAsks(t *testing.T) {
	w := begin(t)
	w.set("", "asked.test")
	w.mu.Lock()
	w.rules.Hosts = []network.HostRule{{Host: "asked.test", Protocol: network.HTTPS, Verdict: network.Ask, Where: "mine.rules:3"}}
	w.mu.Unlock()
	if got := w.connect("asked.test:443"); !strings.Contains(got, "without a question") || !strings.Contains(got, "mine.rules:3") {
		t.Errorf("got %q", got)
	}
}
