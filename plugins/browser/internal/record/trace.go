package record

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	// maxEvents is the number of events in a trace.
	maxEvents = 20_000
	// maxTraced is how much of a text is kept in one, in bytes. Pages choose some of them, such as addresses.
	maxTraced = 2000
)

// traceEvent is an event of a trace, in the trace event format of Chromium, which Perfetto and others show.
type traceEvent struct {
	Name     string            `json:"name"`
	Category string            `json:"cat"`
	Phase    string            `json:"ph"` // "X": it has a duration; "i": it has none
	At       int64             `json:"ts"` // microseconds
	Duration int64             `json:"dur,omitempty"`
	Process  int               `json:"pid"`
	Thread   int               `json:"tid"`
	Scope    string            `json:"s,omitempty"`
	Args     map[string]string `json:"args,omitempty"`
}

// The rows of a trace.
const (
	rowActions = 1
	rowPages   = 2
	rowNetwork = 3
)

// trace collects what happens.
type trace struct {
	begin   time.Time
	events  []traceEvent
	dropped int
}

func (t *trace) add(row int, category, name string, from, to time.Time, args map[string]string) {
	if len(t.events) >= maxEvents {
		t.dropped++
		return
	}
	for k, v := range args {
		args[k] = clip(v)
	}
	e := traceEvent{Name: clip(name), Category: category, Phase: "X", At: from.Sub(t.begin).Microseconds(), Duration: max(1, to.Sub(from).Microseconds()), Process: 1, Thread: row, Args: args}
	if to.Equal(from) {
		e.Phase, e.Duration, e.Scope = "i", 0, "t"
	}
	t.events = append(t.events, e)
}

// clip returns the beginning of a text, which does not keep the rest of it in memory.
func clip(s string) string {
	if len(s) <= maxTraced {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:maxTraced]), "") + "..."
}

func (t *trace) encode(mask func(string) string) ([]byte, error) {
	out := []traceEvent{}
	for row, name := range map[int]string{rowActions: "actions", rowPages: "pages", rowNetwork: "network"} {
		out = append(out, traceEvent{Name: "thread_name", Phase: "M", Process: 1, Thread: row, Args: map[string]string{"name": name}})
	}
	for _, e := range t.events {
		args := map[string]string{}
		for k, v := range e.Args {
			args[k] = mask(v)
		}
		e.Name, e.Args = mask(e.Name), args
		out = append(out, e)
	}
	return json.Marshal(map[string]any{"traceEvents": out, "displayTimeUnit": "ms", "otherData": map[string]any{"version": "gantry.browser.trace.v1", "begin": t.begin.UTC(), "dropped": t.dropped}})
}
