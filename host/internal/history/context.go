package history

import "github.com/gantry-agent/gantry/host/internal/event"

// ContextState returns the context that the messages contain; nil: none or not all of it, so that it must be sent again.
func (h *History) ContextState() *event.Reference { return h.contextState }

// SetContextState sets the context that the messages contain.
func (h *History) SetContextState(r *event.Reference) { h.contextState = r }
