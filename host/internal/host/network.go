package host

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// refusedBound is how long it may take to end a process whose way out was denied.
const refusedBound = 10 * time.Second

// serveProxy is the way out of a tool's process.
func (h *Host) serveProxy(ctx context.Context, p *launch.Process, ln net.Listener) {
	owner := p.Owner()
	cfg := network.Config{Rules: h.rules.Network, Audit: func(q network.Request, d network.Decision) { h.reached(owner, q, d) }}
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
		r.plugins.SetContext("network", contract.ContextText{Key: "denied", Text: fmt.Sprintf(
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
