package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// thread makes a thread of one event, which is so many seconds old.
func thread(t *testing.T, s *store.Store, id event.ThreadID, cwd string, seconds int) {
	t.Helper()
	mustAppend(t, s, event.Event{
		Seq: 1, Thread: id, Time: time.Unix(1_800_000_000-int64(seconds), 0).UTC(), Body: event.ThreadStarted{Cwd: cwd},
	})
}

func name(t *testing.T, s *store.Store, id event.ThreadID, seq uint64, name string) {
	t.Helper()
	mustAppend(t, s, event.Event{Seq: seq, Thread: id, Time: time.Unix(1_700_000_000, 0), Body: event.ThreadNamed{Name: name}})
}

func ids(threads []store.ThreadInfo) string {
	var out []string
	for _, i := range threads {
		out = append(out, string(i.ID))
	}
	return strings.Join(out, " ")
}

func TestThreadsAreListedByUpdate(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for n, id := range []event.ThreadID{"b", "a", "d", "c"} {
		thread(t, s, id, fmt.Sprint("/", n%2), n/2*10)
	}
	for _, test := range []struct {
		filter store.Filter
		want   string
	}{
		{store.Filter{}, "b a d c"},
		{store.Filter{Cwd: "/1"}, "a c"},
		{store.Filter{Cwd: "/nowhere"}, ""},
		{store.Filter{Limit: 3}, "b a d"},
		{store.Filter{Archived: true}, ""},
	} {
		got, err := s.Threads(t.Context(), test.filter)
		if err != nil || ids(got) != test.want {
			t.Errorf("%+v: %q, %v, want %q", test.filter, ids(got), err, test.want)
		}
	}
	// Page by page, with the cursor as text, also between threads of the same moment.
	for size := 1; size <= 5; size++ {
		var all []store.ThreadInfo
		cursor := ""
		for {
			before, err := store.ParseCursor(cursor)
			if err != nil {
				t.Fatal(err)
			}
			page, err := s.Threads(t.Context(), store.Filter{Limit: size, Before: before})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
			cursor = page[len(page)-1].Cursor().String()
		}
		if ids(all) != "b a d c" {
			t.Errorf("pages of %d: %s", size, ids(all))
		}
	}
	for _, bad := range []string{"x", "12", "_a", "12_", "x_a"} {
		if _, err := store.ParseCursor(bad); err == nil {
			t.Errorf("ParseCursor(%q) has no error", bad)
		}
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	thread(t, s, "a", "/", 1)
	thread(t, s, "b", "/", 2)
	at := time.Unix(1_800_000_100, 0).UTC()
	mustAppend(t, s, event.Event{Seq: 2, Thread: "a", Time: at, Body: event.ThreadArchived{Archived: true}})
	open, _ := s.Threads(t.Context(), store.Filter{})
	archived, _ := s.Threads(t.Context(), store.Filter{Archived: true})
	if ids(open) != "b" || ids(archived) != "a" || !archived[0].Archived.Equal(at) {
		t.Errorf("open %q, archived %q", ids(open), ids(archived))
	}
	if _, err := s.Thread(t.Context(), "a"); err != nil {
		t.Errorf("an archived thread is not found: %v", err)
	}
	name(t, s, "a", 3, "still archived")
	mustAppend(t, s, event.Event{Seq: 4, Thread: "a", Time: at, Body: event.ThreadArchived{}})
	if open, _ = s.Threads(t.Context(), store.Filter{}); ids(open) != "b a" && ids(open) != "a b" {
		t.Errorf("open %q", ids(open))
	}
}

func TestThreadsAreListedByName(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for i, id := range []event.ThreadID{"a", "b", "c"} {
		thread(t, s, id, "/", i)
		mustAppend(t, s, event.Event{Seq: 2, Thread: id, Time: time.Unix(1_700_000_000, 0), Body: event.ItemCompleted{Item: event.Item{
			ID: "u", Type: event.ItemUserMessage, Text: fmt.Sprintf("Fix bug_%d, 100%%", i),
		}}})
	}
	name(t, s, "c", 3, "The Parser")
	for text, want := range map[string]string{
		"fix": "a b", "BUG_1": "b", "bug%1": "", "b_g": "", "100%": "a b", "parser": "c", `\`: "", "fix bug": "a b", "": "a b c",
	} {
		got, err := s.Threads(t.Context(), store.Filter{Name: text})
		if err != nil || len(strings.Fields(ids(got))) != len(strings.Fields(want)) {
			t.Errorf("%q: %q, %v, want %q", text, ids(got), err, want)
		}
	}
}

func TestThreadIsFoundByIDPrefixAndName(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	thread(t, s, "0190aaaa-1111", "/", 1)
	thread(t, s, "0190aaaa-1111-2222", "/", 2)
	thread(t, s, "0190bbbb-1111", "/", 3)
	thread(t, s, "dead0000-1111", "/", 4)
	name(t, s, "0190bbbb-1111", 2, "Fix the build")
	name(t, s, "dead0000-1111", 2, "0190b")
	name(t, s, "0190aaaa-1111", 2, "twin")
	name(t, s, "0190aaaa-1111-2222", 2, "twin")
	for query, want := range map[string]string{
		"0190aaaa-1111":   "0190aaaa-1111", // although another one begins so
		"0190aaaa-1111-":  "0190aaaa-1111-2222",
		"0190B-":          "none",
		"0190BBBB":        "0190bbbb-1111",
		"dead":            "dead0000-1111",
		" dead ":          "dead0000-1111",
		"Fix the build":   "0190bbbb-1111",
		"fix the build":   "none", // names are exact
		"Fix":             "none",
		"":                "none",
		"   ":             "none",
		"%":               "none",
		"0190%":           "none",
		"0190":            "several", // three
		"0190b":           "several", // one by prefix, another by name
		"twin":            "several",
		"' OR 1=1 --":     "none",
		"0190aaaa-1111~":  "none",
		"0190aaaa-1111-3": "none",
		"2222":            "0190aaaa-1111-2222", // the end of an ID
		"BBB-1111":        "0190bbbb-1111",
		"1111":            "several",
		"222":             "none", // too short
	} {
		info, err := s.Thread(t.Context(), query)
		got := string(info.ID)
		if errors.As(err, new(*store.NotFoundError)) {
			got = "none"
		} else if many, ok := errors.AsType[*store.AmbiguousError](err); ok {
			got = "several"
			if len(many.Threads) < 2 || !strings.Contains(err.Error(), string(many.Threads[1].ID)) {
				t.Errorf("%q: %v", query, err)
			}
		} else if err != nil {
			t.Errorf("%q: %v", query, err)
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", query, got, err, want)
		}
	}
	for n := range 10 {
		thread(t, s, event.ThreadID(fmt.Sprint("0777-", n)), "/", n)
	}
	_, err := s.Thread(t.Context(), "0777")
	if many, ok := errors.AsType[*store.AmbiguousError](err); !ok || len(many.Threads) != 5 || !many.More || !strings.Contains(err.Error(), "…") {
		t.Errorf("ten that fit: %v", err)
	}
}

func TestThreadsAreListedByParent(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, child := range []struct{ id, parent event.ThreadID }{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "a"}, {"e", ""}} {
		mustAppend(t, s, event.Event{Seq: 1, Thread: child.id, Time: time.Unix(1_700_000_000, 0), Body: event.ThreadStarted{Parent: child.parent}})
	}
	for _, test := range []struct {
		f    store.Filter
		want string
	}{
		{store.Filter{Parent: "a"}, "b d"}, {store.Filter{Parent: "c"}, ""}, {store.Filter{Ancestor: "a"}, "b c d"}, {store.Filter{Ancestor: "b"}, "c"},
		{store.Filter{Ancestor: "x"}, ""}, {store.Filter{NoParents: true}, "a e"}, {store.Filter{}, "a b c d e"},
	} {
		test.f.Ascending = true
		if got, err := s.Threads(t.Context(), test.f); err != nil || ids(got) != test.want {
			t.Errorf("%+v: %q, %v, want %q", test.f, ids(got), err, test.want)
		}
	}
	if c, err := s.Thread(t.Context(), "c"); err != nil || c.Parent != "b" {
		t.Errorf("%+v, %v", c, err)
	}
}
