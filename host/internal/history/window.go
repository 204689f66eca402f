package history

import (
	"math"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Constants of a window; codex-compatible.
const (
	// unknownWindow is assumed for models of unknown size, so that limits always apply.
	unknownWindow = 272_000
	// baseline is the part that every conversation has: instructions and tools. It counts as unused.
	baseline        = 12_000
	reportedPercent = 95
	limitPercent    = 90
)

// Window is the size of a model's context window, and how much of it a thread fills before it is compacted.
type Window struct {
	Size  int64 // tokens
	Limit int64
	// Body: Limit applies to what was added after the first request since the beginning or the last compaction.
	Body bool
}

// WindowOf returns the window of a model. limit is the user's setting; 0, or a larger value than the model's own limit: the
// model's own.
func WindowOf(row llm.ModelRow, limit int64) Window {
	w := Window{Size: row.ContextWindow}
	if w.Size <= 0 {
		w.Size = unknownWindow
	}
	w.Limit = w.Size / 100 * limitPercent
	w.Limit += w.Size % 100 * limitPercent / 100
	if limit > 0 {
		w.Limit = min(w.Limit, limit)
	}
	return w
}

// Usable returns the part of the window that people are shown. The rest is room for the answer.
func (w Window) Usable() int64 { return w.Size/100*reportedPercent + w.Size%100*reportedPercent/100 }

// Left returns how much of a window is left, in percent.
func Left(usable, active int64) int {
	room := usable - baseline
	if room <= 0 {
		return 0
	}
	left := float64(room-max(active-baseline, 0)) / float64(room)
	return int(math.Round(100 * min(max(left, 0), 1)))
}

// Reached reports whether a history, together with more tokens that are about to be added, has reached its limit.
func (w Window) Reached(h *History, more int64) bool {
	active := h.Active() + more
	if h.full || active >= w.Usable() {
		return true
	}
	if w.Body {
		if h.count.Prefix == 0 { // no provider has reported a request
			return false
		}
		active -= h.count.Prefix
	}
	return active >= w.Limit
}
