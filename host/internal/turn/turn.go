// Package turn runs one turn of a thread: it samples the model, dispatches the calls that the model asked for, records
// what came back, and goes on until nothing is left to follow up.
//
// It owns: the order of the steps, the retry budget, steering at the sampling boundary, the treatment of pending calls
// on interrupt. It must not know: which tools or providers exist, who listens to events, how anything is stored.
//
// Start with [Run]. A turn belongs to the goroutine that called Run; everything it starts has ended when Run returns.
package turn

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// Model answers requests. The sequence ends after a Finish, or with an error; stopping early cancels the request.
type Model interface {
	Stream(ctx context.Context, r *llm.Request, turn event.TurnID) iter.Seq2[llm.Event, error]
}

// Dispatcher runs calls.
type Dispatcher interface {
	Dispatch(ctx context.Context, gate *orchestrate.Gate, c orchestrate.Call) *orchestrate.Future
}

// Log takes the turn's events in order.
type Log interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Barrier(ctx context.Context, seq uint64) error
}

// Config is what a turn is run with. It does not change while the turn runs.
type Config struct {
	ID       event.TurnID
	Settings orchestrate.Settings // Tools and Turn are filled by the turn
	Model    Model
	Calls    Dispatcher
	Log      Log
	Tools    func() *registry.Snapshot // taken before each sampling
	Row      llm.ModelRow
	// Request holds what stays the same in every request: model, system, effort, cache key, schema.
	Request llm.Request
	// Context renders what the model must be told before its next step, given the history; nil: nothing.
	Context func() []llm.Message
	Inbox   *Inbox
	Limits  Limits
	Logger  hclog.Logger
}

// Limits end a turn. Zero values are the documented defaults.
type Limits struct {
	StreamRetries int           // how often a broken stream is asked again; default 5, at most 100; negative: never
	IdleTimeout   time.Duration // how long a stream may be silent; default 5 min
	Samplings     int           // most requests of one turn; 0: any number
}

// Defaults, codex-compatible.
const (
	defaultStreamRetries = 5
	maxStreamRetries     = 100
	defaultIdleTimeout   = 5 * time.Minute
)

func (l Limits) withDefaults() Limits {
	switch {
	case l.StreamRetries == 0:
		l.StreamRetries = defaultStreamRetries
	case l.StreamRetries < 0:
		l.StreamRetries = 0
	}
	l.StreamRetries = min(l.StreamRetries, maxStreamRetries)
	if l.IdleTimeout <= 0 {
		l.IdleTimeout = defaultIdleTimeout
	}
	return l
}

// Result is how a turn ended. The history has everything that the turn recorded.
type Result struct {
	Status      event.TurnStatus
	Problem     *event.Problem
	LastMessage string // the last text of the last answer, "" when blank
	Usage       event.Tokens
	Cause       error // why it was interrupted
}

// runner is a turn that runs. Its fields belong to Run's goroutine.
type runner struct {
	Config
	history *history.History
	gate    orchestrate.Gate
	usage   event.Tokens
	total   event.Tokens
}

// Run runs a turn on h until nothing is left to follow up, ctx ends, or the model can't be asked. input is what began
// the turn. total is what the thread had used before.
func Run(ctx context.Context, cfg Config, h *history.History, input Input, total event.Tokens) Result {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.Settings.Turn = cfg.ID
	r := &runner{Config: cfg, history: h, total: total}
	res := r.run(ctx, input)
	res.Usage = r.usage
	// Input that was accepted and not seen by the model stays in the history: nothing that a user wrote is lost.
	for _, in := range cfg.Inbox.Close() {
		if err := r.recordInput(context.WithoutCancel(ctx), in); err != nil {
			cfg.Logger.Error("input at the end of a turn not recorded", "turn", cfg.ID, "err", err)
		}
	}
	if res.Status == event.TurnInterrupted {
		marker := interruptedMarker
		if err := r.record(context.WithoutCancel(ctx), marker); err != nil {
			cfg.Logger.Error("interrupt marker not recorded", "turn", cfg.ID, "err", err)
		}
	}
	return res
}

// interruptedMarker tells the model in its next turn what happened to this one.
var interruptedMarker = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"The user stopped the previous turn on purpose. Commands that it left running in the background may still run, and " +
	"calls that were stopped may have done part of their work: look before you repeat them.\n</turn_aborted>"}}}

func (r *runner) run(ctx context.Context, input Input) Result {
	if err := r.record(ctx, r.contextMessages()...); err != nil {
		return r.ended(ctx, err)
	}
	if err := r.recordInput(ctx, input); err != nil {
		return r.ended(ctx, err)
	}
	// The turn's own input is answered first; what arrives meanwhile is taken at the next boundary.
	drain := input.empty()
	for n := 1; ; n++ {
		if drain {
			for _, in := range r.Inbox.Take() {
				if err := r.recordInput(ctx, in); err != nil {
					return r.ended(ctx, err)
				}
			}
			if err := r.record(ctx, r.contextMessages()...); err != nil {
				return r.ended(ctx, err)
			}
		}
		drain = true
		if r.Limits.Samplings > 0 && n > r.Limits.Samplings {
			return r.problem(&event.Problem{
				Code: "turn-limit", Message: "the turn reached its limit of requests to the model",
				Next: "Say how to go on, or raise limits.samplings.",
			})
		}
		s, err := r.sampleWithRetries(ctx)
		if err != nil {
			return r.ended(ctx, err)
		}
		if s.abort {
			return Result{Status: event.TurnInterrupted, Cause: orchestrate.ErrInterrupted}
		}
		// Deciding to end and refusing further input is one step, so nothing can fall between them.
		if !s.followUp && r.Inbox.CloseIfEmpty() {
			return Result{Status: event.TurnCompleted, LastMessage: s.lastText}
		}
	}
}

func (r *runner) contextMessages() []llm.Message {
	if r.Context == nil {
		return nil
	}
	return r.Context()
}

// ended words the end of a turn that an error ended.
func (r *runner) ended(ctx context.Context, err error) Result {
	if cause := context.Cause(ctx); cause != nil {
		return Result{Status: event.TurnInterrupted, Cause: cause}
	}
	p := &event.Problem{Message: err.Error(), Code: "internal"}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		p.Code, p.Next = e.Code.String(), e.Next
	}
	return r.problem(p)
}

func (r *runner) problem(p *event.Problem) Result {
	return Result{Status: event.TurnFailed, Problem: p}
}

// record appends messages to the history and to the log. Both or neither: a log that refuses ends the turn.
func (r *runner) record(ctx context.Context, ms ...llm.Message) error {
	if len(ms) == 0 {
		return nil
	}
	if _, err := r.Log.Publish(ctx, r.ID, event.HistoryAdded{Messages: ms}); err != nil {
		return err
	}
	r.history.Append(ms...)
	return nil
}
