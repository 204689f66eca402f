package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// openChild is the [child.Opener] of this host.
func (h *Host) openChild(ctx context.Context, parent *thread.Thread, s child.Spec) (*thread.Thread, func(), error) {
	start := event.ThreadStarted{
		Cwd: parent.Settings().Cwd, Model: s.Model.Model, Provider: s.Model.Provider, ModelName: s.Model.ModelName, HostVersion: h.opts.Version,
		Source: s.Source, Parent: parent.ID(), Instructions: s.Instructions,
	}
	t, err := h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start, Meter: parent.Meter()}, s.Role)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { h.closeThread(t) }, nil
}

// closeThread ends a thread of this host and returns when nothing of it is left.
func (h *Host) closeThread(t *thread.Thread) {
	h.mu.Lock()
	r := h.mu.threads[t.ID()]
	h.mu.Unlock()
	if r == nil {
		return
	}
	r.end(thread.ErrClosed)
	<-r.over
}

// openJudge starts a child that answers questions for a thread without acting: it reads files at most, in a read-only sandbox. label
// names its model; empty: the thread's. s gives its name and instructions. What it uses is published in the thread.
func (h *Host) openJudge(ctx context.Context, parent event.ThreadID, label string, s child.Spec) (*child.Child, error) {
	of, ok := h.Thread(parent)
	if !ok {
		return nil, thread.ErrClosed
	}
	model, err := h.models.Find(cmp.Or(label, of.Model().Model))
	if err == nil {
		err = model.Problems.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", child.ErrNoModel, err)
	}
	s.Source, s.Model = event.SourceReviewer, modelset.Selection(model)
	s.Role.Unattended, s.Role.ReadOnly, s.Role.NoHostedTools = true, true, true
	s.Role.Approval, s.Role.Sandbox = string(policy.Never), box.ReadOnly
	s.Follow = func(ctx context.Context, b event.Body) {
		if _, ok := b.(event.UsageReported); !ok {
			return
		}
		if _, err := of.Publish(ctx, "", b); err != nil {
			h.log.Debug("usage of a child thread not published", "thread", of.ID(), "err", err)
		}
	}
	return child.Open(ctx, h.openChild, of, s)
}

// decideAs is the policy of a thread in a role.
func decideAs(as child.Role, q policy.Request) policy.Decision {
	if !as.Unattended {
		return policy.Decide(q)
	}
	if as.ReadOnly && !readsOnly(q) {
		return policy.Decision{Verdict: policy.Forbid, Reason: "only looking is allowed here; go on without it, with what you were given"}
	}
	q.Approval = policy.Approval(as.Approval)
	d := policy.Decide(q)
	if d.Verdict == policy.Ask {
		return policy.Decision{Verdict: policy.Forbid, Rules: d.Rules, Reason: fmt.Sprintf(
			"nobody can be asked here, and the approval policy is %s; go on without it, with what you were given", as.Approval)}
	}
	return d
}

// readsOnly reports whether a call does nothing but read: it reads files, or runs commands in a read-only sandbox.
func readsOnly(q policy.Request) bool {
	if q.Escalation != nil || q.Sandbox != box.ReadOnly {
		return false
	}
	for _, e := range q.Effects {
		switch e.(type) {
		case contract.ExecEffect, contract.ReadEffect:
		default:
			return false
		}
	}
	return true
}
