// Package egress is the way of plugins' own processes to the network: a proxy for each of them, which reaches only what the plugin may.
//
// It owns: what plugins may reach beyond their blocks for the time of a call or a command, and the message about a refused connection.
// It must not know: how the hosts of a block are determined, who is asked about others, and the sockets between the host and plugins.
//
// Start with [Proxies.Serve].
package egress

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Config configures proxies.
type Config struct {
	// Rules returns what a plugin may currently reach according to its block and to the rules of the user.
	Rules func(label string) network.Rules
	// Where returns the position of a plugin's block, for messages.
	Where func(label string) string
	// Granted returns an error if the plugin's process may not use the network at all.
	Granted func(plugin.Identity) error
	// Audit is called with each decision, but only once with equal ones of a process.
	Audit func(id plugin.Identity, q network.Request, d network.Decision)
	// Upstream returns the proxy of the user's network for a host; nil: none.
	Upstream func(network.Request) (*url.URL, error)
	// Resolver resolves names; nil: that of the machine.
	Resolver network.Resolver
}

// Proxies are the proxies of plugins' processes. Methods may be called concurrently.
type Proxies struct {
	cfg Config

	mu        sync.Mutex
	permitted map[string][]*permit // by plugin
}

// permit is permission to reach hosts.
type permit struct{ hosts []hosts.Pattern }

// New returns proxies that permit nothing beyond the plugins' blocks.
func New(cfg Config) *Proxies { return &Proxies{cfg: cfg, permitted: map[string][]*permit{}} }

// Serve serves the proxy of a plugin's process until the listener is closed or ctx ends.
func (p *Proxies) Serve(ctx context.Context, id plugin.Identity, ln net.Listener) {
	network.New(network.Config{
		Rules: func() network.Rules { return p.rules(id) }, Resolver: p.cfg.Resolver,
		Audit:   func(q network.Request, d network.Decision) { p.cfg.Audit(id, q, d) },
		Message: func(q network.Request, d network.Decision) string { return p.message(id, q, d) },
	}).Serve(ctx, ln)
}

// rules returns what a process may reach now.
func (p *Proxies) rules(id plugin.Identity) network.Rules {
	if p.cfg.Granted(id) != nil {
		return network.Rules{}
	}
	r := p.cfg.Rules(id.Label)
	r.Upstream = p.cfg.Upstream
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, permit := range p.permitted[id.Label] {
		r.Public = append(slices.Clip(r.Public), permit.hosts...)
	}
	return r
}

// message explains to a plugin why it does not reach a host.
func (p *Proxies) message(id plugin.Identity, q network.Request, d network.Decision) string {
	if err := p.cfg.Granted(id); err != nil {
		return err.Error()
	}
	switch {
	case d.Reason == network.NotAllowed && d.Rule == "":
		return fmt.Sprintf("plugin %q may not reach %s: it is neither the host of a URL in its block, %s, nor in permissions { network } there", id.Label, q.Target(), p.cfg.Where(id.Label))
	case d.Reason == network.NotAllowed:
		return fmt.Sprintf("plugin %q may not reach %s without a question, which is not asked about a plugin's own connections: %s", id.Label, q.Target(), d.Rule)
	case d.Unresolved != nil:
		return d.Message(q)
	case d.Reason == network.NotAllowedLocal:
		return fmt.Sprintf("plugin %q may not reach %s: %s; your own configuration, unlike a project's or an answer of a server, can open such an address if it names it literally, with its port", id.Label, q.Target(), d.Message(q))
	}
	return fmt.Sprintf("plugin %q may not reach %s: %s", id.Label, q.Target(), d.Message(q))
}

// Permit lets a plugin reach the hosts of effects, at public addresses only, until revoke is called. Effects without a valid host permit
// nothing.
func (p *Proxies) Permit(label string, effects []contract.NetworkEffect) (revoke func()) {
	one := &permit{}
	for _, e := range effects {
		if pattern, ok := patternOf(e); ok {
			one.hosts = append(one.hosts, pattern)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.permitted[label] = append(p.permitted[label], one)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.permitted[label] = slices.DeleteFunc(p.permitted[label], func(o *permit) bool { return o == one })
	}
}

// patternOf returns the pattern for a single host, with its port if that is known.
func patternOf(e contract.NetworkEffect) (hosts.Pattern, bool) {
	host := hosts.Normalize(e.Host)
	if !hosts.Valid(host) {
		return hosts.Pattern{}, false
	}
	text := host
	if e.Port != 0 {
		text = net.JoinHostPort(host, fmt.Sprint(e.Port))
	}
	pattern, err := hosts.ParsePattern(text)
	return pattern, err == nil
}
