package responses_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// chaos draws frames that are each well formed and together make no sense: ids and indexes cross, items end before they
// begin, deltas come for anything at any time.
func chaos(t *rapid.T) []string {
	id := func(label string) string {
		return rapid.SampledFrom([]string{"", "a", "b", "a:0", "b#2"}).Draw(t, label)
	}
	index := func(label string) int { return rapid.IntRange(0, 2).Draw(t, label) }
	words := func(label string) string { return rapid.SampledFrom([]string{"", "x", "{", "}", "{}"}).Draw(t, label) }
	item := func() map[string]any {
		kind := rapid.SampledFrom([]string{
			"message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "image_generation_call", "compaction", "novelty", "_call",
		}).Draw(t, "type")
		it := map[string]any{"type": kind, "id": id("id")}
		switch kind {
		case "message":
			it["content"] = []any{map[string]any{"type": "output_text", "text": words("text"), "annotations": []any{map[string]any{}}}}
			it["phase"] = words("phase")
		case "reasoning", "compaction":
			it["summary"] = []any{map[string]any{"text": words("summary")}, map[string]any{"text": words("summary")}}
			it["content"] = []any{map[string]any{"text": words("content")}}
			it["encrypted_content"] = words("encrypted")
		case "function_call", "custom_tool_call":
			it["call_id"], it["name"] = id("call_id"), rapid.SampledFrom([]string{"", "f"}).Draw(t, "name")
			it["arguments"], it["input"] = words("arguments"), words("input")
			it["status"] = rapid.SampledFrom([]string{"", "completed", "incomplete"}).Draw(t, "status")
		}
		return it
	}
	var frames []string
	for range rapid.IntRange(0, 14).Draw(t, "frames") {
		f := map[string]any{"type": rapid.SampledFrom([]string{
			"response.created", "response.output_item.added", "response.output_item.added", "response.output_item.done",
			"response.output_text.delta", "response.output_text.done", "response.refusal.delta", "response.reasoning_summary_part.added",
			"response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "response.reasoning_text.delta", "response.reasoning_text.done",
			"response.function_call_arguments.delta", "response.function_call_arguments.done", "response.custom_tool_call_input.delta",
			"response.completed", "response.incomplete",
		}).Draw(t, "frame")}
		f["item_id"] = rapid.SampledFrom([]string{"a", "b", "a:0"}).Draw(t, "item_id")
		if rapid.Bool().Draw(t, "indexed") {
			f["output_index"] = index("output_index")
		}
		f["summary_index"], f["content_index"] = index("summary_index"), index("content_index")
		for _, k := range []string{"delta", "text", "refusal", "arguments", "input"} {
			f[k] = words(k)
		}
		f["item"] = item()
		f["response"] = map[string]any{
			"id": "resp_1", "output": []any{item(), item()},
			"incomplete_details": map[string]any{"reason": rapid.SampledFrom([]string{"max_output_tokens", "content_filter", "moon"}).Draw(t, "reason")},
		}
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, string(b))
	}
	return frames
}

// Whatever a vendor sends, the order of events holds, the answer folds, and what it became can go back.
func TestNoStreamBreaksTheOrderOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		frames := chaos(rt)
		r := request()
		r.Model = thinker()
		events := protocoltest.Events(t, responses.Protocol{}, r, stream(frames...))
		want := protocoltest.Render(r.Namespace, events)
		if got := protocoltest.Run(t, responses.Protocol{}, r, nameless(frames...)); got != want {
			rt.Fatalf("without names of events\ngot  %s\nwant %s", got, want)
		}
		var fold llm.Fold
		for _, e := range events {
			fold.Add(e)
		}
		for _, m := range []*llm.Message{fold.Message(), fold.Ended()} {
			r.Messages = []llm.Message{*m}
			if body, err := (responses.Protocol{}).Body(r); err != nil || !json.Valid(body) {
				rt.Fatalf("the answer can't go back: %v\n%s", err, body)
			}
		}
	})
}
