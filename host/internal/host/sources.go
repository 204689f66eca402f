package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
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
	if err := h.registry.AwaitSources(ctx, sourceBound); err != nil {
		return err
	}
	h.mu.Lock()
	r.supplied = true
	h.mu.Unlock()
	return nil
}

// requiredSources lists those that a thread's first turn needs.
func requiredSources(set contract.ToolSet) []contract.Source {
	return slices.DeleteFunc(slices.Clone(set.Sources), func(s contract.Source) bool { return !s.Required })
}

// failed is what becomes of sources whose plugin does not come up.
func failed(sources []contract.Source, err error) []contract.Source {
	text, _ := hint.Split(err)
	for i := range sources {
		sources[i].State, sources[i].Message = contract.SourceFailed, text
	}
	return sources
}

// failSources fails the required sources of a plugin that crashed while they were starting, so that no turn waits for them.
// The next turn starts the plugin again. It does nothing if the plugin has not crashed.
func (h *Host) failSources(label string) {
	s := h.plugins.Slot(label).State()
	if s.Mode != plugin.ModeCrashed && s.Mode != plugin.ModeBroken {
		return
	}
	h.cataloguing.Lock()
	defer h.cataloguing.Unlock()
	if !h.registry.FailSources(label, s.Message) {
		return
	}
	h.live[label] = false
	h.mu.Lock()
	h.mu.loaded[label] = false
	h.mu.Unlock()
	h.begin(h.tellAllSources)
}

// sourceChanged is the event of a source's state.
func (h *Host) sourceChanged(s registry.Source) event.SourceChanged {
	return event.SourceChanged{
		Plugin: s.Plugin, Source: s.Name, State: s.State.String(), Message: h.opts.Redactor.Text(s.Message), Required: s.Required,
	}
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
	sources := h.registry.Sources()
	h.mu.Lock()
	for _, s := range sources {
		e, key := h.sourceChanged(s), [2]string{s.Plugin, s.Name}
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

// lostSources warns, by plugin, of sources whose tools are not there. Required ones fail a thread's first turn, which says it
// better. The host's mutex is held.
func (h *Host) lostSources(r *running) map[string][]contract.Diagnostic {
	out := map[string][]contract.Diagnostic{}
	for _, s := range h.registry.Sources() {
		text := ""
		switch {
		case s.Required && !r.supplied:
		case s.State == contract.SourceFailed:
			text = "has failed"
		case s.State == contract.SourceNeedsLogin:
			text = "needs a login"
		}
		if text == "" {
			continue
		}
		text = fmt.Sprintf("the source %q %s; its tools are missing", s.Name, text)
		out[s.Plugin] = append(out[s.Plugin], contract.Diagnostic{Severity: contract.SeverityWarning, Summary: text, Detail: s.Message})
	}
	return out
}
