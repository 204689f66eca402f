package hub

import (
	"slices"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	// idle lists threads by the minutes that they have been idle.
	idle := func(minutes map[event.ThreadID]int) (out []idleThread) {
		for id, m := range minutes {
			out = append(out, idleThread{id: id, since: now.Add(-time.Duration(m) * time.Minute), ephemeral: id == "ephemeral"})
		}
		return out
	}
	for name, test := range map[string]struct {
		idle   map[event.ThreadID]int
		loaded int
		unload []event.ThreadID
		next   int // in minutes; -1: never
	}{
		"none":                   {nil, 1000, nil, -1},
		"in time":                {map[event.ThreadID]int{"a": 29, "b": 1}, 2, nil, 1},
		"too long":               {map[event.ThreadID]int{"a": 31, "b": 30, "c": 29}, 3, []event.ThreadID{"a", "b"}, 1},
		"too many":               {map[event.ThreadID]int{"a": 5, "b": 6, "c": 7}, 12, []event.ThreadID{"c", "b"}, 25},
		"too many are not idle":  {map[event.ThreadID]int{"a": 5}, 20, []event.ThreadID{"a"}, -1},
		"too many have just met": {map[event.ThreadID]int{"a": 0, "b": 0}, 12, nil, 1},
		"an ephemeral one stays": {map[event.ThreadID]int{"ephemeral": 9, "b": 2, "c": 3}, 12, []event.ThreadID{"c", "b"}, 21},
	} {
		t.Run(name, func(t *testing.T) {
			unload, next := due(now, idle(test.idle), test.loaded, 30*time.Minute, 10)
			if !slices.Equal(unload, test.unload) {
				t.Errorf("unload %v, want %v", unload, test.unload)
			}
			if want := now.Add(time.Duration(test.next) * time.Minute); test.next < 0 && !next.IsZero() || test.next >= 0 && !next.Equal(want) {
				t.Errorf("next %v, want in %d minutes", next, test.next)
			}
		})
	}
}
