package appserver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func items(list ...string) (out []json.RawMessage) {
	for _, it := range list {
		out = append(out, json.RawMessage(it))
	}
	return out
}

// show writes messages as their roles and parts.
func show(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		parts := []string{}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				parts = append(parts, p.Text)
			case *llm.Reasoning:
				parts = append(parts, "("+p.Text+")")
			case *llm.ToolCall:
				parts = append(parts, p.ID+"="+p.Namespace+"."+p.Name+p.Input)
			case *llm.ToolResult:
				parts = append(parts, p.ID+"@"+p.Namespace+"."+p.Name+">"+llm.Message{Parts: p.Content}.Text())
			case *llm.Media:
				parts = append(parts, p.MediaType)
			}
		}
		out = append(out, m.Role.String()+":"+strings.Join(parts, "+"))
	}
	return strings.Join(out, " | ")
}

const (
	hello = `{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}`
	call1 = `{"type":"function_call","call_id":"c1","name":"read","namespace":"fs","arguments":"{}"}`
	out1  = `{"type":"function_call_output","call_id":"c1","output":"text"}`
)

func TestResponseItems(t *testing.T) {
	for _, tc := range []struct {
		name  string
		items []json.RawMessage
		want  string
	}{
		{"text", items(hello, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}`), "user:hello | assistant:hi"},
		{"a plain text", items(`{"type":"message","role":"developer","content":"rules"}`), "system:rules"},
		{"a call", items(hello, call1, out1), "user:hello | assistant:c1=fs.read{} | tool:c1@fs.read>text"},
		{
			"an answer with two calls", items(`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"x"}`,
				`{"type":"message","role":"assistant","content":"so"}`, call1, another(call1), out1, another(out1)),
			"assistant:(hm)+so+c1=fs.read{}+c2=fs.read{} | tool:c1@fs.read>text | tool:c2@fs.read>text",
		},
		{
			"free text", items(`{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"*** Begin"}`,
				`{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"done"}]}`),
			"assistant:c1=.patch*** Begin | tool:c1@.patch>done",
		},
		{"what only the vendor reads", items(`{"type":"reasoning","summary":[],"encrypted_content":"x"}`), ""},
		{
			"an image", items(`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + onePixel + `"}]}`),
			"user:image/png",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ms, err := responseItems(tc.items)
			if got := show(ms); err != nil || got != tc.want {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// another returns the item of another call.
func another(item string) string { return strings.ReplaceAll(item, `"c1"`, `"c2"`) }

// The error names the item, and nothing is converted.
func TestResponseItemsRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		items []json.RawMessage
		want  string
	}{
		{"no type", items(hello, `{}`), "items[1] is not a valid response item: missing field `type`"},
		{"unknown type", items(`{"type":"song"}`), "items[0] is not a valid response item: unknown variant `song`"},
		{"no object", items(`7`), "items[0] is not a valid response item: json:"},
		{"no role", items(`{"type":"message","content":"x"}`), "unknown role ``"},
		{"no content", items(`{"type":"message","role":"user"}`), "missing field `content`"},
		{"unknown part", items(`{"type":"message","role":"user","content":[{"type":"smell"}]}`), "`content`[0]: unknown type `smell`"},
		{"a remote image", items(`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://x/y.png"}]}`), "remote images are not fetched"},
		{"a call without an output", items(hello, call1), "items[1] is not a valid response item: the call has no output"},
		{"an output without a call", items(hello, out1), "items[1] is not a valid response item: no call `c1`"},
		{"an output before its call", items(out1, call1), "items[0] is not a valid response item: no call `c1`"},
		{"two outputs", items(call1, out1, out1), "items[2] is not a valid response item: no call `c1`"},
		{"a call twice", items(call1, call1, out1), "items[1] is not a valid response item: call `c1` has no output yet"},
		{"a message before the output", items(call1, hello, out1), "items[1] is not a valid response item: it is between a call"},
		{"no arguments", items(`{"type":"function_call","call_id":"c1","name":"read"}`), "`arguments` is not JSON"},
		{"no name", items(`{"type":"function_call","call_id":"c1","arguments":"{}"}`), "`call_id` and `name`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if ms, err := responseItems(tc.items); err == nil || !strings.Contains(err.Error(), tc.want) || ms != nil {
				t.Errorf("%v, %v, want %s", ms, err, tc.want)
			}
		})
	}
}

// Whatever a client sends, the history that results can be sent to a model: each call has its output after it.
func FuzzResponseItems(f *testing.F) {
	f.Add([]byte("[" + hello + "," + call1 + "," + out1 + "]"))
	f.Add([]byte("[" + call1 + "," + call1 + "," + out1 + "]"))
	f.Add([]byte(`[{"type":"reasoning","summary":"x"},null,{}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return
		}
		ms, err := responseItems(list)
		if err != nil {
			return
		}
		open := map[string]int{}
		for _, m := range ms {
			for _, p := range m.Parts {
				switch p := p.(type) {
				case *llm.ToolCall:
					open[p.ID]++
				case *llm.ToolResult:
					open[p.ID]--
				}
			}
		}
		for id, n := range open {
			if n != 0 {
				t.Fatalf("call %q has %d outputs too few", id, n)
			}
		}
	})
}
