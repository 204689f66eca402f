// Package judges opens the child threads that judge for a thread: reviewers of changes, the guardian that answers approvals, and the
// models that hooks ask.
//
// It owns: their models, roles and instructions, and the policy of their calls. It must not know: what they are asked, and how a child
// thread runs.
//
// Start with [Judges].
package judges

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/guardian"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/modelset"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/hashicorp/go-hclog"
)

// Judges opens child threads for the threads of a host.
type Judges struct {
	Config   *config.Config
	Models   *modelset.Set
	Launcher *launch.Launcher
	Open     child.Opener
	Thread   func(event.ThreadID) (*thread.Thread, bool)
	Logger   hclog.Logger
}

// Guardian returns the guardian that the configuration enables; nil: a person answers.
func (j *Judges) Guardian() *guardian.Guardian {
	c := j.Config.Guardian
	if !c.Enabled {
		return nil
	}
	return guardian.New(guardian.Config{Open: j.session, Key: j.key, Deadline: c.Timeout, Logger: j.Logger.Named("guardian")})
}

// session opens a session of the guardian. The sessions of a thread share a prompt cache key, because their requests begin alike.
func (j *Judges) session(ctx context.Context, parent event.ThreadID, label string) (guardian.Session, error) {
	c, err := j.open(ctx, parent, label, child.Spec{
		Name: "the reviewer", Instructions: guardian.Policy(j.Config.Guardian.Policy), Role: child.Role{CacheKey: "guardian:" + string(parent)},
	})
	if err != nil {
		return nil, err // not a nil pointer in an interface
	}
	return c, nil
}

// key identifies what a session of the guardian depends on and may change while the host runs.
func (j *Judges) key(parent event.ThreadID, label string) string {
	of, ok := j.Thread(parent)
	if !ok {
		return ""
	}
	return cmp.Or(label, of.Model().Model) + "\x00" + of.Settings().Cwd
}

// AskForHook asks a model the question of a hook, in a child thread of one turn.
func (j *Judges) AskForHook(ctx context.Context, q hook.Question) (string, event.ThreadID, error) {
	c, err := j.open(ctx, q.Thread, cmp.Or(q.Model, j.Config.Guardian.Model), child.Spec{
		Name: "the hook's model", Instructions: hook.Judge, Role: child.Role{NoTools: !q.Looks},
	})
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	answer, err := c.Ask(ctx, child.Question{Text: q.Text})
	return answer, c.ID(), err
}

// Reviewer opens the child thread of a reviewer of changes.
func (j *Judges) Reviewer(ctx context.Context, parent *thread.Thread, follow func(context.Context, event.Body)) (*child.Child, error) {
	model, err := j.Models.Find(cmp.Or(j.Config.Review.Model, parent.Model().Model))
	if err != nil {
		return nil, err
	}
	set := parent.Settings()
	as := child.Role{Unattended: true, Approval: cmp.Or(set.Approval, j.Config.Approval.Policy), NoHostedTools: true}
	// "untrusted" asks before every command, but reading in a read-only sandbox needs no approval.
	if as.Approval == string(policy.Untrusted) && j.Launcher.Check(grants.For(j.Config, box.ReadOnly, set.Cwd, "")) == nil {
		as.Approval, as.Sandbox = string(policy.OnRequest), box.ReadOnly
	}
	return child.Open(ctx, j.Open, parent, child.Spec{
		Name: "the reviewer", Source: event.SourceReviewer, Model: modelset.Selection(model), Instructions: review.Rubric(), Role: as, Follow: follow,
	})
}

// open starts a child that answers questions for a thread and has no side effects: it can only read files, in a read-only sandbox.
// label names its model; if it is empty, the thread's model is used. s has its name and instructions. Its usage is published in the
// thread.
func (j *Judges) open(ctx context.Context, parent event.ThreadID, label string, s child.Spec) (*child.Child, error) {
	of, ok := j.Thread(parent)
	if !ok {
		return nil, thread.ErrClosed
	}
	model, err := j.Models.Find(cmp.Or(label, of.Model().Model))
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
			j.Logger.Debug("usage of a child thread not published", "thread", of.ID(), "err", err)
		}
	}
	return child.Open(ctx, j.Open, of, s)
}
