package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/compact"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Compaction says when a turn compacts the history, and how it asks for the summary.
type Compaction struct {
	Limit  int64  // tokens; 0 or a larger value: 90 % of the model's window
	Body   bool   // the limit applies to what was added after the first request since the last compaction
	Prompt string // asks for the summary; empty: the default prompt
}

// The reasons for a compaction.
var (
	byUser     = event.HistoryCompacted{Trigger: "manual", Reason: "user_requested", Phase: "standalone_turn"}
	beforeTurn = event.HistoryCompacted{Trigger: "auto", Reason: "context_limit", Phase: "pre_turn"}
	downshift  = event.HistoryCompacted{Trigger: "auto", Reason: "model_downshift", Phase: "pre_turn"}
	inTurn     = event.HistoryCompacted{Trigger: "auto", Reason: "context_limit", Phase: "mid_turn"}
)

// Compact runs a turn that compacts the history at the user's request and does nothing else.
func Compact(ctx context.Context, cfg Config, h *history.History) Result {
	return run(ctx, cfg, h, nil, func(r *runner, ctx context.Context) Result {
		if !h.Grown() {
			r.notice(ctx, event.Notice{Level: "info", Text: "there is nothing to compact: no model has answered since the last compaction"})
		} else if _, err := r.compact(ctx, byUser); err != nil {
			return r.ended(ctx, err)
		}
		return Result{Status: event.TurnCompleted}
	})
}

func (r *runner) window() history.Window {
	w := history.WindowOf(r.model.Row, r.Compaction.Limit)
	w.Body = r.Compaction.Body
	return w
}

// compactBeforeTurn compacts the history if it would not fit the window together with the turn's input.
func (r *runner) compactBeforeTurn(ctx context.Context) error {
	if !r.history.Grown() {
		return nil
	}
	more := r.incoming()
	if done, err := r.compactWithPreviousModel(ctx, more); done || err != nil {
		return err
	}
	if !r.window().Reached(r.history, more) {
		return nil
	}
	_, err := r.compact(ctx, beforeTurn)
	return err
}

// incoming estimates the tokens that the turn's input, mail and context will add.
func (r *runner) incoming() int64 {
	ms, _ := r.context(r.history.ContextState())
	for _, m := range r.Mail.Waiting() {
		ms = append(ms, history.MailMessage(m))
	}
	for _, in := range r.unseen {
		ms = append(ms, llm.Message{Role: llm.RoleUser, Parts: in.Parts})
	}
	return history.Estimate(ms)
}

// compactWithPreviousModel asks the model of the previous turn for the summary if this turn's model has a smaller window and the history
// does not fit it: the previous model has read all of it. If that model can't be asked, this turn's model is.
func (r *runner) compactWithPreviousModel(ctx context.Context, more int64) (done bool, err error) {
	w, active := r.window(), r.history.Active()+more
	previous, ok := first[PreviousModel](r.Participants)
	if !ok || active <= w.Limit && active < w.Usable() {
		return false, nil
	}
	before, err := previous.PreviousModel(ctx)
	if err != nil {
		r.Logger.Debug("the model of the turn before can't be asked for an account", "turn", r.ID, "err", err)
		return false, ctx.Err()
	}
	if history.WindowOf(before.Row, 0).Size <= w.Size {
		return false, nil
	}
	own := r.model
	defer func() { r.model, r.noFallback = own, false }()
	r.model = *before
	r.noFallback = true // fallbacks are for this turn's model only
	done, err = r.compact(ctx, downshift)
	if _, said := errors.AsType[*llm.Error](err); said && ctx.Err() == nil {
		return false, nil
	}
	return done, err
}

// compactDuringTurn compacts the history between two requests of a turn if it has reached its limit.
func (r *runner) compactDuringTurn(ctx context.Context) (done bool, err error) {
	if r.circle || !r.history.Grown() || !r.window().Reached(r.history, 0) {
		return false, nil
	}
	return r.compact(ctx, inTurn)
}

// checkCircle ends automatic compaction for this turn if the first request after one has reached the limit again, by the count of the
// vendor: what is left can't be made smaller.
func (r *runner) checkCircle(ctx context.Context, input int64) {
	if !r.compacted {
		return
	}
	r.compacted = false
	if w := r.window(); !w.Body && input >= w.Limit && !r.circle {
		r.circle = true
		r.notice(ctx, event.Notice{
			Level: "warning", Text: fmt.Sprintf("a request has %d tokens although the conversation was just compacted, and the limit is %d: it is not compacted again in this turn", input, w.Limit),
			Next: "Raise history.compact_at_tokens, use a model with a larger window, or give it fewer tools and instructions.",
		})
	}
}

// overflows reports whether a model refused a request as too long.
func overflows(err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	return ok && (e.Code == llm.ErrContextOverflow || e.Code == llm.ErrPayloadTooLarge)
}

// compact asks for a summary of the conversation and replaces the history with it. done is false if that would save nothing: the
// history stays as it is, and compaction is not tried again before the model has said something new.
func (r *runner) compact(ctx context.Context, why event.HistoryCompacted) (done bool, err error) {
	if err := r.compactionHooks(ctx, Hooks.Compacting, why.Trigger, "the compaction"); err != nil {
		return false, err
	}
	item := event.Item{ID: event.NewItemID(), Type: event.ItemCompaction, Status: event.StatusInProgress}
	if err := r.write(ctx, event.ItemStarted{Item: item}); err != nil {
		return false, err
	}
	summary, err := r.summary(ctx)
	if err != nil {
		item.Status = event.StatusFailed
		if ctx.Err() != nil {
			item.Status = event.StatusAborted
		}
		r.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: item})
		return false, err
	}
	context, known := r.context(nil)
	old := r.history.Messages()
	next := compact.Replace(old, context, summary)
	was, is := history.Estimate(old), history.Estimate(next)
	if is >= was {
		r.history.Settle()
		item.Status = event.StatusFailed
		item.Text = fmt.Sprintf("not compacted: about %d tokens would have become %d", was, is)
		err := r.write(ctx, event.ItemCompleted{Item: item}, event.Notice{
			Level: "warning", Text: "the conversation was " + item.Text, Next: "Continue; it is tried again when the conversation has grown.",
		})
		return false, err
	}
	base := r.base()
	w := r.window()
	why.Item, why.Messages, why.ContextWindow = item.ID, next, w.Usable()
	why.Before, why.After = max(r.history.Active(), base+was), base+is
	item.Status = event.StatusCompleted
	item.Text = fmt.Sprintf("compacted: about %d tokens became %d", why.Before, why.After)
	bodies := []event.Body{why, event.ContextUpdated{Reference: known}, event.ItemCompleted{Item: item}}
	if why.After >= w.Limit && !w.Body {
		bodies = append(bodies, event.Notice{
			Level: "warning", Text: fmt.Sprintf("about %d tokens are left after compaction, and the limit is %d: it will be reached again at once", why.After, w.Limit),
			Next: "Raise history.compact_at_tokens, use a model with a larger window, or give it less at once.",
		})
	}
	if err := r.write(ctx, bodies...); err != nil {
		return false, err
	}
	crashpoint.At(crashpoint.Compacted, "")
	r.history.Replace(next, why.After)
	r.history.SetContextState(&known)
	r.compacted = true
	return true, r.compactionHooks(ctx, Hooks.Compacted, why.Trigger, "the turn after the compaction")
}

// base estimates the tokens of a request beside its messages.
func (r *runner) base() int64 {
	var n int64
	for _, s := range r.model.Request.System {
		n += history.Tokens(int64(len(s)))
	}
	return n
}

// summary asks for the summary, twice if the first one is empty. Only the answer's text is used.
func (r *runner) summary(ctx context.Context) (string, error) {
	for _, strict := range []bool{false, true} {
		text, err := r.fittingSummary(ctx, strict)
		if err != nil || strings.TrimSpace(text) != "" {
			return text, err
		}
	}
	return compact.Missing, nil
}

// fittingSummary asks about a shorter and shorter part of the conversation until the request fits.
func (r *runner) fittingSummary(ctx context.Context, strict bool) (string, error) {
	q := question{runner: r, strict: strict}
	for ; ; q.refused++ {
		_, err := r.sampleWithFallback(ctx, q.ask)
		if !overflows(err) {
			return q.text, err
		}
		if q.exhausted {
			r.history.Overflowed()
			return "", err
		}
		q.refusal = err
	}
}

// question asks for a summary. It stores the text only when the answer is complete.
type question struct {
	*runner
	strict    bool  // the model can't call tools
	refused   int   // how often the request was too long
	refusal   error // last error of this kind
	exhausted bool  // nothing more can be left out
	text      string
}

// ask makes one request to the current model.
func (q *question) ask(ctx context.Context, attempts int) (sampled, error) {
	rest, ok := compact.Trimmed(q.history.ForPrompt(history.TraitsOf(q.model.Row)), q.refused)
	if !ok {
		q.exhausted = true
		return sampled{}, q.refusal
	}
	req := q.model.Request
	req.Messages = append(slices.Clip(rest), compact.Prompt(q.Compaction.Prompt))
	// With the tools it begins like the requests before, which the vendor has in its cache: it is the largest of the thread. A model
	// that calls one in spite of the question is asked once more without a choice.
	tools := q.Tools()
	req.Tools, req.Namespaces, req.ParallelToolCalls = tools.ModelTools(q.model.Row), tools.Namespaces(q.model.Row), q.model.Row.ParallelToolCalls
	if q.strict && len(req.Tools) > 0 {
		req.ToolChoice = llm.ToolChoice{Mode: "none"}
	}
	req.OutputSchema, req.OutputSchemaName = nil, ""
	var answer llm.Fold
	var response string
	var counted bool
	var s sampled
	s.posts = 1
	err := q.consume(ctx, &req, attempts, func(ctx context.Context, ev llm.Event) error {
		answer.Add(ev)
		switch ev := ev.(type) {
		case llm.StepStart:
			s.begun, response = true, ev.ResponseID
		case llm.Attempt:
			s.posts++
			q.notice(ctx, event.StreamRetried{Attempt: ev.N - 1, DelayMS: ev.DelayMS, Cause: ev.Reason})
		case llm.StepFinish:
			counted = true
			return q.Meter.Report(ctx, q.Log, q.ID, usage.Of(q.model.Provider, q.model.Row, response, ev.Usage))
		case *llm.Error:
			return ev
		}
		return nil
	})
	if err != nil {
		if s.begun && !counted {
			q.Meter.Lost()
		}
		return s, err
	}
	var texts []string
	for _, p := range answer.Message().Parts {
		if t, ok := p.(*llm.Text); ok && strings.TrimSpace(t.Text) != "" {
			texts = append(texts, t.Text)
		}
	}
	q.text = strings.Join(texts, "\n\n")
	return s, nil
}
