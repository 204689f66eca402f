package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// enqueue adds to the queue of a thread.
func enqueue(t *testing.T, th *Thread, texts ...string) {
	t.Helper()
	for _, text := range texts {
		err := th.Amend(t.Context(), "", queue.ID, func(state json.RawMessage) (data json.RawMessage, err error) {
			_, data, err = queue.Decide(state, queue.Change{Op: queue.Add, Entry: &queue.Entry{ID: event.ItemID("item " + text), Parts: input(text).Input.Parts}})
			return data, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func waiting(t *testing.T, state json.RawMessage) (out []string) {
	t.Helper()
	entries, err := queue.EntriesOf(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, llm.Message{Parts: e.Parts}.Text())
	}
	return out
}

// Input in the queue gets turns of its own, one after the other: at once when the thread is idle and is woken, otherwise after the turn.
func TestTheQueueBeginsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		hold := make(chan struct{})
		th, stop := idleThread(t, parrot(&seen, func(n int) <-chan struct{} {
			if n == 1 {
				return hold
			}
			return nil
		}), sink, queue.Feature{})
		defer stop()
		submitOrFail(t, th, input("go"))
		synctest.Wait()
		enqueue(t, th, "one", "two")
		if _, err := th.Supply(t.Context(), ""); !errors.Is(err, ErrBusy) {
			t.Errorf("during a turn: %v", err)
		}
		close(hold)
		synctest.Wait()
		if want := []string{"go", "go|A1|one", "go|A1|one|A2|two"}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
		enqueue(t, th, "three")
		th.Wake()
		synctest.Wait()
		if n := len(seen); n != 4 {
			t.Errorf("%q", seen)
		}
		// The turn that a client is told of is the one with its item.
		for _, e := range sink.all() {
			if a, ok := e.Body.(event.InputAccepted); ok {
				if i := slices.IndexFunc(sink.all(), func(e event.Event) bool {
					c, ok := e.Body.(event.ItemCompleted)
					return ok && c.Item.ID == a.Item && e.Turn == a.Turn
				}); i < 0 || !a.Queued {
					t.Errorf("%+v is in no item of its turn", a)
				}
			}
		}
	})
}

// After a turn that failed or was interrupted nothing begins by itself; a person begins with any entry.
func TestTheQueueWaitsAfterAnInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		th, stop := idleThread(t, parrot(&seen, func(n int) <-chan struct{} {
			if n == 1 {
				return make(chan struct{})
			}
			return nil
		}), &memory{}, queue.Feature{})
		defer stop()
		submitOrFail(t, th, input("go"))
		synctest.Wait()
		enqueue(t, th, "one", "two", "three")
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := waiting(t, th.Feature(queue.ID)); len(got) != 3 || len(seen) != 1 {
			t.Errorf("%q, asked %q", got, seen)
		}
		if _, err := th.Supply(t.Context(), "item none"); !errors.Is(err, ErrNoInput) {
			t.Errorf("an unknown entry: %v", err)
		}
		a, err := th.Supply(t.Context(), "item two")
		if err != nil || a.Turn == "" {
			t.Errorf("%+v, %v", a, err)
		}
		synctest.Wait()
		if want := []string{"go", "go|T|two", "go|T|two|A2|one", "go|T|two|A2|one|A3|three"}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
		if _, err := th.Supply(t.Context(), ""); !errors.Is(err, ErrNoInput) {
			t.Errorf("an empty queue: %v", err)
		}
	})
}

// Wherever the host dies, each entry is in the queue or in the history, once.
func TestTheQueueOutlivesTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &crashing{}
		th, stop := idleThread(t, parrot(new([]string), atOnce), sink, queue.Feature{})
		enqueue(t, th, "one", "two")
		th.Wake()
		synctest.Wait()
		stop()
		if len(sink.ends) < 8 {
			t.Fatalf("%d events", len(sink.ends))
		}
		added := false
		for _, end := range sink.ends {
			logged := sink.all()[:end]
			s, err := Rebuild(seq(logged), queue.Feature{})
			if err != nil {
				t.Fatal(err)
			}
			h := history.Restore(s.Messages, s.Count)
			s.repair(h, hostStopped)
			found := said(h.Messages())
			for _, text := range waiting(t, s.Features[queue.ID]) {
				found[text]++
			}
			added = added || found["two"] > 0
			if found["one"] > 1 || found["two"] > 1 || added && (found["one"] != 1 || found["two"] != 1) {
				t.Errorf("a crash after event %d: %v", end, found)
			}
		}
	})
}

// While clients change an entry, its turn begins with the text that they were told, or they are told that it has begun.
func TestAnEntryIsNotChangedAfterItHasBegun(t *testing.T) {
	for range 50 {
		var seen []string
		th, stop := idleThread(t, parrot(&seen, atOnce), &memory{}, queue.Feature{})
		enqueue(t, th, "old")
		var racing sync.WaitGroup
		var changed, begun error
		var a Accepted
		sub, err := th.Subscribe(t.Context(), Lossless)
		if err != nil {
			t.Fatal(err)
		}
		racing.Go(func() {
			changed = th.Amend(t.Context(), "", queue.ID, func(state json.RawMessage) (data json.RawMessage, err error) {
				_, data, err = queue.Decide(state, queue.Change{Op: queue.Update, Entry: &queue.Entry{ID: "item old", Parts: input("new").Input.Parts}})
				return data, err
			})
		})
		racing.Go(func() { a, begun = th.Supply(t.Context(), "") })
		racing.Wait()
		until(t, sub, turnEnded)
		sub.Close()
		stop()
		want := "new"
		if changed != nil {
			want = "old"
		}
		if begun != nil || a.Turn == "" || len(seen) != 1 || seen[0] != want {
			t.Fatalf("begun %v, changed %v, asked %q", begun, changed, seen)
		}
	}
}

// What the user wants next stays when turns are reverted.
func TestARevertKeepsTheQueue(t *testing.T) {
	s := State{Features: map[string]json.RawMessage{queue.ID: json.RawMessage(`[{"id":"b"}]`), "goal": json.RawMessage("2")}, features: []Feature{queue.Feature{}}}
	got := s.reverted(event.ThreadReverted{Thread: event.Checkpoint{Features: map[string]json.RawMessage{queue.ID: json.RawMessage(`[{"id":"a"}]`), "goal": json.RawMessage("1")}}})
	if f := got.Thread.Features; string(f[queue.ID]) != `[{"id":"b"}]` || string(f["goal"]) != "1" {
		t.Errorf("%s", f)
	}
	s.Features = nil
	got = s.reverted(event.ThreadReverted{Thread: event.Checkpoint{Features: map[string]json.RawMessage{queue.ID: json.RawMessage(`[{"id":"a"}]`)}}})
	if f := got.Thread.Features; len(f) != 0 {
		t.Errorf("%s", f)
	}
}

// A log that refuses the first event of a turn does not make the thread ask again and again.
func TestTheQueueOfABrokenLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &refusing{}
		th := New(Config{ID: event.NewThreadID(), Start: &event.ThreadStarted{Cwd: "/"}, Sink: sink, Engine: parrot(new([]string), atOnce), Features: []Feature{queue.Feature{}}, Logger: hclog.NewNullLogger()})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = th.Run(ctx) })
		enqueue(t, th, "one")
		sink.refuse = true
		th.Wake()
		synctest.Wait()
		if got := waiting(t, th.Feature(queue.ID)); !slices.Equal(got, []string{"one"}) {
			t.Errorf("%q", got)
		}
		if _, err := th.Supply(t.Context(), ""); err == nil || sink.refused > 5 {
			t.Errorf("%v after %d tries", err, sink.refused)
		}
		sink.refuse = false
		if _, err := th.Supply(t.Context(), ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		running.Wait()
	})
}

// refusing is a log that stores nothing while it refuses.
type refusing struct {
	memory
	refuse  bool
	refused int
}

func (r *refusing) Append(ctx context.Context, evs ...event.Event) error {
	if r.refuse {
		r.refused++
		return fmt.Errorf("the disk is full")
	}
	return r.memory.Append(ctx, evs...)
}
