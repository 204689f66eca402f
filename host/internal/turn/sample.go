package turn

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sampled is the outcome of one answer of the model.
type sampled struct {
	followUp bool
	lastText string
	spoke    bool           // it contains text that is not marked as a remark
	abort    bool           // a person answered a question with "abort"
	again    bool           // the provider continues the same answer in the next request
	meta     llm.Metadata   // of the answer as a whole
	begun    bool           // the answer has begun
	posts    int            // how many requests it took, as reported by the provider
	loop     *event.Problem // the model repeats the same call
	cut      bool           // the answer reached the limit of its length, and contains no call
}

// sample asks the model once. Complete items are recorded even if the stream breaks afterwards, and the model is asked again with
// them. attempts limits the tries before the first event.
func (r *runner) sample(ctx context.Context, attempts int) (sampled, error) {
	r.supersede(ctx)
	durable := r.commit(ctx)
	tools := r.Tools()
	settings := r.Settings
	settings.Tools, settings.Output, settings.Traits = tools, r.model.Output, r.model.Traits
	req := r.model.Request
	traits := history.TraitsOf(r.model.Row)
	traits.Paused, traits.PausedWith = r.paused, r.pausedWith
	req.Messages = r.history.ForPrompt(traits)
	req.Tools, req.Namespaces = tools.ModelTools(r.model.Row), tools.Namespaces(r.model.Row)
	req.ParallelToolCalls = r.model.Row.ParallelToolCalls
	if r.handsBack {
		req.Tools, req.Namespaces = nil, nil
	}
	if err := durable(); err != nil {
		return sampled{}, err
	}

	a := &answer{runner: r, turn: ctx, settings: settings, texts: map[blockKey]*textBlock{}, inputs: map[string]int64{}}
	r.current = a
	a.posts = 1
	for _, l := range each[RequestListener](r.Participants) {
		l.OnRequest(tools)
	}
	streamErr := a.consume(ctx, &req, attempts, a.event)
	if streamErr == errMail {
		// Keep what the model has said, and ask again with the mail.
		if err := a.flush(ctx); err != nil {
			return a.sampled, err
		}
		a.followUp = true
	}
	if streamErr != nil {
		if ctx.Err() != nil { // there will be no retry
			a.flushAtEnd(ctx)
		}
		a.abandon(ctx)
		if a.begun && !a.counted {
			a.Meter.Lost()
		}
	}
	a.closeHosted(ctx, event.StatusCompleted) // the provider paused, or did not report the results
	// Wait for the calls that have started, even after a broken stream, so that each output is recorded once.
	if err := a.drain(ctx); err != nil {
		return a.sampled, err
	}
	r.current = nil
	if streamErr == errMail {
		return a.sampled, nil
	}
	return a.sampled, streamErr
}

// answer is an answer that is being received.
type answer struct {
	*runner
	turn     context.Context // context of the calls: they outlive the stream, but not the turn
	settings orchestrate.Settings
	texts    map[blockKey]*textBlock
	inputs   map[string]int64 // how much of the input of calls was published, by the ID of the call; only those that are shown
	pending  []pendingCall
	hosted   map[string]event.Item // calls run by the provider, without a result so far
	response string
	counted  bool // its usage has been counted
	between  bool // after a thought or a remark, and before the next block: mail may end the answer here
	sampled
}

type textBlock struct {
	item   event.Item
	kind   llm.BlockKind
	text   strings.Builder
	meta   llm.Metadata
	offset int64
}

type pendingCall struct {
	call   *llm.ToolCall
	future *orchestrate.Future // nil: known is the answer
	known  *llm.ToolResult
}

func (a *answer) event(ctx context.Context, ev llm.Event) error {
	if err := a.preemptForMail(ev); err != nil {
		return err
	}
	switch ev := ev.(type) {
	case llm.StepStart:
		a.begun = true
		a.response = ev.ResponseID
		if ev.ServedModel != "" && !strings.EqualFold(ev.ServedModel, a.model.Request.Model) {
			a.Logger.Debug("another model answers", "turn", a.ID, "asked", a.model.Request.Model, "served", ev.ServedModel)
		}
	case llm.Attempt:
		a.posts++
		a.notice(ctx, event.StreamRetried{Attempt: ev.N - 1, DelayMS: ev.DelayMS, Cause: ev.Reason})
	case llm.BlockStart:
		return a.start(ctx, ev)
	case llm.BlockDelta:
		return a.delta(ctx, ev)
	case llm.BlockEnd:
		return a.end(ctx, ev)
	case llm.ToolInputError:
		call := &llm.ToolCall{ID: ev.ID, Name: ev.Name, Namespace: ev.Namespace, Input: ev.Raw, Metadata: ev.Metadata}
		return a.call(ctx, call, &llm.ToolResult{
			ID: ev.ID, Name: ev.Name, Namespace: ev.Namespace, IsError: true,
			Content: llm.Parts{&llm.Text{Text: "failed to parse function arguments: " + ev.Message}},
		})
	case llm.ToolCallDone:
		call := ev.Call
		if call.ProviderExecuted {
			return a.hostedCall(ctx, call)
		}
		return a.call(ctx, &call, nil)
	case llm.ToolResultDone:
		return a.hostedResult(ctx, ev.Result)
	case llm.StepFinish:
		a.followUp, a.again = a.followUp || ev.Again, ev.Again
		if ev.Reason != llm.FinishError {
			if err := a.flush(ctx); err != nil {
				return err
			}
		}
		if err := a.count(ctx, ev.Usage); err != nil {
			return err
		}
		return a.finish(ctx, ev)
	case llm.Finish:
		a.meta = ev.Metadata
	case *llm.Error:
		return ev
	}
	return nil
}

func (a *answer) start(ctx context.Context, ev llm.BlockStart) error {
	if ev.Kind == llm.BlockToolInput {
		if !ev.ProviderExecuted {
			for _, l := range each[ToolListener](a.Participants) {
				l.OnToolAnnounced(a.settings.Tools, ev.Namespace, ev.Name)
			}
			if e, ok := a.settings.Tools.Lookup(ev.Namespace, ev.Name); ok && e.Freeform != nil {
				a.inputs[ev.ID] = 0
			}
		}
		return nil // the item starts when the call is complete
	}
	t := event.ItemAgentMessage
	if ev.Kind == llm.BlockReasoning {
		t = event.ItemReasoning
	}
	b := &textBlock{kind: ev.Kind, meta: ev.Metadata, item: event.Item{ID: event.NewItemID(), Type: t, Status: event.StatusInProgress}}
	if err := a.write(ctx, event.ItemStarted{Item: b.item}); err != nil {
		return err
	}
	a.texts[blockKey{ev.Kind, ev.ID}] = b
	return nil
}

// blockKey identifies a block of an answer.
type blockKey struct {
	kind llm.BlockKind
	id   string
}

// maxInputShown is how much of the input of a call is published while the model writes it, in bytes.
const maxInputShown = 256 << 10

// input publishes a piece of the input of a call.
func (a *answer) input(ctx context.Context, ev llm.BlockDelta) error {
	at, shown := a.inputs[ev.ID]
	if !shown || at+int64(len(ev.Text)) > maxInputShown {
		delete(a.inputs, ev.ID) // without a gap
		return nil
	}
	a.inputs[ev.ID] = at + int64(len(ev.Text))
	return a.write(ctx, event.ItemDelta{Item: event.ItemID(ev.ID), Delta: event.DeltaInput, Offset: at, Text: ev.Text})
}

func (a *answer) delta(ctx context.Context, ev llm.BlockDelta) error {
	if ev.Kind == llm.BlockToolInput {
		return a.input(ctx, ev)
	}
	b := a.texts[blockKey{ev.Kind, ev.ID}]
	if b == nil {
		return nil
	}
	d := event.ItemDelta{Item: b.item.ID, Delta: event.DeltaText, Offset: b.offset, Text: ev.Text}
	if b.kind == llm.BlockReasoning {
		d.Delta, d.Raw = event.DeltaReasoning, ev.Raw
		b.item.Raw = ev.Raw
	}
	b.text.WriteString(ev.Text)
	b.offset += int64(len(ev.Text))
	err := a.write(ctx, d)
	return err
}

// end holds a complete block as a message of its own until the next event says whether it stays.
func (a *answer) end(ctx context.Context, ev llm.BlockEnd) error {
	key := blockKey{ev.Kind, ev.ID}
	b := a.texts[key]
	if b == nil {
		return nil
	}
	text := b.text.String()
	item := b.item
	item.Text, item.Status = text, event.StatusCompleted
	meta := b.meta
	if ev.Metadata != nil {
		meta = ev.Metadata
	}
	var part llm.Part = &llm.Text{Text: text, Metadata: meta}
	if b.kind == llm.BlockReasoning {
		part = &llm.Reasoning{Text: text, Metadata: a.markVendor(meta)}
		a.between = true
	} else if strings.TrimSpace(text) != "" {
		if ev.Remark {
			item.Phase = event.PhaseCommentary
		}
		a.lastText = text
		a.between, a.spoke = ev.Remark, a.spoke || !ev.Remark
	}
	h := heldText{message: llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{part}}}
	if b.kind == llm.BlockReasoning { // a complete thought is shown at once
		if err := a.write(ctx, event.ItemCompleted{Item: item}); err != nil {
			return err // the item is still open: abandon closes it
		}
	} else {
		h.item = &item
	}
	delete(a.texts, key)
	a.held = append(a.held, h)
	return nil
}

// abandon closes the items of incomplete blocks. Their text is not added to the history: the model will repeat it.
func (a *answer) abandon(ctx context.Context) {
	for _, b := range a.texts {
		b.item.Text, b.item.Status = b.text.String(), event.StatusAborted
		a.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: b.item})
	}
	clear(a.texts)
	a.closeHosted(ctx, event.StatusAborted)
}

// count reports the usage of the answer.
func (a *answer) count(ctx context.Context, u llm.Usage) error {
	a.counted = true
	r := usage.Of(a.model.Provider, a.model.Row, a.response, u)
	used := usage.TokensOf(u)
	if used.Total == 0 { // the provider does not report usage: estimate it, so that limits work
		used.Input = a.base() + history.Estimate(a.history.Messages())
		used.Total = used.Input
	}
	a.history.Counted(used.Total, used.Input)
	a.checkCircle(ctx, used.Input)
	r.Active = a.history.Active()
	return a.Meter.Report(ctx, a.Log, a.ID, r)
}

// stub describes an answer that is none.
type stub struct {
	note    string // asks the model to go on
	problem *event.Problem
}

// stub returns nil if the answer is one: it contains a text that is whole, or calls.
func (s *sampled) stub() *stub {
	switch {
	case s.cut && s.lastText != "":
		return &stub{
			"Your answer was cut off at the limit of its length. Continue exactly where it ends, without repeating anything.",
			&event.Problem{
				Code: "answer-cut-off", Message: "the answer was cut off at the limit of its length, twice in a row",
				Next: "raise max_output_tokens in the model's block, or ask for less at once",
			},
		}
	case s.lastText == "" && !s.followUp && !s.again:
		return &stub{
			"Your answer contained neither text nor a call. Answer the user, or go on with the task.",
			&event.Problem{Code: "empty-answer", Message: "the model answered with neither text nor a call, twice in a row", Next: "say how to continue, or use another model"},
		}
	}
	return nil
}

// finish handles an answer that the model did not end itself: a content filter ends the turn with an error, a length limit is
// reported to people and the model continues once, and an answer that the vendor could not complete is requested again. Complete blocks are kept.
func (a *answer) finish(ctx context.Context, ev llm.StepFinish) error {
	why := ""
	if ev.RawReason != "" {
		why = fmt.Sprintf(" (%s)", ev.RawReason)
	}
	switch ev.Reason {
	case llm.FinishContentFilter:
		return &llm.Error{
			Code: llm.ErrContentPolicy, Message: fmt.Sprintf("provider %q: the vendor stopped the answer under its content policy%s", a.model.Provider, why),
			Next: "reword it, or use another model",
		}
	case llm.FinishError:
		return &llm.Error{
			Code: llm.ErrInvalidOutput, Retryable: true, Message: fmt.Sprintf("provider %q: the vendor could not finish the answer%s", a.model.Provider, why),
		}
	case llm.FinishLength:
		a.cut = len(a.pending) == 0
		a.notice(ctx, event.Notice{
			Level: "warning", Text: fmt.Sprintf("the answer was cut off at the limit of its length%s", why), Next: "To allow longer answers, raise max_output_tokens in the model's block.",
		})
	}
	return nil
}
