package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/guardian"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// openGuardian makes the reviewer of calls, where the user wants one.
func (h *Host) openGuardian() {
	if c := h.opts.Config.Guardian; c.Enabled {
		h.guardian = guardian.New(guardian.Config{Open: h.openReview, Key: h.reviewKey, Deadline: c.Timeout, Logger: h.log.Named("guardian")})
	}
}

// reviewed are the policies under which a reviewer answers.
var reviewed = []policy.Approval{policy.OnRequest, policy.OnFailure, policy.Granular}

// reviewerOf is who answers in a person's place in a turn; nil: nobody. Who wants to be asked before everything is asked.
func (h *Host) reviewerOf(r *running, t *thread.Thread, id event.TurnID, started event.TurnStarted, model string) orchestrate.Reviewer {
	if h.guardian == nil || r.role.Unattended || !slices.Contains(reviewed, policy.Approval(started.Approval)) {
		return nil
	}
	return h.guardian.Turn(t.ID(), id, cmp.Or(h.opts.Config.Guardian.Model, model), t)
}

// openReview starts a reviewer of calls. All reviewers of a thread share a prompt cache key: their requests begin alike.
func (h *Host) openReview(ctx context.Context, parent event.ThreadID, label string) (guardian.Session, error) {
	c, err := h.openJudge(ctx, parent, label, child.Spec{
		Name: "the reviewer", Instructions: guardian.Policy(h.opts.Config.Guardian.Policy), Role: child.Role{CacheKey: "guardian:" + string(parent)},
	})
	if err != nil {
		return nil, err // not a nil pointer in an interface
	}
	return c, nil
}

// reviewKey is what a reviewer's session goes by, beside what is fixed for as long as the host runs.
func (h *Host) reviewKey(parent event.ThreadID, label string) string {
	of, ok := h.Thread(parent)
	if !ok {
		return ""
	}
	return cmp.Or(label, of.Model().Model) + "\x00" + of.Settings().Cwd
}
