package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

var deltas = []struct {
	name, data string
	fast       bool
}{
	{"as OpenAI sends them", `{"id":"c","object":"chat.completion.chunk","created":1741570283,"model":"m","service_tier":"default","system_fingerprint":null,` +
		`"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"V1"}`, true},
	{"the first", `{"choices":[{"delta":{"role":"assistant","content":"","refusal":null,"tool_calls":null}}]}`, true},
	{"the last", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"STOP"}]}`, false},
	{"an end with a text", `{"choices":[{"delta":{"content":"x"},"finish_reason":"stop","native_finish_reason":"STOP","usage":null}],"error":null}`, true},
	{"reasoning", `{"choices":[{"delta":{"reasoning_content":"a","reasoning":"b","reasoning_text":"c","refusal":"d","reasoning_details":null}}]}`, true},
	{"spaces and another order", "{ \"choices\" : [\t{ \"delta\" : {\"content\":\"é\"} } ]\r\n, \"id\" : \"c\" } ", true},
	{"escapes", `{"choices":[{"delta":{"content":"a\n\"\\\u00e9\ud83d"}}]}`, true},
	{"texts again", `{"id":"","id":"a","id":"b","choices":[{"delta":{"content":"x","content":"y","content":null,"refusal":"n","refusal":null}}]}`, true},
	{"what means nothing", `{"moon":true,"sun":[],"at":0,"choices":[{"phase":"full","delta":{"content":"x","visible":false}}]}`, true},
	{"what may mean something in another case", `{"Choices":[{"delta":{"content":"x"}}]}`, false},
	{"a name that folds", `{"choices":[{"delta":{"to` + "\u017f" + `":"x","content":"y"}}]}`, false},
	{"usage", `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}`, false},
	{"an error", `{"error":{"message":"no"}}`, false},
	{"a call", `{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`, false},
	{"parts", `{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}`, false},
	{"logprobs", `{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[]}}]}`, false},
	{"no choice", `{"choices":[]}`, false},
	{"two choices", `{"choices":[{"delta":{"content":"x"}},{"delta":{"content":"y"}}]}`, false},
	{"choices twice", `{"choices":[{"delta":{"content":"x"}}],"choices":[{"delta":{"refusal":"y"}}]}`, false},
	{"choices without one", `{"choices":[null]}`, false},
	{"a number of another kind", `{"created":1.5,"choices":[{"delta":{"content":"x"}}]}`, false},
	{"a zero before a number", `{"created":01,"choices":[{"delta":{"content":"x"}}]}`, false},
	{"a bad escape", `{"choices":[{"delta":{"content":"\x"}}]}`, false},
	{"text that is no UTF-8", "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}", false},
	{"more behind it", `{"choices":[{"delta":{"content":"x"}}]}]`, false},
	{"cut off", `{"choices":[{"delta":{"content":"x"}}`, false},
	{"nothing", ``, false},
}

// plain is a chunk without what makes no difference.
func plain(c chunk) chunk {
	drop := func(raw *json.RawMessage) {
		if !said(*raw) {
			*raw = nil
		}
	}
	drop(&c.Usage)
	drop(&c.Error)
	for i := range c.Choices {
		drop(&c.Choices[i].Usage)
		drop(&c.Choices[i].Delta.ReasoningDetails)
	}
	return c
}

// fastIsGeneral demands that the fast way gives what the general way gives, or gives up and leaves nothing behind.
func fastIsGeneral(t *testing.T, data []byte) (fast bool) {
	t.Helper()
	var r chunkReader
	var got, want chunk
	if !r.read(data, &got) {
		if len(got.Choices) > 0 || got.Usage != nil || got.Error != nil {
			t.Fatalf("%q left %+v behind", data, got)
		}
		return false
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatalf("%q was read, and is refused: %v", data, err)
	}
	if !reflect.DeepEqual(plain(got), plain(want)) {
		t.Fatalf("%q\ngot  %+v\nwant %+v", data, got, want)
	}
	return true
}

func TestChunksAreReadFast(t *testing.T) {
	t.Parallel()
	for _, tc := range deltas {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if fast := fastIsGeneral(t, []byte(tc.data)); fast != tc.fast {
				t.Errorf("fast = %v, want %v", fast, tc.fast)
			}
		})
	}
}

func FuzzDelta(f *testing.F) {
	for _, tc := range deltas {
		f.Add([]byte(tc.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fastIsGeneral(t, data) })
}
