package turn_test

import (
	"encoding/json"
	"strings"
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

// What the vendor says of a paused answer as a whole goes back with it, so that its provider knows that nothing is to be said
// in between. It goes back once, and not where the user speaks next.
func TestWhatIsSaidOfAPausedAnswerGoesBack(t *testing.T) {
	meta := llm.Metadata{"acme": json.RawMessage(`{"stopReason":"pause"}`)}
	paused := func(text string) turntest.Answer {
		a := pauses(turntest.Say(turntest.Text(text)))
		a.Events[len(a.Events)-1] = llm.Finish{Reason: llm.FinishStop, Metadata: meta}
		return a
	}
	// marks are the texts of a request that come with the vendor's word.
	marks := func(b *turntest.Bench, n int) (out []string) {
		for _, m := range b.Sent()[n-1].Messages {
			if m.Metadata["acme"] != nil {
				out = append(out, m.Text())
			}
		}
		return out
	}
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(paused("I look"), turntest.Cut(), paused("and look"), turntest.Say(turntest.Text("done")))
		b.Row.MetadataNamespace = "acme"
		b.Run(t, t.Context(), "go")
		for n, want := range []string{"", "I look", "I look", "and look"} {
			if got := strings.Join(marks(b, n+1), ", "); got != want {
				t.Errorf("request %d says it of %q, want %q", n+1, got, want)
			}
		}
		for _, m := range b.History.Messages() {
			if m.Metadata != nil {
				t.Errorf("the history itself has %v", m.Metadata)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := turntest.New(paused("I look"), turntest.Say(turntest.Text("done")))
		b.Row.MetadataNamespace = "other"
		b.Run(t, t.Context(), "go")
		if got := marks(b, 2); got != nil {
			t.Errorf("another vendor is told of %q", got)
		}
	})
}
