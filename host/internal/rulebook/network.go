package rulebook

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
)

// hostProtocols maps the names of protocols in rules files to those of the proxy, which has no UDP.
var hostProtocols = map[string]string{"http": network.HTTP, "https": network.HTTPS, "socks5_tcp": network.SOCKS5}

// Network returns which hosts commands may reach through the proxy, from the configuration and the current rules files.
func (b *Book) Network() network.Rules {
	n := b.config.Network
	r := network.Rules{Allow: n.Allow, Deny: n.Deny, Local: n.Local, Limited: n.Limited}
	set, err := b.Current()
	r.Incomplete = err != nil
	verdicts := map[rules.Decision]network.Verdict{rules.Allow: network.Allow, rules.Prompt: network.Ask, rules.Forbidden: network.Deny}
	for _, rule := range set.Network() {
		r.Hosts = append(r.Hosts, network.HostRule{
			Host: rule.Host, Protocol: hostProtocols[rule.Protocol], Verdict: verdicts[rule.Decision], Where: rule.Where(),
		})
	}
	return r
}

// Egress returns what the process of a plugin may reach: the hosts of reach, unless the configuration or a rule denies them. A rule that
// asks denies as well, because there is nobody to ask outside of a call. Hosts that only commands may reach are not among them.
func (b *Book) Egress(reach config.Reach) network.Rules {
	r := b.Network()
	return network.Rules{
		Allow: reach.Local, Public: reach.Public, Deny: r.Deny, Incomplete: r.Incomplete,
		Hosts: slices.DeleteFunc(r.Hosts, func(h network.HostRule) bool { return h.Verdict == network.Allow }),
	}
}

// Proxy returns a function that serves the network proxy of a process without asking a person. audit is called with each decision.
func (b *Book) Proxy(audit func(network.Request, network.Decision)) func(context.Context, *launch.Process, net.Listener) {
	return func(ctx context.Context, _ *launch.Process, ln net.Listener) {
		network.New(network.Config{Rules: b.Network, Audit: audit}).Serve(ctx, ln)
	}
}

// DescribeNetwork tells the model which hosts commands can reach in a sandbox mode. It is empty if there is no proxy.
func (b *Book) DescribeNetwork(mode string) string {
	if !grants.Proxied(b.config, mode) {
		return ""
	}
	n := b.Network()
	list := func(patterns []network.Pattern, verdict network.Verdict) string {
		var out []string
		for _, p := range patterns {
			out = append(out, p.String())
		}
		for _, h := range n.Hosts {
			if h.Verdict == verdict && !slices.Contains(out, h.Host) {
				out = append(out, h.Host)
			}
		}
		return strings.Join(out, ", ")
	}
	var text strings.Builder
	text.WriteString("Commands reach the network only through a proxy that HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name; there is no DNS, and no other way out. ")
	if hosts := list(n.Allow, network.Allow); hosts != "" {
		fmt.Fprintf(&text, "It lets them reach %s. ", hosts)
	}
	if hosts := list(n.Deny, network.Deny); hosts != "" {
		fmt.Fprintf(&text, "It never lets them reach %s. ", hosts)
	}
	if n.Limited {
		text.WriteString("Only GET, HEAD and OPTIONS of plain HTTP work. ")
	}
	text.WriteString("Other hosts are refused with status 403, unless the user is asked and agrees.")
	return text.String()
}
