package hub

import (
	"cmp"
	"context"

	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// View is one person's view of a session of a plugin, such as a terminal. Its methods may be called concurrently, except Next. What it
// does not say here is as in [view.View], which it is for a thread of this process.
type View interface {
	Opened() contract.ViewOpened
	Done() <-chan struct{}
	Next(ctx context.Context) (ViewUpdate, error)
	Ack(number uint64) error
	Input(act contract.ViewAct) error
	Resize(size contract.ViewSize) error
	Take() error
	Release() error
	Close()
}

type (
	// ViewUpdate is news of a view.
	ViewUpdate = view.Update
	// ViewState is what a session shows, and who has control of it.
	ViewState = view.State
)

// Who has control of a session that is viewed.
const (
	AgentControls = view.Agent
	SelfControls  = view.Self
	OtherControls = view.Other
)

// OpenView shows a session that a call left running. plugin may be empty if only one plugin has a session with this ID. A thread of this
// process with a view is not unloaded. The view ends at the latest with the process that runs the thread.
func (t *Thread) OpenView(ctx context.Context, plugin string, o contract.ViewOpen) (View, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.openView(ctx, plugin, o)
}

func (l *local) openView(ctx context.Context, plugin string, o contract.ViewOpen) (View, error) {
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

func (r *relay) openView(ctx context.Context, plugin string, o contract.ViewOpen) (View, error) {
	link, err := runsocket.Path(r.hub.cfg.Home, r.id)
	if err != nil {
		return nil, err
	}
	c, err := threadsocket.Dial(ctx, link)
	if err != nil {
		return nil, r.asked(err)
	}
	v, err := c.OpenView(ctx, plugin, o)
	if err != nil || !r.hub.begin() {
		_ = c.Close() // nothing is lost
		return nil, cmp.Or(r.asked(err), errClosed)
	}
	go func() { // ends with the view; Close waits for it
		defer r.hub.work.Done()
		select {
		case <-v.Done():
		case <-r.hub.life.Done():
			v.Close()
		}
	}()
	return v, nil
}
