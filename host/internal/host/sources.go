package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// sourceBound is how long the first turn of a thread waits for required sources of tools.
const sourceBound = 30 * time.Second

// supply waits for required sources of tools, until a turn of the thread has had them all.
func (h *Host) supply(ctx context.Context, r *running) error {
	h.mu.Lock()
	supplied := r.supplied || r.role.NoTools
	h.mu.Unlock()
	if supplied {
		return nil
	}
	if err := h.plugins.Registry().AwaitSources(ctx, sourceBound); err != nil {
		return err
	}
	h.mu.Lock()
	r.supplied = true
	h.mu.Unlock()
	return nil
}

// tellAllSources publishes in every thread which sources of tools have changed.
func (h *Host) tellAllSources() {
	h.mu.Lock()
	threads := slices.Collect(maps.Values(h.mu.threads))
	h.mu.Unlock()
	for _, r := range threads {
		h.tellSources(r)
	}
}

// tellSources publishes in a thread which sources of tools have changed since it was told last.
func (h *Host) tellSources(r *running) {
	if r.role.Unattended {
		return
	}
	var changed []event.Body
	sources := h.plugins.Sources()
	h.mu.Lock()
	for _, e := range sources {
		key := [2]string{e.Plugin, e.Source}
		if r.sources[key] != e {
			r.sources[key] = e
			changed = append(changed, e)
		}
	}
	h.mu.Unlock()
	if len(changed) == 0 {
		return
	}
	if _, err := r.thread.Publish(h.life, "", changed...); err != nil {
		h.log.Debug("states of sources not published", "thread", r.thread.ID(), "err", err)
	}
}
