package history

import "github.com/gantry-agent/gantry/host/internal/event"

// Told is what the messages tell of the model's surroundings; nil: nothing, or part of it was cut off, so that all of it must
// be said again.
func (h *History) Told() *event.Reference { return h.told }

// Tell sets what the messages tell of the model's surroundings.
func (h *History) Tell(r *event.Reference) { h.told = r }
