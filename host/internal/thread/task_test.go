package thread

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func note(text string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<user_shell_command>" + text + "</user_shell_command>"}}}
}

// beside is a task that works until it is told to stop, or to be done.
func beside(done <-chan struct{}) *Task {
	return &Task{Name: "beside", Concurrent: true, Work: func(ctx context.Context, w Worker) turn.Result {
		select {
		case <-done:
			_ = w.Record(ctx, note("done"))
		case <-ctx.Done():
			_ = w.Record(ctx, note(context.Cause(ctx).Error()))
			return turn.Result{Status: event.TurnInterrupted, Cause: context.Cause(ctx)}
		}
		return turn.Result{Status: event.TurnCompleted}
	}}
}

// listener answers each request with how many there were; hold holds the answer to request n back until go is closed.
func listener(hold int, release <-chan struct{}, seen *[]string) *engine {
	return &engine{stream: func(ctx context.Context, n int, r *llm.Request, yield func(llm.Event, error) bool) {
		var texts []string
		for _, m := range r.Messages {
			texts = append(texts, m.Text())
		}
		*seen = append(*seen, strings.Join(texts, "|"))
		if n == hold {
			select {
			case <-release:
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
		say("ok", yield)
	}}
}

func TestTaskInATurnOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		th, stop := startThread(t, listener(0, nil, &seen), &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		done := make(chan struct{})
		a, err := th.Submit(t.Context(), Submission{Task: beside(done)})
		if err != nil || a.Concurrent || a.Steered {
			t.Fatalf("%+v, %v", a, err)
		}
		// What is said meanwhile is no input of the task: it waits, and is answered in a turn of its own.
		accepted := make(chan Accepted)
		go func() { // owned by the test: received below
			a, _ := th.Submit(t.Context(), input("what was it?"))
			accepted <- a
		}()
		synctest.Wait()
		close(done)
		if end := ended(t, sub, a.Turn); end.Status != event.TurnCompleted {
			t.Errorf("the task's turn ended %+v", end)
		}
		next := <-accepted
		if next.Turn == a.Turn || next.Steered {
			t.Errorf("next = %+v", next)
		}
		ended(t, sub, next.Turn)
		if got, want := strings.Join(seen, "\n"), note("done").Text()+"|what was it?"; got != want {
			t.Errorf("requests:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A task beside a turn joins it where it ends before the turn does; else the next turn learns of it.
func TestTaskBesideATurn(t *testing.T) {
	for name, tc := range map[string]struct {
		first string // what ends first
		want  string // what the model saw, request by request
	}{
		"ends before the turn": {"task", "one\none|ok|" + note("done").Text() + "\none|ok|" + note("done").Text() + "|ok|two"},
		"outlives the turn":    {"turn", "one\none|ok|" + note("done").Text() + "|two"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				release, done := make(chan struct{}), make(chan struct{})
				sink := &memory{}
				th, stop := startThread(t, listener(1, release, &seen), sink)
				sub, _ := th.Subscribe(t.Context(), Lossless)
				running, _ := th.Submit(t.Context(), input("one"))
				synctest.Wait()
				a, err := th.Submit(t.Context(), Submission{Task: beside(done)})
				if err != nil || !a.Concurrent || a.Turn != running.Turn {
					t.Fatalf("%+v, %v", a, err)
				}
				if tc.first == "task" {
					close(done)
					synctest.Wait()
					close(release)
					ended(t, sub, running.Turn)
				} else {
					close(release)
					ended(t, sub, running.Turn)
					close(done)
					synctest.Wait()
				}
				next, _ := th.Submit(t.Context(), input("two"))
				ended(t, sub, next.Turn)
				if got := strings.Join(seen, "\n"); got != tc.want {
					t.Errorf("requests:\n%s\nwant:\n%s", got, tc.want)
				}
				stop()
				state, err := Rebuild(seq(sink.all()))
				if err != nil || !slices.EqualFunc(state.Messages, th.history.Messages(), func(a, b llm.Message) bool { return a.Text() == b.Text() }) {
					t.Errorf("the log says %v, %v; the thread has %v", state.Messages, err, th.history.Messages())
				}
			})
		})
	}
}

// An interrupt stops what is done beside a turn, too, and without a turn that alone; so does the end of the thread. What it was
// is recorded.
func TestTaskBesideATurnIsStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		idle, end bool
		want      string
	}{
		"with its turn":     {false, false, note("interrupted").Text()},
		"after its turn":    {true, false, note("interrupted").Text()},
		"with its thread":   {false, true, note("the host is shutting down").Text()},
		"thread, when idle": {true, true, note("the host is shutting down").Text()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				release := make(chan struct{})
				th, stop := startThread(t, listener(1, release, &seen), &memory{})
				running, _ := th.Submit(t.Context(), input("one"))
				synctest.Wait()
				if _, err := th.Submit(t.Context(), Submission{Task: beside(nil)}); err != nil {
					t.Fatal(err)
				}
				if tc.idle {
					close(release)
					synctest.Wait()
				}
				if !tc.end {
					if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					if err := th.Interrupt(t.Context(), orchestrate.ErrInterrupted); !errors.Is(err, ErrIdle) {
						t.Errorf("a second interrupt of turn %s: %v", running.Turn, err)
					}
				}
				stop()
				var texts []string
				for _, m := range th.history.Messages() {
					texts = append(texts, m.Text())
				}
				if !slices.Contains(texts, tc.want) {
					t.Errorf("history %q, want %q in it", texts, tc.want)
				}
			})
		})
	}
}

// A panic costs the task, beside a turn or in its own.
func TestTaskPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		release := make(chan struct{})
		th, stop := startThread(t, listener(1, release, &seen), &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		boom := &Task{Name: "boom", Concurrent: true, Work: func(context.Context, Worker) turn.Result { panic("boom") }}
		running, _ := th.Submit(t.Context(), input("one"))
		synctest.Wait()
		if a, err := th.Submit(t.Context(), Submission{Task: boom}); err != nil || !a.Concurrent {
			t.Fatalf("%+v, %v", a, err)
		}
		synctest.Wait()
		close(release)
		if end := ended(t, sub, running.Turn); end.Status != event.TurnCompleted {
			t.Errorf("end %+v", end)
		}
		a, _ := th.Submit(t.Context(), Submission{Task: boom})
		if end := ended(t, sub, a.Turn); end.Status != event.TurnFailed || end.Error.Code != "internal" {
			t.Errorf("end %+v", end)
		}
	})
}

// A task that takes the turn's place loses nothing that was said to that turn, and no marker says that the user stopped it.
func TestTaskReplacesATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		th, stop := startThread(t, listener(1, nil, &seen), &memory{})
		defer stop()
		sub, _ := th.Subscribe(t.Context(), Lossless)
		running, _ := th.Submit(t.Context(), input("one"))
		synctest.Wait()
		if a, _ := th.Submit(t.Context(), input("steer")); !a.Steered {
			t.Fatalf("steer = %+v", a)
		}
		task := &Task{Name: "review", Replaces: true, Work: func(ctx context.Context, w Worker) turn.Result {
			return turn.Result{Status: event.TurnCompleted, LastMessage: "reviewed"}
		}}
		a, err := th.Submit(t.Context(), Submission{Task: task})
		if err != nil {
			t.Fatal(err)
		}
		if end := ended(t, sub, running.Turn); end.Reason != orchestrate.ErrReplaced.Error() {
			t.Errorf("the turn ended %+v", end)
		}
		if end := ended(t, sub, a.Turn); end.LastMessage != "reviewed" {
			t.Errorf("the task ended %+v", end)
		}
		a, _ = th.Submit(t.Context(), input("two"))
		ended(t, sub, a.Turn)
		if got := seen[1]; got != "one|steer|two" {
			t.Errorf("next request: %s", got)
		}
	})
}
