package chat

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func FuzzDecode(f *testing.F) {
	compat := protocol.Compat{
		ThinkTags: &protocol.ThinkTags{Open: "<think>", Close: "</think>"}, RequireReasoning: true, OptionalFinishReason: true, ToolCallIDs: "mistral",
	}
	req := asked(compat, llm.Tool{Name: "f", InputSchema: []byte(`{"properties":{"a":{"type":"array"}}}`)})
	protocoltest.Fuzz(f, Protocol{}, req,
		frames(`{"content":"<think>a</think>b"}`, ended("stop"), `{"choices":[],"usage":{"prompt_tokens":5}}`, done),
		frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a[0]\":"}}`), calls(`{"index":0,"function":{"arguments":"1}"}}`), ended("tool_calls"), done),
		frames(calls(`{"id":"a","function":{"name":"f"}}`, `{"id":"b","function":{"name":"g"}}`), calls(`{"function":{"arguments":"{}"}}`), ended("length")),
		frames(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}`, `{"content":[{"type":"text","text":"b"}]}`),
		frames(`{"reasoning_details":[{"type":"encrypted","encrypted":"E","index":0}]}`, `{"refusal":"no"}`, ended("content_filter"), done),
		frames(`{"error":{"message":"rate limit","code":429}}`),
		frames(`{"object":"error","message":"m"}`),
	)
}
