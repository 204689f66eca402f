package turn

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Hooks are programs of the user's around a turn; [hook.Turn] is one. They are called by one goroutine.
type Hooks interface {
	// Begin is called before what was said is recorded; it has something to say once in a thread, and once for each compaction.
	Begin(ctx context.Context) hook.Output
	Prompt(ctx context.Context, text string) hook.Output
	Compacting(ctx context.Context, trigger string) hook.Output
	Compacted(ctx context.Context, trigger string) hook.Output
	Interrupted(ctx context.Context, reason string)
	// Late is what hooks said that nobody waits for.
	Late() []string
}

// keepBound is how long hooks may look at what was said to a turn that has ended: somebody waits for its end.
const keepBound = 10 * time.Second

// stoppedError: a hook ended the turn.
type stoppedError struct{ what, reason string }

func (e *stoppedError) Error() string {
	text := "a hook stopped " + e.what
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// begin tells hooks of a beginning, and the model what hooks said meanwhile.
func (r *runner) begin(ctx context.Context) error {
	if r.hooks == nil {
		return nil
	}
	said := r.hooks.Begin(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.tell(ctx, append(r.hooks.Late(), said.Context...)...); err != nil {
		return err
	}
	if said.Stop {
		return &stoppedError{"the turn", said.Reason}
	}
	return nil
}

// heldBack asks hooks about an input. What they hold back is shown, and the model never reads it.
func (r *runner) heldBack(ctx context.Context, in Input) (held bool, more []string, err error) {
	if r.hooks == nil {
		return false, nil, nil
	}
	bounded := ctx
	if r.ending {
		var cancel func()
		bounded, cancel = context.WithTimeout(ctx, keepBound)
		defer cancel()
	}
	said := r.hooks.Prompt(bounded, llm.Message{Parts: in.Parts}.Text())
	if ctx.Err() != nil {
		return false, nil, context.Cause(ctx)
	}
	if !said.Stop {
		return false, said.Context, nil
	}
	item := UserItem(in)
	item.Status = event.StatusDeclined
	text := "a hook blocked your input"
	if said.Reason != "" {
		text += ": " + said.Reason
	}
	err = r.write(ctx, event.ItemCompleted{Item: item}, event.Notice{
		Level: "warning", Text: text, Next: "Rephrase it; the model has not read it.",
	})
	if err != nil {
		return true, nil, err
	}
	return true, nil, r.tell(ctx, said.Context...)
}

// compactionHooks runs the hooks before or after a compaction; what names what they can stop.
func (r *runner) compactionHooks(ctx context.Context, run func(Hooks, context.Context, string) hook.Output, trigger, what string) error {
	if r.hooks == nil {
		return nil
	}
	switch said := run(r.hooks, ctx, trigger); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case said.Stop:
		return &stoppedError{what, said.Reason}
	}
	return nil
}

// interrupted tells hooks that the user stopped the turn.
func (r *runner) interrupted(ctx context.Context, res Result) {
	if r.hooks != nil && res.Status == event.TurnInterrupted && errors.Is(res.Cause, orchestrate.ErrInterrupted) {
		r.hooks.Interrupted(context.WithoutCancel(ctx), res.Cause.Error())
	}
}
