package history

import "github.com/gantry-agent/gantry/host/internal/event"

// ContextState is what the messages tell of the model's surroundings; nil: nothing, or part of it was cut off, so that all of it must
// be said again.
func (h *History) ContextState() *event.Reference { return h.contextState }

// SetContextState sets what the messages tell of the model's surroundings.
func (h *History) SetContextState(r *event.Reference) { h.contextState = r }
