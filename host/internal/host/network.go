package host

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// hostProtocols are the proxy's protocols, by the names that rules files have for them. There is no UDP.
var hostProtocols = map[string]string{"http": network.HTTP, "https": network.HTTPS, "socks5_tcp": network.SOCKS5}

// NetworkRules are what may be reached through the proxy under a configuration, and by the rules files as they are now.
func NetworkRules(c *config.Config, book *Rulebook) network.Rules {
	n := c.Network
	r := network.Rules{Allow: n.Allow, Deny: n.Deny, Local: n.Local, Limited: n.Limited}
	set, err := book.Current()
	r.Unsure = err != nil
	verdicts := map[rules.Decision]network.Verdict{rules.Allow: network.Allow, rules.Prompt: network.Ask, rules.Forbidden: network.Deny}
	for _, rule := range set.Network() {
		r.Hosts = append(r.Hosts, network.HostRule{
			Host: rule.Host, Protocol: hostProtocols[rule.Protocol], Verdict: verdicts[rule.Decision], Where: rule.Where(),
		})
	}
	return r
}

// Proxy is the way out of processes that nobody can be asked about. told hears what was refused.
func Proxy(c *config.Config, book *Rulebook, told func(network.Request, network.Decision)) func(context.Context, *launch.Process, net.Listener) {
	return func(ctx context.Context, _ *launch.Process, ln net.Listener) {
		network.New(network.Config{Rules: func() network.Rules { return NetworkRules(c, book) }, Audit: told}).Serve(ctx, ln)
	}
}

// refusedBound is how long it may take to end a process whose way out was denied.
const refusedBound = 10 * time.Second

// serveProxy is the way out of a tool's process.
func (h *Host) serveProxy(ctx context.Context, p *launch.Process, ln net.Listener) {
	owner := p.Owner()
	cfg := network.Config{Rules: func() network.Rules { return NetworkRules(h.opts.Config, h.rules) }, Audit: func(q network.Request, d network.Decision) { h.reached(owner, q, d) }}
	// The call is looked for now, while it runs; the process may outlive it.
	if live, ok := h.tokens.OfCall(event.ThreadID(owner.Thread), event.CallID(owner.Call)); ok {
		cfg.Ask = func(ctx context.Context, q network.Request, rule string) bool {
			a := h.asks.Do(ctx, owner.Thread+" "+q.URL(), func(ctx context.Context) network.Answer {
				allowed, asked := live.Connect(ctx, q.Protocol, q.Host, q.Port, rule)
				return network.Answer{Allow: allowed, Denied: asked && !allowed}
			})
			if a.Denied { // the command was not to do this
				h.refused(ctx, p, q)
			}
			return a.Allow
		}
	}
	network.New(cfg).Serve(ctx, ln)
}

// refused ends a process whose way to a host somebody has denied, and tells the model why it ended.
func (h *Host) refused(ctx context.Context, p *launch.Process, q network.Request) {
	if r, err := h.running(event.ThreadID(p.Owner().Thread)); err == nil {
		r.plugs.context("network", contract.ContextText{Key: "denied", Text: fmt.Sprintf(
			"Network access to %s was denied, and the command that wanted it was ended. Do not try to reach it in another way.", q.Target())})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedBound)
	defer cancel()
	if err := p.KillTree(ctx); err != nil {
		h.log.Warn("a command whose network access was denied was not ended", "call", p.Owner().Call, "err", err)
	}
}

// reached tells a thread of a decision.
func (h *Host) reached(owner launch.Owner, q network.Request, d network.Decision) {
	if !d.Allow {
		h.log.Info("network access refused", "thread", owner.Thread, "call", owner.Call, "target", q.URL(), "method", q.Method, "reason", d.Reason, "source", d.Source)
	}
	r, err := h.running(event.ThreadID(owner.Thread))
	if err != nil {
		return
	}
	said := event.NetworkDecision{
		Call: event.CallID(owner.Call), Plugin: owner.Plugin, Protocol: q.Protocol, Host: q.Host, Port: int(q.Port), Method: q.Method,
		Allowed: d.Allow, Reason: d.Reason, Source: d.Source, Rule: d.Rule, Named: d.Named,
	}
	if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", said); err != nil {
		h.log.Warn("network decision not published", "err", err)
	}
}

// networkText tells a model what its commands reach; empty: what it is told anyway is all.
func networkText(c *config.Config, book *Rulebook, mode string) string {
	if !grants.Proxied(c, mode) {
		return ""
	}
	n := NetworkRules(c, book)
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
	var b strings.Builder
	b.WriteString("Commands reach the network only through a proxy that HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name; there is no DNS, and no other way out. ")
	if hosts := list(n.Allow, network.Allow); hosts != "" {
		fmt.Fprintf(&b, "It lets them reach %s. ", hosts)
	}
	if hosts := list(n.Deny, network.Deny); hosts != "" {
		fmt.Fprintf(&b, "It never lets them reach %s. ", hosts)
	}
	if n.Limited {
		b.WriteString("Only GET, HEAD and OPTIONS of plain HTTP work. ")
	}
	b.WriteString("Other hosts are refused with status 403, unless the user is asked and agrees.")
	return b.String()
}
