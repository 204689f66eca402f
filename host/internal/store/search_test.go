package store_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	a := newWriter(t, s, "a")
	a.begin("1", "Why does parse_expr fail\non empty input?")
	a.end("It divides 100% by zero; ÄRGERLICH, 東京都 too.")
	a.say("2", "taken back sausage")
	a.revert("2", 0)
	b := newWriter(t, s, "b")
	b.say("1", "something else")
	b.tell(event.ThreadNamed{Name: "Parser work"})
	b.tell(event.ItemCompleted{Item: event.Item{ID: "r", Type: event.ItemReasoning, Text: "secret thought"}})
	c := newWriter(t, s, "c")
	c.say("1", strings.Repeat("x ", 40_000)+"the end of a long text")
	c.say("2", strings.Repeat("filler ", 30)+"needle "+strings.Repeat("filler ", 30))
	c.tell(event.ThreadArchived{Archived: true})
	for _, test := range []struct {
		query    string
		archived bool
		want     string
	}{
		{"parse", false, "a b"}, {"PARSE_EXPR", false, "a"}, {"arse_ex", false, "a"}, {"parseXexpr", false, ""},
		{"empty parse", false, "a"}, {"empty nothing", false, ""}, {"fail divides", false, ""}, // in one message
		{"100%", false, "a"}, {"100_", false, ""}, {"it", false, "a"}, {"ärgerlich", false, "a"}, {"東京都", false, "a"}, {"東京", false, "a"},
		{`"quoted`, false, ""}, {`AND`, false, ""}, {"else", false, "b"}, {"sausage", false, ""}, {"secret thought", false, ""},
		{"needle", false, ""}, {"needle", true, "c"}, {"end of a long", true, ""}, {"parser work", false, "b"},
	} {
		hits, err := s.Search(t.Context(), test.query, store.Filter{Archived: test.archived, Limit: 10})
		var got []string
		for _, h := range hits {
			got = append(got, string(h.Thread.ID))
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%q: %v, %v, want %q", test.query, got, err, test.want)
		}
	}
	hits, _ := s.Search(t.Context(), "needle", store.Filter{Archived: true})
	if p := hits[0].Passages; len(p) != 2 || p[0].Turn != "2" || p[0].Role != store.RoleUser || !strings.Contains(p[0].Snippet, "needle") ||
		!strings.HasPrefix(p[0].Snippet, "…") || !strings.HasSuffix(p[0].Snippet, "…") || p[1].Role != store.RoleAgent {
		t.Errorf("passages %+v", p)
	}
	for _, bad := range []string{"", " \n", strings.Repeat("a ", 20)} {
		if _, err := s.Search(t.Context(), bad, store.Filter{}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.Search(t.Context(), "parse_expr", store.Filter{}); err != nil || len(hits) != 0 {
		t.Errorf("of a deleted thread: %+v, %v", hits, err)
	}
}

func TestSearchShowsTheFirstPassages(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "a")
	for i := range 5 {
		w.say(event.TurnID(fmt.Sprint(i)), fmt.Sprintf("task %d", i))
	}
	hits, err := s.Search(t.Context(), "task", store.Filter{Limit: 1})
	if err != nil || len(hits) != 1 || len(hits[0].Passages) != 3 || hits[0].More != 7 || hits[0].Passages[0].Snippet != "task 0" {
		t.Errorf("%+v, %v", hits, err)
	}
}

// Words that stand in more messages than the search looks at one by one find the same threads.
func TestSearchForWhatIsEverywhere(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for _, name := range []string{"a", "b"} {
		w := newWriter(t, s, event.ThreadID(name))
		for i := range 150 {
			w.say(event.TurnID(fmt.Sprint(i)), fmt.Sprintf("a common task, at %d of it", i))
		}
	}
	reverted := newWriter(t, s, "c")
	reverted.say("1", "a common task")
	reverted.revert("1", 0)
	named := newWriter(t, s, "d")
	named.say("1", "else")
	named.tell(event.ThreadNamed{Name: "Common task"})
	for query, want := range map[string]string{"common task": "a b d", "common at": "a b", "common else": ""} {
		hits, err := s.Search(t.Context(), query, store.Filter{})
		var got []string
		for _, h := range hits {
			got = append(got, string(h.Thread.ID))
			if h.Thread.ID == "a" && (len(h.Passages) != 3 || h.More < 140) {
				t.Errorf("%q: %d passages and %d more", query, len(h.Passages), h.More)
			}
		}
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v, want %q", query, got, err, want)
		}
	}
}

// A home of the version before is searched, too.
func TestSearchInAnOldHome(t *testing.T) {
	filesOnly(t)
	t.Parallel()
	cfg := store.Config{Path: filepath.Join(t.TempDir(), "threads.db")}
	if err := store.WriteFirstSchema(t.Context(), cfg.Path, storetest.Story("t", 2)); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, cfg)
	hits, err := s.Search(t.Context(), "fix bug", store.Filter{})
	if err != nil || len(hits) != 1 || len(hits[0].Passages) != 2 || hits[0].Passages[1].Snippet != "Please fix bug 2." {
		t.Errorf("%+v, %v", hits, err)
	}
	turns, err := s.Turns(t.Context(), "t")
	if err != nil || len(turns) != 2 || !turns[1].HasInput || turns[1].Preview != "Please fix bug 2." {
		t.Errorf("%+v, %v", turns, err)
	}
}

// Pages of a search have together what one search has, in either direction.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for i := range 7 {
		newWriter(t, s, event.ThreadID(fmt.Sprint("t", i))).say("1", "needle") // all in the same second
	}
	for _, ascending := range []bool{false, true} {
		f := store.Filter{Limit: 3, Sort: store.ByCreated, Ascending: ascending}
		var got []string
		for {
			hits, err := s.Search(t.Context(), "needle", f)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				got = append(got, string(h.Thread.ID))
				f.Before = h.Thread.CursorBy(f.Sort)
			}
			if len(hits) < f.Limit {
				break
			}
		}
		want := "t6 t5 t4 t3 t2 t1 t0"
		if ascending {
			want = "t0 t1 t2 t3 t4 t5 t6"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("ascending %v: %v", ascending, got)
		}
	}
}
