package turn_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A model that can search is not told of tools that are found by search; it looks for them, and calls what it found. One that can't
// is offered them like all others.
func TestToolsThatAreFoundBySearch(t *testing.T) {
	search := func(id, args string) llm.Part {
		return &llm.ToolCall{ID: id, Name: "tool_search", Input: args, Search: true}
	}
	tools := []turntest.Tool{
		{Descriptor: contract.Descriptor{Name: "plain"}},
		{Descriptor: contract.Descriptor{Name: "create_event", Description: "Create calendar meeting", Exposure: contract.ExposureDeferred}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			return contract.Text("created"), nil
		}},
	}
	offered := func(r llm.Request) (out []string) {
		for _, tl := range r.Tools {
			out = append(out, tl.Name)
		}
		return out
	}
	b := turntest.New(turntest.Say(search("s1", `{"query":"meeting"}`), search("s2", `{"query":"submarine"}`), search("s3", `{"limit":1}`)),
		turntest.Say(turntest.Call("c1", "create_event", "{}")), turntest.Say(turntest.Text("done")))
	b.Tools = tools
	b.Row.ToolKinds = []string{"function", "search"}
	completed(t, b.Run(t, t.Context(), "go"))
	sent := b.Sent()
	for i, r := range sent {
		if got := offered(r); !slices.Equal(got, []string{"plain", "tool_search"}) || !r.Tools[1].Search {
			t.Errorf("request %d offers %q", i+1, got)
		}
	}
	results := map[string]*llm.ToolResult{}
	for _, m := range sent[1].Messages {
		for _, p := range m.Parts {
			if r, ok := p.(*llm.ToolResult); ok {
				results[r.ID] = r
			}
		}
	}
	if r := results["s1"]; !r.Search || r.IsError || len(r.Tools) != 1 || r.Tools[0].Name != "create_event" || r.Tools[0].Description == "" || r.Tools[0].InputSchema == nil {
		t.Errorf("found %+v", results["s1"])
	}
	if r := results["s2"]; !r.Search || r.IsError || len(r.Tools) != 0 {
		t.Errorf("found %+v", r)
	}
	if r := results["s3"]; !r.Search || !r.IsError || len(r.Tools) != 0 {
		t.Errorf("found %+v", r)
	}
	// The result has no room for why it failed.
	if said := b.Requests()[1]; !strings.Contains(said, "system: The search for tools (call s3) failed: failed to parse function arguments:") {
		t.Errorf("the model does not learn why the search failed:\n%s", said)
	}
	if said := b.Requests()[2]; !strings.Contains(said, "output c1: created") {
		t.Errorf("what was found can't be called:\n%s", said)
	}

	b = turntest.New(turntest.Say(turntest.Text("done")))
	b.Tools = tools
	completed(t, b.Run(t, t.Context(), "go"))
	if got := offered(b.Sent()[0]); !slices.Equal(got, []string{"plain", "create_event"}) {
		t.Errorf("a model that can't search is offered %q", got)
	}
}

// What only the models of one vendor can read goes through whole, to them.
func TestEncryptedOutputOfATool(t *testing.T) {
	part := &contract.SealedPart{Namespace: "v", Data: strings.Repeat("x", 100_000)}
	for namespace, want := range map[string]bool{"v": true, "w": false} {
		b := turntest.New(turntest.Say(turntest.Call("c1", "look", "{}")), turntest.Say(turntest.Text("done")))
		b.Row.MetadataNamespace = namespace
		b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "look", ReadOnly: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
			return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: "see:"}, part, &contract.SealedPart{Data: "nobody's"}}}, nil
		}}}
		completed(t, b.Run(t, t.Context(), "go"))
		ms := b.Sent()[1].Messages
		content := ms[len(ms)-1].Parts[0].(*llm.ToolResult).Content
		s, ok := content[1].(*llm.Sealed)
		if ok != want || ok && s.Data != part.Data {
			t.Errorf("models of %q see %T", namespace, content[1])
		}
		if text := (llm.Message{Parts: content}).Text(); !strings.Contains(text, "its plugin does not say whose models can read it") {
			t.Errorf("%q", text)
		}
	}
}
