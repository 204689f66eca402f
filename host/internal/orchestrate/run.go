package orchestrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// run is one call on its way. Its fields are filled by the stages, in order; it belongs to one goroutine.
type run struct {
	pipeline *Pipeline
	call     Call
	asker    *Live // whose plugin waits while a person is asked; nil: none
	entry    *registry.Entry
	started  time.Time
	item     itemState

	input      contract.Input
	assessment contract.Assessment
	escalation *contract.Escalation // approved
	approved   bool                 // the call itself, by a person, hook or reviewer
	decided    []event.Body         // what was decided, until it is published
	granted    launch.Grant
	attempt    uint32
	journaled  bool
	start      uint64       // the number of its start in the journal, when that is still to be committed
	late       bool         // its effects only showed up while the call runs
	executed   bool         // the plugin was asked to run it
	hooked     hook.Verdict // of the hooks before it
	context    []string
}

// verdict ends a call.
type verdict struct {
	outcome event.Outcome
	result  *contract.Result // nil: text alone
	text    string           // of a failure, for the model
	tools   []llm.Tool       // that a search has found
	abort   bool
}

func (r *run) failed(text string) verdict { return verdict{outcome: event.OutcomeError, text: text} }

func fail(text string) *verdict { return &verdict{outcome: event.OutcomeError, text: text} }

func denied(text string) *verdict { return &verdict{outcome: event.OutcomeDenied, text: text} }

func (r *run) parse(context.Context) *verdict {
	in, err := r.entry.Parse(r.call.Model)
	if err != nil {
		return fail(err.Error())
	}
	r.input = in
	return nil
}

func (r *run) awaitTurn(t *Ticket) func(context.Context) *verdict {
	return func(ctx context.Context) *verdict {
		if err := t.Wait(ctx); err != nil {
			return &verdict{outcome: event.OutcomeAborted}
		}
		r.started = time.Now() // waiting for others is not the call's own time
		return nil
	}
}

func (r *run) awaitOthers(t *Ticket) func(context.Context) *verdict {
	return func(ctx context.Context) *verdict {
		sessions := r.sessions()
		if err := t.Claim(ctx, sessions...); err != nil {
			return &verdict{outcome: event.OutcomeAborted}
		}
		if len(sessions) > 0 {
			r.started = time.Now() // as above
		}
		return nil
	}
}

// sessions are those that the call works on, as its plugin says: it types into them, or only looks at what came.
func (r *run) sessions() []string {
	var out []string
	for _, e := range r.assessment.Effects {
		if in, ok := e.(contract.SessionInputEffect); ok {
			out = append(out, r.entry.Plugin+" "+in.SessionID)
		}
	}
	if it, ok := r.assessment.Item.(*contract.CommandItem); ok && it.SessionID != "" {
		out = append(out, r.entry.Plugin+" "+it.SessionID)
	}
	return out
}

func (r *run) assess(ctx context.Context) *verdict {
	if !r.entry.Assess {
		r.assessment = contract.Assessment{Effects: r.entry.Effects, ReadOnly: r.entry.ReadOnly && !slices.ContainsFunc(r.entry.Effects, changes)}
		return nil
	}
	backend, v := r.backend()
	if v != nil {
		return v
	}
	// Helpers that read on behalf of the assessment run under a token of their own and change nothing.
	live := r.begin(ctx, launch.Grant{Mode: r.call.Sandbox})
	live.ReadOnly = true
	defer r.endProcesses(ctx)
	defer live.end()
	bounded, cancel := context.WithTimeoutCause(ctx, assessBound, errAssess)
	defer cancel()
	request := contract.AssessRequest{
		ThreadID: string(r.call.Thread), TurnID: string(r.call.Turn), CallID: string(r.call.ID),
		Namespace: r.entry.Namespace, Tool: r.entry.Name, Input: r.input, Cwd: r.call.Cwd,
		CallToken: live.token, ToolsRevision: r.entry.Revision,
	}
	a, err := backend.Assess(bounded, request)
	if plugin.IsCrash(err) && bounded.Err() == nil { // it has changed nothing; once, since the question may be what it dies of
		a, err = backend.Assess(bounded, request)
	}
	switch {
	case ctx.Err() != nil:
		return &verdict{outcome: event.OutcomeAborted}
	case err != nil && bounded.Err() != nil:
		return fail("the call failed: " + errAssess.Error())
	case plugin.IsCrash(err):
		return fail(fmt.Sprintf("plugin %q crashed, and crashed again, when it was asked what the call would do; the call was not started and had no effect.", r.entry.Plugin))
	case err != nil:
		return fail(callError(err))
	}
	r.assessment = *a
	r.assessment.ReadOnly = a.ReadOnly && !slices.ContainsFunc(a.Effects, changes)
	r.item.assessed(a.Item)
	if a.Early != nil {
		outcome := event.OutcomeOK
		if a.Early.IsError {
			outcome = event.OutcomeError
		}
		return &verdict{outcome: outcome, result: a.Early}
	}
	return nil
}

// changes reports whether an effect is a change, whatever else the plugin says of the call.
func changes(e contract.Effect) bool {
	if in, ok := e.(contract.SessionInputEffect); ok {
		return in.Text != ""
	}
	_, ok := e.(contract.WriteEffect)
	return ok
}

// assessBound is how long a plugin may think about what a call would do. Nobody is asked meanwhile, and nothing runs that
// the user could see.
const assessBound = time.Minute

var errAssess = errors.New("its plugin did not say within a minute what the call would do; it was not started")

// builtIn reports whether the tool's plugin comes with gantry.
func (r *run) builtIn() bool {
	return r.pipeline.deps.BuiltIn != nil && r.pipeline.deps.BuiltIn(r.entry.Plugin)
}

// backend finds the implementation of the tool.
func (r *run) backend() (ToolBackend, *verdict) {
	if t, ok := r.hostTool(); ok {
		return t.Backend(r.hostCall()), nil
	}
	if b, ok := r.pipeline.deps.Backends(r.entry.Plugin); ok {
		return b, nil
	}
	return nil, fail(fmt.Sprintf("plugin %q is not configured any more", r.entry.Plugin))
}

func (r *run) show(t *Ticket) func(context.Context) *verdict {
	return func(ctx context.Context) *verdict {
		if !r.item.shown {
			if _, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, event.ItemStarted{Item: r.item.begin()}); err != nil {
				return r.publishFailed(ctx, err)
			}
		}
		t.Begun()
		return nil
	}
}

func (r *run) publishFailed(ctx context.Context, err error) *verdict {
	if ctx.Err() != nil {
		return &verdict{outcome: event.OutcomeAborted}
	}
	return fail("the event log does not take events, so the call was not started: " + err.Error())
}

func (r *run) grant(ctx context.Context) *verdict {
	r.attempt++
	g, err := r.pipeline.deps.Granter.Grant(ctx, GrantRequest{
		Sandbox: r.call.Sandbox, Cwd: r.call.Cwd, Effects: r.assessment.Effects, Escalation: r.escalation, Permitted: r.permitted(), Attempt: r.attempt,
	})
	if err != nil {
		return denied(err.Error())
	}
	r.granted = g
	return nil
}

// journal commits the start before anything can happen, and with it what stands where the call may write. A call that changes
// nothing is noted without waiting; one that can only act through the host is waited for there, while its plugin prepares.
func (r *run) journal(ctx context.Context) *verdict {
	entry := event.CallStarted{
		Call: r.call.ID, Item: r.item.id(), Plugin: r.entry.Plugin, Namespace: r.entry.Namespace, Tool: r.entry.Name,
		Effects: event.EffectsOf(r.assessment.Effects), ReadOnly: r.assessment.ReadOnly,
		GrantDigest: r.granted.Digest(), Attempt: r.attempt, Parents: r.call.Parents,
	}
	if r.input.Freeform {
		entry.Text = r.input.Text
	} else {
		entry.Arguments = r.input.Arguments
	}
	bodies := append(r.takeDecided(), entry)
	kept, v := r.keepFiles(ctx)
	if v != nil {
		return v
	}
	if kept != nil {
		bodies = append(bodies, *kept)
	}
	seq, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, bodies...)
	if err != nil {
		return r.publishFailed(ctx, err)
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
		return r.publishFailed(ctx, err)
	}
	return nil
}
