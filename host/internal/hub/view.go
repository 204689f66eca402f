package hub

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Views of sessions.
type (
	// View is one person's view of a session of a plugin, such as a terminal.
	View = view.View
	// ViewState is what a session shows, and who has control of it.
	ViewState = view.State
)

// Who has control of a session that is viewed.
const (
	AgentControls = view.Agent
	SelfControls  = view.Self
	OtherControls = view.Other
)

// OpenView shows a session that a call left running. plugin may be empty if only one plugin has a session with this ID. Only the process
// that runs the thread shows its sessions. A thread with a view is not unloaded.
func (t *Thread) OpenView(ctx context.Context, plugin string, o contract.ViewOpen) (*View, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	l, ok := r.(*local)
	if !ok {
		return nil, hint.New("the thread runs in another process, which shows its sessions only to its own clients",
			"open the view in that process, or end it and resume the thread here")
	}
	done, err := l.use()
	if err != nil {
		return nil, err
	}
	v, err := l.space.host.Library().OpenView(ctx, l.thread.ID(), plugin, o)
	if err != nil || !l.hub.begin() {
		done()
		return nil, cmp.Or(err, errClosed)
	}
	go func() { // ends with the view, at the latest with the thread; Close waits for it
		defer l.hub.work.Done()
		<-v.Done()
		done()
	}()
	return v, nil
}
