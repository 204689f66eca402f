package turn

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/usage"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sampled is what one answer of the model left to do.
type sampled struct {
	followUp bool
	lastText string
	spoke    bool           // it has said what is no remark on the way
	abort    bool           // a person answered a question with "abort"
	again    bool           // the vendor goes on with the same answer in the next request
	meta     llm.Metadata   // of the answer as a whole
	begun    bool           // something was answered
	posts    int            // tries that it took, as far as the provider tells
	loop     *event.Problem // the model makes the same call over and over
}

// sample asks the model once. What was completed is recorded also when the stream breaks: items before the break are
// whole, so they are kept, and the model is asked again with them. attempts bounds the tries before anything is answered.
func (r *runner) sample(ctx context.Context, attempts int) (sampled, error) {
	r.supersede(ctx)
	durable := r.commit(ctx)
	tools := r.Tools()
	settings := r.Settings
	settings.Tools = tools
	req := r.Request
	traits := history.TraitsOf(r.Row)
	traits.Paused, traits.PausedWith = r.paused, r.pausedWith
	req.Messages = r.history.ForPrompt(traits)
	req.Tools = tools.ModelTools(r.Row)
	req.ParallelToolCalls = r.Row.ParallelToolCalls
	if err := durable(); err != nil {
		return sampled{}, err
	}

	a := &answer{runner: r, turn: ctx, settings: settings, texts: map[blockKey]*textBlock{}}
	r.current = a
	a.posts = 1
	for _, l := range each[RequestListener](r.Participants) {
		l.OnRequest(tools)
	}
	streamErr := a.consume(ctx, &req, attempts, a.event)
	if streamErr == errMail {
		// What it had said stands, and it is asked again: with the mail.
		if err := a.flush(ctx); err != nil {
			return a.sampled, err
		}
		a.followUp = true
	}
	if streamErr != nil {
		if ctx.Err() != nil { // nobody will be asked again
			a.keepHeld(ctx)
		}
		a.abandon(ctx)
		if a.begun && !a.counted {
			a.Meter.Lost()
		}
	}
	a.closeHosted(ctx, event.StatusCompleted) // the vendor pauses in the middle, or does not tell what they gave
	// Calls that started end before anything else happens, also after a broken stream: their output is asked for once.
	if err := a.drain(ctx); err != nil {
		return a.sampled, err
	}
	r.current = nil
	if streamErr == errMail {
		return a.sampled, nil
	}
	return a.sampled, streamErr
}

// answer is an answer being received.
type answer struct {
	*runner
	turn     context.Context // of the sampling: calls outlive the stream, not the turn
	settings orchestrate.Settings
	texts    map[blockKey]*textBlock
	pending  []pendingCall
	hosted   map[string]event.Item // calls that the vendor runs and whose result is to come
	response string
	counted  bool // what it used
	between  bool // behind a thought, or a remark, and before whatever comes next
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
	future *orchestrate.Future // nil: answer is known
	known  *llm.ToolResult
}

var errSilent = errors.New("idle timeout waiting for the model's stream")

// consume reads the stream of a request to its end.
func (r *runner) consume(ctx context.Context, req *llm.Request, attempts int, each func(context.Context, llm.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(r.Limits.IdleTimeout, func() { cancel(errSilent) })
	defer idle.Stop()
	finished := false
	for ev, err := range r.Model.Stream(ctx, req, r.ID, attempts) {
		idle.Stop() // whoever takes the events may be slow; only the model's silence counts
		if err != nil {
			if errors.Is(context.Cause(ctx), errSilent) {
				return &llm.Error{Code: llm.ErrTransport, Message: errSilent.Error(), Retryable: true}
			}
			return err
		}
		if err := each(ctx, ev); err != nil {
			return err
		}
		if _, ok := ev.(llm.Finish); ok {
			finished = true
		}
		wait := r.Limits.IdleTimeout
		if again, ok := ev.(llm.Attempt); ok {
			wait += time.Duration(again.DelayMS) * time.Millisecond // announced silence
		}
		idle.Reset(wait)
	}
	if !finished {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errSilent) {
			return cause
		}
		return &llm.Error{
			Code: llm.ErrIncompleteStream, Message: "stream disconnected before completion: stream closed before the answer was finished",
			Retryable: true,
		}
	}
	return nil
}

func (a *answer) event(ctx context.Context, ev llm.Event) error {
	if err := a.cutForMail(ev); err != nil {
		return err
	}
	switch ev := ev.(type) {
	case llm.StepStart:
		a.begun = true
		a.response = ev.ResponseID
		if ev.ServedModel != "" && !strings.EqualFold(ev.ServedModel, a.Request.Model) {
			a.Logger.Debug("another model answers", "turn", a.ID, "asked", a.Request.Model, "served", ev.ServedModel)
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
		}
		return nil // the item appears when the call is known
	}
	t := event.ItemAgentMessage
	if ev.Kind == llm.BlockReasoning {
		t = event.ItemReasoning
	}
	b := &textBlock{kind: ev.Kind, meta: ev.Metadata, item: event.Item{ID: event.NewItemID(), Type: t, Status: event.StatusInProgress}}
	if _, err := a.Log.Publish(ctx, a.ID, event.ItemStarted{Item: b.item}); err != nil {
		return err
	}
	a.texts[blockKey{ev.Kind, ev.ID}] = b
	return nil
}

// blockKey tells the blocks of an answer apart.
type blockKey struct {
	kind llm.BlockKind
	id   string
}

func (a *answer) delta(ctx context.Context, ev llm.BlockDelta) error {
	b := a.texts[blockKey{ev.Kind, ev.ID}]
	if b == nil {
		return nil // tool input; nobody shows it yet
	}
	d := event.ItemDelta{Item: b.item.ID, Delta: event.DeltaText, Offset: b.offset, Text: ev.Text}
	if b.kind == llm.BlockReasoning {
		d.Delta = event.DeltaReasoning
	}
	b.text.WriteString(ev.Text)
	b.offset += int64(len(ev.Text))
	_, err := a.Log.Publish(ctx, a.ID, d)
	return err
}

// end holds a block that is whole as a message of its own, until it is known what comes behind it.
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
		part = &llm.Reasoning{Text: text, Metadata: a.stamped(meta)}
		a.between = true
	} else if strings.TrimSpace(text) != "" {
		a.lastText = text
		a.between, a.spoke = ev.Remark, a.spoke || !ev.Remark
	}
	h := heldText{message: llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{part}}}
	if b.kind == llm.BlockReasoning { // the end of a thought is news by itself
		if _, err := a.Log.Publish(ctx, a.ID, event.ItemCompleted{Item: item}); err != nil {
			return err // the item is still open: abandon closes it
		}
	} else {
		h.item = &item
	}
	delete(a.texts, key)
	a.held = append(a.held, h)
	return nil
}

// abandon closes the items of blocks that never ended. Their text is not history: the model will say it again.
func (a *answer) abandon(ctx context.Context) {
	for _, b := range a.texts {
		b.item.Text, b.item.Status = b.text.String(), event.StatusAborted
		a.notice(context.WithoutCancel(ctx), event.ItemCompleted{Item: b.item})
	}
	clear(a.texts)
	a.closeHosted(ctx, event.StatusAborted)
}

// notice publishes what is for people only; the log refusing it is not the turn's end.
func (r *runner) notice(ctx context.Context, body event.Body) {
	if _, err := r.Log.Publish(ctx, r.ID, body); err != nil {
		r.Logger.Warn("event not published", "turn", r.ID, "err", err)
	}
}

// count adds what one answer used.
func (a *answer) count(ctx context.Context, u llm.Usage) error {
	a.counted = true
	r := usage.Of(a.Provider, a.Row, a.response, u)
	used := usage.TokensOf(u)
	if used.Total == 0 { // a provider that does not count; a limit must hold all the same
		used.Input = a.base() + history.Estimate(a.history.Messages())
		used.Total = used.Input
	}
	a.history.Counted(used.Total, used.Input)
	r.Active = a.history.Active()
	return a.Meter.Report(ctx, a.Log, a.ID, r)
}
