package rulebook_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
)

// Rules files decide about hosts as they are at the moment, what an answer writes is one of them, and one that can't be read
// lets nothing through.
func TestRulesFilesAboutHosts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cfg, ds := config.Load(t.Context(), config.Options{Home: home, Dir: t.TempDir(), System: "-"})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	book := rulebook.New(cfg)
	if r := book.Network(); len(r.Hosts) != 0 || r.Incomplete {
		t.Errorf("without files: %+v", r)
	}
	offer := book.OfferHost(network.HTTPS, "a.test")
	if offer == nil || offer.Host != "a.test" || offer.Prefix != nil || !strings.Contains(offer.Deny, `decision="deny"`) ||
		offer.Line != `network_rule(host="a.test", protocol="https", decision="allow", justification="Allow https access to a.test")` {
		t.Fatalf("offered: %+v", offer)
	}
	for range 2 { // the same line is not written twice
		if err := book.Write(t.Context(), *offer); err != nil {
			t.Fatal(err)
		}
	}
	r := book.Network()
	want := network.HostRule{Host: "a.test", Protocol: network.HTTPS, Verdict: network.Allow, Where: filepath.Join(home, "rules", "default.rules") + ":1"}
	if len(r.Hosts) != 1 || r.Hosts[0] != want {
		t.Errorf("after the answer: %+v", r.Hosts)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, "rules", "mine.rules"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("network_rule(\"a.test\", \"socks5_tcp\", \"prompt\")\nnetwork_rule(\"b.test\", \"socks5_udp\", \"deny\")\n")
	if r = book.Network(); len(r.Hosts) != 3 || r.Hosts[1].Verdict != network.Ask || r.Hosts[1].Protocol != network.SOCKS5 || r.Hosts[2].Verdict != network.Deny {
		t.Errorf("after an edit: %+v", r.Hosts)
	}
	// A plugin's own process does not get what commands may reach, but is bound by what asks and denies.
	local, err := hosts.ParsePattern("127.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	e := book.Egress(config.Reach{Local: []hosts.Pattern{local}})
	if len(e.Hosts) != 2 || e.Hosts[0].Verdict != network.Ask || e.Hosts[1].Verdict != network.Deny || len(e.Allow) != 1 || e.Local || e.Limited {
		t.Errorf("for a plugin: %+v", e)
	}
	// Where another rule goes on asking, a rule that allows is no answer.
	if o := book.OfferHost(network.HTTPS, "a.test"); o != nil {
		t.Errorf("offered: %+v", o)
	}
	if o := book.OfferHost(network.SOCKS5, "c.test"); o == nil || !strings.Contains(o.Line, `protocol="socks5_tcp"`) {
		t.Errorf("offered: %+v", o)
	}
	write("network_rule(")
	if r = book.Network(); !r.Incomplete || len(r.Hosts) != 1 {
		t.Errorf("with a broken file: %+v", r)
	}
	if o := book.OfferHost(network.HTTPS, "c.test"); o != nil {
		t.Errorf("offered beside a broken file: %+v", o)
	}
}

// A plugin's own settings replace those of commands, and say what applies to other hosts. Rules files apply to all.
func TestNetworkOfAPlugin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	text := "network {\n  mode  = \"proxy\"\n  allow = [\"commands.test\"]\n}\n"
	for label, unknown := range map[string]string{"ask": "ask", "public": "public", "deny": "deny"} {
		text += "plugin \"" + label + "\" {\n  source = \"builtin/shell\"\n  processes {\n    network {\n      mode    = \"proxy\"\n      allow   = [\"own.test\"]\n      unknown = \"" + unknown + "\"\n    }\n  }\n}\n"
	}
	for name, content := range map[string]string{"gantry.hcl": text, "rules/x.rules": "network_rule(\"denied.test\", \"https\", \"deny\")\n"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, ds := config.Load(t.Context(), config.Options{Home: home, Dir: t.TempDir(), System: "-"})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	book := rulebook.New(cfg)
	for _, tc := range []struct{ plugin, commands, own, other, private, denied string }{
		{"another", network.Allowed, network.NotAllowed, network.NotAllowed, network.NotAllowedLocal, network.Denied},
		{"ask", network.NotAllowed, network.Allowed, network.NotAllowed, network.NotAllowedLocal, network.Denied},
		{"public", network.Allowed, network.Allowed, network.Allowed, network.NotAllowedLocal, network.Denied},
		{"deny", network.Denied, network.Allowed, network.Denied, network.NotAllowedLocal, network.Denied},
	} {
		for host, want := range map[string]string{"commands.test": tc.commands, "own.test": tc.own, "8.8.8.8": tc.other, "10.0.0.1": tc.private, "denied.test": tc.denied} {
			got := book.NetworkOf(tc.plugin).Decide(t.Context(), network.Request{Protocol: network.HTTPS, Host: host, Port: 443}, everywhere{}).Reason
			if got != want {
				t.Errorf("%s: %s: %s, want %s", tc.plugin, host, got, want)
			}
		}
	}
	told := book.DescribeNetwork("read-only")
	for _, want := range []string{
		"reach commands.test. It never lets them reach denied.test. Other hosts are refused with status 403, unless", `"public" start has a network of its own: only a proxy. It lets them reach own.test`, "Other hosts can be reached",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("the model is not told %q:\n%s", want, told)
		}
	}
}

// everywhere resolves every name to an address of the internet.
type everywhere struct{}

func (everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}
