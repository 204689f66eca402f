package responses_test

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func FuzzAnswer(f *testing.F) {
	var seeds [][]byte
	for _, tc := range answers {
		seeds = append(seeds, stream(tc.frames...))
	}
	for _, tc := range spoken {
		seeds = append(seeds, answered(tc.item))
	}
	req := request()
	req.Model = thinker()
	req.Tools = []llm.Tool{look(), patch()}
	protocoltest.Fuzz(f, responses.Protocol{}, req, seeds...)
}

// FuzzBody: whatever a user writes into the options and whatever metadata a history holds, the body is JSON or the error
// says why there is none.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"text_verbosity":"low","hosted_tools":{"web_search":{"filters":{}},"shell":{"a":1}}}`), []byte(`{"itemId":"rs_1","reasoningEncryptedContent":"E"}`), "text")
	f.Add([]byte(`{"hosted_tools":{"web_search":null}}`), []byte(`{"itemId":"ws_1","item":{"type":"web_search_call","id":"ws_1"}}`), "")
	f.Add([]byte(`{"store":true}`), []byte(`{"itemId":"ig_1","item":{"type":"image_generation_call","id":"ig_1"},"annotations":[1],"compaction":"x"}`), "x")
	f.Fuzz(func(t *testing.T, options, meta []byte, text string) {
		r := request()
		r.Model = thinker()
		r.HostedTools = []string{"web_search", "shell"}
		if json.Valid(options) { // a request is JSON as a whole
			r.ProviderOptions = map[string]json.RawMessage{"openai": options}
		}
		md := llm.Metadata{"openai": meta}
		r.Messages = []llm.Message{
			user(words(text), &llm.Media{MediaType: "image/png", Data: []byte("x"), Metadata: md}),
			assistant(&llm.Reasoning{Text: text, Metadata: md}, &llm.Text{Text: text, Metadata: md}, &llm.ToolCall{ID: text, Name: text, Input: text, Freeform: true, Metadata: md},
				&llm.ToolCall{ID: "h", Name: text, Input: text, ProviderExecuted: true, Metadata: md},
				&llm.ToolResult{ID: "h", Name: text, Content: llm.Parts{png()}, ProviderExecuted: true, Metadata: md}),
		}
		body, err := (responses.Protocol{}).Body(r)
		if err != nil {
			if _, ok := err.(*llm.Error); !ok {
				t.Fatalf("the error is a %T: %v", err, err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("no JSON: %s", body)
		}
	})
}
