package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

func keep(t fataler, s *store.Store, events []event.Event) store.History {
	var log []event.Event
	for e := range durable(events) {
		log = append(log, e)
	}
	if err := s.Append(context.Background(), log...); err != nil {
		t.Fatalf("%v", err)
	}
	return s.History(events[0].Thread)
}

// What the pages of a thread have together is what the fold of its log has, in either direction and for pages of any size.
func TestPagesEqualTheLog(t *testing.T) {
	s := storetest.Open(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		h := random(t, event.ThreadID(fmt.Sprint("thread", n)))
		if len(h.events) == 0 {
			return
		}
		history := keep(t, s, h.events)
		limit := uint32(rapid.IntRange(0, 6).Draw(t, "limit"))
		for _, order := range []protocol.SortDirection{protocol.Ascending, protocol.Descending} {
			for _, view := range []protocol.TurnItemsView{protocol.ItemsFull, protocol.ItemsSummary, protocol.ItemsNotLoaded} {
				want, err := transcript.Turns(durable(h.events), view)
				if err != nil {
					t.Fatal(err)
				}
				if order == protocol.Descending {
					slices.Reverse(want)
				}
				if got := allTurns(t, history, h.thread, transcript.Request{Limit: &limit, Order: order}, view); pretty(got) != pretty(want) {
					t.Fatalf("%s %s:\n%s", view, order, differ(pretty(got), pretty(want)))
				}
			}
			var want []protocol.ThreadItemEntry
			for _, turn := range turnsOf(t, h.events) {
				want = append(want, entries(turn)...)
			}
			slices.SortStableFunc(want, func(a, b protocol.ThreadItemEntry) int { return int(*a.StartedAtMs - *b.StartedAtMs) })
			if order == protocol.Descending {
				slices.Reverse(want)
			}
			got := allItems(t, history, h.thread, transcript.ItemsRequest{Request: transcript.Request{Limit: &limit, Order: order}})
			if pretty(got) != pretty(want) {
				t.Fatalf("items %s:\n%s", order, differ(pretty(got), pretty(want)))
			}
		}
	})
}

func entries(turn protocol.Turn) (out []protocol.ThreadItemEntry) {
	for _, it := range turn.Items {
		h := it.Body.Header()
		out = append(out, protocol.ThreadItemEntry{TurnID: turn.ID, Item: it, StartedAtMs: h.StartedAtMs, CompletedAtMs: h.CompletedAtMs})
	}
	return out
}

// allTurns reads all pages.
func allTurns(t fataler, r transcript.Reader, thread event.ThreadID, req transcript.Request, view protocol.TurnItemsView) []protocol.Turn {
	out := []protocol.Turn{}
	for {
		p, err := transcript.TurnsPage(context.Background(), r, thread, req, view)
		if err != nil {
			t.Fatalf("%v", err)
		}
		out = append(out, p.Data...)
		if p.NextCursor == nil {
			return out
		}
		req.Cursor = *p.NextCursor
	}
}

func allItems(t fataler, r transcript.Reader, thread event.ThreadID, req transcript.ItemsRequest) (out []protocol.ThreadItemEntry) {
	for {
		p, err := transcript.ItemsPage(context.Background(), r, thread, req)
		if err != nil {
			t.Fatalf("%v", err)
		}
		out = append(out, p.Data...)
		if p.NextCursor == nil {
			return out
		}
		req.Cursor = *p.NextCursor
	}
}

// story has three turns, each with the user's message, a command and an answer.
func story(t *testing.T) store.History {
	s := storetest.Open(t)
	return keep(t, s, storetest.Story("a", 3))
}

func turnIDs(p protocol.TurnsPage) (out []string) {
	for _, turn := range p.Data {
		out = append(out, strings.TrimPrefix(turn.ID, "a-turn-"))
	}
	return out
}

func TestTurnsPages(t *testing.T) {
	h := story(t)
	page := func(req transcript.Request) protocol.TurnsPage {
		t.Helper()
		p, err := transcript.TurnsPage(t.Context(), h, "a", req, "")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// Three turns, two a page.
	one := page(transcript.Request{Limit: new(uint32(2))})
	if got := turnIDs(one); !slices.Equal(got, []string{"3", "2"}) || one.NextCursor == nil {
		t.Fatalf("first page %v, next %v", got, one.NextCursor)
	}
	two := page(transcript.Request{Limit: new(uint32(2)), Cursor: *one.NextCursor})
	if got := turnIDs(two); !slices.Equal(got, []string{"1"}) || two.NextCursor != nil {
		t.Fatalf("second page %v, next %v", got, two.NextCursor)
	}
	// Backwards from the second page: its first row is the first one, included.
	if got := turnIDs(page(transcript.Request{Cursor: *two.BackwardsCursor, Order: protocol.Ascending})); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("backwards %v", got)
	}
	if got := turnIDs(page(transcript.Request{Limit: new(uint32(0))})); !slices.Equal(got, []string{"3"}) {
		t.Errorf("limit 0: %v", got)
	}
	if got := turnIDs(page(transcript.Request{Limit: new(uint32(1 << 31))})); len(got) != 3 {
		t.Errorf("a large limit: %v", got)
	}
	if view := one.Data[0]; view.ItemsView != protocol.ItemsSummary || len(view.Items) != 2 || *view.DurationMs != 40 || view.Status != protocol.TurnCompleted {
		t.Errorf("default view %s", pretty(view))
	}
}

func TestItemsPages(t *testing.T) {
	h := story(t)
	page := func(req transcript.ItemsRequest) string {
		t.Helper()
		p, err := transcript.ItemsPage(t.Context(), h, "a", req)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range p.Data {
			out = append(out, strings.Fields(short(e.Item))[0]+e.TurnID[len("a-turn-"):])
		}
		return strings.Join(out, " ")
	}
	all := "userMessage1 commandExecution1 agentMessage1 userMessage2 commandExecution2 agentMessage2 userMessage3 commandExecution3 agentMessage3"
	if got := page(transcript.ItemsRequest{}); got != all {
		t.Errorf("items %s", got)
	}
	reversed := strings.Fields(all)
	slices.Reverse(reversed)
	if got := page(transcript.ItemsRequest{Request: transcript.Request{Order: protocol.Descending}}); got != strings.Join(reversed, " ") {
		t.Errorf("descending %s", got)
	}
	if got := page(transcript.ItemsRequest{Turn: "a-turn-2"}); got != "userMessage2 commandExecution2 agentMessage2" {
		t.Errorf("of a turn %s", got)
	}
	if got := page(transcript.ItemsRequest{Item: "call-2", Request: transcript.Request{Limit: new(uint32(2))}}); got != "commandExecution2 agentMessage2" {
		t.Errorf("from an item %s", got)
	}
	for _, bad := range []transcript.ItemsRequest{{Turn: "x"}, {Item: "x"}} {
		if _, err := transcript.ItemsPage(t.Context(), h, "a", bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// Outputs that were left out of a list are read by the IDs of their items.
func TestDeferredOutput(t *testing.T) {
	h := story(t)
	p, err := transcript.ItemsPage(t.Context(), h, "a", transcript.ItemsRequest{Turn: "a-turn-2", Defer: protocol.ThreadItemOutputDeferral{CommandExecution: true}})
	if err != nil || len(p.Data) != 3 {
		t.Fatalf("%s, %v", pretty(p), err)
	}
	for i, e := range p.Data {
		c, command := e.Item.Body.(protocol.CommandExecutionItem)
		if e.OutputDeferred != (i == 1) || command != (i == 1) || command && c.AggregatedOutput != nil {
			t.Errorf("item %d: %s", i, pretty(e))
		}
	}
	read, err := transcript.ItemsByID(t.Context(), h, "a-turn-2", []string{"a-turn-2-answer", "call-2"})
	if err != nil || len(read) != 2 || *read[0].Item.Body.(protocol.CommandExecutionItem).AggregatedOutput == "" || read[1].OutputDeferred || read[1].TurnID != "a-turn-2" {
		t.Errorf("%s, %v", pretty(read), err)
	}
	if none, err := transcript.ItemsByID(t.Context(), h, "a-turn-2", nil); err != nil || len(none) != 0 {
		t.Errorf("no IDs: %s, %v", pretty(none), err)
	}
	for _, bad := range []struct {
		turn event.TurnID
		id   string
	}{{"a-turn-2", "call-1"}, {"a-turn-2", ""}, {"x", "call-1"}} {
		var missing *store.NotFoundError
		if _, err := transcript.ItemsByID(t.Context(), h, bad.turn, []string{bad.id}); !errors.As(err, &missing) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Turns and lists of items of a thread that is not loaded end in the same way, and open items get the texts of the fold in both.
func TestOpenItemsOfPages(t *testing.T) {
	s := newStream()
	s.begin("t1")
	s.add(event.ItemStarted{Item: shell(event.StatusInProgress)}, event.ItemStarted{Item: message("m1", "", event.StatusInProgress)})
	s.add(event.ItemDelta{Item: "m1", Delta: event.DeltaText, Text: "so far"})
	h := keep(t, storetest.Open(t), s.events)
	page := func() ([]protocol.Turn, []protocol.ThreadItemEntry) {
		p, err := transcript.TurnsPage(t.Context(), h, "th", transcript.Request{}, protocol.ItemsFull)
		if err != nil {
			t.Fatal(err)
		}
		l, err := transcript.ItemsPage(t.Context(), h, "th", transcript.ItemsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Data, l.Data
	}
	turns, items := page()
	transcript.Stopped(turns)
	if got, want := pretty(transcript.StoppedItems(items)), pretty(entries(turns[0])); got != want || len(turns[0].Items) != 1 || turns[0].Status != protocol.TurnInterrupted {
		t.Errorf("not loaded: %s\n%s", pretty(turns), differ(got, want))
	}
	var f transcript.Fold
	for _, e := range s.events {
		f.Apply(e)
	}
	turns, items = page()
	transcript.WithOpen(turns, f.Open())
	transcript.WithOpenItems(items, f.Open())
	if got, want := pretty(items), pretty(entries(turns[0])); got != want || !strings.Contains(got, "so far") {
		t.Errorf("running: %s", differ(got, want))
	}
}

func TestCursors(t *testing.T) {
	h := story(t)
	p, err := transcript.TurnsPage(t.Context(), h, "a", transcript.Request{Limit: new(uint32(1))}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"zzz", "{}", "null", "1", `{"requestedThreadId":"a","rolloutOrdinal":0,"scope":{"kind":"turns"}}`,
		`{"requestedThreadId":"b","rolloutOrdinal":3,"scope":{"kind":"turns"}}`, `{"requestedThreadId":"a","rolloutOrdinal":-3,"scope":{"kind":"turns"}}`} {
		_, err := transcript.TurnsPage(t.Context(), h, "a", transcript.Request{Cursor: bad}, "")
		if err == nil {
			t.Errorf("%s: no error", bad)
		} else if text, next := hint.Split(err); text != "invalid cursor: "+bad || next == "" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var invalid *transcript.CursorError
	if _, err := transcript.ItemsPage(t.Context(), h, "a", transcript.ItemsRequest{Request: transcript.Request{Cursor: *p.NextCursor}}); !errors.As(err, &invalid) {
		t.Errorf("a cursor of turns for items: %v", err)
	}
}

// FuzzCursor checks that no cursor does harm, and that one of a list has a page.
func FuzzCursor(f *testing.F) {
	f.Add("zzz")
	f.Add(`{"requestedThreadId":"a","rolloutOrdinal":2,"includeAnchor":true,"scope":{"kind":"turns"}}`)
	f.Add(`{"requestedThreadId":"a","rolloutOrdinal":18446744073709551615,"includeAnchor":false,"scope":{"kind":"turns"}}`)
	f.Add(`{"requestedThreadId":"a","rolloutOrdinal":3,"includeAnchor":true,"skip":1,"scope":{"kind":"occurrences"}}`)
	f.Add(`{"requestedThreadId":"a","rolloutOrdinal":3,"includeAnchor":false,"skip":-1,"scope":{"kind":"events"}}`)
	f.Add(`{"requestedThreadId":"a","rolloutOrdinal":9,"includeAnchor":true,"scope":{"kind":"itemsByCreatedAtOrdinal"}}`)
	s := storetest.Open(f)
	h := keep(f, s, storetest.Story("a", 3))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := transcript.TurnsPage(t.Context(), h, "a", transcript.Request{Cursor: text}, "")
		var invalid *transcript.CursorError
		switch {
		case errors.As(err, &invalid):
		case err != nil:
			t.Fatal(err)
		case text != "" && !json.Valid([]byte(text)):
			t.Fatalf("a page for a cursor that is not JSON: %d turns", len(p.Data))
		}
		req := transcript.Request{Cursor: text}
		_, items := transcript.ItemsPage(t.Context(), h, "a", transcript.ItemsRequest{Request: req})
		_, occurrences := transcript.Occurrences(t.Context(), h, "a", "bug", req)
		_, log := transcript.EventsPage(t.Context(), h, "a", transcript.EventsRequest{Request: req})
		accepted := 0
		for _, err := range []error{err, items, occurrences, log} {
			if err == nil {
				accepted++
			} else if !errors.As(err, &invalid) {
				t.Fatal(err)
			}
		}
		if text != "" && accepted > 1 {
			t.Fatalf("%d kinds of lists accept the cursor %s", accepted, text)
		}
	})
}

// A page of a long thread costs what it holds.
func BenchmarkPages(b *testing.B) {
	s := storetest.Open(b)
	events := storetest.Story("a", 10_000)
	for part := range slices.Chunk(events, 10_000) {
		if err := s.Append(b.Context(), part...); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Barrier(b.Context(), "a", uint64(len(events))); err != nil {
		b.Fatal(err)
	}
	h := s.History("a")
	middle, err := h.Turn(b.Context(), "a-turn-5000")
	if err != nil {
		b.Fatal(err)
	}
	cursor := fmt.Sprintf(`{"requestedThreadId":"a","rolloutOrdinal":%d,"includeAnchor":true,"scope":{"kind":"%%s"}}`, middle.FirstSeq)
	for _, view := range []protocol.TurnItemsView{protocol.ItemsFull, protocol.ItemsSummary, protocol.ItemsNotLoaded} {
		b.Run("turns "+string(view), func(b *testing.B) {
			for b.Loop() {
				if p, err := transcript.TurnsPage(b.Context(), h, "a", transcript.Request{Cursor: fmt.Sprintf(cursor, "turns")}, view); err != nil || len(p.Data) != 25 {
					b.Fatal(len(p.Data), err)
				}
			}
		})
	}
	b.Run("items", func(b *testing.B) {
		for b.Loop() {
			req := transcript.ItemsRequest{Request: transcript.Request{Cursor: fmt.Sprintf(cursor, "itemsByCreatedAtOrdinal")}}
			if p, err := transcript.ItemsPage(b.Context(), h, "a", req); err != nil || len(p.Data) != 25 {
				b.Fatal(len(p.Data), err)
			}
		}
	})
}
