package ollama_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func stream(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

// says is a line with this message.
func says(fields string) string {
	return `{"model":"qwen3:8b","created_at":"2026-09-17T15:42:59Z","message":{"role":"assistant",` + fields + `},"done":false}`
}

// ends is the last line.
func ends(reason string) string {
	return `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"` + reason + `"}`
}

func request(messages ...llm.Message) *protocol.Request {
	return &protocol.Request{
		Request: &llm.Request{Messages: messages}, Model: protocol.Model{ID: "qwen3:8b", Input: []string{"image"}}, Namespace: "ollama",
	}
}

// Models that mark their thinking inside the text, where the server does not know their marks.
func TestThinkTags(t *testing.T) {
	const thought = `@{"reasoningField":"thinking"}`
	for _, tt := range []struct {
		name   string
		stream []byte
		want   string
	}{
		{
			"marks in pieces", stream(says(`"content":"<thi"`), says(`"content":"nk>a</think"`), says(`"content":">b<"`), ends("stop")),
			`S+(model=qwen3:8b) R+reasoning-0 R~~"a" R-` + thought + ` T+text-0 T~"b" T~"<" T- SF(stop) F(stop)`,
		},
		{
			"a call behind it", stream(says(`"content":"<think>a</think>"`), says(`"tool_calls":[{"id":"c","function":{"name":"f"}}]`), ends("stop")),
			`S+(model=qwen3:8b) R+reasoning-0 R~~"a" R-` + thought + ` C c f {} SF(tool-calls raw=stop) F(tool-calls)`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request()
			r.Model.Compat.ThinkTags = &protocol.ThinkTags{Open: "<think>", Close: "</think>"}
			if got := protocoltest.Splits(t, ollama.Protocol{}, r, tt.stream); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	const thought = `@{"reasoningField":"thinking"}`
	tests := []struct {
		name   string
		stream []byte
		want   string
	}{
		{
			"a text with its usage",
			stream(says(`"content":"Hel"`), says(`"content":"lo é"`),
				`{"model":"qwen3:8b","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":9,"load_duration":1,"prompt_eval_count":29,"prompt_eval_cached_count":20,"prompt_eval_duration":2,"eval_count":3,"eval_duration":5}`),
			`S+(model=qwen3:8b) T+text-0 T~"Hel" T~"lo é" T- SF(stop) F(stop in=29 read=20 out=3 total=32)`,
		},
		{
			"a thought before the text",
			stream(says(`"content":"","thinking":"hm"`), says(`"content":"","thinking":"m"`), says(`"content":"a"`), ends("stop")),
			`S+(model=qwen3:8b) R+reasoning-0 R~~"hm" R~~"m" R-` + thought + ` T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			"both in one line, and again",
			stream(says(`"content":"a","thinking":"t"`), says(`"content":"b","thinking":"u"`), ends("stop")),
			`S+(model=qwen3:8b) R+reasoning-0 R~~"t" R-` + thought + ` T+text-0 T~"a" T- R+reasoning-1 R~~"u" R-` + thought + ` T+text-1 T~"b" T- SF(stop) F(stop)`,
		},
		{
			"text with the last line",
			stream(says(`"content":"a"`), `{"message":{"content":"b"},"done":true,"done_reason":"stop"}`),
			`S+(model=qwen3:8b) T+text-0 T~"a" T~"b" T- SF(stop) F(stop)`,
		},
		{
			"a call without an id",
			stream(says(`"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]`), ends("stop")),
			`S+(model=qwen3:8b) C call_1 f {"a":1} SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			"calls with ids, one of them twice",
			stream(says(`"content":"x","tool_calls":[{"id":"c1","function":{"index":0,"name":"f","arguments":{}}},{"id":"c1","function":{"index":1,"name":"g"}}]`), says(`"content":"y"`), ends("stop")),
			`S+(model=qwen3:8b) T+text-0 T~"x" T- C c1 f {} C call_1 g {} T+text-1 T~"y" T- SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			"arguments as text",
			stream(says(`"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]`), ends("stop")),
			`S+(model=qwen3:8b) I+call_1 f I- C call_1 f {"a":1} SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			"arguments as a text that is no JSON",
			stream(says(`"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":"}}]`), ends("stop")),
			`S+(model=qwen3:8b) I+call_1 f I!call_1 "{\"a\":" SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			"arguments that are null",
			stream(says(`"tool_calls":[{"function":{"name":"f","arguments":null}}]`), ends("stop")),
			`S+(model=qwen3:8b) C call_1 f {} SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			"a shorter line after a longer one",
			stream(says(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}},{"id":"b","function":{"name":"g","arguments":{"y":1}}}]`), says(`"tool_calls":[{"function":{"name":"h"}}]`), ends("stop")),
			`S+(model=qwen3:8b) C a f {"x":1} C b g {"y":1} C call_1 h {} SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{"cut off by length", stream(says(`"content":"a"`), ends("length")), `S+(model=qwen3:8b) T+text-0 T~"a" T- SF(length) F(length)`},
		{"an older server gives no reason", stream(says(`"content":"a"`), `{"done":true}`), `S+(model=qwen3:8b) T+text-0 T~"a" T- SF(stop) F(stop)`},
		{"the model was only loaded", stream(ends("load")), `S+ SF(unknown raw=load) F(unknown)`},
		{
			"no line end after the last line, carriage returns, blank lines",
			[]byte(says(`"content":"a"`) + "\r\n\r\n\n" + ends("stop")),
			`S+(model=qwen3:8b) T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			"nothing is read after the end",
			stream(says(`"content":"a"`), ends("stop"), "garbage"),
			`S+(model=qwen3:8b) T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			"only what is counted is known",
			stream(`{"done":true,"done_reason":"stop","eval_count":3}`),
			`S+ SF(stop) F(stop out=3 total=3)`,
		},
		{
			"bytes that end too early",
			stream(says(`"content":"a"`), says(`"tool_calls":[{"function":{"name":"f"}}]`)),
			`S+(model=qwen3:8b) T+text-0 T~"a" T- C call_1 f {} E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			"a line that ends too early",
			[]byte(says(`"content":"a"`) + "\n" + `{"message":{"con`),
			`S+(model=qwen3:8b) T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			"an error in mid-answer",
			stream(says(`"content":"a"`), `{"error":"llama runner process has terminated","status":500}`),
			`S+(model=qwen3:8b) T+text-0 T~"a" E(provider-internal "llama runner process has terminated")`,
		},
		{
			"too long a prompt",
			stream(`{"error":"the input length exceeds the context length"}`),
			`E(context-overflow "the input length exceeds the context length")`,
		},
		{
			"too long a prompt, told by the runner",
			stream(`{"error":"request (4476 tokens) exceeds the available context size (4096 tokens)","status":400}`),
			`E(context-overflow "request (4476 tokens) exceeds the available context size (4096 tokens)")`,
		},
		{
			"a prompt of which nothing was left",
			stream(`{"error":"no user query found in messages.","status":500}`),
			`E(context-overflow "no user query found in messages.")`,
		},
		{"no error", stream(`{"error":null,"message":{"content":"a"}}`, `{"error":""}`, ends("stop")), `S+ T+text-0 T~"a" T- SF(stop) F(stop)`},
		{
			"no JSON", stream(says(`"content":"a"`), "oops"),
			`S+(model=qwen3:8b) T+text-0 T~"a" E(invalid-output "a line of the answer can't be read: invalid character 'o' looking for beginning of value")`,
		},
		{
			"a call without a name", stream(says(`"tool_calls":[{"function":{"arguments":{}}}]`)),
			`E(invalid-output "a call of the answer has no name")`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, ollama.Protocol{}, request(), tt.stream); got != tt.want {
				t.Errorf("events:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// Proxies that leave out the last line are accepted where the route's row says so.
func TestNoLastLine(t *testing.T) {
	r := request()
	r.Model.Compat.OptionalFinishReason = true
	for _, tt := range []struct{ name, line, want string }{
		{"text", says(`"content":"a"`), `S+(model=qwen3:8b) T+text-0 T~"a" T- SF(stop) F(stop)`},
		{"a call", says(`"tool_calls":[{"function":{"name":"f"}}]`), `S+(model=qwen3:8b) C call_1 f {} SF(tool-calls) F(tool-calls)`},
		{"nothing", says(`"content":""`), `E(incomplete-stream "the stream ended before the answer was complete")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, ollama.Protocol{}, r, stream(tt.line)); got != tt.want {
				t.Errorf("events %s, want %s", got, tt.want)
			}
		})
	}
}

// The server's own figures are kept.
func TestRawUsage(t *testing.T) {
	events := protocoltest.Events(t, ollama.Protocol{}, request(),
		stream(`{"done":true,"done_reason":"stop","prompt_eval_count":29,"eval_count":3,"total_duration":30258609300}`))
	end := events[len(events)-1].(llm.Finish)
	if got, want := string(end.Usage.Raw), `{"prompt_eval_count":29,"eval_count":3,"total_duration":30258609300}`; got != want {
		t.Errorf("raw usage = %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	r := request()
	r.Tools = []llm.Tool{{Name: "read", Namespace: "files"}}
	r.NewID = func() string { return "tool_7" }
	got := protocoltest.Splits(t, ollama.Protocol{}, r, stream(says(`"tool_calls":[{"function":{"name":"files__read"}}]`), ends("stop")))
	if want := `S+(model=qwen3:8b) C tool_7 files.read {} SF(tool-calls raw=stop) F(tool-calls)`; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	r := request(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}})
	r.Tools = []llm.Tool{{Name: "f", InputSchema: json.RawMessage(`{}`)}}
	protocoltest.Fuzz(f, ollama.Protocol{}, r,
		stream(says(`"content":"a","thinking":"t"`), says(`"tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"f","arguments":"{}"}}]`), ends("stop")),
		stream(says(`"tool_calls":[{"function":{"name":"f","arguments":"{"}}]`), `{"done":true,"prompt_eval_count":29,"eval_count":3}`),
		stream(`{"error":"no","status":429}`),
	)
}

// A line of text as the server sends it.
const textLine = `{"model":"qwen3:8b","created_at":"2026-09-17T15:42:59.7001801Z","message":{"role":"assistant","content":" quick"},"done":false}`

func BenchmarkTextLine(b *testing.B) {
	d := ollama.Protocol{}.Decode(request())
	data := []byte(textLine)
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
