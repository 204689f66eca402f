package host

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// exceeded tells all threads that a plugin has reached a limit.
func (h *Host) exceeded(label, setting string, limit int64) {
	n := event.Notice{
		Level: "warning", Text: fmt.Sprintf("plugin %q has reached its limit of %s, %d MiB; what it hands over now is refused", label, setting, limit>>20),
		Next: fmt.Sprintf("if it needs more, raise limits { %s } in its block", setting),
	}
	h.mu.Lock()
	var all []*running
	for _, r := range h.mu.threads {
		all = append(all, r)
	}
	h.mu.Unlock()
	for _, r := range all {
		if _, err := r.thread.Publish(h.life, "", n); err != nil {
			h.log.Debug("a limit not published", "thread", r.thread.ID(), "err", err)
		}
	}
}
