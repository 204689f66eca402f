package turn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// stopper is a Stop hook that is a function.
type stopper func(hook.Ending) (hook.StopVerdict, error)

func (f stopper) Stop(_ context.Context, e hook.Ending) (hook.StopVerdict, error) { return f(e) }

func warnings(b *turntest.Bench) (out []string) {
	for _, e := range b.Events() {
		if n, ok := e.Body.(event.Notice); ok && n.Level == "warning" {
			out = append(out, n.Text)
		}
	}
	return out
}

// A hook that gives a reason keeps the turn going; the model reads the reason, and nobody takes it for the user's words.
func TestStopHookKeepsATurnGoing(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Text("done")), turntest.Say(turntest.Text("tested")))
	var asked []hook.Ending
	b.Stops = stopper(func(e hook.Ending) (hook.StopVerdict, error) {
		asked = append(asked, e)
		return hook.StopVerdict{Block: len(asked) == 1, Reason: "run the tests", Run: `a"b`}, nil
	})
	completed(t, b.Run(t, t.Context(), "go"))
	wantRequest(t, b, 2, `
		user: go
		assistant: done
		user: <hook_prompt hook_run_id="a&quot;b">run the tests</hook_prompt>`)
	want := []hook.Ending{
		{Thread: "thread-1", Turn: "turn-1", LastMessage: "done", Most: 8}, {Thread: "thread-1", Turn: "turn-1", LastMessage: "tested", Active: true, Held: 1, Most: 8},
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %+v", asked)
	}
	if ms := b.History.Messages(); history.FromUser(ms[2]) {
		t.Error("what the hook says is taken for the user's words")
	}
}

// One that always wants to go on is not listened to for ever. What the user says meanwhile begins the count anew.
func TestStopHooksAreBounded(t *testing.T) {
	always := stopper(func(hook.Ending) (hook.StopVerdict, error) { return hook.StopVerdict{Block: true, Reason: "more"}, nil })
	var answers []turntest.Answer
	for i := range 40 {
		answers = append(answers, turntest.Say(turntest.Text(fmt.Sprint("answer ", i+1))))
	}
	b := turntest.New(answers...)
	b.Stops = always
	res := b.Run(t, t.Context(), "go")
	completed(t, res)
	if n := len(b.Requests()); n != 9 || res.LastMessage != "answer 9" {
		t.Errorf("%d requests, the last answer is %q", n, res.LastMessage)
	}
	if got := warnings(b); len(got) != 1 || !strings.Contains(got[0], "8 times in a row") {
		t.Errorf("warnings %q", got)
	}

	b = turntest.New(answers...)
	b.Stops = always
	b.OnStream = func(n int) {
		if n == 5 {
			b.Inbox.Add(turn.Input{Parts: []llm.Part{turntest.Text("and this")}})
		}
	}
	completed(t, b.Run(t, t.Context(), "go"))
	if n := len(b.Requests()); n != 5+9 {
		t.Errorf("%d requests", n)
	}
}

// A hook that fails, or does not say why, keeps nothing going; none is asked of a turn that fails or is stopped.
func TestStopHooksThatDoNotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		hook stopper
		want string
	}{
		"broken": {func(hook.Ending) (hook.StopVerdict, error) {
			return hook.StopVerdict{Block: true, Reason: "x"}, errors.New("exit 1")
		}, "exit 1"},
		"without a reason": {func(hook.Ending) (hook.StopVerdict, error) { return hook.StopVerdict{Block: true, Reason: " "}, nil }, "without a reason"},
	} {
		b := turntest.New(turntest.Say(turntest.Text("done")))
		b.Stops = tc.hook
		completed(t, b.Run(t, t.Context(), "go"))
		if got := warnings(b); len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
	never := stopper(func(hook.Ending) (hook.StopVerdict, error) {
		t.Error("a hook was asked")
		return hook.StopVerdict{}, nil
	})
	b := turntest.New(refused(llm.ErrInvalidRequest))
	b.Stops = never
	b.Run(t, t.Context(), "go")
	ctx, cancel := context.WithCancelCause(t.Context())
	b = turntest.New(turntest.Say(turntest.Text("done")))
	b.Stops = never
	b.OnStream = func(int) { cancel(orchestrate.ErrInterrupted) }
	b.Run(t, ctx, "go")

	// Stopped while a hook thinks.
	ctx, cancel = context.WithCancelCause(t.Context())
	b = turntest.New(turntest.Say(turntest.Text("done")))
	b.Stops = stopper(func(hook.Ending) (hook.StopVerdict, error) {
		cancel(orchestrate.ErrInterrupted)
		return hook.StopVerdict{Block: true, Reason: "x"}, nil
	})
	if res := b.Run(t, ctx, "go"); res.Status != event.TurnInterrupted {
		t.Errorf("result %+v", res)
	}
}
