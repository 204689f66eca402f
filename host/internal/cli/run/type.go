package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// watchAndType shows a thread of another process until it ends. On a terminal, each typed line is submitted to the thread.
func (a *app) watchAndType(ctx context.Context, home string, id event.ThreadID, f execFlags) error {
	c, err := a.dial(ctx, home, id)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the thread continues; there is nothing to lose
	show := a.view(f, nil)
	if h, ok := show.(render.HumanView); ok && a.Terminal() && console.Foreground(a.Stdin) {
		out := &render.Screen{Out: a.Stderr}
		h.ShowOn(out, false)
		var typing sync.WaitGroup
		defer typing.Wait()
		lines, stop := context.WithCancel(ctx)
		defer stop()
		typing.Go(func() { handLines(lines, c, a.Stdin, out) })
	}
	return a.watch(ctx, c, id, f, show, begun{})
}

// handLines submits each typed line to the thread, until ctx or the input ends.
func handLines(ctx context.Context, c *threadsocket.Client, terminal *os.File, out io.Writer) {
	t := console.LineReader{Terminal: terminal, Done: ctx.Done()}
	for {
		select {
		case line, more := <-t.Line():
			t.Taken()
			if !more {
				return
			}
			if line == "" {
				continue
			}
			if _, err := typed(line)(ctx, c); err != nil && ctx.Err() == nil {
				fmt.Fprintf(out, "! %s\n", render.Clean(err.Error()))
			}
		case <-ctx.Done():
			return
		}
	}
}
