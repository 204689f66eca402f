package thread

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// before plans to take back a turn of a thread whose log is sink.
func before(t *testing.T, sink *memory, turn event.TurnID) func(context.Context) (Cut, error) {
	return func(context.Context) (Cut, error) {
		t.Helper()
		all := sink.all()
		for i, e := range all {
			if _, ok := e.Body.(event.TurnStarted); ok && e.Turn == turn {
				at, err := Rebuild(seq(all[:i]))
				return Cut{Event: event.ThreadReverted{
					Before: turn, From: e.Seq, Through: e.Seq - 1, Turns: 1,
					Thread: event.Checkpoint{Model: at.Model, Usage: at.Usage, Settings: at.Settings},
				}, State: at}, err
			}
		}
		return Cut{}, errors.New("no such turn")
	}
}

func TestRevertOfARunningThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(0, &seen), sink)
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		var turns []event.TurnID
		for _, s := range []string{"one", "two"} {
			a, err := th.Submit(t.Context(), input(s))
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, a.Turn)
			ended(t, sub, a.Turn)
		}
		if _, err := th.Publish(t.Context(), "", event.ThreadNamed{Name: "n"}, event.SessionOpened{Session: "7"}); err != nil {
			t.Fatal(err)
		}
		if err := th.Configure(t.Context(), Change{Cwd: "/elsewhere", Reasoning: "high", Sandbox: "read-only"}); err != nil {
			t.Fatal(err)
		}
		then := false
		cut := before(t, sink, turns[1])
		done, err := th.Revert(t.Context(), func(ctx context.Context) (Cut, error) {
			c, err := cut(ctx)
			c.Then = func() { then = true }
			return c, err
		})
		if err != nil || done.Before != turns[1] || !then {
			t.Fatalf("%+v, %v", done, err)
		}
		evs := until(t, sub, func(e event.Event) bool { _, ok := e.Body.(event.ThreadReverted); return ok })
		told := evs[len(evs)-1].Body.(event.ThreadReverted)
		if c := told.Thread; c.Name != "n" || len(c.Sessions) != 1 || c.Started.Cwd != "/" || c.Usage.Total != 7501 {
			t.Errorf("the event says %+v", told)
		}
		// Where it worked and how hard it thought are as they were; what it may do is not.
		if is, want := th.Settings(), (event.Settings{Cwd: "/", Sandbox: "read-only"}); is != want || told.Thread.Settings.Sandbox != "read-only" {
			t.Errorf("settings %+v, told %+v, want %+v", is, told.Thread.Settings, want)
		}
		a, _ := th.Submit(t.Context(), input("three"))
		end := ended(t, sub, a.Turn)
		if got := seen[2]; !strings.HasPrefix(got, "one|answer 1") || !strings.HasSuffix(got, "|three") || strings.Contains(got, "two") {
			t.Errorf("next request:\n%s", got)
		}
		if end.Usage.Total != 7501+7503 {
			t.Errorf("usage %+v, want that of the first and the third answer", end.Usage)
		}
		if got, want := th.history.Active(), int64(7503); got != want {
			t.Errorf("%d tokens, want %d", got, want)
		}
	})
}

// Turns are taken back between turns, and none begins meanwhile.
func TestRevertAndTurnsDoNotMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(2, &seen), sink)
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		first, _ := th.Submit(t.Context(), input("one"))
		ended(t, sub, first.Turn)
		running, _ := th.Submit(t.Context(), input("two"))
		synctest.Wait()
		if _, err := th.Revert(t.Context(), before(t, sink, first.Turn)); !errors.Is(err, ErrBusy) {
			t.Errorf("while a turn runs: %v", err)
		}
		if err := th.Archive(t.Context(), true); !errors.Is(err, ErrBusy) {
			t.Errorf("archive while a turn runs: %v", err)
		}
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
			t.Fatal(err)
		}
		ended(t, sub, running.Turn)

		release, reverted := make(chan struct{}), make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := th.Revert(t.Context(), func(ctx context.Context) (Cut, error) {
				<-release
				return before(t, sink, first.Turn)(ctx)
			})
			reverted <- err
		}()
		synctest.Wait()
		if _, err := th.Revert(t.Context(), before(t, sink, first.Turn)); !errors.Is(err, ErrBusy) {
			t.Errorf("while another runs: %v", err)
		}
		if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); !errors.Is(err, ErrIdle) {
			t.Errorf("interrupt meanwhile: %v", err)
		}
		accepted := make(chan Accepted)
		go func() { // owned by the test: received below
			a, _ := th.Submit(t.Context(), input("three"))
			accepted <- a
		}()
		synctest.Wait()
		if len(seen) != 2 {
			t.Errorf("a turn began meanwhile: %v", seen)
		}
		close(release)
		if err := <-reverted; err != nil {
			t.Fatal(err)
		}
		a := <-accepted
		ended(t, sub, a.Turn)
		if seen[2] != "three" {
			t.Errorf("the next request: %s", seen[2])
		}
	})
}

// What can't be planned, or not be stored, changes nothing.
func TestRevertThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(0, &seen), sink)
		sub, _ := th.Subscribe(t.Context(), Lossless)
		first, _ := th.Submit(t.Context(), input("one"))
		ended(t, sub, first.Turn)
		for _, plan := range []func(context.Context) (Cut, error){
			before(t, sink, "nope"), func(context.Context) (Cut, error) { panic("broken") },
		} {
			if _, err := th.Revert(t.Context(), plan); err == nil {
				t.Error("no error")
			}
		}
		sink.refuse = func(e event.Event) error {
			if _, ok := e.Body.(event.ThreadReverted); ok {
				return errors.New("disk full")
			}
			return nil
		}
		if _, err := th.Revert(t.Context(), before(t, sink, first.Turn)); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("refused by the store: %v", err)
		}
		a, _ := th.Submit(t.Context(), input("two"))
		ended(t, sub, a.Turn)
		if !strings.HasPrefix(seen[1], "one|answer 1") || !strings.HasSuffix(seen[1], "|two") {
			t.Errorf("next request: %s", seen[1])
		}
		stop()
		if _, err := th.Revert(t.Context(), before(t, sink, first.Turn)); !errors.Is(err, ErrClosed) {
			t.Errorf("of a thread that has ended: %v", err)
		}
	})
}

// Who asks is answered also when the thread ends meanwhile.
func TestRevertWhileTheThreadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		th, stop := startThread(t, talker(0, &seen), &memory{})
		var began atomic.Bool
		reverted := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := th.Revert(t.Context(), func(ctx context.Context) (Cut, error) {
				began.Store(true)
				<-ctx.Done()
				return Cut{}, context.Cause(ctx)
			})
			reverted <- err
		}()
		synctest.Wait()
		stop()
		if err := <-reverted; !began.Load() || !errors.Is(err, orchestrate.ErrShutdown) {
			t.Errorf("began %v, %v", began.Load(), err)
		}
	})
}

func TestArchivedThreadTakesNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		sink := &memory{}
		th, stop := startThread(t, talker(0, &seen), sink)
		defer stop()
		if err := th.Archive(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for _, s := range []Submission{input("one"), {Compact: true}} {
			if _, err := th.Submit(t.Context(), s); !errors.Is(err, ErrArchived) {
				t.Errorf("%+v: %v", s, err)
			}
		}
		if err := th.Archive(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, err := th.Submit(t.Context(), input("two")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		var kinds []string
		for _, e := range sink.all() {
			if b, ok := e.Body.(event.ThreadArchived); ok {
				kinds = append(kinds, map[bool]string{true: "in", false: "out"}[b.Archived])
			}
		}
		if strings.Join(kinds, " ") != "in out" {
			t.Errorf("the log has %v", kinds)
		}
	})
}

// The events of a fork are what its state is made of: whoever reads them knows what the fork knew.
func TestForkOfAState(t *testing.T) {
	call := llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: "c", Name: "x", Input: "{}"}}}
	log := []event.Event{
		{Seq: 1, Body: event.ThreadStarted{Cwd: "/", Model: "m"}}, {Seq: 2, Body: event.ThreadNamed{Name: "n"}},
		{Seq: 3, Turn: "t", Body: event.TurnStarted{}}, {Seq: 4, Turn: "t", Body: event.HistoryAdded{Messages: []llm.Message{call}}},
		{Seq: 5, Turn: "t", Body: event.CallStarted{Call: "c", Attempt: 1}}, {Seq: 6, Turn: "t", Body: event.SessionOpened{Session: "s", Title: "Python 3.13"}},
	}
	s, err := Rebuild(seq(log))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for i, b := range s.Fork("source") {
		log = append(log, event.Event{Seq: 7 + uint64(i), Turn: "t", Body: b})
		kinds = append(kinds, b.Kind())
	}
	if got := strings.Join(kinds, " "); got != "thread.forked session.exited call.ended history.added turn.ended" {
		t.Errorf("a fork adds %s", got)
	}
	fork, err := Rebuild(seq(log))
	if err != nil || fork.Start.ForkedFrom != "source" || fork.Name != "n" || len(fork.Opened) != 0 || fork.OpenTurn != "" || len(fork.Messages) != 4 {
		t.Errorf("the fork is %+v, %v", fork, err)
	}
	if text := fork.Messages[2].Text(); !strings.Contains(text, "\n- s (Python 3.13)\n") || history.FromUser(fork.Messages[2]) {
		t.Errorf("about its sessions, the model reads %q", text)
	}
	if s.Start.ForkedFrom != "" || len(s.Messages) != 1 || len(s.Opened) != 1 {
		t.Errorf("the source has changed: %+v", s)
	}
}
