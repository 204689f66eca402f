package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// run is a call on its way through the stages.
type run struct {
	subject
	decision decision // about the subject
	abort    context.CancelCauseFunc

	started   time.Time
	granted   launch.Grant
	digest    string // of granted
	journaled bool
	start     uint64 // sequence number of the call's start if it is still to be committed, else 0
}

func newRun(p *Pipeline, c Call, e *registry.Entry) *run {
	r := &run{
		subject: subject{pipeline: p, call: c, asker: c.parent, entry: e, item: newItem(c, e, p.deps.Redact)},
		started: time.Now(),
	}
	r.decision.subject = &r.subject
	return r
}

// parse validates the arguments against the tool's schema.
func (r *run) parse(context.Context) *outcome {
	in, err := r.entry.Parse(r.call.Model)
	if err != nil {
		return failed(err.Error())
	}
	r.input = in
	return nil
}

// awaitTurn waits at the gate. The wait is not part of the call's duration.
func (r *run) awaitTurn(t *Ticket) func(context.Context) *outcome {
	return func(ctx context.Context) *outcome {
		if err := t.Wait(ctx); err != nil {
			return aborted()
		}
		r.started = time.Now()
		return nil
	}
}

// awaitOthers waits for earlier calls that work on the same sessions. The wait is not part of the call's duration.
func (r *run) awaitOthers(t *Ticket) func(context.Context) *outcome {
	return func(ctx context.Context) *outcome {
		sessions := r.sessions()
		if err := t.Claim(ctx, sessions...); err != nil {
			return aborted()
		}
		if len(sessions) > 0 {
			r.started = time.Now()
		}
		return nil
	}
}

// assess learns what the call would do: from the plugin, if the tool can assess calls, else from the descriptor.
func (r *run) assess(ctx context.Context) *outcome {
	if !r.entry.Assess {
		if t, ok := r.hostTool(); ok {
			if r.item.item.Type = cmp.Or(t.ItemType, r.item.item.Type); t.Item != nil {
				r.item.assessed(t.Item(r.input))
			}
		}
		if len(r.entry.Effects) == 1 { // the plugin repeats it when the call runs, but people are asked, and see the item, before
			if e, ok := r.entry.Effects[0].(contract.ServiceEffect); ok {
				r.item.assessed(&contract.MCPCallItem{Server: e.Service, Tool: e.Action, Arguments: r.input.Arguments, ReadOnly: e.ReadOnly != nil && *e.ReadOnly})
			}
		}
		r.assessment = contract.Assessment{Effects: r.entry.Effects, ReadOnly: r.entry.ReadOnly && !slices.ContainsFunc(r.entry.Effects, changes)}
		return nil
	}
	backend, end := r.backend()
	if end != nil {
		return end
	}
	// Processes that read for the assessment have a token of their own, with which they can't change anything.
	live := r.begin(ctx, launch.Grant{Mode: r.call.Sandbox})
	live.ReadOnly = true
	defer r.endProcesses(ctx)
	defer live.end()
	bounded, cancel := context.WithTimeoutCause(ctx, assessTimeout, errAssess)
	defer cancel()
	request := contract.AssessRequest{
		ThreadID: string(r.call.Thread), TurnID: string(r.call.Turn), CallID: string(r.call.ID),
		Namespace: r.entry.Namespace, Tool: r.entry.Name, Input: r.input, Cwd: r.call.Cwd,
		CallToken: live.token, ToolsRevision: r.entry.Revision,
	}
	a, err := backend.Assess(bounded, request)
	if plugin.IsCrash(err) && bounded.Err() == nil { // it has changed nothing; only once, as the question may be the reason
		a, err = backend.Assess(bounded, request)
	}
	switch {
	case ctx.Err() != nil:
		return aborted()
	case err != nil && bounded.Err() != nil:
		return failed("the call failed: " + errAssess.Error())
	case plugin.IsCrash(err):
		return failed(fmt.Sprintf("plugin %q crashed twice when it was asked what the call would do; the call was not started and had no effect.", r.entry.Plugin))
	case err != nil:
		return failed(callError(err))
	}
	r.assessment = *a
	r.assessment.ReadOnly = a.ReadOnly && !slices.ContainsFunc(a.Effects, changes)
	r.item.effects = a.Effects
	r.item.assessed(a.Item)
	if a.Early != nil {
		end := resultOutcome(a.Early)
		return &end
	}
	return nil
}

// changes reports whether an effect is a change, whether or not the plugin calls the call read-only.
func changes(e contract.Effect) bool {
	if in, ok := e.(contract.SessionInputEffect); ok {
		return in.Text != ""
	}
	_, ok := e.(contract.WriteEffect)
	return ok
}

// assessTimeout bounds an assessment, during which the user sees nothing happen.
const assessTimeout = time.Minute

var errAssess = errors.New("the plugin did not say within a minute what the call would do; it was not started")

// backend finds the implementation of the tool.
func (r *run) backend() (ToolBackend, *outcome) {
	if t, ok := r.hostTool(); ok {
		return t.Backend(r.hostCall()), nil
	}
	if b, ok := r.pipeline.deps.Backends(r.entry.Plugin); ok {
		return b, nil
	}
	return nil, failed(fmt.Sprintf("plugin %q is no longer configured", r.entry.Plugin))
}

// show publishes the call's item, unless a question has shown it, and lets the calls after this one begin.
func (r *run) show(t *Ticket) func(context.Context) *outcome {
	return func(ctx context.Context) *outcome {
		if !r.item.shown {
			if _, err := r.publish(ctx, event.ItemStarted{Item: r.item.begin()}); err != nil {
				return publishFailed(ctx, err)
			}
		}
		t.Begun()
		return nil
	}
}

// grant determines what the processes of this attempt may do.
func (r *run) grant(ctx context.Context) *outcome {
	r.attempt++
	g, err := r.pipeline.deps.Granter.Grant(ctx, GrantRequest{
		Plugin: r.entry.Plugin, Sandbox: r.call.Sandbox, Cwd: r.call.Cwd, Effects: r.assessment.Effects, Escalation: r.decision.escalation,
		Permitted: r.permitted(), Attempt: r.attempt,
	})
	if err != nil {
		return denied(err.Error())
	}
	r.granted, r.digest = g, g.Digest()
	return nil
}

// journal commits the call's start before the call can do anything, along with copies of the files that it may write. It does not wait
// for the commit if the call is read-only. If the call acts only through the host, its requests to the host wait instead, so that its
// plugin can prepare in the meantime.
func (r *run) journal(ctx context.Context) *outcome {
	started := event.CallStarted{
		Call: r.call.ID, Item: r.item.id(), Plugin: r.entry.Plugin, Namespace: r.entry.Namespace, Tool: r.entry.Name,
		Effects: event.EffectsOf(r.assessment.Effects), ReadOnly: r.assessment.ReadOnly,
		GrantDigest: r.digest, Attempt: r.attempt, Parents: r.call.Parents,
	}
	if r.input.Freeform {
		started.Text = r.input.Text
	} else {
		started.Arguments = r.input.Arguments
	}
	bodies := append(r.decision.takeReports(), started)
	kept, end := r.keepFiles(ctx)
	if end != nil {
		return end
	}
	if kept != nil {
		bodies = append(bodies, *kept)
	}
	seq, err := r.publish(ctx, bodies...)
	if err != nil {
		return publishFailed(ctx, err)
	}
	r.journaled = true
	if r.assessment.ReadOnly {
		return nil
	}
	if r.entry.EffectsByHost {
		r.start = seq
		return nil
	}
	if err := r.pipeline.deps.Journal.Barrier(ctx, seq); err != nil {
		return publishFailed(ctx, err)
	}
	return nil
}
