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

// Model answers requests. The sequence ends after a Finish or with an error; a consumer that stops early cancels the request.
// attempts limits the tries before the first event of an answer; each try after the first yields an [llm.Attempt].
type Model interface {
	Stream(ctx context.Context, r *llm.Request, turn event.TurnID, attempts int) iter.Seq2[llm.Event, error]
}

// Dispatcher runs tool calls.
type Dispatcher interface {
	Dispatch(ctx context.Context, gate *orchestrate.Gate, c orchestrate.Call) *orchestrate.Future
}

// Log stores the turn's events in order.
type Log interface {
	Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error)
	Barrier(ctx context.Context, seq uint64) error
}

// Config describes a turn. It does not change while the turn runs.
type Config struct {
	ID       event.TurnID
	Settings orchestrate.Settings // the turn sets Tools and Turn
	Model    Model
	Calls    Dispatcher
	Log      Log
	Tools    func() *registry.Snapshot // called before each request
	Provider string                    // provider of the model, for reports
	Row      llm.ModelRow
	// Request has the fields that are the same in every request: model, system, effort, cache key, schema.
	Request llm.Request
	// Participants take part in the turn, in this order.
	Participants []Participant
	Compaction   Compaction
	Inbox        *Inbox
	Mail         *Mailbox     // the thread's
	Meter        *usage.Meter // its budget is checked before each request
	Limits       Limits
	Logger       hclog.Logger
}

// Fallback is a model that takes over for the rest of a turn, with the settings that depend on the model.
type Fallback struct {
	Model    Model
	Provider string
	Row      llm.ModelRow
	Request  llm.Request
	Output   history.Policy
	Traits   []string       // see [orchestrate.Settings]
	Notices  []event.Notice // tell people which model takes over from which, and why
}

// Result says how a turn ended. Everything that the turn recorded is in the history.
type Result struct {
	Status      event.TurnStatus
	Problem     *event.Problem
	LastMessage string // last text of the last answer; "" if it is blank
	Cause       error  // why the turn was interrupted
}

// runner is a running turn. Its fields belong to the goroutine that called Run.
type runner struct {
	Config
	sampler
	hooks   Hooks // of the participants; nil: none
	gate    orchestrate.Gate
	unseen  []Input // accepted, and not in the history yet
	current *answer // its calls may still be running
	repeats repeats
	stops   stops
	paused  int // number of messages up to the end of an answer that the provider has paused; 0: none
	// pausedWith is the metadata of that answer as a whole, which the provider wants back.
	pausedWith   llm.Metadata
	ending       bool   // the turn is ending: hooks have little time
	compacted    bool   // the history was compacted, and no request has been counted since
	circle       bool   // compaction did not help: none is made automatically
	unfinished   string // the text of an answer that was cut off, which the model is to continue
	asked        bool   // the model was asked to continue, or to answer at all
	withoutInput bool   // the turn has no input of its own, and no request has been made
}

// Run runs a turn on h until nothing is left to do, ctx ends, or the model can't be asked. input began the turn.
func Run(ctx context.Context, cfg Config, h *history.History, input Input) Result {
	return run(ctx, cfg, h, []Input{input}, (*runner).run)
}

// run does the work of a turn, and everything before and after it.
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
		// Calls that a panic left running end before the turn does.
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

// close publishes the last events of the participants. All of them are asked before anything is published.
func (r *runner) close(ctx context.Context) {
	var bodies []event.Body
	for _, p := range each[EndListener](r.Participants) {
		bodies = append(bodies, p.OnEnd(ctx)...)
	}
	for _, body := range bodies {
		r.notice(ctx, body)
	}
}

// Do runs work as a turn without the loop of requests and calls. record adds messages to the log and the history.
func Do(ctx context.Context, cfg Config, h *history.History, work func(ctx context.Context, record Record) Result) Result {
	return run(ctx, cfg, h, nil, func(r *runner, ctx context.Context) Result { return work(ctx, r.record) })
}

// Record adds messages to the log and the history. Only the goroutine of the turn's work calls it.
type Record func(context.Context, ...llm.Message) error

// handBack asks a model whose budget is used up for what it has got.
const handBack = "<budget>\nYour budget is used up, and you can't call tools any more. Answer now with what you have got: what is done, what you have found, and what is left.\n</budget>"

var errCrashed = errors.New("the turn ended by an internal error")

// Crashed is the result of a turn that panicked. The thread keeps running.
func Crashed(log hclog.Logger, id event.TurnID, p any) Result {
	log.Error("turn panicked", "turn", id, "err", p, "stack", string(debug.Stack()))
	return Result{Status: event.TurnFailed, Problem: &event.Problem{
		Code: "internal", Message: fmt.Sprintf("internal error: %v", p), Next: "please report this; the thread keeps running",
	}}
}

// Keep ends a turn that could not run: its input stays in the history.
func Keep(ctx context.Context, cfg Config, h *history.History, input Input, res Result) {
	r := newRunner(cfg, h, []Input{input})
	r.keep(ctx, res)
}

// keep records what every turn leaves in the history: input that was accepted and that the model has not seen, so that nothing a
// user wrote is lost, and the note about an interruption.
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
	if r.withoutInput {
		return // the mail that began the turn is still unread
	}
	marker := interruptedMarker
	_, byHook := errors.AsType[*stoppedError](res.Cause)
	switch {
	case byHook:
		return // nothing was interrupted
	case errors.Is(res.Cause, orchestrate.ErrReplaced):
		return // the new turn says so itself
	case errors.Is(res.Cause, orchestrate.ErrShutdown):
		marker = HostStopped
	}
	if err := r.record(ctx, marker); err != nil {
		r.Logger.Error("interrupt marker not recorded", "turn", r.ID, "err", err)
	}
}

// interruptedMarker tells the model in the next turn that this one was interrupted.
var interruptedMarker = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"The user stopped the previous turn on purpose. Commands that it left running in the background may still run, and " +
	"calls that were stopped may have done part of their work: look before you repeat them.\n</turn_aborted>"}}}

// HostStopped is the same note for a turn that ended with the host, on purpose or not.
var HostStopped = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"The program that runs you stopped in the middle of the previous turn. Its processes have ended. Calls whose outcome is " +
	"unknown may have done part of their work.\n</turn_aborted>"}}}

// Forked is the same note for a fork that was made in the middle of a turn.
var Forked = llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<turn_aborted>\n" +
	"This conversation is a copy of another one, made in the middle of the previous turn. That turn goes on there and not here; " +
	"commands and sessions that it started belong to it.\n</turn_aborted>"}}}

func (r *runner) run(ctx context.Context) Result {
	r.withoutInput = r.unseen[0].empty()
	if err := r.compactBeforeTurn(ctx); err != nil {
		return r.ended(ctx, err)
	}
	if err := r.recordContext(ctx); err != nil {
		return r.ended(ctx, err)
	}
	// The turn's own input is answered first. Later input is read before the next request.
	drain := r.withoutInput
	owed := drain // the model owes an answer: ask it even if there is no new input
	last := ""
	for n := 1; ; n++ {
		if err := r.begin(ctx); err != nil {
			return r.ended(ctx, err)
		}
		if drain {
			r.unseen = append(r.unseen, r.Inbox.Take()...)
		}
		said, err := r.recordNew(ctx, n == 1, drain)
		if err != nil {
			return r.ended(ctx, err)
		}
		if !said && !owed { // hooks blocked all of the input
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
		drain, owed, r.withoutInput = true, true, false
		if r.Limits.Samplings > 0 && n > r.Limits.Samplings {
			return r.problem(&event.Problem{
				Code: "turn-limit", Message: fmt.Sprintf("the turn reached its limit of %d requests to the model", r.Limits.Samplings),
				Next: "say how to continue, or raise limits.samplings",
			})
		}
		if r.paused == 0 { // only the model that has paused can complete its answer
			if err := r.adjust(ctx, r.Inbox.adjustment()); err != nil {
				return r.ended(ctx, err)
			}
			for _, source := range each[NoteSource](r.Participants) {
				if err := r.tell(ctx, source.TakeNotes()...); err != nil {
					return r.ended(ctx, err)
				}
			}
		}
		s, err := r.sampleWithFallback(ctx, r.sample)
		if e, ok := errors.AsType[*usage.BudgetError](err); ok && r.Limits.HandBack && r.Meter.HandsBack(e) {
			if err := r.tell(ctx, handBack); err != nil {
				return r.ended(ctx, err)
			}
			drain, r.handsBack = false, true
			continue
		}
		r.handsBack = r.handsBack && err != nil
		if overflows(err) && ctx.Err() == nil {
			r.history.Overflowed()
			done, failed := r.compactDuringTurn(ctx)
			if failed != nil {
				return r.ended(ctx, failed)
			}
			if done { // the model has not answered yet: send the same request
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
		last, owed = r.unfinished+s.lastText, s.followUp
		stub := s.stub()
		if stub == nil {
			r.unfinished, r.asked = "", false
		} else if r.Inbox.Empty() && !r.mailContinues(s) { // otherwise the model is asked again anyway
			if r.asked {
				return r.problem(stub.problem)
			}
			r.unfinished, r.asked, owed = last, true, true
			if err := r.tell(ctx, stub.note); err != nil {
				return r.ended(ctx, err)
			}
		}
		if !owed && r.Inbox.Empty() && !r.mailContinues(s) {
			if owed, err = r.continuedByHooks(ctx, last); err != nil {
				return r.ended(ctx, err)
			}
		}
		// Closing the inbox and deciding to end is one step, so that no input can arrive in between.
		if !owed && !r.mailContinues(s) && r.Inbox.CloseIfEmpty() {
			r.warnOfSchema(ctx, last)
			return Result{Status: event.TurnCompleted, LastMessage: last}
		}
		if s.again {
			continue // complete the provider's paused answer before changing the history
		}
		done, err := r.compactDuringTurn(ctx)
		if err != nil {
			return r.ended(ctx, err)
		}
		// If the history was compacted, the model first continues what it was doing; new input is read after that.
		drain = !done || !owed
	}
}

// context returns the messages that update the model from what it knows (last), and what it knows then.
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

// recordContext updates the model's context. Only context that is in the history counts as known.
func (r *runner) recordContext(ctx context.Context) error {
	ms, known := r.context(r.history.ContextState())
	if len(ms) == 0 {
		return nil
	}
	// In this order: if the log ends in between, a resumed thread repeats the context.
	if err := r.write(ctx, event.HistoryAdded{Messages: ms}, event.ContextUpdated{Reference: known}); err != nil {
		return err
	}
	r.history.SetContextState(&known)
	return nil
}

// recordNew records what the model has not read. Mail from before the turn goes before the input that began the turn; later mail
// goes after the input that arrived meanwhile.
func (r *runner) recordNew(ctx context.Context, first, drain bool) (said bool, err error) {
	if first && !drain {
		if said, err = r.readMail(ctx); err != nil {
			return said, err
		}
	}
	heard, err := r.recordInputs(ctx)
	if err != nil || !drain {
		return said || heard, err
	}
	read, err := r.readMail(ctx)
	return said || heard || read, err
}

// recordInputs records the input that was taken from the inbox. An interrupt may leave some of it to the end of the turn. said
// reports whether there is anything new for the model.
func (r *runner) recordInputs(ctx context.Context) (said bool, err error) {
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

// settle ends an answer that was cut off: it closes open items, waits for the calls and records their outputs.
func (r *runner) settle(ctx context.Context) error {
	r.flushAtEnd(ctx)
	if r.current == nil {
		return nil
	}
	r.current.abandon(ctx)
	return r.current.drain(ctx)
}

// ended returns the result of a turn that err ended.
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

// ProblemOf returns the error in the form that people see.
func ProblemOf(err error) *event.Problem {
	p := &event.Problem{Code: "internal"}
	p.Message, p.Next = hint.Split(err)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		p.Code, p.Next, p.Status = e.Code.String(), cmp.Or(p.Next, e.Next), e.Status
	}
	if _, ok := errors.AsType[*usage.BudgetError](err); ok {
		p.Code = "budget"
	}
	return p
}

func (r *runner) problem(p *event.Problem) Result {
	return Result{Status: event.TurnFailed, Problem: p}
}
