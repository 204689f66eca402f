package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
)

// writer writes a thread event by event.
type writer struct {
	t      *testing.T
	s      *store.Store
	thread event.ThreadID
	turn   event.TurnID
	seq    uint64
	from   map[event.TurnID]uint64
	usage  int64
}

func newWriter(t *testing.T, s *store.Store, thread event.ThreadID) *writer {
	w := &writer{t: t, s: s, thread: thread, from: map[event.TurnID]uint64{}}
	w.tell(event.ThreadStarted{Cwd: "/w", Model: "m", Provider: "p", ModelName: "x", Source: "exec"})
	return w
}

// tell appends events and returns the number of the last one.
func (w *writer) tell(bodies ...event.Body) uint64 {
	w.t.Helper()
	var evs []event.Event
	for _, b := range bodies {
		w.seq++
		evs = append(evs, event.Event{Seq: w.seq, Thread: w.thread, Turn: w.turn, Time: time.Unix(int64(w.seq), 0).UTC(), Body: b})
	}
	mustAppend(w.t, w.s, evs...)
	mustBarrier(w.t, w.s, evs)
	return w.seq
}

func (w *writer) begin(turn event.TurnID, text string) {
	w.t.Helper()
	w.turn = turn
	w.from[turn] = w.tell(event.TurnStarted{Model: "m-" + string(turn)})
	if text != "" {
		w.tell(event.ItemCompleted{Item: event.Item{ID: event.ItemID("u-" + turn), Type: event.ItemUserMessage, Text: text, Status: event.StatusCompleted}})
	}
}

func (w *writer) end(answer string) {
	w.t.Helper()
	w.usage += 10
	w.tell(
		event.ItemCompleted{Item: event.Item{ID: event.ItemID("a-" + w.turn), Type: event.ItemAgentMessage, Text: answer, Status: event.StatusCompleted}},
		event.TurnEnded{Status: event.TurnCompleted, Usage: event.Tokens{Total: w.usage}},
	)
	w.turn = ""
}

func (w *writer) say(turn event.TurnID, text string) {
	w.t.Helper()
	w.begin(turn, text)
	w.end("answer to " + text)
}

// compact is a turn that compacts the history; it returns the number of the checkpoint.
func (w *writer) compact(turn event.TurnID, how event.ItemStatus) uint64 {
	w.t.Helper()
	w.begin(turn, "")
	item := event.Item{ID: event.ItemID("c-" + turn), Type: event.ItemCompaction, Status: event.StatusInProgress}
	w.tell(event.ItemStarted{Item: item}, event.UsageReported{})
	at := uint64(0)
	if how == event.StatusCompleted {
		at = w.tell(event.HistoryCompacted{Item: item.ID})
	}
	item.Status = how
	w.tell(event.ContextUpdated{}, event.ItemCompleted{Item: item})
	w.end("")
	return at
}

func (w *writer) revert(before event.TurnID, usage int64) uint64 {
	w.t.Helper()
	w.usage = usage
	from := w.from[before]
	return w.tell(event.ThreadReverted{Before: before, From: from, Through: from - 1, Thread: event.Checkpoint{
		Model: event.Selection{Model: "back"}, Usage: event.Tokens{Total: usage},
	}})
}

// spans writes the numbers of events in short: 1-3 7-9.
func (w *writer) spans(through uint64) string {
	w.t.Helper()
	var out []string
	var first, last uint64
	for e, err := range w.s.EffectiveEvents(w.t.Context(), w.thread, through) {
		switch {
		case err != nil:
			w.t.Fatal(err)
		case e.Seq == last+1 && last > 0:
			last = e.Seq
			continue
		case last > 0:
			out = append(out, fmt.Sprintf("%d-%d", first, last))
		}
		first, last = e.Seq, e.Seq
	}
	if last > 0 {
		out = append(out, fmt.Sprintf("%d-%d", first, last))
	}
	return strings.Join(out, " ")
}

// Going on takes what counts, from the newest compaction that was done and that counts; one that failed or is still at work
// left the history as it was.
func TestEffectiveEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "t")
	want := func(through uint64, want string, args ...any) {
		t.Helper()
		want = fmt.Sprintf(want, args...)
		if got := w.spans(through); got != want {
			t.Errorf("up to %d: %s, want %s", through, got, want)
		}
	}
	w.say("1", "one") // 2-5
	w.say("2", "two") // 6-9
	want(0, "1-9")
	w.compact("3", event.StatusFailed)
	want(0, "1-%d", w.seq)
	first := w.compact("4", event.StatusCompleted)
	want(0, "%d-%d", first, w.seq)
	want(first-1, "1-%d", first-1)
	w.say("5", "five")
	w.turn = "open"
	w.tell(event.ItemStarted{Item: event.Item{ID: "x", Type: event.ItemCompaction, Status: event.StatusInProgress}})
	w.turn = ""
	want(0, "%d-%d", first, w.seq)

	// A turn behind the checkpoint is taken back.
	r := w.revert("5", 20)
	want(0, "%d-%d %d-%d", first, w.from["5"]-1, r, r)
	w.say("6", "six")
	want(0, "%d-%d %d-%d", first, w.from["5"]-1, r, w.seq)
	want(r-1, "%d-%d", first, r-1)

	// Then the checkpoint itself, with what was taken back behind it.
	r2 := w.revert("2", 10)
	want(0, "1-5 %d-%d", r2, r2)
	w.say("7", "seven")
	second := w.compact("8", event.StatusCompleted)
	want(0, "%d-%d", second, w.seq)
	r3 := w.revert("8", 30)
	want(0, "1-5 %d-%d %d-%d", r2, w.from["8"]-1, r3, r3)
	// As it was before any of it.
	want(9, "1-9")
	want(r2, "1-5 %d-%d", r2, r2)
	want(r2-1, "%d-%d %d-%d", first, w.from["5"]-1, r, r2-1)

	w.thread = "other"
	want(0, "")
}

func TestARevertChangesTheListing(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "t")
	w.say("1", "one")
	w.say("2", "two")
	w.begin("3", "three")
	w.tell(event.TurnEnded{Status: event.TurnFailed, Usage: event.Tokens{Total: 99}})
	w.turn = ""
	check := func(turns int, status, preview, model string, tokens int64) {
		t.Helper()
		i, err := s.Thread(t.Context(), "t")
		if err != nil || i.Turns != turns || i.Status != status || i.Preview != preview || i.Model != model || i.Tokens.Total != tokens {
			t.Errorf("%+v, %v", i, err)
		}
	}
	check(3, "failed", "one", "m-3", 99)
	r := w.revert("2", 10)
	check(1, "completed", "one", "back", 10)
	turns, err := s.Turns(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range turns {
		got = append(got, fmt.Sprint(turn.ID, " ", turn.Reverted, " ", turn.HasInput, " ", turn.Preview))
	}
	if want := fmt.Sprintf("1 0 true one, 2 %d true two, 3 %[1]d true three", r); strings.Join(got, ", ") != want {
		t.Errorf("turns: %s, want %s", strings.Join(got, ", "), want)
	}
	w.say("4", "four")
	check(2, "completed", "one", "m-4", 20)
	w.revert("1", 0)
	check(0, "new", "", "back", 0)
	w.say("5", "five")
	check(1, "completed", "five", "m-5", 10)
	w.compact("6", event.StatusCompleted)
	if turns, err = s.Turns(t.Context(), "t"); err != nil || turns[len(turns)-1].HasInput || !turns[len(turns)-2].HasInput {
		t.Errorf("a compaction counts as said: %+v, %v", turns, err)
	}
}

// A revert and what follows it may reach the disk at once.
func TestARevertInOneBatch(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	w := newWriter(t, s, "t")
	w.say("1", "one")
	var evs []event.Event
	for i, b := range []event.Body{
		event.ThreadReverted{Before: "1", From: 2, Through: 1}, event.TurnStarted{},
		event.ItemCompleted{Item: event.Item{ID: "x", Type: event.ItemUserMessage, Text: "again"}},
	} {
		e := event.Event{Seq: w.seq + uint64(i) + 1, Thread: "t", Body: b, Turn: "2"}
		if i == 0 {
			e.Turn = ""
		}
		evs = append(evs, e)
	}
	mustAppend(t, s, evs...)
	if i, err := s.Thread(t.Context(), "t"); err != nil || i.Turns != 1 || i.Preview != "again" || i.Status != store.StatusRunning {
		t.Errorf("%+v, %v", i, err)
	}
}
