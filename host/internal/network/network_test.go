package network_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/network"
)

func pattern(t testing.TB, text string) network.Pattern {
	t.Helper()
	p, err := hosts.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func patterns(t testing.TB, texts ...string) (out []network.Pattern) {
	for _, text := range texts {
		out = append(out, pattern(t, text))
	}
	return out
}

// names is a resolver.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range n[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		return nil, errors.New("no such host")
	}
	return out, nil
}

// failing is a resolver that returns an error.
type failing struct{ error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, f.error
}

// A name that does not exist here is left to the proxy of the environment. After another error it may have a local address: then only a
// name is left to the proxy that the user has allowed literally.
func TestUnresolvedThroughAProxy(t *testing.T) {
	t.Parallel()
	via := &url.URL{Scheme: "http", Host: "proxy.test:3128"}
	rules := network.Rules{Allow: patterns(t, "*.open.test", "named.test"), Public: patterns(t, "public.test"), Upstream: func(network.Request) (*url.URL, error) { return via, nil }}
	q := network.Request{Protocol: network.HTTPS, Host: "a.open.test", Port: 443}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no such host": {&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		"no addresses": {nil, true},
		"timeout":      {&net.DNSError{Err: "i/o timeout", IsTimeout: true}, false},
		"SERVFAIL":     {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		"cancelled":    {context.Canceled, false},
		"another one":  {errors.New("broken"), false},
	} {
		for how, d := range map[string]network.Decision{"decided": rules.Decide(t.Context(), q, failing{tc.err}), "approved": rules.Approve(t.Context(), q, failing{tc.err})} {
			if d.Allow != tc.want || (d.Via != nil) != tc.want || (d.Unresolved == nil) != tc.want {
				t.Errorf("%s, %s: %+v, want allowed %v", name, how, d, tc.want)
			}
			if text := d.Message(q); !tc.want && !strings.Contains(text, "is not left to your network's proxy") {
				t.Errorf("%s, %s: %s", name, how, text)
			}
		}
		if d := rules.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: "public.test", Port: 443}, failing{tc.err}); d.Allow != tc.want {
			t.Errorf("%s, a host that a server has named: %+v, want allowed %v", name, d, tc.want)
		}
		_, lookup := errors.AsType[*net.DNSError](tc.err)
		literally := network.Request{Protocol: network.HTTPS, Host: "named.test", Port: 443}
		if d := rules.Decide(t.Context(), literally, failing{tc.err}); d.Allow != (tc.want || lookup) {
			t.Errorf("%s, literally: %+v", name, d)
		}
		direct := network.Rules{Allow: rules.Allow}
		if d := direct.Decide(t.Context(), literally, failing{tc.err}); d.Allow {
			t.Errorf("%s, without a proxy: %+v", name, d)
		}
	}
	if d := rules.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: "named.test", Port: 443}, names{"named.test": {"10.0.0.1"}}); d.Allow {
		t.Errorf("a local address: %+v", d)
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"8.8.8.8": true, "::ffff:8.8.8.8": true, "2606:4700::1111": true, "64:ff9b::808:808": true, "2002:808:808::1": true,
		"127.0.0.1": false, "10.0.0.1": false, "192.168.0.1": false, "100.64.0.1": false, "192.0.0.1": false, "192.0.2.1": false,
		"198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "240.0.0.1": false, "0.1.2.3": false, "::1": false,
		"fe80::1": false, "fc00::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "169.254.169.254": false,
		"172.16.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "::": false, "ff02::1": false, "fec0::1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false, // translated to IPv4
		"2002:7f00:1::1": false, "2002:a00:1::1": false, // carried in IPv4
		"2001:0:1:2:3:4:5:6": false, "2001:db8::1": false, "::127.0.0.1": false, "::ffff:0:7f00:1": false, "100::1": false,
		"fe80::1%eth0": false, "192.88.99.1": false,
	} {
		if got := network.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: public %v", text, got)
		}
	}
	if network.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	resolver := names{
		"a.open.test": {"93.184.216.34", "2606:4700::1111"}, "rebound.open.test": {"127.0.0.9"}, "mixed.open.test": {"93.184.216.34", "10.0.0.1"},
		"mapped.open.test": {"::ffff:127.0.0.9"}, "nat64.open.test": {"64:ff9b::7f00:1"}, "localhost": {"::1", "127.0.0.1"}, "exact.test": {"127.0.0.9"},
		"intranet.test": {"10.1.2.3"}, "asked.test": {"93.184.216.34"}, "evil.localhost": {"93.184.216.34"},
	}
	base := network.Rules{
		Allow: patterns(t, "127.0.0.1", "localhost", "*.allowed.test", "*.open.test", "exact.test", "intranet.test", "10.1.2.3", "port.test:443"),
		Deny:  patterns(t, "bad.allowed.test", "*.denied.test"),
	}
	local, limited := base, base
	local.Local, limited.Limited = true, true
	all := network.Rules{Allow: patterns(t, "*"), Deny: base.Deny}
	public := network.Rules{Allow: patterns(t, "127.0.0.1:80"), Public: patterns(t, "127.0.0.2", "localhost", "exact.test", "a.open.test", "bad.allowed.test"), Deny: base.Deny}
	for _, tc := range []struct {
		name  string
		rules network.Rules
		host  string
		want  string
	}{
		{"public", public, "a.open.test", network.Allowed},
		{"public, and denied", public, "bad.allowed.test", network.Denied},
		{"a local address that is to be public", public, "127.0.0.2", network.NotAllowedLocal},
		{"this machine, which is to be public", public, "localhost", network.NotAllowedLocal},
		{"a name of this machine that is to be public", public, "exact.test", network.NotAllowedLocal},
		{"public beside local", public, "127.0.0.1", network.Allowed},
		{"neither public nor local", public, "asked.test", network.NotAllowed},
		{"a literal address", base, "127.0.0.1", network.Allowed},
		{"a literal name of this machine", base, "localhost", network.Allowed},
		{"what nobody allows", base, "nope.test", network.NotAllowed},
		{"denied beats allowed", base, "bad.allowed.test", network.Denied},
		{"denied", base, "x.denied.test", network.Denied},
		{"a name without addresses", base, "a.allowed.test", network.NotAllowedLocal},
		{"not the apex", base, "allowed.test", network.NotAllowed},
		{"metadata", base, "169.254.169.254", network.NotAllowedLocal},
		{"mapped loopback", base, "::ffff:127.0.0.1", network.NotAllowedLocal},
		{"another loopback", base, "127.0.0.2", network.NotAllowedLocal},
		{"this machine by another name", base, "evil.localhost", network.NotAllowedLocal},
		{"loopback of IPv6", base, "::1", network.NotAllowedLocal},
		{"translated loopback", base, "64:ff9b::7f00:1", network.NotAllowedLocal},
		{"carried loopback", base, "2002:7f00:1::", network.NotAllowedLocal},
		{"a number", base, "2130706433", network.NotAllowedLocal},
		{"a hexadecimal number", base, "0x7f.0x1", network.NotAllowedLocal},
		{"octal", base, "0177.0.0.1", network.NotAllowedLocal},
		{"a public address", base, "93.184.216.34", network.NotAllowed},
		{"allowed", base, "a.open.test", network.Allowed},
		{"a name that turns out to be this machine", base, "rebound.open.test", network.NotAllowedLocal},
		{"an exact name that does", base, "exact.test", network.NotAllowedLocal},
		{"one of several addresses", base, "mixed.open.test", network.NotAllowedLocal},
		{"a mapped one", base, "mapped.open.test", network.NotAllowedLocal},
		{"a translated one", base, "nat64.open.test", network.NotAllowedLocal},
		{"a private one that is allowed itself", base, "intranet.test", network.Allowed},
		{"another port", base, "port.test", network.NotAllowed},
		{"no host", base, "", network.Invalid},
		{"no host", base, "a b", network.Invalid},
		{"no host", base, "a/b", network.Invalid},
		{"no host", base, "ex\x00ample.test", network.Invalid},
		{"local is allowed", local, "rebound.open.test", network.Allowed},
		{"local but nobody allows it", local, "127.0.0.2", network.NotAllowed},
		{"everything", all, "a.open.test", network.Allowed},
		{"everything but this machine", all, "localhost", network.NotAllowedLocal},
		{"everything but denied", all, "x.denied.test", network.Denied},
		{"everything but metadata", all, "169.254.169.254", network.NotAllowedLocal},
		{"no rules", network.Rules{}, "a.open.test", network.NotAllowed},
	} {
		d := tc.rules.Decide(t.Context(), network.Request{Protocol: network.HTTP, Host: tc.host, Port: 80, Method: "GET"}, resolver)
		if d.Reason != tc.want || d.Allow != (tc.want == network.Allowed) || d.Allow != (len(d.Addresses) > 0) {
			t.Errorf("%s: %q: %+v, want %s", tc.name, tc.host, d, tc.want)
		}
	}
	for method, want := range map[string]string{
		"GET": network.Allowed, "HEAD": network.Allowed, "OPTIONS": network.Allowed, "POST": network.MethodNotAllowed, "CONNECT": network.MethodNotAllowed,
		"PUT": network.MethodNotAllowed, "": network.MethodNotAllowed, "get": network.MethodNotAllowed,
	} {
		if d := limited.Decide(t.Context(), network.Request{Protocol: network.HTTP, Host: "a.open.test", Port: 80, Method: method}, resolver); d.Reason != want {
			t.Errorf("limited, %s: %+v", method, d)
		}
	}
	for _, protocol := range []string{network.HTTPS, network.SOCKS5} {
		if d := limited.Decide(t.Context(), network.Request{Protocol: protocol, Host: "a.open.test", Port: 443}, resolver); d.Reason != network.MITMRequired || d.Source != network.ModeGuard {
			t.Errorf("limited, %s: %+v", protocol, d)
		}
	}
	// What somebody allows is still not this machine.
	if d := base.Approve(t.Context(), network.Request{Host: "asked.test", Port: 443}, resolver); !d.Allow || d.Source != network.Decider || d.Addresses[0].String() != "93.184.216.34:443" {
		t.Errorf("approved: %+v", d)
	}
	if d := base.Approve(t.Context(), network.Request{Host: "rebound.open.test", Port: 443}, resolver); d.Allow {
		t.Errorf("approved: %+v", d)
	}
}

// Rules for single hosts, beside the patterns: the strictest counts; what allows does so for its protocol alone.
func TestHostRules(t *testing.T) {
	t.Parallel()
	resolver := names{"a.test": {"93.184.216.34"}, "b.test": {"93.184.216.35"}, "inner.test": {"127.0.0.1"}, "localhost": {"127.0.0.1"}}
	rule := func(host, protocol string, v network.Verdict, where string) network.HostRule {
		return network.HostRule{Host: host, Protocol: protocol, Verdict: v, Where: where}
	}
	rules := network.Rules{
		Allow: patterns(t, "b.test", "127.0.0.9"), Deny: patterns(t, "never.test"),
		Hosts: []network.HostRule{
			rule("a.test", network.HTTPS, network.Allow, "r:1"), rule("b.test", network.HTTP, network.Deny, "r:2"), rule("both.test", network.HTTPS, network.Allow, "r:3"),
			rule("both.test", network.HTTPS, network.Ask, "r:4"), rule("never.test", network.HTTPS, network.Allow, "r:5"), rule("127.0.0.1", network.HTTPS, network.Allow, "r:6"),
			rule("inner.test", network.HTTPS, network.Allow, "r:7"), rule("localhost", network.HTTPS, network.Allow, "r:8"), rule("127.0.0.9", "", network.Deny, "r:9"),
			rule("2001:4860::1", network.HTTPS, network.Deny, "r:10"),
		},
	}
	unsure := rules
	unsure.Incomplete = true
	for _, tc := range []struct {
		name           string
		rules          network.Rules
		protocol, host string
		reason, where  string
	}{
		{"allowed", rules, network.HTTPS, "a.test", network.Allowed, "r:1"},
		{"by another way", rules, network.HTTP, "a.test", network.NotAllowed, ""},
		{"by another way", rules, network.SOCKS5, "a.test", network.NotAllowed, ""},
		{"denied by every way, also what a pattern allows", rules, network.HTTPS, "b.test", network.Denied, "r:2"},
		{"asked about beats allowed", rules, network.HTTPS, "both.test", network.NotAllowed, "r:4"},
		{"a pattern denies", rules, network.HTTPS, "never.test", network.Denied, ""},
		{"this machine, by its address", rules, network.HTTPS, "127.0.0.1", network.Allowed, "r:6"},
		{"this machine, by its name", rules, network.HTTPS, "localhost", network.Allowed, "r:8"},
		{"this machine, by another way", rules, network.HTTP, "127.0.0.1", network.NotAllowedLocal, ""},
		{"another name of an allowed address", rules, network.HTTPS, "inner.test", network.Allowed, "r:7"},
		{"a rule without a way of the proxy's", rules, network.HTTP, "127.0.0.9", network.Denied, "r:9"},
		{"what nobody names", rules, network.HTTPS, "c.test", network.NotAllowed, ""},
		{"nothing is sure", unsure, network.HTTPS, "a.test", network.NotAllowed, "r:1"},
		{"nothing is sure, but this", unsure, network.HTTPS, "b.test", network.Denied, "r:2"},
	} {
		d := tc.rules.Decide(t.Context(), network.Request{Protocol: tc.protocol, Host: tc.host, Port: 443, Method: "GET"}, resolver)
		if d.Reason != tc.reason || d.Rule != tc.where || d.Allow != (tc.reason == network.Allowed) {
			t.Errorf("%s: %s %s: %+v, want %s by %q", tc.name, tc.protocol, tc.host, d, tc.reason, tc.where)
		}
	}
	// An address is one host, however it is spelled.
	if d := rules.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: hosts.Normalize("[2001:4860:0:0::0:1]"), Port: 443}, resolver); d.Reason != network.Denied {
		t.Errorf("%+v", d)
	}
}

// A name that is not allowed is not even asked for: the question would carry its name out.
func TestOnlyAllowedNamesAreResolved(t *testing.T) {
	t.Parallel()
	d := network.Rules{Allow: patterns(t, "a.test")}.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: "secret.evil.test", Port: 443}, panics{})
	if d.Reason != network.NotAllowed {
		t.Errorf("%+v", d)
	}
}

type panics struct{}

func (panics) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { panic("resolved") }

func TestVariables(t *testing.T) {
	t.Parallel()
	vars := strings.Join(network.Variables("127.0.0.1:3128"), "\n")
	for _, want := range []string{"HTTPS_PROXY=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128", "ALL_PROXY=socks5h://127.0.0.1:3128", "NO_PROXY=", "NODE_USE_ENV_PROXY=1"} {
		if !strings.Contains("\n"+vars+"\n", "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if got := network.WithoutProxy([]string{"A=1", "HTTP_PROXY=x", "No_Proxy=y", "http_proxy=z", "PROXY=1"}); strings.Join(got, " ") != "A=1 PROXY=1" {
		t.Errorf("%q", got)
	}
}

// Whatever a pattern says, it is read and compared without a crash, and what it matches is a host.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*.example.com", "**.a:443", "[::1]:80", "fe80::1%lo0", "a*b?c.d", "*"} {
		f.Add(s, "api.example.com")
	}
	f.Fuzz(func(t *testing.T, text, host string) {
		p, err := hosts.ParsePattern(text)
		if err != nil {
			return
		}
		host = hosts.Normalize(host)
		if p.Match(host, 443) && host == "" {
			t.Errorf("%q matches nothing", text)
		}
		if again := hosts.Normalize(host); !strings.ContainsAny(host, "[]%: \t\n\v\f\r\u0085\u00a0") && again != host {
			t.Errorf("%q becomes %q", host, again)
		}
		d := network.Rules{Allow: []network.Pattern{p}}.Decide(t.Context(), network.Request{Protocol: network.HTTP, Host: host, Port: 443, Method: "GET"}, names{})
		if a, err := netip.ParseAddr(host); d.Allow && (err != nil || !network.Public(a) && host != hosts.Normalize(strings.TrimSuffix(strings.TrimSpace(text), ":443"))) {
			t.Errorf("%q allows %q", text, host)
		}
	})
}

// A process with hosts of its own reaches these alone, and none that the rules deny.
func TestOnly(t *testing.T) {
	t.Parallel()
	resolver := names{"own.test": {"93.184.216.34"}, "bad.test": {"93.184.216.34"}, "open.test": {"93.184.216.34"}, "ruled.test": {"93.184.216.34"}, "forbidden.test": {"93.184.216.34"}}
	all := network.Rules{
		Allow: patterns(t, "open.test"), Deny: patterns(t, "bad.test"),
		Hosts: []network.HostRule{{Host: "ruled.test", Protocol: network.HTTPS, Verdict: network.Allow}, {Host: "forbidden.test", Protocol: network.HTTPS, Verdict: network.Deny}},
	}
	only := all.Only(patterns(t, "own.test", "bad.test", "forbidden.test", "127.0.0.1"))
	for host, want := range map[string]string{
		"own.test": network.Allowed, "127.0.0.1": network.Allowed, "127.0.0.2": network.NotAllowedLocal, "bad.test": network.Denied, "forbidden.test": network.Denied,
		"open.test": network.NotAllowed, "ruled.test": network.NotAllowed,
	} {
		if d := only.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: host, Port: 443}, resolver); d.Reason != want {
			t.Errorf("%s: %s, want %s", host, d.Reason, want)
		}
	}
	if d := all.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: "ruled.test", Port: 443}, resolver); !d.Allow {
		t.Errorf("the rules themselves have changed: %+v", d)
	}
}

// Where nobody is asked about hosts that no rule names, they are denied, but for those about which a rule asks.
func TestClosedRules(t *testing.T) {
	t.Parallel()
	r := network.Rules{
		Allow: patterns(t, "*.named.test"), Closed: true,
		Hosts: []network.HostRule{{Host: "ruled.test", Protocol: network.HTTPS, Verdict: network.Allow}, {Host: "asked.test", Verdict: network.Ask, Where: "r:1"}},
	}
	decide := func(host string) string {
		return r.Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: host, Port: 443}, names{"a.named.test": {"93.184.216.34"}, "ruled.test": {"93.184.216.34"}}).Reason
	}
	for host, want := range map[string]string{
		"a.named.test": network.Allowed, "ruled.test": network.Allowed, "asked.test": network.NotAllowed, "other.test": network.Denied, "8.8.8.8": network.Denied,
	} {
		if got := decide(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	r.Incomplete = true
	if got := decide("a.named.test"); got != network.Denied {
		t.Errorf("with rules that can't be read: %s", got)
	}
	if got := r.AndPublic(patterns(t, "*")).Only(patterns(t, "own.test")).Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: "other.test", Port: 443}, nil).Allow; got {
		t.Error("a process with hosts of its own reaches others")
	}
}
