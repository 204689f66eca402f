package history

import (
	"math"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Figures of a window; codex-compatible.
const (
	// unknownWindow is assumed where nobody says how much a model takes, so that limits never vanish.
	unknownWindow = 272_000
	// baseline is what every conversation holds: instructions and tools. It counts as nothing used.
	baseline        = 12_000
	reportedPercent = 95
	limitPercent    = 90
)

// Window is how much a model takes, and how much of it a thread fills before it is compacted.
type Window struct {
	Size  int64 // tokens
	Limit int64
	// Body: the limit is for what came after the first request since the thread began or was compacted.
	Body bool
}

// WindowOf is the window of a model. limit is what the user wants; 0, and what is more than the model's own: the model's own.
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

// Usable is what people are told of the window: the rest is room for the answer.
func (w Window) Usable() int64 { return w.Size/100*reportedPercent + w.Size%100*reportedPercent/100 }

// Left is how much is left of what can be used of a window, in percent.
func Left(usable, active int64) int {
	room := usable - baseline
	if room <= 0 {
		return 0
	}
	left := float64(room-max(active-baseline, 0)) / float64(room)
	return int(math.Round(100 * min(max(left, 0), 1)))
}

// Reached tells that a history has filled its part of the window, with more tokens on their way to it.
func (w Window) Reached(h *History, more int64) bool {
	active := h.Active() + more
	if h.full || active >= w.Usable() {
		return true
	}
	if w.Body {
		if h.count.Prefix == 0 { // no request has been counted yet
			return false
		}
		active -= h.count.Prefix
	}
	return active >= w.Limit
}
