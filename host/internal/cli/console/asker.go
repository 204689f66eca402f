package console

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// CommandAsker asks a command's questions on the terminal. URLs are shown even if no user can answer.
type CommandAsker struct{ Env *Env }

// Ask implements the host's Asker.
func (c CommandAsker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	a := c.Env
	if q.About == event.QuestionURL {
		fmt.Fprintf(a.Stderr, "%s\n", render.Quoted(q.Title))
		if q.Message != "" {
			fmt.Fprintf(a.Stderr, "  %s\n", render.Quoted(q.Message))
		}
		fmt.Fprintf(a.Stderr, "\n  %s\n\n", render.Clean(q.URL))
		return approval.Answer{Choice: approval.Approve, By: "user"}, nil
	}
	if !a.Terminal() || q.About != event.QuestionChoice {
		return approval.Answer{}, approval.ErrNoApprover
	}
	done := make(chan struct{})
	defer close(done)
	typed := LineReader{Terminal: a.Stdin, Done: done}
	fmt.Fprint(a.Stderr, render.Question(event.QuestionAsked{Title: q.Title, Message: q.Message}, q.Options, nil))
	typed.Forget()
	fmt.Fprint(a.Stderr, "  answer: ")
	for {
		select {
		case line, more := <-typed.Line():
			typed.Taken()
			if !more {
				return approval.Answer{Choice: approval.Deny}, nil
			}
			if choice, ok := render.Choose(line, q.Options); ok {
				return approval.Answer{Choice: choice, By: "user"}, nil
			}
			fmt.Fprint(a.Stderr, "  type the number, letter or word of an answer: ")
		case <-ctx.Done():
			return approval.Answer{}, context.Cause(ctx)
		}
	}
}
