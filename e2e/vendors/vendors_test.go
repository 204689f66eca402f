package vendors

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRules shows that each vendor takes what is right and refuses what breaks one of its rules.
func TestRules(t *testing.T) {
	tests := []struct {
		name, vendor, body string
		issued             []Answer
		want               string // of the refusal; empty: taken
	}{
		{"responses: a call and its output", "openai-responses", `{"model":"m","stream":true,"store":false,"input":[
			{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"ok"}]}`, nil, ""},
		{"responses: an unknown field", "openai-responses", `{"model":"m","stream":true,"store":false,"input":"hi","made_up":1}`, nil, "publishes"},
		{"responses: an output without its call", "openai-responses", `{"model":"m","stream":true,"store":false,"input":[
			{"type":"function_call_output","call_id":"c","output":"ok"}]}`, nil, "no tool call found"},
		{"responses: reasoning lost", "openai-responses", `{"model":"m","stream":true,"store":false,"input":"hi"}`,
			[]Answer{{Reasoning: "hm", Text: "a"}}, "did not come back"},
		{"chat: a result that is missing", "openai-chat", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"role":"user","content":"and?"}]}`, nil, "must be followed by tool messages"},
		{"chat: reasoning is no field of OpenAI's", "openai-chat", `{"model":"m","stream":true,"messages":[
			{"role":"assistant","content":"a","reasoning_content":""}]}`, nil, "publishes"},
		{"deepseek: reasoning must come back", "deepseek", `{"model":"m","stream":true,"messages":[{"role":"assistant","content":"a"}]}`, nil, "passed back"},
		{"deepseek: with it", "deepseek", `{"model":"m","stream":true,"messages":[{"role":"assistant","content":"a","reasoning_content":"hm"}]}`,
			[]Answer{{Reasoning: "hm", Text: "a"}}, ""},
		{"anthropic: no max_tokens", "anthropic", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, nil, "publishes"},
		{"anthropic: text before the results", "anthropic", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"c","content":"ok"}]}]}`, nil, "immediately after"},
		{"anthropic: a forged signature", "anthropic", `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"forged"},{"type":"text","text":"a"}]},
			{"role":"user","content":"go on"}]}`, nil, "invalid signature"},
		{"anthropic: a budget as large as the answer", "anthropic", `{"model":"m","max_tokens":2000,"stream":true,
			"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user","content":"hi"}]}`, nil, "budget_tokens"},
		{"gemini: a call without its signature", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]},
			{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}]}`, nil, "thought_signature"},
		{"gemini: responses of other calls", "gemini", `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"eA=="}]},
			{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}]}`, nil, "are not those of the calls"},
		{"ollama: arguments as text", "ollama", `{"model":"m","options":{"num_ctx":4096},"messages":[{"role":"assistant","content":"","tool_calls":[
			{"function":{"name":"f","arguments":"{}"}}]}]}`, nil, "not an object"},
	}
	formats := map[string]format{
		"openai-responses": responses{}, "openai-chat": chat{}, "deepseek": chat{thinks: true}, "anthropic": anthropic{},
		"gemini": gemini{}, "ollama": ollama{},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var body map[string]any
			if err := json.Unmarshal([]byte(tt.body), &body); err != nil {
				t.Fatal(err)
			}
			f := formats[tt.vendor]
			schema, err := load(f.schema())
			if err != nil {
				t.Fatal(err)
			}
			err = validate(schema, body)
			if err == nil {
				err = f.check(body, tt.issued)
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestServer plays a failure, an answer that is cut, and a whole one.
func TestServer(t *testing.T) {
	s := Start(t, "anthropic", Answer{Fail: 529, RetryAfter: 1}, Answer{Text: "half", Cut: true}, Answer{Text: "whole"})
	ask := func() (*http.Response, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages",
			strings.NewReader(`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", Key)
		r.Header.Set("Anthropic-Version", "2023-06-01")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "gantry/test")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp, string(b), err
	}
	if resp, body, err := ask(); err != nil || resp.StatusCode != 529 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, "overloaded_error") {
		t.Errorf("failure: %v, %s, %v", resp.Status, body, err)
	}
	if _, body, err := ask(); err == nil || !strings.Contains(body, "content_block_stop") || strings.Contains(body, "message_stop") {
		t.Errorf("cut: %v, %s", err, body)
	}
	if _, body, err := ask(); err != nil || !strings.Contains(body, "message_stop") {
		t.Errorf("whole: %v, %s", err, body)
	}
	if got := len(s.Requests()); got != 3 {
		t.Errorf("%d requests", got)
	}
}
