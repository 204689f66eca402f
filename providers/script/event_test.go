package script_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestEventsSurviveTheirWrittenForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := func(name string) string { return rapid.String().Draw(t, name) }
		b := func(name string) bool { return rapid.Bool().Draw(t, name) }
		kind := rapid.SampledFrom([]llm.BlockKind{llm.BlockText, llm.BlockReasoning, llm.BlockToolInput}).Draw(t, "kind")
		meta := rapid.SampledFrom([]llm.Metadata{nil, {"vendor": []byte(`{"a":[1,2]}`)}}).Draw(t, "meta")
		n := rapid.Int64().Draw(t, "tokens")
		usage := rapid.SampledFrom([]llm.Usage{{}, {Input: &n, Output: &n, Total: &n, CacheRead: &n, CacheWrite: &n, Reasoning: &n, Raw: []byte(`{}`)}}).Draw(t, "usage")
		reason := llm.FinishReason(rapid.IntRange(0, int(llm.FinishError)).Draw(t, "reason"))
		for _, want := range []llm.Event{
			llm.Attempt{N: 2, DelayMS: n, Reason: s("reason")},
			llm.StepStart{ServedModel: s("model"), ResponseID: s("response")},
			llm.BlockStart{Kind: kind, ID: s("id"), Name: s("name"), Namespace: s("ns"), Freeform: b("freeform"), ProviderExecuted: b("hosted"), Metadata: meta},
			llm.BlockDelta{Kind: kind, ID: s("id"), Text: s("text")},
			llm.BlockEnd{Kind: kind, ID: s("id"), Metadata: meta},
			llm.ToolInputError{ID: s("id"), Name: s("name"), Namespace: s("ns"), Raw: s("raw"), Message: s("message")},
			llm.ToolCallDone{Call: llm.ToolCall{ID: s("id"), Name: s("name"), Namespace: s("ns"), Input: s("input"), Freeform: b("f"), ProviderExecuted: b("h"), Metadata: meta}},
			llm.ToolResultDone{Result: llm.ToolResult{ID: s("id"), Name: s("name"), Content: llm.Parts{&llm.Text{Text: s("text")}}, IsError: b("e")}},
			llm.StepFinish{Reason: reason, RawReason: s("raw"), Usage: usage, Again: b("again")},
			llm.Finish{Reason: reason, Usage: usage, Metadata: meta},
			&llm.Error{Code: llm.ErrOverloaded, Message: s("message"), Retryable: b("retry"), RetryAfter: 12, Status: 503, RequestID: s("req"), Next: s("next")},
		} {
			b, err := script.MarshalEvent(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := script.UnmarshalEvent(b)
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\ngot  %#v\nwant %#v", b, got, want)
			}
		}
	})
}

func TestEventsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{}`, `{"type":"text"}`, `{"type":"unknown-start"}`, `{"type":"tool-call"}`, `{"type":"tool-result"}`, `{"type":"error"}`, `{"type":"finish","x":1}`, `{"type":"finish","reason":"done"}`} {
		if e, err := script.UnmarshalEvent([]byte(text)); err == nil {
			t.Errorf("%s is %#v", text, e)
		}
	}
	for _, e := range []llm.Event{nil, llm.BlockStart{}, llm.BlockDelta{}, llm.BlockEnd{}} {
		if b, err := script.MarshalEvent(e); err == nil {
			t.Errorf("%#v is written as %s", e, b)
		}
	}
}
