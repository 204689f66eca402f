package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/registry"
)

// pluginWarnings returns the warnings about plugins, their tools and sources that were not published before.
func (r *running) pluginWarnings() (out []event.Notice) {
	h := r.host
	if r.role.Unattended {
		return nil
	}
	h.mu.Lock()
	supplied := r.supplied
	h.mu.Unlock()
	for _, n := range h.plugins.Warnings(supplied) {
		if r.told.First(n.Text) {
			out = append(out, n)
		}
	}
	return out
}

// pluginState is called when the state of a plugin changes. It must not wait for threads. The tools of a plugin that is ready are followed
// until its process ends.
func (h *Host) pluginState(s plugin.State) {
	if h.opts.OnPlugin != nil {
		h.opts.OnPlugin(event.PluginState{Plugin: s.Plugin, State: s.Mode.String(), Generation: s.Generation, Message: s.Message})
	}
	if s.Mode != plugin.ModeReady {
		h.begin(func() { h.plugins.FailSources(s.Plugin) })
		return
	}
	h.begin(h.publishWarnings)
	h.begin(func() { // ends with the plugin's process or the host
		h.plugins.Follow(h.life, s.Plugin, func() {
			h.begin(h.publishWarnings)
			h.begin(h.publishSources)
		})
	})
}

// publishWarnings publishes new warnings about plugins in all threads.
func (h *Host) publishWarnings() {
	for _, r := range h.all() {
		for _, n := range r.pluginWarnings() {
			r.publish(n)
		}
	}
}

// publishSources publishes changed states of sources in all threads.
func (h *Host) publishSources() {
	for _, r := range h.all() {
		r.publishSources()
	}
}

// quotaExceeded publishes in all threads that a plugin has reached a limit.
func (h *Host) quotaExceeded(label, setting string, limit int64) {
	n := event.Notice{
		Level: "warning", Text: fmt.Sprintf("plugin %q has reached its limit of %s, %d MiB; further data is refused", label, setting, limit>>20),
		Next: fmt.Sprintf("if it needs more, raise limits { %s } in its block", setting),
	}
	for _, r := range h.all() {
		r.publish(n)
	}
}

// The time that the first turn of a thread waits for sources of tools: for required ones, and for all others together.
const (
	sourceBound = 30 * time.Second
	sourceGrace = time.Second
)

// awaitSources waits for sources of tools, until the required ones have all been ready for one turn of the thread. The notices are about
// those whose tools that turn lacks.
func (r *running) awaitSources(ctx context.Context) ([]event.Notice, error) {
	h := r.host
	h.mu.Lock()
	supplied := r.supplied || r.role.NoTools
	h.mu.Unlock()
	if supplied {
		return nil, nil
	}
	late, err := h.plugins.Registry().AwaitSources(ctx, sourceBound, sourceGrace)
	if err != nil {
		r.publishSources() // before the turn ends, and with it the run of some clients
		if e, ok := errors.AsType[*registry.SourceError](err); ok {
			e.Where = func(s registry.Source) string { return pluginset.WhereSource(h.plugins.Block(s.Plugin), s.Name) }
		}
		return nil, err
	}
	h.mu.Lock()
	r.supplied = true
	h.mu.Unlock()
	if r.role.Unattended {
		return nil, nil
	}
	var notices []event.Notice
	for _, s := range late {
		notices = append(notices, event.Notice{
			Level: "warning", Text: fmt.Sprintf("plugin %q: the source %q is still starting; its tools are missing until it is ready", s.Plugin, s.Name),
			Next: "if the first turn needs them, make the source required in the plugin's block",
		})
	}
	return notices, nil
}

// publishSources publishes the sources of tools whose state has changed since the last call.
func (r *running) publishSources() {
	h := r.host
	if r.role.Unattended {
		return
	}
	r.publishing.Lock() // a caller must find the changes published that another one has found
	defer r.publishing.Unlock()
	var changed []event.Body
	sources := h.plugins.Sources()
	h.mu.Lock()
	for _, e := range sources {
		key := [2]string{e.Plugin, e.Source}
		if !reflect.DeepEqual(r.sources[key], e) {
			r.sources[key] = e
			changed = append(changed, e)
		}
	}
	h.mu.Unlock()
	r.publish(changed...)
}
