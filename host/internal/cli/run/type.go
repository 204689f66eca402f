package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// watchAndType shows a thread of another process until it ends. On a terminal, each typed line is submitted to the thread.
func (a *app) watchAndType(ctx context.Context, t *hub.Thread, f execFlags) error {
	show := a.view(f, nil)
	if h, ok := show.(render.HumanView); ok && a.Terminal() && console.Foreground(a.Stdin) {
		out := &render.Screen{Out: a.Stderr}
		h.ShowOn(out, false)
		var typing sync.WaitGroup
		defer typing.Wait()
		lines, stop := context.WithCancel(ctx)
		defer stop()
		typing.Go(func() { handLines(lines, t, a.Stdin, out) })
	}
	_, err := a.runTurn(ctx, t, output{view: show, all: true}, nil)
	return err
}

// handLines submits each typed line to the thread, until ctx or the input ends.
func handLines(ctx context.Context, t *hub.Thread, terminal *os.File, out io.Writer) {
	typing := console.LineReader{Terminal: terminal, Done: ctx.Done()}
	for {
		select {
		case line, more := <-typing.Line():
			typing.Taken()
			if !more {
				return
			}
			if line == "" {
				continue
			}
			if _, err := typed(line)(ctx, t); err != nil && ctx.Err() == nil {
				fmt.Fprintf(out, "! %s\n", render.Clean(err.Error()))
			}
		case <-ctx.Done():
			return
		}
	}
}
