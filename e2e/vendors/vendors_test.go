package vendors

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the tests of rules say again and again.
const function = `{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}`

func input(items ...string) string {
	return `{"model":"m","stream":true,"store":false,"input":[` + strings.Join(items, ",") + `]}`
}

func message(id string) string {
	return `{"type":"message","id":"` + id + `","role":"assistant","status":"completed","content":[{"type":"output_text","text":"x","annotations":[]}]}`
}

func call(id string) string {
	return `{"type":"function_call","call_id":"` + id + `","name":"f","arguments":"{}"}`
}

func output(id string) string {
	return `{"type":"function_call_output","call_id":"` + id + `","output":"x"}`
}

func tools(list ...string) string {
	return `{"model":"m","stream":true,"store":false,"input":"hi","tools":[` + strings.Join(list, ",") + `]}`
}

func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, strings.Replace(function, `"f"`, fmt.Sprintf(`"f%d"`, i), 1))
	}
	return out
}

func messages(field string) string {
	return `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}],` + field + `}`
}

func talk(messages ...string) string {
	return `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"},` + strings.Join(messages, ",") + `]}`
}

func use(id string) string {
	return `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"f","input":{}}]}`
}

func result(id string) string {
	return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}`
}

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
		{"gemini: responses of other calls", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
			{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}]}`, nil, "are not those of the calls"},
		{"responses: an id without letters", "openai-responses", input(`{"type":"message","id":"a:b","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`), nil, "expected an ID that contains"},
		{"responses: an id of another kind", "openai-responses", input(`{"type":"message","id":"rs_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}`), nil, "begins with 'msg_'"},
		{"responses: an item twice", "openai-responses", input(message("msg_1"), message("msg_1")), nil, "duplicate item"},
		{"responses: a call twice", "openai-responses", input(call("c"), call("c")), nil, "there twice"},
		{"responses: an output twice", "openai-responses", input(call("c"), output("c"), output("c")), nil, "no tool call found"},
		{"responses: an id that is too long", "openai-responses", input(call(strings.Repeat("x", 65))), nil, "string too long"},
		{"responses: a call with an id and without what was thought", "openai-responses", input(
			`{"type":"function_call","id":"fc_1_0","call_id":"c","name":"f","arguments":"{}"}`, output("c")), []Answer{{Reasoning: "hm", Calls: []Call{{Name: "f"}}}}, "without its required 'reasoning' item"},
		{"responses: what another one thought", "openai-responses", input(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`, message("msg_1")),
			[]Answer{{Reasoning: "hm", Text: "x"}}, "could not be verified"},
		{"responses: a thought under another id", "openai-responses", input(`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"enc-1-ZG9uJ3QgdG91Y2g="}`, message("msg_1")),
			[]Answer{{Reasoning: "hm", Text: "x"}, {Text: "y"}}, "could not be verified"},
		{"responses: temperature", "openai-responses", `{"model":"gpt-5.4","stream":true,"store":false,"input":"hi","temperature":1}`, nil, "unsupported parameter"},
		{"responses: a long cache key", "openai-responses", `{"model":"m","stream":true,"store":false,"input":"hi","prompt_cache_key":"` + strings.Repeat("k", 65) + `"}`, nil, "too long"},
		{"responses: a name with a dot", "openai-responses", tools(`{"type":"function","name":"a.b","parameters":{"type":"object"},"strict":false}`), nil, "does not match"},
		{"responses: two tools of one name", "openai-responses", tools(function, function), nil, "not unique"},
		{"responses: arguments that are no object", "openai-responses", tools(`{"type":"function","name":"f","parameters":{"type":"array","items":{}},"strict":false}`), nil, "type \"object\""},
		{"responses: a choice of arguments", "openai-responses", tools(`{"type":"function","name":"f","parameters":{"type":"object","anyOf":[]},"strict":false}`), nil, "anyOf at the top"},
		{"responses: an array of nothing", "openai-responses", tools(`{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"array"}}},"strict":false}`), nil, "missing items"},
		{"responses: not strict enough", "openai-responses", tools(`{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{}}},"strict":true}`), nil, "strict demands"},
		{"responses: 129 tools", "openai-responses", tools(many(129)...), nil, "array too long"},
		{"responses: a picture that is none", "openai-responses", input(`{"role":"user","content":[{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,aGk="}]}`), nil, "media type"},
		{"responses: a picture of another kind", "openai-responses", input(`{"role":"user","content":[{"type":"input_image","detail":"auto","image_url":"data:image/tiff;base64,aGk="}]}`), nil, "is none of"},
		{"chat: parallel_tool_calls without tools", "openai-chat", `{"model":"m","stream":true,"messages":[],"parallel_tool_calls":true}`, nil, "only allowed when tools"},
		{"chat: a call id twice", "openai-chat", `{"model":"m","stream":true,"messages":[{"role":"assistant","content":null,"tool_calls":[
			{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, nil, "there twice"},
		{"chat: a name with a dot", "openai-chat", `{"model":"m","stream":true,"messages":[],"tools":[{"type":"function","function":{"name":"a.b","parameters":{"type":"object"}}}]}`, nil, "does not match"},
		{"chat: a call of a strange name", "openai-chat", `{"model":"m","stream":true,"messages":[{"role":"assistant","content":null,"tool_calls":[
			{"id":"c","type":"function","function":{"name":"a b","arguments":"{}"}}]}]}`, nil, "does not match"},
		{"chat: a picture that is none", "openai-chat", `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,?"}}]}]}`, nil, "base64"},
		{"deepseek: a picture", "deepseek", `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]}`, nil, "publishes"},
		{"deepseek: a result that is no text", "deepseek", `{"model":"m","stream":true,"messages":[{"role":"assistant","content":"","reasoning_content":"","tool_calls":[
			{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"x"}]}]}`, nil, "must be text"},
		{"anthropic: five marks", "anthropic", messages(`"system":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},`, 5), ",") + `]`), nil, "maximum of 4"},
		{"anthropic: the long mark last", "anthropic", messages(`"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]`), nil, "must not come after"},
		{"anthropic: an empty system text", "anthropic", messages(`"system":[{"type":"text","text":" "}]`), nil, "system.0"},
		{"anthropic: a name with a dot", "anthropic", messages(`"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`), nil, "does not match"},
		{"anthropic: two tools of one name", "anthropic", messages(`"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]`), nil, "not unique"},
		{"anthropic: a choice of arguments", "anthropic", messages(`"tools":[{"name":"a","input_schema":{"type":"object","oneOf":[]}}]`), nil, "oneOf at the top"},
		{"anthropic: tool_choice without tools", "anthropic", messages(`"tool_choice":{"type":"auto"}`), nil, "while providing tools"},
		{"anthropic: thinking with a forced tool", "anthropic", messages(`"thinking":{"type":"adaptive"},"tool_choice":{"type":"any"},"tools":[{"name":"a","input_schema":{"type":"object"}}]`), nil, "forces tool use"},
		{"anthropic: temperature", "anthropic", messages(`"temperature":0.5`), nil, "publishes"},
		{"anthropic: the old thinking", "anthropic", `{"model":"claude-opus-4-8","max_tokens":9000,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000},
			"messages":[{"role":"user","content":"hi"}]}`, nil, "not supported"},
		{"anthropic: the assistant has the last word", "anthropic", talk(`{"role":"assistant","content":"so"}`), nil, "end with a user message"},
		{"anthropic: a message of nothing", "anthropic", talk(`{"role":"assistant","content":[]}`, `{"role":"user","content":"go on"}`), nil, "non-empty content"},
		{"anthropic: an id with a colon", "anthropic", talk(use("a:1"), result("a:1")), nil, "does not match"},
		{"anthropic: an id twice", "anthropic", talk(use("a"), result("a"), use("a"), result("a")), nil, "must be unique"},
		{"anthropic: a picture in an error", "anthropic", talk(use("a"), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}`), nil, "must be type text"},
		{"anthropic: a picture that is none", "anthropic", talk(use("a"), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}]}`), nil, "does not match the media type"},
		{"anthropic: a thought that was changed", "anthropic", talk(`{"role":"assistant","content":[{"type":"thinking","thinking":"other","signature":"sig-1-ZG9uJ3QgdG91Y2g="},
			{"type":"text","text":"a"}]}`, `{"role":"user","content":"go on"}`), []Answer{{Reasoning: "hm", Text: "a"}}, "cannot be modified"},
		{"gemini: the model begins", "gemini", `{"contents":[{"role":"model","parts":[{"text":"hi"}]}]}`, nil, "begins with a user turn"},
		{"gemini: nothing said", "gemini", `{"contents":[{"role":"user","parts":[]}]}`, nil, "must not be empty"},
		{"gemini: a part of nothing", "gemini", `{"contents":[{"role":"user","parts":[{}]}]}`, nil, "oneof field 'data'"},
		{"gemini: a call behind the model's own words", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"so"}]},
			{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]}]}`, nil, "immediately after a user turn"},
		{"gemini: a signature of another model", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi","thoughtSignature":"c2lnLTE="}]}]}`, nil, "corrupted thought signature"},
		{"gemini: a name with a space", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"a b"}]}]}`, nil, "does not match"},
		{"gemini: two functions of one name", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"}]}]}`, nil, "not unique"},
		{"gemini: two schemas", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"a","parameters":{"type":"OBJECT"},
			"parametersJsonSchema":{"type":"object"}}]}]}`, nil, "mutually exclusive"},
		{"gemini: words of JSON Schema in its own dialect", "gemini", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"a",
			"parameters":{"type":"OBJECT","$defs":{}}}]}]}`, nil, "publishes"},
		{"gemini: a GIF", "gemini", `{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/gif","data":"aGk="}}]}]}`, nil, "is none of"},
		{"ollama: a degree of thinking that it does not know", "ollama", `{"model":"m","options":{"num_ctx":4096},"messages":[],"think":"xhigh"}`, nil, "invalid think value"},
		{"ollama: a picture that is none", "ollama", `{"model":"m","options":{"num_ctx":4096},"messages":[{"role":"user","content":"","images":["?"]}]}`, nil, "base64"},
		{"ollama: a result of nobody", "ollama", `{"model":"m","options":{"num_ctx":4096},"messages":[{"role":"tool","content":"x"}]}`, nil, "no tool_name"},
		{"bedrock: a call and its result", "bedrock", `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"messages":[
			{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},
			{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"ok"}]}}]}]}`, nil, ""},
		{"bedrock: an unknown field", "bedrock", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, nil, "publishes"},
		{"bedrock: two members of a union", "bedrock", `{"messages":[{"role":"user","content":[{"text":"hi","cachePoint":{"type":"default"}}]}]}`, nil, "publishes"},
		{"bedrock: calls without tools", "bedrock", `{"messages":[{"role":"user","content":[{"text":"hi"}]},
			{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]}]}`, nil, "toolConfig field must be defined"},
		{"bedrock: a result that is missing", "bedrock", `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"messages":[
			{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},
			{"role":"user","content":[{"text":"and?"}]}]}`, nil, "expected toolResult blocks"},
		{"bedrock: two of one role", "bedrock", `{"messages":[{"role":"user","content":[{"text":"a"}]},{"role":"user","content":[{"text":"b"}]}]}`, nil, "alternate"},
		{"bedrock: reasoning that it did not write", "bedrock", `{"messages":[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[
			{"reasoningContent":{"reasoningText":{"text":"x","signature":"forged"}}},{"text":"b"}]},{"role":"user","content":[{"text":"c"}]}]}`, nil, "not what the model wrote"},
		{"bedrock: a document alone", "bedrock", `{"messages":[{"role":"user","content":[{"document":{"format":"pdf","name":"a","source":{"bytes":"YQ=="}}}]}]}`, nil, "text block is required"},
		{"ollama: arguments as text", "ollama", `{"model":"m","options":{"num_ctx":4096},"messages":[{"role":"assistant","content":"","tool_calls":[
			{"function":{"name":"f","arguments":"{}"}}]}]}`, nil, "not an object"},
	}
	formats := map[string]format{
		"openai-responses": responses{}, "openai-chat": chat{}, "deepseek": chat{thinks: true}, "anthropic": anthropic{},
		"gemini": gemini{}, "ollama": ollama{}, "bedrock": bedrock{},
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
