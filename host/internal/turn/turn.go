// Package turn runs one turn of a thread: it samples the model, dispatches the calls that the model asked for, records
// what came back, and goes on until nothing is left to follow up.
//
// It owns: the order of the steps, the retry budget, steering at the sampling boundary, the treatment of pending calls
// on interrupt. It must not know: which tools or providers exist, who listens to events, how anything is stored.
//
// Start with [Run]. A turn belongs to the goroutine that called Run; everything it starts has ended when Run returns.
package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// Model answers requests. The sequence ends after a Finish, or with an error; stopping early cancels the request. attempts
// bounds how often it is tried before anything is answered; each try after the first is an [llm.Attempt].
type Model interface {
	Stream(ctx context.Context, r *llm.Request, turn event.TurnID, attempts int) iter.Seq2[llm.Event, error]
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
	Provider string                    // whose model it is; for reports
	Row      llm.ModelRow
	// Request holds what stays the same in every request: model, system, effort, cache key, schema.
	Request llm.Request
	// Participants take part in the turn, in this order.
	Participants []Participant
	Compaction   Compaction
	Inbox        *Inbox
	Mail         *Mailbox     // the thread's
	Meter        *usage.Meter // its budget ends the turn before the next request
	Limits       Limits
	Logger       hclog.Logger
}

// Fallback is a model that takes over for the rest of a turn, with all that depends on which model it is.
type Fallback struct {
	Model    Model
	Provider string
	Row      llm.ModelRow
	Request  llm.Request
	Output   history.Policy
	Traits   []string       // of the settings
	Notices  []event.Notice // tell people which model goes on for which, and why
}

// Result is how a turn ended. The history has everything that the turn recorded.
type Result struct {
	Status      event.TurnStatus
	Problem     *event.Problem
	LastMessage string // the last text of the last answer, "" when blank
	Cause       error  // why it was interrupted
}

// runner is a turn that runs. Its fields belong to Run's goroutine.
type runner struct {
	Config
	sampler
	hooks   Hooks // of the participants; nil: none
	gate    orchestrate.Gate
	unseen  []Input // taken on and not in the history yet
	current *answer // whose calls may run
	repeats repeats
	stops   stops
	paused  int // messages up to the end of an answer that its vendor goes on with; 0: none
	// pausedWith is what the vendor wants back of that answer as a whole.
	pausedWith llm.Metadata
	ending     bool // nothing but what every turn leaves is recorded any more
	unspoken   bool // nobody has said anything that it is about, and the model has not been asked
}

// Run runs a turn on h until nothing is left to follow up, ctx ends, or the model can't be asked. input is what began
// the turn.
func Run(ctx context.Context, cfg Config, h *history.History, input Input) Result {
	return run(ctx, cfg, h, []Input{input}, (*runner).run)
}

// run does the work of a turn and what comes around it.
func run(ctx context.Context, cfg Config, h *history.History, inputs []Input, work func(*runner, context.Context) Result) (res Result) {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.Settings.Turn = cfg.ID
	if most := cfg.Limits.Time; most > 0 {
		late, stop := context.WithTimeoutCause(ctx, most, &timeError{most})
		defer stop()
		ctx = late
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newRunner(cfg, h, inputs)
	defer func() {
		if p := recover(); p != nil {
			res = Crashed(cfg.Logger, cfg.ID, p)
			cancel(errCrashed)
		}
		r.commits.Wait()
		// What a panic left running ends before the turn does.
		if err := r.settle(context.WithoutCancel(ctx)); err != nil {
			cfg.Logger.Error("output at the end of a turn not recorded", "turn", cfg.ID, "err", err)
		}
		r.keep(ctx, res)
		r.interrupted(ctx, res)
		r.close(context.WithoutCancel(ctx))
	}()
	return work(r, ctx)
}

func newRunner(cfg Config, h *history.History, inputs []Input) *runner {
	r := &runner{Config: cfg, unseen: inputs}
	r.sampler = sampler{
		recorder: recorder{id: cfg.ID, log: cfg.Log, history: h, logger: cfg.Logger},
		model: Fallback{
			Model: cfg.Model, Provider: cfg.Provider, Row: cfg.Row, Request: cfg.Request, Output: cfg.Settings.Output, Traits: cfg.Settings.Traits,
		},
		participants: cfg.Participants, limits: cfg.Limits, meter: cfg.Meter,
	}
	r.hooks, _ = first[Hooks](cfg.Participants)
	return r
}

// close publishes what the participants have to say at the end. Each of them is asked before anything is published.
func (r *runner) close(ctx context.Context) {
	var bodies []event.Body
	for _, p := range each[EndListener](r.Participants) {
		bodies = append(bodies, p.OnEnd(ctx)...)
	}
	for _, body := range bodies {
		r.notice(ctx, body)
	}
}

// Do runs work as a turn that is not the loop of model and calls. record puts messages into the log and the history.
func Do(ctx context.Context, cfg Config, h *history.History, work func(ctx context.Context, record Record) Result) Result {
	return run(ctx, cfg, h, nil, func(r *runner, ctx context.Context) Result { return work(ctx, r.record) })
}

// Record puts messages into the log and the history, in the goroutine of the turn's work.
type Record func(context.Context, ...llm.Message) error

var errCrashed = errors.New("the turn ended by an internal error")

// Crashed is how a turn ends that panicked; the thread goes on.
func Crashed(log hclog.Logger, id event.TurnID, p any) Result {
	log.Error("turn panicked", "turn", id, "err", p, "stack", string(debug.Stack()))
	return Result{Status: event.TurnFailed, Problem: &event.Problem{
		Code: "internal", Message: fmt.Sprintf("internal error: %v", p), Next: "please report this; the thread keeps running",
	}}
}

// Keep is the end of a turn that could not be run: what was said to it stays in the history.
func Keep(ctx context.Context, cfg Config, h *history.History, input Input, res Result) {
	r := newRunner(cfg, h, []Input{input})
	r.keep(ctx, res)
}

// keep records what the end of every turn leaves in the history: input that was accepted and not seen by the model, so
// that nothing that a user wrote is lost, and the word on an interruption.
func (r *runner) keep(ctx context.Context, res Result) {
	ctx = context.WithoutCancel(ctx)
	r.ending = true
	for _, in := range append(r.unseen, r.Inbox.Close()...) {
		if _, err := r.recordInput(ctx, in); err != nil {
			r.Logger.Error("input at the end of a turn not recorded", "turn", r.ID, "err", err)
		}
	}
	if res.Status != event.TurnInterrupted {
		return
	}
	if r.unspoken {
		return // the mail that it was begun for is still to be read
	}
	marker := interruptedMarker
	_, byHook := errors.AsType[*stoppedError](res.Cause)
	switch {
	case byHook:
		return // nothing was cut off
	case errors.Is(res.Cause, orchestrate.ErrReplaced):
		return // what replaced it says so itself
	case errors.Is(res.Cause, orchestrate.ErrShutdown):
		marker = HostStopped
	}
	if err := r.record(ctx, marker); err != nil {
		r.Logger.Error("interrupt marker not recorded", "turn", r.ID, "err", err)
	}
}

// interruptedMarker tells the model in its next turn what happened to this one.
var interruptedMarker = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"The user stopped the previous turn on purpose. Commands that it left running in the background may still run, and " +
	"calls that were stopped may have done part of their work: look before you repeat them.\n</turn_aborted>"}}}

// HostStopped tells the same where the host ended, on purpose or not.
var HostStopped = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"The program that runs you stopped in the middle of the previous turn. Its processes have ended. Calls whose outcome is " +
	"unknown may have done part of their work.\n</turn_aborted>"}}}

// Forked tells the same to a copy of a conversation that was in the middle of a turn.
var Forked = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"This conversation is a copy of another one, made in the middle of the previous turn. That turn goes on there and not here; " +
	"commands and sessions that it started belong to it.\n</turn_aborted>"}}}

func (r *runner) run(ctx context.Context) Result {
	r.unspoken = r.unseen[0].empty()
	if err := r.makeRoom(ctx); err != nil {
		return r.ended(ctx, err)
	}
	if err := r.recordContext(ctx); err != nil {
		return r.ended(ctx, err)
	}
	// The turn's own input is answered first; what arrives meanwhile is taken at the next boundary.
	drain := r.unspoken
	owed := drain // an answer of the model's: also where nothing new is said
	last := ""
	for n := 1; ; n++ {
		if err := r.begin(ctx); err != nil {
			return r.ended(ctx, err)
		}
		if drain {
			r.unseen = append(r.unseen, r.Inbox.Take()...)
		}
		said, err := r.recordSaid(ctx, n == 1, drain)
		if err != nil {
			return r.ended(ctx, err)
		}
		if !said && !owed { // hooks held back all of it
			if r.Inbox.CloseIfEmpty() {
				return Result{Status: event.TurnCompleted, LastMessage: last}
			}
			drain = true
			n--
			continue
		}
		if drain {
			if err := r.recordContext(ctx); err != nil {
				return r.ended(ctx, err)
			}
		}
		drain, owed, r.unspoken = true, true, false
		if r.Limits.Samplings > 0 && n > r.Limits.Samplings {
			return r.problem(&event.Problem{
				Code: "turn-limit", Message: fmt.Sprintf("the turn reached its limit of %d requests to the model", r.Limits.Samplings),
				Next: "say how to continue, or raise limits.samplings",
			})
		}
		s, err := r.answered(ctx, r.sample)
		if overflows(err) && ctx.Err() == nil {
			r.history.Overflowed()
			done, failed := r.makeRoomAfter(ctx)
			if failed != nil {
				return r.ended(ctx, failed)
			}
			if done { // the same once more: nobody has answered yet
				drain = false
				continue
			}
		}
		if err != nil {
			return r.ended(ctx, err)
		}
		if s.abort {
			return Result{Status: event.TurnInterrupted, Cause: orchestrate.ErrInterrupted}
		}
		if s.loop != nil {
			return r.problem(s.loop)
		}
		r.paused, r.pausedWith = 0, nil
		if s.again {
			r.paused, r.pausedWith = r.history.Len(), s.meta
		}
		last, owed = s.lastText, s.followUp
		if !owed && r.Inbox.Empty() && !r.mailHolds(s) {
			if owed, err = r.heldByHooks(ctx, last); err != nil {
				return r.ended(ctx, err)
			}
		}
		// Deciding to end and refusing further input is one step, so nothing can fall between them.
		if !owed && !r.mailHolds(s) && r.Inbox.CloseIfEmpty() {
			r.tellOfForm(ctx, last)
			return Result{Status: event.TurnCompleted, LastMessage: last}
		}
		if s.again {
			continue // what a vendor has begun is ended before its history goes
		}
		done, err := r.makeRoomAfter(ctx)
		if err != nil {
			return r.ended(ctx, err)
		}
		// What the model was about to do comes before what was said meanwhile.
		drain = !done || !owed
	}
}

// context asks the participants for what the model must be told, given what it knows.
func (r *runner) context(last *event.Reference) ([]llm.Message, event.Reference) {
	var all []prompt.Section
	for _, source := range each[ContextSource](r.Participants) {
		sections := source.Sections(last)
		if len(sections) > 0 {
			sections[0].Apart = true
		}
		all = append(all, sections...)
	}
	return prompt.Update(last, all)
}

// recordContext tells the model what it must know now. Only what the history has counts as told.
func (r *runner) recordContext(ctx context.Context) error {
	ms, known := r.context(r.history.ContextState())
	if len(ms) == 0 {
		return nil
	}
	// In this order: a log that was cut off in between makes a resumed thread say it again.
	if err := r.write(ctx, event.HistoryAdded{Messages: ms}, event.ContextUpdated{Reference: known}); err != nil {
		return err
	}
	r.history.SetContextState(&known)
	return nil
}

// recordSaid records what is new for the model: mail that waited before the turn goes before the words that began it, what came
// since behind what the user said meanwhile.
func (r *runner) recordSaid(ctx context.Context, first, drain bool) (said bool, err error) {
	if first && !drain {
		if said, err = r.readMail(ctx); err != nil {
			return said, err
		}
	}
	heard, err := r.recordUnseen(ctx)
	if err != nil || !drain {
		return said || heard, err
	}
	read, err := r.readMail(ctx)
	return said || heard || read, err
}

// recordUnseen records what was taken from the inbox. What an interrupt keeps from being recorded here is kept by the
// turn's end. said tells whether there is something new that the model reads.
func (r *runner) recordUnseen(ctx context.Context) (said bool, err error) {
	for len(r.unseen) > 0 {
		recorded, err := r.recordInput(ctx, r.unseen[0])
		if err != nil {
			return said, err
		}
		said = said || recorded
		r.unseen = r.unseen[1:]
	}
	return said, nil
}

// settle ends an answer whose treatment was cut off: it closes what the answer opened, waits for its calls and records
// their outputs.
func (r *runner) settle(ctx context.Context) error {
	r.keepHeld(ctx)
	if r.current == nil {
		return nil
	}
	r.current.abandon(ctx)
	return r.current.drain(ctx)
}

// ended words the end of a turn that an error ended.
func (r *runner) ended(ctx context.Context, err error) Result {
	if stopped, ok := errors.AsType[*stoppedError](err); ok && ctx.Err() == nil {
		return Result{Status: event.TurnInterrupted, Cause: stopped}
	}
	if cause := context.Cause(ctx); cause != nil {
		if late, ok := errors.AsType[*timeError](cause); ok {
			return r.problem(late.problem())
		}
		return Result{Status: event.TurnInterrupted, Cause: cause}
	}
	return r.problem(ProblemOf(err))
}

// ProblemOf words an error for people.
func ProblemOf(err error) *event.Problem {
	p := &event.Problem{Code: "internal"}
	p.Message, p.Next = hint.Split(err)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		p.Code, p.Next = e.Code.String(), cmp.Or(p.Next, e.Next)
	}
	if _, ok := errors.AsType[*usage.BudgetError](err); ok {
		p.Code = "budget"
	}
	return p
}

func (r *runner) problem(p *event.Problem) Result {
	return Result{Status: event.TurnFailed, Problem: p}
}
