package host

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/egress"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// refusedBound is the time that ending a process may take whose network access was denied.
const refusedBound = 10 * time.Second

// networkProxy serves the network proxies of commands.
type networkProxy struct {
	host *Host
	asks network.Questions // questions about hosts, shared by the processes of a thread

	mu     sync.Mutex
	opened map[launch.Owner]*openHosts // by plugin and thread
	denied map[launch.Owner][]string   // to the last declared process of an owner
}

// openHosts are the hosts that a plugin was authorized to reach in a thread. Its quiet processes there may connect to them.
type openHosts struct {
	trees int // that run
	rules func() network.Rules
	hosts map[network.Request]bool // without method and protocol; port 0: any
}

// rulesOf returns the current rules for what is started for a plugin.
func (n *networkProxy) rulesOf(plugin string) func() network.Rules {
	return func() network.Rules { return n.host.rules.NetworkOf(plugin) }
}

// at returns the hosts of a plugin in a thread. The caller holds mu.
func (n *networkProxy) at(owner launch.Owner) *openHosts {
	key := launch.Owner{Plugin: owner.Plugin, Thread: owner.Thread}
	if n.opened[key] == nil {
		if n.opened == nil {
			n.opened = map[launch.Owner]*openHosts{}
		}
		n.opened[key] = &openHosts{rules: n.rulesOf(owner.Plugin), hosts: map[network.Request]bool{}}
	}
	return n.opened[key]
}

// enter begins a quiet process tree under rules. leave ends it.
func (n *networkProxy) enter(owner launch.Owner, rules func() network.Rules) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.at(owner)
	o.trees++
	o.rules = rules
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if key := (launch.Owner{Plugin: owner.Plugin, Thread: owner.Thread}); n.opened[key] == o {
			if o.trees--; o.trees == 0 {
				delete(n.opened, key)
			}
		}
	}
}

// open lets the quiet processes of a plugin in a thread connect to a host.
func (n *networkProxy) open(owner launch.Owner, q network.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	hosts := n.at(owner).hosts
	for q := range hosts { // any: the plugin can have it authorized again
		if len(hosts) < maxOpened {
			break
		}
		delete(hosts, q)
	}
	hosts[network.Request{Host: q.Host, Port: q.Port}] = true
}

// maxOpened limits the hosts that are open for a plugin in a thread.
const maxOpened = 4096

// forget closes all hosts that were opened in a thread, which has ended.
func (n *networkProxy) forget(thread event.ThreadID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.opened, func(owner launch.Owner, _ *openHosts) bool { return owner.Thread == string(thread) })
}

// isOpen reports whether they can.
func (n *networkProxy) isOpen(owner launch.Owner, q network.Request) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	o := n.opened[launch.Owner{Plugin: owner.Plugin, Thread: owner.Thread}]
	return o != nil && (o.hosts[network.Request{Host: q.Host, Port: q.Port}] || o.hosts[network.Request{Host: q.Host}])
}

// judge decides about a connection of the processes of a plugin in a thread, as their proxy does.
func (n *networkProxy) judge(ctx context.Context, owner launch.Owner, q network.Request) network.Decision {
	rules := n.rulesOf(owner.Plugin)
	n.mu.Lock()
	if o := n.opened[launch.Owner{Plugin: owner.Plugin, Thread: owner.Thread}]; o != nil {
		rules = o.rules
	}
	n.mu.Unlock()
	d := rules().Decide(ctx, q, net.DefaultResolver)
	if d.Reason == network.NotAllowed && n.isOpen(owner, q) {
		d = rules().Approve(ctx, q, net.DefaultResolver)
	}
	return d
}

// maxDenied bounds how many hosts are remembered that a process was denied.
const maxDenied = 32

// deniedTo returns the hosts, with their ports, that the last declared process of an owner was denied.
func (n *networkProxy) deniedTo(owner launch.Owner) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.denied[owner])
}

// deny notes that a process of an owner was denied a host; "": a process begins.
func (n *networkProxy) deny(owner launch.Owner, target string) {
	if owner.Thread != "" { // calls are told at once
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.denied[owner]
	switch {
	case target == "":
		delete(n.denied, owner)
	case len(list) < maxDenied && !slices.Contains(list, target):
		if n.denied == nil {
			n.denied = map[launch.Owner][]string{}
		}
		n.denied[owner] = append(list, target)
	}
}

// serve serves the proxy of a process until ctx ends.
func (n *networkProxy) serve(ctx context.Context, p *launch.Process, ln net.Listener) {
	owner := p.Owner()
	n.deny(owner, "")
	rules := n.rulesOf(owner.Plugin)
	if only := launch.Hosts(p); len(only) > 0 {
		all := rules
		rules = func() network.Rules { return all().Only(patterns(only)) }
		if launch.WholeNetwork(p) {
			rules = func() network.Rules { return all().AndPublic(patterns(only)) }
		}
	}
	cfg := network.Config{Rules: rules, Audit: func(q network.Request, d network.Decision) { n.publish(owner, q, d) }}
	if launch.Quiet(p) {
		defer n.enter(owner, rules)()
		cfg.Ask = func(_ context.Context, q network.Request, _ string) bool { return n.isOpen(owner, q) }
	} else if live, ok := n.host.tokens.OfCall(event.ThreadID(owner.Thread), event.CallID(owner.Call)); ok { // looked up now: the process may outlive it
		cfg.Ask = func(ctx context.Context, q network.Request, rule string) bool {
			a := n.asks.Do(ctx, owner.Thread+" "+q.URL(), func(ctx context.Context) network.Answer {
				allowed, asked := live.Connect(ctx, q.Protocol, q.Host, q.Port, rule)
				return network.Answer{Allow: allowed, Denied: asked && !allowed}
			})
			if a.Denied { // the user does not want the command to do this
				n.end(ctx, p, q)
			}
			return a.Allow
		}
	}
	network.New(cfg).Serve(ctx, ln)
}

// patterns parses host patterns, which the configuration has checked.
func patterns(texts []string) (out []network.Pattern) {
	for _, text := range texts {
		if p, err := hosts.ParsePattern(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// end ends a process whose access to a host the user denied, and tells the model why.
func (n *networkProxy) end(ctx context.Context, p *launch.Process, q network.Request) {
	if r, err := n.host.running(event.ThreadID(p.Owner().Thread)); err == nil {
		r.plugins.SetContext("network", contract.ContextText{Key: "denied", Text: fmt.Sprintf(
			"Network access to %s was denied, and the command that wanted it was ended. Do not try to reach it in another way.", q.Target())})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedBound)
	defer cancel()
	if err := p.KillTree(ctx); err != nil {
		n.host.log.Warn("a command whose network access was denied was not ended", "call", p.Owner().Call, "err", err)
	}
}

// publish publishes a decision of the proxy in the thread.
func (n *networkProxy) publish(owner launch.Owner, q network.Request, d network.Decision) {
	if !d.Allow {
		n.deny(owner, q.Target())
		n.host.log.Info("network access refused", "thread", owner.Thread, "call", owner.Call, "target", q.URL(), "method", q.Method, "reason", d.Reason, "source", d.Source)
	}
	r, err := n.host.running(event.ThreadID(owner.Thread))
	if err != nil {
		return
	}
	r.publish(decisionEvent(owner, q, d))
}

// publishEgress publishes a decision about a connection of a plugin's own process, in all threads: a plugin works for all of them, and
// its connections belong to no call.
func (n *networkProxy) publishEgress(id plugin.Identity, q network.Request, d network.Decision) {
	if !d.Allow {
		n.host.log.Info("network access refused", "plugin", id.Label, "target", q.URL(), "reason", d.Reason, "source", d.Source)
	}
	for _, r := range n.host.all() {
		r.publish(decisionEvent(launch.Owner{Plugin: id.Label}, q, d))
	}
}

func decisionEvent(owner launch.Owner, q network.Request, d network.Decision) event.NetworkDecision {
	return event.NetworkDecision{
		Call: event.CallID(owner.Call), Plugin: owner.Plugin, Protocol: q.Protocol, Host: q.Host, Port: int(q.Port), Method: q.Method,
		Allowed: d.Allow, Reason: d.Reason, Source: d.Source, Rule: d.Rule, Named: d.NamedHost,
	}
}

// egress returns the proxies of plugins' own processes.
func (n *networkProxy) egress() *egress.Proxies {
	set := n.host.plugins
	return egress.New(egress.Config{
		Rules:   func(label string) network.Rules { return n.host.rules.Egress(set.Reach(label)) },
		Where:   func(label string) string { return set.Block(label).Where() },
		Granted: func(id plugin.Identity) error { return set.Granted(id, "network") },
		Audit:   n.publishEgress, Upstream: network.FromEnvironment,
	})
}
