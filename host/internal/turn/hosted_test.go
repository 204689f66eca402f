package turn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
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
	var shown []string
	for _, e := range b.Events() {
		switch body := e.Body.(type) {
		case event.ItemStarted:
			if body.Item.Type == event.ItemTool {
				shown = append(shown, fmt.Sprint(body.Item.Status, " ", body.Item.Tool, " ", string(body.Item.Arguments), " of ", body.Item.Plugin))
			}
		case event.ItemCompleted:
			if body.Item.Type == event.ItemTool {
				shown = append(shown, fmt.Sprint(body.Item.Status, " ", body.Item.Output))
			}
		}
	}
	if got, want := strings.Join(shown, "; "), `in_progress search {"q":"x"} of fake; completed found`; got != want {
		t.Errorf("people see %s, want %s", got, want)
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

// A thought says whose it is, also where the vendor itself says nothing of it: no other vendor is told.
func TestThoughtsSayWhoseTheyAre(t *testing.T) {
	answer := turntest.Say(turntest.Text("done"))
	const thought = llm.BlockReasoning
	answer.Events = append([]llm.Event{
		llm.StepStart{}, llm.BlockStart{Kind: thought, ID: "r"}, llm.BlockDelta{Kind: thought, ID: "r", Text: "hm"}, llm.BlockEnd{Kind: thought, ID: "r"},
	}, answer.Events[1:]...)
	b := turntest.New(answer)
	b.Row.MetadataNamespace = "acme"
	b.Run(t, t.Context(), "go")
	for namespace, want := range map[string]int{"acme": 3, "other": 2} {
		if got := b.History.ForPrompt(history.Traits{Namespace: namespace}); len(got) != want {
			t.Errorf("%s sees %d messages, want %d: %s", namespace, len(got), want, turntest.Render(got))
		}
	}
}

// The item of a thought says whether it is the reasoning itself or a summary of it.
func TestRawThoughts(t *testing.T) {
	for _, raw := range []bool{false, true} {
		answer := turntest.Say(turntest.Text("done"))
		const thought = llm.BlockReasoning
		answer.Events = append([]llm.Event{
			llm.StepStart{}, llm.BlockStart{Kind: thought, ID: "r"}, llm.BlockDelta{Kind: thought, ID: "r", Text: "hm", Raw: raw}, llm.BlockEnd{Kind: thought, ID: "r"},
		}, answer.Events[1:]...)
		b := turntest.New(answer)
		b.Run(t, t.Context(), "go")
		said := 0
		for _, e := range b.Events() {
			switch e := e.Body.(type) {
			case event.ItemDelta:
				if e.Delta == event.DeltaReasoning && e.Raw == raw {
					said++
				}
			case event.ItemCompleted:
				if e.Item.Type == event.ItemReasoning && e.Item.Raw == raw {
					said++
				}
			}
		}
		if said != 2 {
			t.Errorf("raw %v: %d of 2 events say it", raw, said)
		}
	}
}

// Whatever becomes of a call that the vendor runs, its item has an end.
func TestItemsOfTheVendorsCallsEnd(t *testing.T) {
	search := llm.ToolCall{ID: "h1", Name: "search", Input: "no JSON", ProviderExecuted: true}
	for name, tc := range map[string]struct {
		cut  bool
		more []llm.Event
		want event.ItemStatus
	}{
		"without a result": {false, nil, event.StatusCompleted},
		"failed":           {false, []llm.Event{llm.ToolResultDone{Result: llm.ToolResult{ID: "h1", IsError: true, ProviderExecuted: true}}}, event.StatusFailed},
		"its id again":     {false, []llm.Event{llm.ToolCallDone{Call: llm.ToolCall{ID: "h1", Name: "other", ProviderExecuted: true}}}, event.StatusCompleted},
		"cut off":          {true, nil, event.StatusAborted},
		"of another call":  {true, []llm.Event{llm.ToolResultDone{Result: llm.ToolResult{ID: "h2", ProviderExecuted: true}}}, event.StatusAborted},
	} {
		t.Run(name, func(t *testing.T) {
			a := turntest.Say(turntest.Text("done"))
			if tc.cut {
				a = turntest.Cut()
				a.Err = &llm.Error{Code: llm.ErrIncompleteStream}
			}
			a.Events = append(append([]llm.Event{llm.StepStart{}, llm.ToolCallDone{Call: search}}, tc.more...), a.Events[1:]...)
			b := turntest.New(a)
			b.Run(t, t.Context(), "go")
			open := map[event.ItemID]bool{}
			var ends []event.ItemStatus
			for _, e := range b.Events() {
				switch body := e.Body.(type) {
				case event.ItemStarted:
					open[body.Item.ID] = true
				case event.ItemCompleted:
					delete(open, body.Item.ID)
					if body.Item.Tool == "search" {
						ends = append(ends, body.Item.Status)
					}
				}
			}
			if len(open) > 0 || len(ends) != 1 || ends[0] != tc.want {
				t.Errorf("ends %v, %d open; want %s", ends, len(open), tc.want)
			}
		})
	}
}
