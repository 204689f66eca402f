package turn_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// texts lists how the texts of the model ended, in order.
func texts(b *turntest.Bench) string {
	var out []string
	for _, e := range b.Events() {
		if c, ok := e.Body.(event.ItemCompleted); ok && (c.Item.Type == event.ItemAgentMessage || c.Item.Type == event.ItemReasoning) {
			out = append(out, c.Item.Text+" "+string(c.Item.Status))
		}
	}
	return strings.Join(out, ", ")
}

// What stands behind the last call of an answer that broke is said again; what stands before it explains the call.
func TestTextOfABrokenAnswerIsSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(
			turntest.Cut(turntest.Text("before"), turntest.Call("c1", "echo", `{}`), turntest.Text("behind"), turntest.Text("and more")),
			turntest.Say(turntest.Text("done")))
		b.Tools = []turntest.Tool{echo("echo")}
		if res := b.Run(t, t.Context(), "go"); res.LastMessage != "done" {
			t.Errorf("result = %+v", res)
		}
		wantRequest(t, b, 2, `
		user: go
		assistant: before
		call c1: echo {}
		output c1: ran {}`)
		if got, want := texts(b), "before completed, behind superseded, and more superseded, done completed"; got != want {
			t.Errorf("texts: %s\nwant:  %s", got, want)
		}
	})
}

// Texts that the vendor itself says are no answer are superseded, too.
func TestTextOfAnAnswerThatTheVendorTakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := turntest.Say(turntest.Text("nonsense"))
		first.Events[len(first.Events)-2] = llm.StepFinish{Reason: llm.FinishError}
		b := turntest.New(first, turntest.Say(turntest.Text("done")))
		b.Run(t, t.Context(), "go")
		wantRequest(t, b, 2, `
		user: go`)
		if got, want := texts(b), "nonsense superseded, done completed"; got != want {
			t.Errorf("texts: %s\nwant:  %s", got, want)
		}
	})
}

// Nobody says again what an interrupt cut off: people have read it. It stands where it was said.
func TestTextOfAnInterruptedAnswerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		answer := turntest.Cut(turntest.Call("c1", "echo", `{}`), turntest.Text("behind"))
		answer.Events = append(answer.Events, llm.BlockStart{Kind: llm.BlockText, ID: "half"}, llm.BlockDelta{Kind: llm.BlockText, ID: "half", Text: "ha"})
		answer.Err = nil
		b := turntest.New(answer)
		b.Tools = []turntest.Tool{echo("echo")}
		b.OnDelta = func(text string) {
			if text == "ha" {
				cancel(orchestrate.ErrInterrupted)
			}
		}
		res := b.Run(t, ctx, "go")
		if res.Status != event.TurnInterrupted {
			t.Errorf("result = %+v", res)
		}
		want := "user: go\ncall c1: echo {}\nassistant: behind\noutput c1: ran {}\nuser: <turn_aborted>"
		if got := turntest.Render(b.History.Messages()); !strings.HasPrefix(got, want) {
			t.Errorf("history:\n%s\nwant it to begin:\n%s", got, want)
		}
		if got, want := texts(b), "behind completed, ha aborted"; got != want {
			t.Errorf("texts: %s\nwant:  %s", got, want)
		}
	})
}
