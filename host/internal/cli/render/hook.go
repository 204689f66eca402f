package render

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// hook shows the output of a hook for users. A hook that only allows something has none.
func (h *Human) hook(b event.HookCompleted) {
	what := ""
	switch b.Status {
	case event.HookBlocked:
		what = "blocked"
	case event.HookStopped:
		what = "stopped"
	case event.HookFailed:
		what = "failed"
	}
	if what != "" {
		h.line("%s", h.paint(yellow, fmt.Sprintf("! a hook of %s %s (%s)", b.Run.Event, what, Clean(b.Run.Hook))))
	}
	for _, e := range b.Entries {
		if e.Kind == "context" || e.Kind == "decision" && !h.verbose {
			continue
		}
		h.line("  %s", h.paint(dim, Clean(e.Text)))
	}
}
