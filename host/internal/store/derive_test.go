package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"pgregory.net/rapid"
)

func TestDerivedRows(t *testing.T) {
	t.Parallel()
	cfg := storetest.Config(t)
	s := openAt(t, cfg)
	story := storetest.Story("t", 2)
	at := func(seq uint64) time.Time { return story[seq-1].Time }
	check := func(upTo uint64, change func(*store.ThreadInfo)) {
		t.Helper()
		want := store.ThreadInfo{
			ID: "t", Cwd: "/home/ada/project", Model: "default", Provider: "scripted", ModelName: "play", Source: "exec",
			Created: at(1), Seq: upTo,
		}
		change(&want)
		got, err := s.Thread(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		want.Run = got.Run
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after event %d (%s):\n got %+v\nwant %+v", upTo, story[upTo-1].Body.Kind(), got, want)
		}
	}
	done := uint64(0)
	for _, step := range []struct {
		upTo   uint64
		change func(*store.ThreadInfo)
	}{
		{1, func(i *store.ThreadInfo) { i.Status, i.Updated = "new", at(1) }},
		{2, func(i *store.ThreadInfo) { i.Status, i.Turns, i.Updated = "running", 1, at(2) }},
		{4, func(i *store.ThreadInfo) {
			i.Status, i.Turns, i.Updated, i.Preview = "running", 1, at(2), "Please fix bug 1."
		}},
		{9, func(i *store.ThreadInfo) {
			i.Status, i.Turns, i.Updated, i.Preview = "running", 1, at(2), "Please fix bug 1."
			i.Tokens = event.Tokens{Input: 1000, Output: 100, Total: 1100}
		}},
		{11, func(i *store.ThreadInfo) {
			i.Status, i.Turns, i.Updated, i.Preview = "completed", 1, at(11), "Please fix bug 1."
			i.Tokens = event.Tokens{Input: 1000, Output: 100, Total: 1100}
		}},
		{21, func(i *store.ThreadInfo) {
			i.Status, i.Turns, i.Updated, i.Preview = "completed", 2, at(21), "Please fix bug 1."
			i.Tokens = event.Tokens{Input: 2000, Output: 200, Total: 2200}
		}},
	} {
		mustAppend(t, s, story[done:step.upTo]...)
		done = step.upTo
		check(step.upTo, step.change)
	}
	mustAppend(t, s,
		event.Event{Seq: 22, Thread: "t", Time: at(21).Add(time.Second), Body: event.ThreadNamed{Name: "two bugs"}},
		event.Event{Seq: 23, Thread: "t", Turn: "t-turn-3", Time: at(21).Add(2 * time.Second), Body: event.TurnStarted{
			Cwd: "/elsewhere", Model: "other", Provider: "p2", ModelName: "m2"}},
		event.Event{Seq: 24, Thread: "t", Turn: "t-turn-3", Time: at(21).Add(3 * time.Second), Body: event.TurnEnded{
			Status: event.TurnInterrupted}},
	)
	got, err := s.Thread(t.Context(), "two bugs")
	if err != nil {
		t.Fatal(err)
	}
	if got.Cwd != "/elsewhere" || got.Model != "other" || got.Provider != "p2" || got.ModelName != "m2" || got.Turns != 3 ||
		got.Status != "interrupted" || got.Tokens.Total != 2200 {
		t.Errorf("after a turn elsewhere: %+v", got)
	}

	turns, err := s.Turns(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if want := []store.TurnInfo{
		{ID: "t-turn-1", FirstSeq: 2, LastSeq: 11, Status: "completed", Started: at(2), Ended: at(11), HasInput: true, Preview: "Please fix bug 1."},
		{ID: "t-turn-2", FirstSeq: 12, LastSeq: 21, Status: "completed", Started: at(12), Ended: at(21), HasInput: true, Preview: "Please fix bug 2."},
		{ID: "t-turn-3", FirstSeq: 23, LastSeq: 24, Status: "interrupted", Started: at(21).Add(2 * time.Second),
			Ended: at(21).Add(3 * time.Second)},
	}; !reflect.DeepEqual(turns, want) {
		t.Errorf("turns:\n got %+v\nwant %+v", turns, want)
	}
	items, err := s.Items(t.Context(), "t", "t-turn-2")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, i := range items {
		shown = append(shown, fmt.Sprintf("%s %s %s%s", i.Type, i.Status, i.Text, i.Output))
	}
	if want := []string{
		"user_message completed Please fix\nbug 2.", "command completed ok  \tproject\t0.01s\n", "agent_message completed Done.",
	}; !reflect.DeepEqual(shown, want) {
		t.Errorf("items: %q, want %q", shown, want)
	}
	if all, err := s.Items(t.Context(), "t", ""); err != nil || len(all) != 6 {
		t.Errorf("%d items of the thread, %v", len(all), err)
	}
}

func TestAResumedTurnKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	now := time.Now().UTC()
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	for n, b := range []event.Body{
		event.ThreadStarted{}, event.TurnStarted{}, event.TurnEnded{Status: event.TurnInterrupted},
		event.TurnStarted{Resumed: true}, event.TurnEnded{Status: event.TurnCompleted}, event.TurnStarted{Resumed: true},
	} {
		e := event.Event{Seq: uint64(n + 1), Thread: "t", Time: at(n + 1), Body: b}
		if n > 0 {
			e.Turn = "turn"
		}
		mustAppend(t, s, e)
		if n == 3 {
			mustBarrier(t, s, []event.Event{e}) // the rest is another batch
		}
	}
	turns, err := s.Turns(t.Context(), "t")
	if want := []store.TurnInfo{{ID: "turn", FirstSeq: 2, Status: "running", Started: at(2)}}; err != nil || !reflect.DeepEqual(turns, want) {
		t.Errorf("turns = %+v, %v, want %+v", turns, err, want)
	}
	if info, err := s.Thread(t.Context(), "t"); err != nil || info.Turns != 1 || info.Status != "running" {
		t.Errorf("thread = %+v, %v", info, err)
	}
}

// However events are cut into Appends and batches, the rows that are derived from them are the same.
func TestDerivedRowsDoNotDependOnBatches(t *testing.T) {
	t.Parallel()
	threads := []event.ThreadID{"a", "b", "c"}
	var stories [][]event.Event
	for n, thread := range threads {
		stories = append(stories, storetest.Story(thread, 3+n))
	}
	var want []string
	for _, rows := range []int{1, 2, 7, 64} {
		cfg := storetest.Config(t)
		cfg.BatchRows = rows
		s := openAt(t, cfg)
		left := [][]event.Event{stories[0], stories[1], stories[2]}
		for len(left) > 0 {
			i := rand.IntN(len(left))
			n := min(1+rand.IntN(12), len(left[i]))
			mustAppend(t, s, left[i][:n]...)
			if rand.IntN(4) == 0 {
				mustBarrier(t, s, left[i][:n])
			}
			if left[i] = left[i][n:]; len(left[i]) == 0 {
				left = append(left[:i], left[i+1:]...)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		db := storetest.SQL(t, cfg)
		for _, thread := range threads {
			got = append(got, derived(t, db, thread)...)
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("batches of %d:\n%s\nbatches of 1:\n%s", rows, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if len(want) < 3*(1+3+9) {
		t.Errorf("only %d rows are derived", len(want))
	}
}

func TestDigests(t *testing.T) {
	d1, d2 := strings.Repeat("0123456789abcdef", 4), strings.Repeat("f", 64)
	for body, want := range map[string][]string{
		"":                                      nil,
		d1:                                      {d1},
		`{"after":"` + d1 + `"}`:                {d1},
		"see sha256:" + d1 + " and " + d2 + ".": {d1, d2},
		d1 + "0":                                nil,      // too long
		d1[1:]:                                  nil,      // too short
		strings.ToUpper(d1):                     nil,      // not how it is written
		strings.Repeat(d2, 5) + " " + d1:        {d1},     // behind a long run
		strings.Repeat("x", 63) + d1:            {d1},     // across two steps
		strings.Repeat("x", 64) + d1 + "x":      {d1},     // on a step
		d1 + " " + d1:                           {d1, d1}, // each time
		"deadbeef " + d2 + "\n" + d1[:40]:       {d2},     // among others
	} {
		if got := store.Digests(body); !reflect.DeepEqual(got, want) {
			t.Errorf("Digests(%q) = %q, want %q", body, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		filler := rapid.StringMatching(`[ -/g-z{}":,]{1,200}`)
		var want []string
		body := ""
		for range rapid.IntRange(0, 4).Draw(t, "digests") {
			d := rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest")
			want = append(want, d)
			body += filler.Draw(t, "text") + d
		}
		body += filler.Draw(t, "text")
		if got := store.Digests(body); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("Digests(%q) = %q, want %q", body, got, want)
		}
	})
}

func TestPreview(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" \n\t ":                  "",
		"plain":                   "plain",
		"  two\n\n\tlines  ":      "two lines",
		"a\x00b\x1b[31mred":       "a b [31mred",
		"bad \xff utf":            "bad utf",
		"émigré 日本":               "émigré 日本",
		strings.Repeat("x", 200):  strings.Repeat("x", 199) + "…",
		strings.Repeat("x ", 200): strings.TrimSpace(strings.Repeat("x ", 100)) + "…",
	} {
		if got := store.Preview(text); got != want {
			t.Errorf("Preview(%q) = %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := store.Preview(rapid.String().Draw(t, "text"))
		if utf8.RuneCountInString(got) > 200 || strings.ContainsAny(got, "\n\r\t\x00") || strings.TrimSpace(got) != got {
			t.Fatalf("%q", got)
		}
	})
}
