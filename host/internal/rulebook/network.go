package rulebook

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
)

// hostProtocols maps the names of protocols in rules files to those of the proxy, which has no UDP.
var hostProtocols = map[string]string{"http": network.HTTP, "https": network.HTTPS, "socks5_tcp": network.SOCKS5}

// Network returns which hosts commands may reach through the proxy, from the configuration and the current rules files.
func (b *Book) Network() network.Rules { return b.rules(b.config.Network) }

// NetworkOf is like Network for the processes that are started for a plugin, which may have settings of its own.
func (b *Book) NetworkOf(plugin string) network.Rules {
	p, ok := b.config.Plugin(plugin)
	if !ok || p.Spawns.Network == nil {
		return b.Network()
	}
	n := *p.Spawns.Network
	r := b.rules(n)
	switch n.Unknown {
	case schema.UnknownPublic:
		r = r.AndPublic(everyHost)
	case schema.UnknownDeny:
		r.Closed = true
	}
	return r
}

// rules combines settings with the rules files.
func (b *Book) rules(n config.Network) network.Rules {
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

// everyHost matches every host.
var everyHost = []network.Pattern{mustParse(launch.AnyHost)}

func mustParse(text string) network.Pattern {
	p, err := hosts.ParsePattern(text)
	if err != nil {
		panic(err) // a constant
	}
	return p
}

// DescribeNetwork tells the model which hosts commands can reach in a sandbox mode, and the processes of plugins with settings of their own.
// It is empty if there is no proxy and there are no such plugins.
func (b *Book) DescribeNetwork(mode string) string {
	var parts []string
	if grants.Proxied(b.config, mode) {
		parts = append(parts, "Commands reach the network only through a proxy that HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name; there is no DNS, and no other way out. "+
			describe(b.Network(), ""))
	}
	for _, p := range b.config.Plugins {
		n := p.Spawns.Network
		if !p.Enabled || n == nil {
			continue
		}
		text := map[string]string{
			schema.NetworkNone: "no network.", schema.NetworkFull: "the whole network.", schema.NetworkProxy: "only a proxy. " + describe(b.NetworkOf(p.Label), n.Unknown),
		}[n.Mode]
		parts = append(parts, fmt.Sprintf("What the tools of plugin %q start has a network of its own: %s", p.Label, text))
	}
	return strings.Join(parts, "\n")
}

// describe says which hosts a proxy with these rules lets processes reach.
func describe(n network.Rules, unknown string) string {
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
	if hosts := list(n.Allow, network.Allow); hosts != "" {
		fmt.Fprintf(&text, "It lets them reach %s. ", hosts)
	}
	if hosts := list(n.Deny, network.Deny); hosts != "" {
		fmt.Fprintf(&text, "It never lets them reach %s. ", hosts)
	}
	if n.Limited {
		text.WriteString("Only GET, HEAD and OPTIONS of plain HTTP work. ")
	}
	switch unknown {
	case schema.UnknownPublic:
		text.WriteString("Other hosts can be reached at addresses of the internet.")
	case schema.UnknownDeny:
		text.WriteString("Other hosts are refused with status 403.")
	default:
		text.WriteString("Other hosts are refused with status 403, unless the user is asked and agrees.")
	}
	return text.String()
}
