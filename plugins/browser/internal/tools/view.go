package tools

import (
	"context"

	"github.com/gantry-agent/gantry/plugins/browser/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// view shows a browser to a person. Calls and scripts wait while the person has control.
func (p *browserPlugin) view(ctx context.Context, v *tool.View) (reason string, err error) {
	r := p.owner(v.Open().ThreadID, v.Open().SessionID).running()
	switch {
	case r == nil || r.id != v.Open().SessionID:
		return "", tool.ErrNoSession
	case !v.Accepts(contract.ViewScreen):
		return "", tool.ErrNoViewKind
	}
	return view.Show(ctx, view.Options{Browser: r.Browser, Allowed: r.sites.open, Take: r.control.take}, v)
}

// owner returns who has a browser: one of the thread's scripts, or the thread.
func (p *browserPlugin) owner(threadID, id string) *thread {
	own := p.thread(threadID)
	t := own
	p.scripts.Range(func(_, v any) bool {
		if b := v.(*browsers); b.t == own {
			if found, _ := b.find(id); found != nil {
				t = found
			}
		}
		return t == own
	})
	return t
}
