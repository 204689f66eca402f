package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/guardian"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
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
	if h.guardian == nil || r.role.asksNobody || !slices.Contains(reviewed, policy.Approval(started.Approval)) {
		return nil
	}
	return h.guardian.Turn(t.ID(), id, cmp.Or(h.opts.Config.Guardian.Model, model), t)
}

// openReview begins a reviewer's session. Its vendor may remember what all sessions for a thread begin with.
func (h *Host) openReview(ctx context.Context, parent event.ThreadID, label string) (guardian.Session, error) {
	return h.openAside(ctx, parent, label, guardian.Policy(h.opts.Config.Guardian.Policy), true, "guardian:"+string(parent))
}

// reviewKey is what a reviewer's session goes by, beside what is fixed for as long as the host runs.
func (h *Host) reviewKey(parent event.ThreadID, label string) string {
	of, ok := h.Thread(parent)
	if !ok {
		return ""
	}
	return cmp.Or(label, of.Model().Model) + "\x00" + of.Settings().Cwd
}

// askAside puts one question to a model in a thread of its own, for another one.
func (h *Host) askAside(ctx context.Context, parent event.ThreadID, label, instructions, question string, looks bool) (answer string, id event.ThreadID, err error) {
	a, err := h.openAside(ctx, parent, label, instructions, looks, "")
	if err != nil {
		return "", "", err
	}
	defer a.Close()
	answer, err = a.Ask(ctx, question)
	return answer, a.Thread(), err
}

// aside is a thread that works for another one: its model may look, or not even that, and do nothing else. It implements
// [guardian.Session].
type aside struct {
	host  *Host
	of    *thread.Thread
	child *thread.Thread
}

// openAside begins one. Without a label it is the other thread's model.
func (h *Host) openAside(ctx context.Context, parent event.ThreadID, label, instructions string, looks bool, cacheKey string) (*aside, error) {
	of, ok := h.Thread(parent)
	if !ok {
		return nil, thread.ErrClosed
	}
	model, err := h.FindModel(cmp.Or(label, of.Model().Model))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", guardian.ErrNoModel, err)
	}
	if err := model.Problems.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", guardian.ErrNoModel, err)
	}
	start := event.ThreadStarted{
		Cwd: of.Settings().Cwd, Model: model.Label, Provider: model.Provider, ModelName: model.Name, HostVersion: h.opts.Version,
		Source: event.SourceReviewer, Parent: parent, Instructions: instructions,
	}
	child, err := h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start, Meter: of.Meter()}, role{
		asksNobody: true, looks: true, noTools: !looks, approval: string(policy.Never), sandbox: box.ReadOnly, noHosted: true, cacheKey: cacheKey,
	})
	if err != nil {
		return nil, err
	}
	return &aside{h, of, child}, nil
}

// Thread is where it works.
func (a *aside) Thread() event.ThreadID { return a.child.ID() }

// Close ends the thread.
func (a *aside) Close() { a.host.closeThread(a.child) }

// Ask has the model answer, in one turn.
func (a *aside) Ask(ctx context.Context, question string) (answer string, err error) {
	keep := context.WithoutCancel(ctx)
	events, err := a.child.Subscribe(ctx, thread.Lossless)
	if err != nil {
		return "", err
	}
	defer events.Close()
	if _, err := a.child.Submit(ctx, thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: question}}}}); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = a.child.Interrupt(keep, context.Cause(ctx)) })() // one that has ended needs none
	for {
		e, err := events.Next(keep)
		if err != nil {
			return "", fmt.Errorf("follow the reviewer: %w", err)
		}
		switch b := e.Body.(type) {
		case event.UsageReported:
			b.Active = 0 // of another conversation
			if _, err := a.of.Publish(keep, "", b); err != nil {
				a.host.log.Debug("usage of a reviewer not shown", "thread", a.of.ID(), "err", err)
			}
		case event.TurnEnded:
			switch {
			case ctx.Err() != nil:
				return "", context.Cause(ctx)
			case b.Error != nil:
				return "", &guardian.Error{Code: b.Error.Code, Message: b.Error.Message}
			case b.Status != event.TurnCompleted:
				return "", fmt.Errorf("the reviewer was stopped: %s", b.Reason)
			}
			return b.LastMessage, nil
		}
	}
}

// onlyLooks tells whether a call does nothing but look: what it runs stands in a box that keeps everything as it is.
func onlyLooks(q policy.Request) bool {
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
