package gemini_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A chunk of text as Google sends it, with the usage so far.
const textChunk = `{"candidates": [{"content": {"parts": [{"text": "The quick brown fox jumps over the lazy dog, and so on."}],"role": "model"},"index": 0}],` +
	`"usageMetadata": {"promptTokenCount": 1200,"candidatesTokenCount": 14,"totalTokenCount": 1300,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 1200}],"thoughtsTokenCount": 86},` +
	`"modelVersion": "gemini-3-pro-preview","responseId": "kzQWaPuMHtXXjMcP3r2RkQc"}`

func BenchmarkTextChunk(b *testing.B) {
	d := gemini.Protocol{}.Decode(request())
	data := []byte(textChunk)
	events := make([]llm.Event, 0, 8)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var err error
		if events, err = d.Step(events[:0], protocol.Frame{Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBody(b *testing.B) {
	r := request()
	r.Messages = nil
	for i := range 100 {
		id := fmt.Sprint("c", i)
		r.Messages = append(r.Messages, user(text(strings.Repeat("word ", 50))),
			assistant(&llm.ToolCall{ID: id, Name: "f", Input: `{"path":"a/b/c"}`, Metadata: signed("c2lnbmF0dXJl")}),
			result(id, "f", text(strings.Repeat("line\n", 200))))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (gemini.Protocol{}).Body(r); err != nil {
			b.Fatal(err)
		}
	}
}
