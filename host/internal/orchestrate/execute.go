package orchestrate

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Grace is how long a call may take to stop after it was asked to; codex-compatible.
const Grace = 100 * time.Millisecond

// killTimeout bounds ending a call's processes; the launcher's own escalation takes less.
const killTimeout = 5 * time.Second

// maxAttempts is how often a call is tried: a second time if the user allows a wider grant.
const maxAttempts = 2

// execute runs the call, and once more if the sandbox stopped it and the policy allows a wider grant.
func (r *run) execute(ctx context.Context) outcome {
	if t, ok := r.hostTool(); ok {
		return r.executeHost(ctx, t)
	}
	backend, end := r.backend()
	if end != nil {
		return *end
	}
	for {
		result, err := r.attemptCall(ctx, backend)
		if e, ok := errors.AsType[*uncommittedError](err); ok {
			return *publishFailed(ctx, e.err)
		}
		switch {
		case ctx.Err() != nil && (err != nil || result.Aborted):
			return outcome{kind: event.OutcomeAborted, result: result}
		case err != nil:
			return *failed(callError(err))
		case result.Aborted && len(result.Parts) == 0: // by its deadline, as it was not asked to stop
			return *failed(callError(tool.ErrDeadline))
		}
		if !result.SandboxDenied || r.attempt >= maxAttempts {
			return resultOutcome(result)
		}
		wider, ask := r.pipeline.deps.Retry(r.decision.policyRequest(), result)
		if wider == nil {
			return resultOutcome(result)
		}
		if end := r.decision.again(ctx, wider, ask); end != nil {
			first := resultOutcome(result)
			first.abort = end.abort
			return first
		}
		// Each attempt has its own grant and its own entry in the journal.
		if end := r.grant(ctx); end != nil {
			return *end
		}
		if end := r.journal(ctx); end != nil {
			return *end
		}
	}
}

func resultOutcome(result *contract.Result) outcome {
	kind := event.OutcomeOK
	if result.IsError || result.Aborted {
		kind = event.OutcomeError
	}
	return outcome{kind: kind, result: result}
}

// attemptCall calls the plugin once, under the current grant.
func (r *run) attemptCall(ctx context.Context, backend ToolBackend) (*contract.Result, error) {
	if in, ok := r.typedInto(); ok && !r.executed {
		r.pipeline.tokens.typing(in.session, in.text)
	}
	r.executed = true
	// When ctx ends, the call is asked to stop and has a grace period; the end of hard stops it at once.
	hard, end := context.WithCancel(context.WithoutCancel(ctx))
	waits := make(chan bool)
	live := r.begin(ctx, r.granted)
	live.paused = func(w bool) {
		select {
		case waits <- w:
		case <-hard.Done():
		}
	}
	defer r.endProcesses(ctx)
	defer live.end() // before its processes are ended, so that no more are started
	defer end()
	r.commit(ctx, live, end)

	start := r.callStart()
	start.CallToken = live.token
	ctl := tool.Control{Soft: ctx, Reason: cancelReason, Grace: Grace, Waits: waits, Reentrant: r.call.reenters(r.entry.Plugin)}
	crashpoint.At(crashpoint.CallJournaled, "")
	result, err := backend.Call(hard, start, ctl, func(ev contract.CallEvent) { r.observe(hard, ev) })
	crashpoint.At(crashpoint.CallReturned, "")
	if err != nil && !plugin.IsCrash(err) || err == nil && result.Aborted && result.SessionID == "" {
		live.cancel(errCut) // the next process of a plugin that has crashed adopts what the call has started
	}
	if err != nil {
		r.pipeline.tokens.broke(live) // before live.end revokes the token, so that the call is unanswered throughout
	} else if live.wide && result.SessionID != "" {
		r.pipeline.tokens.leaves(live, result.SessionID)
	}
	if err := live.awaitStart(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	r.context = append(r.context, live.note(result)...)
	return result, err
}

// callStart returns the description of the call that a tool receives, without a call token.
func (r *run) callStart() contract.CallStart {
	start := contract.CallStart{
		ThreadID: string(r.call.Thread), TurnID: string(r.call.Turn), CallID: string(r.call.ID),
		Namespace: r.entry.Namespace, Tool: r.entry.Name, Input: r.input, AssessDigest: r.assessment.Digest,
		Grant: contract.GrantFacts{
			Proxy:       launch.ProxyAddress(),
			SandboxMode: r.granted.Mode, WritableRoots: r.granted.WritableRoots, Network: r.granted.Network || r.granted.Proxied,
			Digest: r.digest,
		},
		Cwd: r.call.Cwd, ToolsRevision: r.entry.Revision, Caps: r.call.Caps,
		ModelTraits: r.call.Traits, Attempt: r.attempt, HistoryRevision: r.call.Revision,
	}
	if budget := r.call.Output.TokenBudget(); budget > 0 {
		start.Caps.MaxModelTokens = budget
	}
	for _, p := range r.call.Parents {
		start.HistoryRevision += "/" + string(p) // the result is for that call, not for the model
		start.Parents = append(start.Parents, string(p))
	}
	return start
}

// commit waits concurrently until the call's start is committed; requests of the call to the host wait for that. If the start can't be
// committed, the call is ended.
func (r *run) commit(ctx context.Context, live *Live, end func()) {
	seq := r.start
	r.start = 0
	if seq == 0 {
		return
	}
	live.committed = make(chan struct{})
	live.work.Go(func() { // live.end waits for it
		defer close(live.committed)
		if err := r.pipeline.deps.Journal.Barrier(ctx, seq); err != nil {
			live.uncommitted = &uncommittedError{err}
			end()
		}
	})
}

// uncommittedError says that a call's start could not be committed. The call was ended before it could do anything.
type uncommittedError struct{ err error }

func (e *uncommittedError) Error() string {
	return "the start of the call could not be stored: " + e.err.Error()
}

func (e *uncommittedError) Unwrap() error { return e.err }

// Causes of the end of a call's context.
var (
	ErrInterrupted = errors.New("interrupted") // by the user
	ErrReplaced    = errors.New("replaced by another task")
	ErrTimeUp      = errors.New("the turn's time limit is exceeded")
	ErrShutdown    = errors.New("the host is shutting down")
	errAborted     = errors.New("aborted at a question") // of a nested call, by the user
)

// cancelReason is the reason that a plugin is given when its call is asked to stop.
func cancelReason(cause error) string {
	switch {
	case errors.Is(cause, ErrReplaced):
		return "replaced"
	case errors.Is(cause, ErrShutdown):
		return "shutdown"
	default:
		return "interrupted"
	}
}

// observe publishes an event of the plugin. If the log does not accept it, the call continues.
func (r *run) observe(ctx context.Context, ev contract.CallEvent) {
	body := r.item.observe(ev)
	if body == nil {
		return
	}
	if _, err := r.publish(ctx, body); err != nil && ctx.Err() == nil {
		r.pipeline.log.Warn("call event not published", "call", r.call.ID, "err", err)
	}
}

// endProcesses ends the processes that the call started and did not declare a session.
func (r *run) endProcesses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	err := r.pipeline.deps.Processes.EndCall(ctx, launch.Owner{
		Plugin: r.entry.Plugin, Thread: string(r.call.Thread), Call: string(r.call.ID),
	})
	if err != nil {
		r.pipeline.log.Warn("processes of a call not ended", "call", r.call.ID, "err", err)
	}
}

// callError words the failure of a call for the model: what happened, whether it had an effect, and whether to try again.
func callError(err error) string {
	if errors.Is(err, tool.ErrDeadline) {
		return "the call exceeded its deadline and was stopped; what it had done until then remains"
	}
	pe, ok := errors.AsType[*plugin.Error](err)
	if errors.Is(err, tool.ErrUnreached) {
		text := err.Error() + ". It had no effect."
		if ok && pe.Next != "" {
			text += " Next, for the user: " + pe.Next + "."
		}
		return text
	}
	if ok && plugin.IsCrash(err) {
		return "plugin \"" + pe.Plugin + "\" crashed during the call; whether it had an effect is unknown. It is restarted for the next call."
	}
	return "the call failed: " + err.Error()
}
