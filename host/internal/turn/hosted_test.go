package turn_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A call that the vendor ran says whose it is, so that it goes back there and to nobody else, whatever the vendor itself
// keeps of it.
func TestCallsOfTheVendorSayWhoRanThem(t *testing.T) {
	search := llm.ToolCall{ID: "h1", Name: "search", Input: `{"q":"x"}`, ProviderExecuted: true}
	found := llm.ToolResult{ID: "h1", Name: "search", ProviderExecuted: true, Content: llm.Parts{&llm.Text{Text: "found"}}}
	answer := turntest.Say(turntest.Text("done"))
	answer.Events = append([]llm.Event{llm.StepStart{}, llm.ToolCallDone{Call: search}, llm.ToolResultDone{Result: found}}, answer.Events[1:]...)
	b := turntest.New(answer, turntest.Say(turntest.Text("again")))
	b.Row.MetadataNamespace = "acme"
	b.Run(t, t.Context(), "go")
	if search.Metadata != nil || found.Metadata != nil {
		t.Error("what the stream gave was changed")
	}
	own := turntest.Render(b.History.ForPrompt(history.Traits{Namespace: "acme"}))
	if want := "user: go\ncall h1: search {\"q\":\"x\"}\noutput h1: found\nassistant: done"; own != want {
		t.Errorf("its own vendor sees\n%s\nwant\n%s", own, want)
	}
	other := turntest.Render(b.History.ForPrompt(history.Traits{Namespace: "other"}))
	want := "user: go\nassistant: (The tool search was run by the vendor of the model that answered here, with {\"q\":\"x\"}.)\n" +
		"assistant: (The tool search gave:)\nfound\nassistant: done"
	if other != want {
		t.Errorf("another vendor sees\n%s\nwant\n%s", other, want)
	}
}
