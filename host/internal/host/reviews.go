package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/usershell"
)

// role is what makes a thread differ from one that works for its user.
type role struct {
	// asksNobody: what the policy would ask about is refused.
	asksNobody bool
	approval   string // the policy; empty: the configuration's
	sandbox    string // the mode; empty: the thread's
	noHosted   bool   // its model gets no tools of its vendor
	looks      bool   // what does more than look is refused
	noTools    bool   // its model has no tools at all
	cacheKey   string // by which vendors remember beginnings of its requests; empty: its own
}

// openFeatures makes what stands on threads.
func (h *Host) openFeatures() (err error) {
	h.shell, err = usershell.New(usershell.Config{
		Spawn:     func(ctx context.Context, s launch.Spec) (usershell.Process, error) { return h.launcher.Spawn(ctx, s) },
		Processes: h.launcher, Tokens: h.tokens, Environ: h.userEnvironment, Output: h.outputOf,
		Redact: h.redactor(), Logger: h.log.Named("command"),
	})
	h.reviewer = review.New(review.Config{
		Open: h.openReviewer, Close: h.closeThread, Run: h.look, Logger: h.log.Named("review"),
	})
	return err
}

// Shell runs commands of the user.
func (h *Host) Shell() *usershell.Shell { return h.shell }

// Reviewer reviews changes.
func (h *Host) Reviewer() *review.Reviewer { return h.reviewer }

// outputOf is how much of an output the model reads that a thread asked last.
func (h *Host) outputOf(id event.ThreadID) history.Policy {
	h.mu.Lock()
	r := h.mu.threads[id]
	h.mu.Unlock()
	if r != nil {
		if s := r.sample.Load(); s != nil {
			return history.PolicyOf(s.row)
		}
	}
	return history.Policy{Limit: callCaps.MaxModelTokens}
}

// openReviewer begins the thread of a reviewer who works for another.
func (h *Host) openReviewer(ctx context.Context, parent *thread.Thread) (*thread.Thread, error) {
	model, err := h.FindModel(cmp.Or(h.opts.Config.Review.Model, parent.Model().Model))
	if err != nil {
		return nil, err
	}
	set := parent.Settings()
	start := event.ThreadStarted{
		Cwd: set.Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version,
		Source: event.SourceReviewer, Parent: parent.ID(), Instructions: review.Rubric(),
	}
	as := role{asksNobody: true, approval: cmp.Or(set.Approval, h.opts.Config.Approval.Policy), noHosted: true}
	// Who wants to be asked before everything does not mean looks from inside a box that keeps everything as it is.
	if as.approval == string(policy.Untrusted) && h.launcher.Check(Grant(h.opts.Config, box.ReadOnly, set.Cwd, "")) == nil {
		as.approval, as.sandbox = string(policy.OnRequest), box.ReadOnly
	}
	return h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start, Meter: parent.Meter()}, as)
}

// closeThread ends one thread of this host and waits until nothing of it is left.
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

// look runs a program that only looks, for what it prints. A repository's language is not the user's.
func (h *Host) look(ctx context.Context, dir string, argv ...string) (review.Output, error) {
	env := append(h.userEnvironment(""), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	out, err := h.shell.Ask(ctx, dir, env, argv...)
	return review.Output(out), err
}

// decide is the policy of a thread in a role.
func (r role) decide(q policy.Request) policy.Decision {
	if !r.asksNobody {
		return policy.Decide(q)
	}
	if r.looks && !onlyLooks(q) {
		return policy.Decision{Verdict: policy.Forbid, Reason: "only looking is allowed here; go on without it, with what you were given"}
	}
	q.Approval = policy.Approval(r.approval)
	d := policy.Decide(q)
	if d.Verdict == policy.Ask {
		return policy.Decision{Verdict: policy.Forbid, Rules: d.Rules, Reason: fmt.Sprintf(
			"nobody can be asked here, and the approval policy is %s; go on without it, with what you were given", r.approval)}
	}
	return d
}
