package thread

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/compact"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// talker answers what it is asked, at length, and writes accounts. block holds its answer to request n back until it is
// interrupted.
func talker(block int, seen *[]string) *engine {
	return &engine{stream: func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
		var texts []string
		for _, m := range r.Messages {
			texts = append(texts, m.Text())
		}
		*seen = append(*seen, strings.Join(texts, "|"))
		switch {
		case n == block:
			<-ctx.Done()
			yield(nil, context.Cause(ctx))
		case texts[len(texts)-1] == compact.Prompt("").Text():
			say("ACCOUNT", yield)
		default:
			say(fmt.Sprint("answer ", n, strings.Repeat(" and so on", 200)), func(ev llm.Event, err error) bool {
				if f, ok := ev.(llm.StepFinish); ok {
					in, out := int64(7000+n), int64(500)
					f.Usage = llm.Usage{Input: &in, Output: &out}
					ev = f
				}
				return yield(ev, err)
			})
		}
	}}
}

func ended(t *testing.T, sub *Subscription, turn event.TurnID) event.TurnEnded {
	t.Helper()
	evs := until(t, sub, func(e event.Event) bool { return turnEnded(e) && e.Turn == turn })
	return evs[len(evs)-1].Body.(event.TurnEnded)
}

func TestCompactedThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(0, &seen), sink)
		sub, _ := th.Subscribe(t.Context(), Lossless)
		for _, s := range []string{"one", "two"} {
			a, err := th.Submit(t.Context(), input(s))
			if err != nil {
				t.Fatal(err)
			}
			ended(t, sub, a.Turn)
		}
		if _, err := th.Publish(t.Context(), "", event.ThreadNamed{Name: "n"}, event.SessionOpened{Session: "7"}); err != nil {
			t.Fatal(err)
		}
		a, err := th.Submit(t.Context(), Submission{Compact: true})
		if err != nil {
			t.Fatal(err)
		}
		if end := ended(t, sub, a.Turn); end.Status != event.TurnCompleted {
			t.Fatalf("end %+v", end.Error)
		}
		a, _ = th.Submit(t.Context(), input("three"))
		ended(t, sub, a.Turn)
		if got, want := seen[3], "one|two|"+compact.Summary("ACCOUNT").Text()+"|three"; got != want {
			t.Errorf("request after the compaction:\n%s\nwant:\n%s", got, want)
		}
		stop()

		// The log from its beginning and from the checkpoint on say the same, and what the thread itself knew.
		whole, err := Rebuild(seq(sink.all()))
		if err != nil {
			t.Fatal(err)
		}
		from := slices.IndexFunc(sink.all(), func(e event.Event) bool { return e.Body.Kind() == "history.compacted" })
		rest, err := Rebuild(seq(sink.all()[from:]))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(whole, rest) {
			t.Errorf("from the checkpoint on:\n%+v\nfrom the beginning:\n%+v", rest, whole)
		}
		if rest.Name != "n" || len(rest.Opened) != 1 || len(rest.Messages) != 5 || rest.Usage != whole.Usage {
			t.Errorf("state %+v", rest)
		}
		if got, want := New(Config{State: rest, Sink: sink, Logger: hclog.NewNullLogger()}).history.Active(), th.history.Active(); got != want || want == 0 {
			t.Errorf("%d tokens after a resume, want %d", got, want)
		}
	})
}

// A turn that is stopped for a compaction loses nothing that was said to it, and what is said meanwhile waits.
func TestCompactionStopsTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		e := talker(2, &seen)
		th, stop := startThread(t, e, &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		a, _ := th.Submit(t.Context(), input("one"))
		ended(t, sub, a.Turn)
		running, _ := th.Submit(t.Context(), input("two"))
		synctest.Wait()
		if a, _ = th.Submit(t.Context(), input("steer")); !a.Steered {
			t.Fatalf("steer = %+v", a)
		}
		compaction, err := th.Submit(t.Context(), Submission{Compact: true})
		if err != nil {
			t.Fatal(err)
		}
		if end := ended(t, sub, running.Turn); end.Status != event.TurnInterrupted || end.Reason != orchestrate.ErrReplaced.Error() {
			t.Errorf("the turn ended %+v", end)
		}
		ended(t, sub, compaction.Turn)
		a, _ = th.Submit(t.Context(), input("three"))
		ended(t, sub, a.Turn)
		if got := seen[2]; !strings.HasSuffix(got, "|two|steer|"+compact.Prompt("").Text()) || strings.Contains(got, "turn_aborted") {
			t.Errorf("the account was asked about:\n%s", got)
		}
		if got, want := seen[3], "one|two|steer|"+compact.Summary("ACCOUNT").Text()+"|three"; got != want {
			t.Errorf("next request:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestCompactionTakesNoInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		e, sink := talker(2, &seen), &memory{}
		th, stop := startThread(t, e, sink)
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		a, _ := th.Submit(t.Context(), input("one"))
		ended(t, sub, a.Turn)
		compaction, _ := th.Submit(t.Context(), Submission{Compact: true})
		synctest.Wait()
		if again, _ := th.Submit(t.Context(), Submission{Compact: true}); again.Turn != compaction.Turn || !again.Steered {
			t.Errorf("a second one: %+v, want that of %+v", again, compaction)
		}
		accepted := make(chan Accepted)
		go func() { // owned by the test: received below
			a, _ := th.Submit(t.Context(), input("two"))
			accepted <- a
		}()
		synctest.Wait()
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		if end := ended(t, sub, compaction.Turn); end.Status != event.TurnInterrupted {
			t.Errorf("end %+v", end)
		}
		if !slices.ContainsFunc(sink.all(), func(e event.Event) bool {
			done, ok := e.Body.(event.ItemCompleted)
			return ok && done.Item.Type == event.ItemCompaction && done.Item.Status == event.StatusAborted
		}) {
			t.Error("the item of the compaction is left open")
		}
		if a = <-accepted; a.Steered || a.Turn == compaction.Turn {
			t.Errorf("two = %+v, want a turn of its own", a)
		}
		ended(t, sub, a.Turn)
		if got := seen[2]; !strings.HasPrefix(got, "one|answer 1") || !strings.HasSuffix(got, "|two") {
			t.Errorf("next request:\n%s", got)
		}
	})
}

// A turn is not stopped in vain: the compaction that it was stopped for can't be taken back.
func TestOwnerTakesACompactionForWhichItStopsATurn(t *testing.T) {
	o := owner{turn: "running", inbox: &turn.Inbox{}, queue: []submitMsg{{claimed: &atomic.Bool{}}}}
	m := submitMsg{Submission: Submission{Compact: true}, accepted: make(chan Accepted, 1), claimed: &atomic.Bool{}}
	acts := o.submit(m)
	if len(acts) != 1 || acts[0] != (stopTurn{cause: orchestrate.ErrReplaced}) {
		t.Fatalf("acts %+v", acts)
	}
	if m.claim() {
		t.Error("whoever asked for it could still take it back")
	}
	next := o.turnEnded(turnMsg{})
	if start, ok := next[0].(startTurn); len(next) != 1 || !ok || !start.sub.Compact {
		t.Errorf("next %+v, want the compaction", next)
	}

	// One that has seen the end of a compaction is not told that it joins it.
	over := &turn.Inbox{}
	over.Close()
	o = owner{turn: "running", task: "compact", inbox: over, queue: []submitMsg{{}}}
	if acts := o.submit(m); len(acts) > 0 || len(o.queue) != 2 || !o.queue[0].Compact {
		t.Errorf("behind a compaction that ends: %+v, queue %+v", acts, o.queue)
	}

	gone := submitMsg{Submission: Submission{Compact: true}, claimed: &atomic.Bool{}}
	gone.claim()
	o = owner{turn: "running", inbox: &turn.Inbox{}}
	if acts := o.submit(gone); len(acts) > 0 || len(o.queue) > 0 {
		t.Errorf("for one who went away: %+v", acts)
	}
}
