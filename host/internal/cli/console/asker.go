package console

import (
	"context"
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// CommandAsker asks a command's questions on the terminal. URLs are shown even if no user can answer.
type CommandAsker struct{ Env *Env }

// Ask implements the host's Asker.
func (c CommandAsker) Ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	a := c.Env
	asked := event.QuestionAsked{About: q.About, Plugin: q.Plugin, Source: q.Source, Title: q.Title, Message: q.Message, Options: q.Options, Schema: q.Schema}
	if q.About == event.QuestionURL {
		if q.Source != "" {
			fmt.Fprintf(a.Stderr, "%s asks:\n", render.Asker(asked))
		}
		fmt.Fprintf(a.Stderr, "%s\n", render.Quoted(q.Title))
		if q.Message != "" {
			fmt.Fprintf(a.Stderr, "  %s\n", render.Quoted(q.Message))
		}
		fmt.Fprintf(a.Stderr, "\n  %s\n\n", render.Clean(q.URL))
		return approval.Answer{Choice: approval.Approve, By: "user"}, nil
	}
	if !a.Terminal() {
		return approval.Answer{}, approval.ErrNoApprover
	}
	done := make(chan struct{})
	defer close(done)
	typed := LineReader{Terminal: a.Stdin, Done: done}
	fmt.Fprint(a.Stderr, render.Question(asked, q.Options, event.Item{}))
	typed.Forget()
	talk := Talk{
		Say: func(text string) { fmt.Fprint(a.Stderr, text) },
		Read: func() (string, error) {
			select {
			case line, more := <-typed.Line():
				typed.Taken()
				if !more {
					return "", io.EOF
				}
				return line, nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		},
	}
	return talk.Answer(asked, q.Options)
}
