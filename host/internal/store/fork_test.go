package store_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// rows is all that is derived of a thread.
func rows(t *testing.T, s *store.Store, thread event.ThreadID) map[string]any {
	t.Helper()
	info, err := s.Thread(t.Context(), string(thread))
	if err != nil {
		t.Fatal(err)
	}
	info.Run = ""
	turns, err := s.Turns(t.Context(), thread)
	if err != nil {
		t.Fatal(err)
	}
	items, err := s.Items(t.Context(), thread, "")
	if err != nil {
		t.Fatal(err)
	}
	hits, err := s.Search(t.Context(), "answer", store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[event.ThreadID][]store.Passage{}
	for _, h := range hits {
		found[h.Thread.ID] = h.Passages
	}
	w := &writer{t: t, s: s, thread: thread}
	return map[string]any{"info": info, "turns": turns, "items": items, "found": found[thread], "standing": w.spans(0), "events": stored(t, s, thread, 0)}
}

// A fork at any event has the same rows as a thread whose events were written one by one.
func TestFork(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "t")
	w.say("1", "one")
	w.compact("2", event.StatusCompleted)
	w.tell(event.ThreadNamed{Name: "a name"})
	w.say("3", "three")
	w.revert("3", 10)
	w.begin("4", "four")
	w.tell(event.ItemStarted{Item: event.Item{ID: "i", Type: event.ItemCommand, Status: event.StatusInProgress}})
	w.tell(event.ItemCompleted{Item: event.Item{ID: "i", Type: event.ItemCommand, Status: event.StatusCompleted}})
	w.end("answer to four")
	source := stored(t, s, "t", 0)
	for through := uint64(1); through <= w.seq; through++ {
		id := event.NewThreadID()
		turn := source[through-1].Turn
		if _, ended := source[through-1].Body.(event.TurnEnded); ended {
			turn = ""
		}
		tail := []event.Event{{Seq: through + 1, Thread: id, Time: source[0].Time, Body: event.ThreadForked{From: "t", Through: through, Thread: event.Checkpoint{
			Started: event.ThreadStarted{Cwd: "/w", Source: "exec"}, Model: event.Selection{Model: "m"}, Usage: event.Tokens{Total: int64(through)},
		}}}}
		if turn != "" {
			tail = append(tail,
				event.Event{Seq: through + 2, Thread: id, Turn: turn, Time: source[0].Time, Body: event.ItemCompleted{Item: event.Item{ID: "open", Status: event.StatusAborted}}},
				event.Event{Seq: through + 3, Thread: id, Turn: turn, Time: source[0].Time, Body: event.TurnEnded{Status: event.TurnInterrupted}})
		}
		if err := s.Fork(t.Context(), tail); err != nil {
			t.Fatal(err)
		}
		got := rows(t, s, id)
		if i := got["info"].(store.ThreadInfo); i.ForkedFrom != "t" || i.Tokens.Total == 0 && turn == "" {
			t.Errorf("fork at %d: %+v", through, i)
		}
		var out bytes.Buffer
		if err := s.Export(t.Context(), id, &out); err != nil {
			t.Fatal(err)
		}
		other := storetest.Open(t)
		if _, err := other.Import(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if want := rows(t, other, id); !reflect.DeepEqual(got, want) {
			t.Errorf("fork at %d:\n%+v\nwritten one by one:\n%+v", through, got, want)
		}
	}
	if got := stored(t, s, "t", 0); !reflect.DeepEqual(got, source) {
		t.Error("the source has changed")
	}
}

func TestForkIsRefused(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "t")
	w.say("1", "one")
	forked := func(id, from event.ThreadID, through uint64) []event.Event {
		return []event.Event{{Seq: through + 1, Thread: id, Body: event.ThreadForked{From: from, Through: through}}}
	}
	for name, test := range map[string]struct {
		tail []event.Event
		want any
	}{
		"of a thread that is not there": {forked("a", "nope", 1), new(*store.NotFoundError)},
		"of more than there is":         {forked("a", "t", w.seq+1), new(*store.NotFoundError)},
		"to a thread that is there":     {forked("t", "t", 1), new(*store.ExistsError)},
		"to no id":                      {forked("../a", "t", 1), nil},
		"with a gap":                    {append(forked("a", "t", 1), event.Event{Seq: 9, Thread: "a", Body: event.Notice{}}), new(*store.OrderError)},
		"of nothing":                    {nil, nil},
		"without its first event":       {[]event.Event{{Seq: 2, Thread: "a", Body: event.Notice{}}}, nil},
	} {
		err := s.Fork(t.Context(), test.tail)
		if err == nil || test.want != nil && !errors.As(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Thread(t.Context(), "a"); err == nil {
		t.Error("something of a fork that was refused is there")
	}
}
