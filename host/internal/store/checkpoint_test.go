package store_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// Reading goes on at the newest compaction that was done; one that failed or is still at work left the history as it was.
func TestLastCompaction(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var seq uint64
	tell := func(bodies ...event.Body) uint64 {
		t.Helper()
		var evs []event.Event
		for _, b := range bodies {
			seq++
			evs = append(evs, event.Event{Seq: seq, Thread: "t", Turn: "1", Body: b})
		}
		mustAppend(t, s, evs...)
		mustBarrier(t, s, evs)
		return seq
	}
	item := func(id event.ItemID, st event.ItemStatus) event.Item {
		return event.Item{ID: id, Type: event.ItemCompaction, Status: st}
	}
	want := func(want uint64) {
		t.Helper()
		if got, err := s.LastCompaction(t.Context(), "t"); err != nil || got != want {
			t.Errorf("last compaction %d, %v, want %d", got, err, want)
		}
	}
	tell(event.ThreadStarted{Cwd: "/"}, event.TurnStarted{Cwd: "/"})
	want(0)
	tell(event.ItemStarted{Item: item("a", event.StatusInProgress)}, event.ItemCompleted{Item: item("a", event.StatusFailed)})
	want(0)
	tell(event.ItemStarted{Item: item("b", event.StatusInProgress)}, event.UsageReported{})
	done := tell(event.HistoryCompacted{Item: "b"})
	tell(event.ContextTold{}, event.ItemCompleted{Item: item("b", event.StatusCompleted)})
	want(done)
	tell(event.Notice{Text: "x"}, event.ItemStarted{Item: item("c", event.StatusInProgress)})
	want(done)
	done = tell(event.HistoryCompacted{Item: "c"})
	tell(event.ItemCompleted{Item: item("c", event.StatusCompleted)})
	want(done)
	if got, err := s.LastCompaction(t.Context(), "other"); err != nil || got != 0 {
		t.Errorf("of a thread that is not there: %d, %v", got, err)
	}
}
