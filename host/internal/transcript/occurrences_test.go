package transcript_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// conversation is a thread with a turn for each text, which the user says and the model repeats.
func conversation(t *testing.T, texts ...string) store.History {
	s := newStream()
	for i, text := range texts {
		s.begin(fmt.Sprint("t", i+1))
		s.add(event.ItemCompleted{Item: event.Item{ID: event.ItemID(fmt.Sprint("u", i+1)), Type: event.ItemUserMessage, Status: event.StatusCompleted, Text: text}})
		s.add(event.ItemStarted{Item: message(fmt.Sprint("m", i+1), "", event.StatusInProgress)})
		s.add(event.ItemCompleted{Item: message(fmt.Sprint("m", i+1), "You said: "+text, event.StatusCompleted)})
		s.end(event.TurnCompleted)
	}
	return keep(t, storetest.Open(t), s.events)
}

// marked returns the snippet of an occurrence with the match in brackets.
func marked(o protocol.ThreadSearchOccurrence) string {
	units := utf16.Encode([]rune(o.Snippet))
	part := func(from, to uint32) string { return string(utf16.Decode(units[from:to])) }
	r := o.SnippetMatchRange
	return o.ItemID + " " + part(0, r.Start) + "[" + part(r.Start, r.End) + "]" + part(r.End, uint32(len(units)))
}

func TestOccurrences(t *testing.T) {
	h := conversation(t, "MOCK:shell second", "😀 Second\nand second, ÄRGER", strings.Repeat("x ", 100)+"second"+strings.Repeat(" y", 100))
	for text, want := range map[string][]string{
		"SHELL SECOND": {"u1 MOCK:[shell second]", "m1 You said: MOCK:[shell second]"},
		"second": {
			"u1 MOCK:shell [second]", "m1 You said: MOCK:shell [second]", "u2 😀 [Second] and second, ÄRGER", "u2 😀 Second and [second], ÄRGER",
			"m2 You said: 😀 [Second] and second, ÄRGER", "m2 You said: 😀 Second and [second], ÄRGER",
			"u3 …" + strings.Repeat("x ", 30) + "[second]" + strings.Repeat(" y", 60) + "…", "m3 …" + strings.Repeat("x ", 30) + "[second]" + strings.Repeat(" y", 60) + "…",
		},
		"ärger": {"u2 😀 Second and second, [ÄRGER]", "m2 You said: 😀 Second and second, [ÄRGER]"},
		"third": nil, "%": nil,
	} {
		for limit := range uint32(4) {
			req := transcript.Request{Limit: &limit}
			var got []string
			for {
				p, err := transcript.Occurrences(t.Context(), h, "th", text, req)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range p.Data {
					got = append(got, marked(o))
					turns, err := transcript.TurnsPage(t.Context(), h, "th", transcript.Request{Cursor: o.TurnCursor}, "")
					if err != nil || turns.Data[0].ID != o.TurnID {
						t.Errorf("%s: the cursor leads to %s, %v", marked(o), pretty(turns), err)
					}
				}
				if p.NextCursor == nil {
					break
				}
				req.Cursor = *p.NextCursor
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q, %d a page:\n%s\nwant\n%s", text, limit, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	p, err := transcript.Occurrences(t.Context(), h, "th", "second", transcript.Request{Limit: new(uint32(1))})
	if r := p.Data[0].SnippetMatchRange; err != nil || r != (protocol.ThreadSearchTextRange{Start: 11, End: 17}) {
		t.Errorf("range %+v, %v", r, err)
	}
	many := conversation(t, strings.Repeat("needle ", 200))
	for limit, want := range map[uint32]int{0: 1, 9: 9, 1000: 250} {
		if p, err := transcript.Occurrences(t.Context(), many, "th", "needle", transcript.Request{Limit: &limit}); err != nil || len(p.Data) != want || p.NextCursor == nil {
			t.Errorf("limit %d: %d, %v", limit, len(p.Data), err)
		}
	}
	if p, err := transcript.Occurrences(t.Context(), many, "th", "needle", transcript.Request{}); err != nil || len(p.Data) != 50 {
		t.Errorf("default limit: %d, %v", len(p.Data), err)
	}
}

func TestEventsPages(t *testing.T) {
	h := story(t)
	page := func(req transcript.EventsRequest) (p protocol.GantryThreadEventsResponse, seqs []uint64) {
		t.Helper()
		p, err := transcript.EventsPage(t.Context(), h, "a", req)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Data {
			seqs = append(seqs, e.Seq)
		}
		return p, seqs
	}
	two := transcript.Request{Limit: new(uint32(2))}
	one, got := page(transcript.EventsRequest{Request: two})
	if !slices.Equal(got, []uint64{1, 2}) || one.NextCursor == nil || one.Data[0].Kind != "thread.started" || one.Data[0].TurnID != nil || one.Data[1].TurnID == nil {
		t.Errorf("%s", pretty(one))
	}
	next := two
	next.Cursor = *one.NextCursor
	if p, got := page(transcript.EventsRequest{Request: next}); !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("%s", pretty(p))
	} else {
		back := transcript.Request{Limit: two.Limit, Cursor: *p.BackwardsCursor, Order: protocol.Descending}
		if p, got := page(transcript.EventsRequest{Request: back}); !slices.Equal(got, []uint64{3, 2}) {
			t.Errorf("%s", pretty(p))
		}
	}
	for _, test := range []struct {
		req  transcript.EventsRequest
		want []uint64
	}{
		{transcript.EventsRequest{Request: two, After: new(uint64(7))}, []uint64{8, 9}},
		{transcript.EventsRequest{Request: two, After: new(uint64(30))}, []uint64{31}},
		{transcript.EventsRequest{Request: two, Before: new(uint64(7))}, []uint64{6, 5}},
		{transcript.EventsRequest{Before: new(uint64(1))}, nil},
		{transcript.EventsRequest{Before: new(uint64(0))}, nil},
	} {
		if p, got := page(test.req); !slices.Equal(got, test.want) || len(test.want) < 2 && p.NextCursor != nil {
			t.Errorf("%+v: %v, want %v", test.req, got, test.want)
		}
	}
	for _, bad := range []transcript.EventsRequest{
		{After: new(uint64(1)), Before: new(uint64(9))}, {Request: next, After: new(uint64(1))}, {Request: transcript.Request{Order: protocol.Descending}, After: new(uint64(1))},
		{Request: transcript.Request{Order: protocol.Ascending}, Before: new(uint64(1))}, {Request: transcript.Request{Cursor: "zzz"}},
	} {
		_, err := transcript.EventsPage(t.Context(), h, "a", bad)
		if err == nil {
			t.Errorf("%+v: no error", bad)
		} else if _, step := hint.Split(err); step == "" {
			t.Errorf("%+v: %v without a next step", bad, err)
		}
	}
}
