package turn_test

import (
	"context"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a model writes into the input of a tool that takes a text is published while it writes it, without gaps and up to a limit. Arguments
// of other tools are not.
func TestInputOfCallsIsPublished(t *testing.T) {
	const kind = llm.BlockToolInput
	call := func(id, name string, freeform bool, pieces ...string) []llm.Event {
		out := []llm.Event{llm.BlockStart{Kind: kind, ID: id, Name: name, Freeform: freeform}}
		for _, p := range pieces {
			out = append(out, llm.BlockDelta{Kind: kind, ID: id, Text: p})
		}
		return append(out, llm.BlockEnd{Kind: kind, ID: id},
			llm.ToolCallDone{Call: llm.ToolCall{ID: id, Name: name, Input: strings.Join(pieces, ""), Freeform: freeform}})
	}
	big := strings.Repeat("x", 200<<10)
	a := turntest.Say(turntest.Text("calling"))
	last := len(a.Events) - 2
	var calls []llm.Event
	calls = append(calls, call("c1", "patch", true, "one ", "two")...)
	calls = append(calls, call("c2", "look", false, `{"at":`, `1}`)...)
	calls = append(calls, call("c3", "patch", true, big, big, "end")...)
	a.Events = append(append(append([]llm.Event(nil), a.Events[:last]...), calls...), a.Events[last:]...)
	run := func(context.Context, contract.CallStart) (*contract.Result, error) { return contract.Text("ok"), nil }
	b := turntest.New(a, turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{
		{Descriptor: contract.Descriptor{Name: "patch", Freeform: &contract.Freeform{Syntax: "lark", Definition: "x", Property: "input"}}, Run: run},
		{Descriptor: contract.Descriptor{Name: "look"}, Run: run},
	}
	b.Row.ToolKinds = []string{"function", "freeform"}
	completed(t, b.Run(t, t.Context(), "go"))
	got := map[event.ItemID]string{}
	for _, e := range b.Events() {
		d, ok := e.Body.(event.ItemDelta)
		if !ok || d.Delta != event.DeltaInput {
			continue
		}
		if d.Offset != int64(len(got[d.Item])) {
			t.Errorf("the input of %s continues at %d after %d bytes", d.Item, d.Offset, len(got[d.Item]))
		}
		got[d.Item] += d.Text
	}
	if got["c1"] != "one two" || got["c3"] != big || len(got) != 2 {
		t.Errorf("c1 %q, c2 %q, %d bytes of c3", got["c1"], got["c2"], len(got["c3"]))
	}
}
