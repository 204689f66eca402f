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

// Grace is how long a call may take to stop when it is asked to; codex-compatible.
const Grace = 100 * time.Millisecond

// killBound is how long ending a call's processes may take; the launcher's own ladder is shorter.
const killBound = 5 * time.Second

// maxAttempts is how often a call is tried: once more where a person allows a wider grant.
const maxAttempts = 2

// execute runs the call, and once more where policy allows a wider grant after a denial.
func (r *run) execute(ctx context.Context) verdict {
	if t, ok := r.hostTool(); ok {
		return r.executeHost(ctx, t)
	}
	backend, v := r.backend()
	if v != nil {
		return *v
	}
	for {
		result, err := r.attemptCall(ctx, backend)
		if e, ok := errors.AsType[*uncommittedError](err); ok {
			return *r.publishFailed(ctx, e.err)
		}
		switch {
		case ctx.Err() != nil && (err != nil || result.Aborted):
			return verdict{outcome: event.OutcomeAborted, result: result}
		case err != nil:
			return r.failed(callError(err))
		case result.Aborted && len(result.Parts) == 0: // by its deadline: nobody else asked it to stop
			return verdict{outcome: event.OutcomeError, text: callError(tool.ErrDeadline)}
		}
		if !result.SandboxDenied || r.attempt >= maxAttempts {
			return resultVerdict(result)
		}
		wider, ask := r.pipeline.deps.Retry(r.policyRequest(), result)
		if wider == nil {
			return resultVerdict(result)
		}
		if v := r.decideAgain(ctx, wider, ask); v != nil {
			told := resultVerdict(result)
			told.abort = v.abort
			return told
		}
		r.escalation = wider
		// Every attempt gets its own grant and its own entry in the journal.
		if v := r.grant(ctx); v != nil {
			return *v
		}
		if v := r.journal(ctx); v != nil {
			return *v
		}
	}
}

func resultVerdict(result *contract.Result) verdict {
	outcome := event.OutcomeOK
	if result.IsError || result.Aborted {
		outcome = event.OutcomeError
	}
	return verdict{outcome: outcome, result: result}
}

func (r *run) attemptCall(ctx context.Context, backend ToolBackend) (*contract.Result, error) {
	if id, text, ok := r.typedInto(); ok && !r.executed {
		r.pipeline.tokens.typing(session{r.entry.Plugin, r.call.Thread, id}, text)
	}
	r.executed = true
	// The call outlives the soft end by its grace; only then is it ended hard.
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
	defer live.end() // what was begun in the call's name is over before its processes are looked for
	defer end()
	r.commit(ctx, live, end)

	start := r.callStart()
	start.CallToken = live.token
	ctl := tool.Control{Soft: ctx, Reason: cancelReason, Grace: Grace, Waits: waits, Reentrant: r.call.reenters(r.entry.Plugin)}
	crashpoint.At(crashpoint.CallJournaled, "")
	result, err := backend.Call(hard, start, ctl, func(ev contract.CallEvent) { r.observe(hard, ev) })
	crashpoint.At(crashpoint.CallReturned, "")
	if err != nil {
		r.pipeline.tokens.broke(live) // before its token is taken back: at no moment does it look answered
	} else if live.wide && result.SessionID != "" {
		r.pipeline.tokens.leaves(live, result.SessionID)
	}
	if err := live.awaitStart(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	r.context = append(r.context, live.note(result)...)
	return result, err
}

// callStart returns what a tool is told of the call; a call token is added for those that have one.
func (r *run) callStart() contract.CallStart {
	start := contract.CallStart{
		ThreadID: string(r.call.Thread), TurnID: string(r.call.Turn), CallID: string(r.call.ID),
		Namespace: r.entry.Namespace, Tool: r.entry.Name, Input: r.input, AssessDigest: r.assessment.Digest,
		Grant: contract.GrantFacts{
			SandboxMode: r.granted.Mode, WritableRoots: r.granted.WritableRoots, Network: r.granted.Network || r.granted.Proxied,
			Digest: r.granted.Digest(),
		},
		Cwd: r.call.Cwd, ToolsRevision: r.entry.Revision, Caps: r.call.Caps,
		ModelTraits: r.call.Traits, Attempt: r.attempt,
	}
	for _, p := range r.call.Parents {
		start.Parents = append(start.Parents, string(p))
	}
	return start
}

// commit sees to it, beside the call, that its start is stored; what the call asks the host for waits for that. A start that
// can't be stored ends the call.
func (r *run) commit(ctx context.Context, live *Live, end func()) {
	seq := r.start
	r.start = 0
	if seq == 0 {
		return
	}
	live.committed = make(chan struct{})
	live.work.Go(func() { // waited for by the call's end
		defer close(live.committed)
		if err := r.pipeline.deps.Journal.Barrier(ctx, seq); err != nil {
			live.uncommitted = &uncommittedError{err}
			end()
		}
	})
}

// uncommittedError says that a call's start could not be stored: it was held before it could do anything.
type uncommittedError struct{ err error }

func (e *uncommittedError) Error() string {
	return "the start of the call could not be stored: " + e.err.Error()
}

func (e *uncommittedError) Unwrap() error { return e.err }

// ErrInterrupted is the cause of a context that a person ended; ErrReplaced of one that another task took over; ErrTimeUp of
// one whose turn has a limit; ErrShutdown of one that ends with the host.
var (
	ErrInterrupted = errors.New("interrupted")
	ErrReplaced    = errors.New("replaced by another task")
	ErrTimeUp      = errors.New("the time of the turn is up")
	ErrShutdown    = errors.New("the host is shutting down")
)

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

// observe turns what the plugin sends into events. The log refusing a delta must not stop the call.
func (r *run) observe(ctx context.Context, ev contract.CallEvent) {
	body := r.item.observe(ev)
	if body == nil {
		return
	}
	if _, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, body); err != nil && ctx.Err() == nil {
		r.pipeline.log.Warn("call event not published", "call", r.call.ID, "err", err)
	}
}

// endProcesses ends what the call started and did not declare a session.
func (r *run) endProcesses(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killBound)
	defer cancel()
	err := r.pipeline.deps.Processes.EndCall(ctx, launch.Owner{
		Plugin: r.entry.Plugin, Thread: string(r.call.Thread), Call: string(r.call.ID),
	})
	if err != nil {
		r.pipeline.log.Warn("processes of a call not ended", "call", r.call.ID, "err", err)
	}
}

// callError words a broken call for the model: what happened, and that trying again makes sense or not.
func callError(err error) string {
	if errors.Is(err, tool.ErrDeadline) {
		return "the call ran longer than its deadline and was stopped; what it had done until then stays done"
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
