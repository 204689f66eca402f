package host

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// openView opens a view in a plugin.
func (r *running) openView(ctx context.Context, plugin string, o contract.ViewOpen) (view.Stream, contract.ViewOpened, error) {
	backend, ok := r.host.plugins.Backend(plugin)
	if !ok {
		return nil, contract.ViewOpened{}, fmt.Errorf("plugin %q is no longer configured", plugin)
	}
	v, opened, err := backend.View(ctx, o)
	if err != nil {
		return nil, opened, err // not a nil *tool.View in an interface
	}
	return v, opened, nil
}

// publishControl publishes who has control of a session. It works until the thread has ended.
func (r *running) publishControl(b event.Body) error {
	_, err := r.thread.Publish(context.WithoutCancel(r.host.life), "", b)
	return err
}
