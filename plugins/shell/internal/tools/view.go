package tools

import (
	"cmp"
	"context"
	"strconv"

	"github.com/gantry-agent/gantry/plugins/shell/internal/session"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// watched passes a session's output on to a view.
type watched struct {
	*tool.View
	title string
}

func (w *watched) Resized(size process.Size) {
	w.State(contract.ViewState{Title: w.title, Size: viewSize(size)})
}

func viewSize(s process.Size) contract.ViewSize {
	return contract.ViewSize{Width: s.Cols, Height: s.Rows}
}

// view shows a session to a person. What the person types runs under the session's grant, like what calls type.
func (f *shellPlugin) view(ctx context.Context, v *tool.View) (reason string, err error) {
	id, err := strconv.Atoi(v.Open().SessionID)
	if err != nil {
		return "", tool.ErrNoSession
	}
	s, err := f.store.Get(v.Open().ThreadID, id)
	switch {
	case err != nil:
		return "", tool.ErrNoSession
	case !v.Accepts(contract.ViewTerminal):
		return "", tool.ErrNoViewKind
	}
	w := &watched{v, oneLine(s.Command)}
	v.Opened(contract.ViewOpened{Kind: contract.ViewTerminal, Size: viewSize(s.Size()), Title: w.title, ReadOnly: !s.TTY})
	stop := s.Watch(w)
	defer stop()
	for {
		select {
		case r := <-v.Requests():
			f.act(ctx, s, r)
		case <-s.Over():
			return s.Ended(), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// act does what a person does. Like a terminal, it has no answer for what the program does not take.
func (f *shellPlugin) act(ctx context.Context, s *session.Session, r contract.ViewRequest) {
	switch r := r.(type) {
	case contract.ViewResize:
		_ = s.Resize(process.Size{Rows: cmp.Or(r.Size.Height, 24), Cols: cmp.Or(r.Size.Width, 80)})
	case contract.ViewInput:
		switch in := r.Act.(type) {
		case contract.ViewBytes:
			_ = s.Type(ctx, string(in.Data))
		case contract.ViewText:
			_ = s.Type(ctx, in.Text)
		case contract.ViewPaste:
			_ = s.Type(ctx, in.Text)
		}
	}
}
