package turn_test

import (
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// hosted is a call of a tool that the vendor runs.
func hosted(id string) llm.Part {
	return &llm.ToolCall{ID: id, Name: "search", Input: "{}", ProviderExecuted: true}
}

// pauses makes an answer one that its vendor wants to go on with.
func pauses(a turntest.Answer) turntest.Answer {
	a.Events[len(a.Events)-2] = llm.StepFinish{Reason: llm.FinishStop, Again: true}
	return a
}

// A stream that breaks in the middle of a call of the vendor's leaves half of a pair: it is not sent again.
func TestHalfOfAVendorsCallIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(turntest.Cut(turntest.Text("I look"), hosted("h1")), turntest.Say(turntest.Text("done")))
		b.Row.MetadataNamespace = "acme"
		if res := b.Run(t, t.Context(), "go"); res.Status != event.TurnCompleted {
			t.Errorf("result = %+v", res)
		}
		wantRequest(t, b, 2, `
		user: go
		assistant: I look`)
	})
}

// An answer that the vendor paused in the middle of a call goes back as it is, also when the next stream breaks; once the
// user has said something, there is nothing to go on with.
func TestPausedAnswerGoesBackAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(
			pauses(turntest.Say(turntest.Text("I look"), hosted("h1"))), turntest.Cut(hosted("h2")),
			pauses(turntest.Say(turntest.Text("and look"), hosted("h3"))), turntest.Say(turntest.Text("done")))
		b.Row.MetadataNamespace = "acme"
		b.OnStream = func(n int) {
			if n == 3 {
				b.Inbox.Add(turn.Input{Parts: []llm.Part{&llm.Text{Text: "stop looking"}}})
			}
		}
		b.Run(t, t.Context(), "go")
		for n := 2; n <= 3; n++ {
			wantRequest(t, b, n, `
		user: go
		assistant: I look
		call h1: search {}`)
		}
		wantRequest(t, b, 4, `
		user: go
		assistant: I look
		assistant: and look
		user: stop looking`)
	})
}
