package host

import (
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// heed tells the people of each thread what plugins say of their blocks.
func (h *Host) heed() {
	h.mu.Lock()
	threads := slices.Collect(maps.Values(h.mu.threads))
	h.mu.Unlock()
	for _, r := range threads {
		for _, n := range h.unheeded(r) {
			if _, err := r.thread.Publish(h.life, "", n); err != nil {
				h.log.Debug("warning of a plugin not published", "thread", r.thread.ID(), "err", err)
			}
		}
	}
}

// unheeded takes what a thread's people were not told yet of what plugins say of their blocks, and of tools that are left out.
func (h *Host) unheeded(r *running) (out []event.Notice) {
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

// pluginState follows a plugin: a tool plugin that became ready is watched as long as that process lives.
func (h *Host) pluginState(s plugin.State) {
	if h.opts.OnPlugin != nil {
		h.opts.OnPlugin(event.PluginState{Plugin: s.Plugin, State: s.Mode.String(), Generation: s.Generation, Message: s.Message})
	}
	if s.Mode != plugin.ModeReady {
		h.begin(func() { h.plugins.FailSources(s.Plugin) })
		return
	}
	h.begin(h.heed)  // whoever tells of a plugin's state does not wait for threads
	h.begin(func() { // ends with the plugin's process or the host
		h.plugins.Follow(h.life, s.Plugin, func() {
			h.begin(h.heed)
			h.begin(h.tellAllSources)
		})
	})
}
