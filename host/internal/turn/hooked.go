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

// Hooks are the user's programs that run around a turn; [hook.Turn] implements it. One goroutine calls them.
type Hooks interface {
	// Begin is called before the input is recorded. It runs hooks at the beginning of a thread and after each compaction, and does
	// nothing otherwise.
	Begin(ctx context.Context) hook.Output
	Prompt(ctx context.Context, text string) hook.Output
	Compacting(ctx context.Context, trigger string) hook.Output
	Compacted(ctx context.Context, trigger string) hook.Output
	Interrupted(ctx context.Context, reason string)
	// Late returns and clears what asynchronous hooks have said to the model since the last call.
	Late() []string
}

// keepBound limits the time of hooks for input that is recorded at the end of a turn: callers wait for that end.
const keepBound = 10 * time.Second

// stoppedError says that a hook ended the turn.
type stoppedError struct{ what, reason string }

func (e *stoppedError) Error() string {
	text := "a hook stopped " + e.what
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// begin runs the hooks of a beginning, and records what hooks have to say to the model.
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

// checkPrompt runs the hooks for an input. A blocked input is shown to people; the model never reads it.
func (r *runner) checkPrompt(ctx context.Context, in Input) (held bool, more []string, err error) {
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

// compactionHooks runs the hooks before or after a compaction. what names what they can stop.
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

// interrupted runs the hooks of an interruption by the user.
func (r *runner) interrupted(ctx context.Context, res Result) {
	if res.Status != event.TurnInterrupted || !errors.Is(res.Cause, orchestrate.ErrInterrupted) {
		return
	}
	for _, l := range each[InterruptListener](r.Participants) {
		l.OnInterrupt()
	}
	if r.hooks != nil {
		r.hooks.Interrupted(context.WithoutCancel(ctx), res.Cause.Error())
	}
}
