package host

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// openChild is the [child.Opener] of this host.
func (h *Host) openChild(ctx context.Context, parent *thread.Thread, s child.Spec) (*thread.Thread, func(), error) {
	start := event.ThreadStarted{
		Cwd: parent.Settings().Cwd, Model: s.Model.Model, Provider: s.Model.Provider, ModelName: s.Model.ModelName, HostVersion: h.opts.Version,
		Source: s.Source, Parent: parent.ID(), Instructions: s.Instructions,
	}
	t, err := h.launchThread(ctx, thread.Config{ID: event.NewThreadID(), Start: &start, Meter: parent.Meter()}, s.Role)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { h.closeThread(t) }, nil
}

// closeThread ends a thread of this host and returns when nothing of it is left.
func (h *Host) closeThread(t *thread.Thread) {
	h.mu.Lock()
	r := h.mu.threads[t.ID()]
	h.mu.Unlock()
	if r == nil {
		return
	}
	r.end(thread.ErrClosed)
	<-r.over
}
