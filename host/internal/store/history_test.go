package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// A window of any size, at any row and in either direction is the part of the whole list that it names.
func TestHistoryWindows(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story("a", 6)
	seq := uint64(len(story))
	mustAppend(t, s, story...)
	all, err := s.Turns(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, event.Event{Seq: seq + 1, Thread: "a", Body: event.ThreadReverted{Before: all[4].ID, From: all[4].FirstSeq, Through: all[4].FirstSeq - 1, Turns: 2}})
	h := s.History("a")
	var turns, items []uint64
	for _, turn := range all[:4] {
		turns = append(turns, turn.FirstSeq)
	}
	rows, err := h.Items(t.Context(), store.ItemFilter{}, store.Window{Limit: 100})
	if err != nil || len(rows) != 4*3 {
		t.Fatalf("%d items, %v, want three of each turn that was not reverted", len(rows), err)
	}
	for _, it := range rows {
		items = append(items, it.FirstSeq)
	}
	rapid.Check(t, func(r *rapid.T) {
		w := store.Window{
			Limit: rapid.IntRange(0, 14).Draw(r, "limit"), Descending: rapid.Bool().Draw(r, "descending"), Inclusive: rapid.Bool().Draw(r, "inclusive"),
			At: rapid.Uint64Range(0, seq).Draw(r, "at"),
		}
		got, err := h.Turns(t.Context(), w)
		if err != nil {
			r.Fatal(err)
		}
		firsts := func(n int, first func(int) uint64) (out []uint64) {
			for i := range n {
				out = append(out, first(i))
			}
			return out
		}
		if is, want := firsts(len(got), func(i int) uint64 { return got[i].FirstSeq }), window(turns, w); !slices.Equal(is, want) {
			r.Fatalf("turns %v, want %v", is, want)
		}
		page, err := h.Items(t.Context(), store.ItemFilter{}, w)
		if err != nil {
			r.Fatal(err)
		}
		if is, want := firsts(len(page), func(i int) uint64 { return page[i].FirstSeq }), window(items, w); !slices.Equal(is, want) {
			r.Fatalf("items %v, want %v", is, want)
		}
	})
	one, err := h.Items(t.Context(), store.ItemFilter{Turn: all[1].ID, Types: []event.ItemType{event.ItemCommand, event.ItemUserMessage}}, store.Window{Limit: 9})
	if err != nil || len(one) != 2 || one[0].Type != event.ItemUserMessage || one[1].Call != "call-2" || one[1].LastSeq <= one[1].FirstSeq {
		t.Errorf("items of a turn: %+v, %v", one, err)
	}
	some, err := h.Items(t.Context(), store.ItemFilter{From: one[0].FirstSeq, Through: one[1].FirstSeq}, store.Window{Limit: 9})
	if err != nil || len(some) != 2 || some[0].ID != one[0].ID {
		t.Errorf("items between two events: %+v, %v", some, err)
	}
	for id, want := range map[string]int{string(one[1].ID): 1, "call-2": 1, "": 0, "x": 0, "call-6": 0} {
		if found, err := h.Items(t.Context(), store.ItemFilter{IDs: []string{id}}, store.Window{Limit: 9}); err != nil || len(found) != want || want > 0 && found[0].ID != one[1].ID {
			t.Errorf("item %s: %+v, %v", id, found, err)
		}
	}
	if turn, err := h.Turn(t.Context(), all[0].ID); err != nil || turn.FirstSeq != all[0].FirstSeq {
		t.Errorf("turn %+v, %v", turn, err)
	}
	if _, err := h.Turn(t.Context(), all[5].ID); !isNotFound(err) {
		t.Errorf("a reverted turn: %v", err)
	}
}

func isNotFound(err error) bool { _, ok := err.(*store.NotFoundError); return ok }

// window is what a store does, for a list in memory.
func window(list []uint64, w store.Window) (out []uint64) {
	list = slices.Clone(list)
	if w.Descending {
		slices.Reverse(list)
	}
	for _, seq := range list {
		before := w.At > 0 && (seq == w.At && !w.Inclusive || seq < w.At && !w.Descending || seq > w.At && w.Descending)
		if !before && len(out) < max(w.Limit, 1) {
			out = append(out, seq)
		}
	}
	return out
}

func TestHistoryEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story("a", 2)
	seq := uint64(len(story))
	mustAppend(t, s, story...)
	mustAppend(t, s, event.Event{Seq: seq + 1, Thread: "a", Body: event.SessionExited{Session: "7"}})
	h := s.History("a")
	got, err := h.At(t.Context(), []uint64{5, 2, 5})
	if err != nil || len(got) != 2 || got[0].Seq != 2 || got[1].Body.Kind() != story[4].Body.Kind() {
		t.Errorf("events %+v, %v", got, err)
	}
	if _, err := h.At(t.Context(), []uint64{seq + 2}); err == nil {
		t.Error("an event that is not there has no error")
	}
	for after, want := range map[uint64]int{0: 1, seq: 1, seq + 1: 0} {
		if exits, err := h.Exits(t.Context(), after, 9); err != nil || len(exits) != want {
			t.Errorf("after %d: %+v, %v, want %d", after, exits, err, want)
		}
	}
	var between []uint64
	for e, err := range h.Between(t.Context(), 2, 4) {
		if err != nil {
			t.Fatal(err)
		}
		between = append(between, e.Seq)
	}
	if want := []uint64{3, 4}; !slices.Equal(between, want) {
		t.Errorf("events %v, want %v", between, want)
	}
}

// The log of a thread is read in both directions, in parts.
func TestHistoryLog(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	story := storetest.Story("a", 2)
	mustAppend(t, s, story...)
	h := s.History("a")
	for _, test := range []struct {
		w    store.Window
		want []uint64
		more bool
	}{
		{store.Window{Limit: 2}, []uint64{1, 2}, true},
		{store.Window{At: 2, Limit: 2}, []uint64{3, 4}, true},
		{store.Window{At: 20, Limit: 2}, []uint64{21}, false},
		{store.Window{At: 20, Inclusive: true, Limit: 2}, []uint64{20, 21}, false},
		{store.Window{At: 3, Descending: true, Limit: 2}, []uint64{2, 1}, false},
		{store.Window{Descending: true, Limit: 2}, []uint64{21, 20}, true},
		{store.Window{At: 21, Limit: 2}, nil, false},
	} {
		entries, more, err := h.Log(t.Context(), test.w)
		var got []uint64
		for _, e := range entries {
			got = append(got, e.Seq)
			if want := story[e.Seq-1]; e.Kind != want.Body.Kind() || e.Turn != want.Turn || !e.Time.Equal(want.Time) || !json.Valid(e.Body) {
				t.Errorf("event %d is %+v", e.Seq, e)
			}
		}
		if err != nil || !slices.Equal(got, test.want) || more != test.more {
			t.Errorf("%+v: %v, %v, %v, want %v, %v", test.w, got, more, err, test.want, test.more)
		}
	}
	large := event.Item{ID: "large", Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: strings.Repeat("x", 3<<20)}
	for n := range uint64(3) {
		mustAppend(t, s, event.Event{Seq: 22 + n, Thread: "a", Body: event.ItemCompleted{Item: large}})
	}
	if entries, more, err := h.Log(t.Context(), store.Window{At: 20, Limit: 9}); err != nil || len(entries) != 2 || !more {
		t.Errorf("large events: %d, %v, %v", len(entries), more, err)
	}
}

func TestHistorySaid(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for id, other := range map[event.ThreadID]string{"a": "nothing", "b": "a needle of another thread"} {
		w := newWriter(t, s, id)
		w.say("1", "Find the NEEDLE, please")
		w.say("2", other)
		w.say("3", "a needle in a haystack")
		w.say("4", "needle taken back")
		w.revert("4", 0)
	}
	for text, want := range map[string]int{"needle": 2, "needle in": 1, "ne": 2, "in needle": 0, "x%": 0} {
		items, err := s.History("a").Items(t.Context(), store.ItemFilter{Said: text, Types: []event.ItemType{event.ItemUserMessage}}, store.Window{Limit: 9})
		if err != nil || len(items) != want {
			t.Errorf("%q: %+v, %v, want %d", text, items, err, want)
		}
	}
}

// A message that was cut off is followed if the model says something else in the same turn.
func TestHistoryFollowed(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	cut := func(id string, turn event.TurnID, seq uint64, status event.ItemStatus) event.Event {
		return event.Event{Seq: seq, Thread: "a", Turn: turn, Body: event.ItemCompleted{Item: event.Item{ID: event.ItemID(id), Type: event.ItemAgentMessage, Status: status}}}
	}
	mustAppend(t, s, event.Event{Seq: 1, Thread: "a", Body: event.ThreadStarted{}}, cut("one", "t", 2, event.StatusAborted), cut("two", "t", 3, event.StatusCompleted),
		cut("three", "t", 4, event.StatusAborted), cut("four", "t2", 5, event.StatusCompleted))
	items, err := s.History("a").Items(t.Context(), store.ItemFilter{}, store.Window{Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range items {
		got = append(got, fmt.Sprint(it.ID, " ", it.Followed))
	}
	if want := "one true, two false, three false, four false"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
}

// Threads are listed by either time in either direction, and so are the pages from a thread on.
func TestThreadsAreListedByKeys(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for n, id := range []event.ThreadID{"b", "a", "d", "c"} { // c and d are the oldest
		thread(t, s, id, fmt.Sprint("/", n%2), n/2*10)
	}
	mustAppend(t, s, event.Event{Seq: 2, Thread: "c", Turn: "t", Time: time.Unix(1_800_000_001, 0), Body: event.TurnStarted{Provider: "p"}})
	at := func(id string, k store.Sort) store.Cursor {
		info, err := s.Thread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return info.CursorBy(k)
	}
	for _, test := range []struct {
		filter store.Filter
		want   string
	}{
		{store.Filter{}, "c b a d"},
		{store.Filter{Ascending: true}, "d a b c"},
		{store.Filter{Sort: store.ByCreated}, "b a d c"},
		{store.Filter{Sort: store.ByCreated, Ascending: true}, "c d a b"},
		{store.Filter{Sort: store.ByCreated, Before: at("a", store.ByCreated)}, "d c"},
		{store.Filter{Sort: store.ByCreated, Before: at("a", store.ByCreated), Inclusive: true}, "a d c"},
		{store.Filter{Sort: store.ByCreated, Before: at("a", store.ByCreated), Inclusive: true, Ascending: true}, "a b"},
		{store.Filter{Before: at("b", store.ByUpdated), Ascending: true}, "c"},
		{store.Filter{Cwds: []string{"/0", "/2"}}, "b d"},
		{store.Filter{Providers: []string{"p", "q"}}, "c"},
		{store.Filter{Sources: []string{"exec"}}, ""},
		{store.Filter{Without: []event.ThreadID{"a", "b"}}, "c d"},
		{store.Filter{HasTurns: true}, "c"},
	} {
		got, err := s.Threads(t.Context(), test.filter)
		if err != nil || ids(got) != test.want {
			t.Errorf("%+v: %q, %v, want %q", test.filter, ids(got), err, test.want)
		}
	}
}

// A thread is unread from the first turn that ended after what was read. A mark with an old revision changes nothing.
func TestReadStates(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "a")
	h := s.History("a")
	state := func() store.ReadState {
		t.Helper()
		r, err := h.ReadState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		infos, err := s.Threads(t.Context(), store.Filter{ReadStates: true})
		if err != nil || infos[0].Read != r {
			t.Errorf("listed as %+v, %v, want %+v", infos, err, r)
		}
		return r
	}
	revisions := map[string]bool{}
	mark := func(unread bool) {
		t.Helper()
		was := state()
		now, err := h.Mark(t.Context(), unread, was.Revision)
		if err != nil || now != state() || revisions[now.Revision] {
			t.Errorf("marked as %+v, %v, and it is %+v", now, err, state())
		}
		revisions[was.Revision], revisions[now.Revision] = true, true
		if _, err := h.Mark(t.Context(), unread, was.Revision); err == nil {
			t.Error("a mark with an old revision has no error")
		} else if _, next := hint.Split(err); next == "" {
			t.Errorf("%v without a next step", err)
		}
	}
	want := func(unread bool, first event.TurnID) {
		t.Helper()
		if got := state(); got.Unread != unread || got.First != first {
			t.Errorf("state %+v, want %v %q", got, unread, first)
		}
	}
	want(false, "")
	mark(true)
	want(true, "") // it has no turn
	mark(false)
	want(false, "")
	w.begin("1", "one")
	want(false, "") // it has not ended
	mark(false)
	w.end("done")
	want(true, "1")
	w.say("2", "two")
	want(true, "1")
	mark(false)
	want(false, "")
	w.say("3", "three")
	want(true, "3")
	w.revert("3", 0)
	want(false, "")
	mark(true)
	want(true, "2")
	if _, err := s.History("x").ReadState(t.Context()); !isNotFound(err) {
		t.Errorf("a thread that is not stored: %v", err)
	}
	if _, err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	newWriter(t, s, "a")
	want(false, "")
}
