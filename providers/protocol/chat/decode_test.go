package chat

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// frames writes an answer as a vendor sends it. A line that is a bare delta gets the chunk around it.
func frames(lines ...string) []byte {
	var b strings.Builder
	for _, l := range lines {
		if !strings.Contains(l, `"choices"`) && strings.HasPrefix(l, "{") && !strings.Contains(l, `"error"`) && !strings.Contains(l, `"usage"`) {
			l = `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + l + `,"finish_reason":null}],"usage":null}`
		}
		if !strings.HasPrefix(l, ":") {
			l = "data: " + l
		}
		b.WriteString(l + "\n\n")
	}
	return []byte(b.String())
}

// calls is a delta with pieces of calls.
func calls(pieces ...string) string { return `{"tool_calls":[` + strings.Join(pieces, ",") + `]}` }

// ended is a chunk with a finish reason and nothing else.
func ended(reason string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

const done = "[DONE]"

func asked(compat protocol.Compat, tools ...llm.Tool) *protocol.Request {
	return &protocol.Request{
		Request:   &llm.Request{Tools: tools, Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}}}},
		Model:     protocol.Model{ID: "m", Compat: compat, Input: []string{"image", "pdf", "audio"}, Reasons: true},
		Namespace: "acme",
	}
}

type answerCase struct {
	name   string
	compat protocol.Compat
	stream []byte
	want   string
}

func checkAnswers(t *testing.T, tests []answerCase) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, Protocol{}, asked(tt.compat), tt.stream); got != tt.want {
				t.Errorf("events\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	checkAnswers(t, []answerCase{
		{
			name: "a text and the usage that follows it",
			stream: frames(`{"role":"assistant","content":""}`, `{"content":"Hel"}`, `{"content":"lo"}`, ended("stop"),
				`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1,"cache_write_tokens":2}}}`, done),
			want: `S+ T+text-0 T~"Hel" T~"lo" T- SF(stop) F(stop in=5 read=1 write=2 out=2 total=7)`,
		},
		{
			name: "who answers, and under which id",
			stream: frames(`{"id":"gen-1","model":"m-2026","choices":[{"delta":{"content":"a"}}]}`,
				`{"id":"gen-2","model":"other","choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`, done),
			want: `S+(model=m-2026 id=gen-1) T+text-0 T~"a" T~"b" T- SF(stop) F(stop)`,
		},
		{
			name:   "escapes and what is not ASCII",
			stream: frames(`{"content":"é\u00e9\n\"\ud83d\ude00"}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"éé\n\"😀" T- SF(stop) F(stop)`,
		},
		{
			name:   "a refusal is text",
			stream: frames(`{"refusal":"no"}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"no" T- SF(stop) F(stop)`,
		},
		{
			name:   "content as parts",
			stream: frames(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"reference","reference_ids":[1]}]}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"ab" T- SF(stop) F(stop)`,
		},
		{
			name:   "thinking among the parts",
			stream: frames(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, `{"content":"a"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"hm" T+text-0 T~"a" R-@{"model":"m","reasoningField":"content"} T- SF(stop) F(stop)`,
		},
		{
			name:   "content of another kind",
			stream: frames(`{"content":123}`, ended("stop"), done),
			want:   `E(invalid-output "a chunk is not what chat completions send: content is neither text nor a list of parts")`,
		},
		{
			name:   "only the first choice counts",
			stream: frames(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "an empty answer",
			stream: frames(ended("stop"), done),
			want:   `S+ SF(stop) F(stop)`,
		},
		{
			name:   "comments between chunks",
			stream: frames(": PROCESSING", `{"content":"a"}`, ": PROCESSING", ended("stop"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "a delta that is null, and an end without a delta",
			stream: frames(`{"choices":[{"delta":null}]}`, `{"content":"a"}`, `{"choices":[{"finish_reason":"stop"}]}`, done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "frames of other kinds",
			stream: frames(`{"choices":[],"type":"ping"}`, `{"content":"a"}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
	})
}

func TestEnds(t *testing.T) {
	text := `{"content":"a"}`
	checkAnswers(t, []answerCase{
		{
			name:   "the bytes end without a finish reason",
			stream: frames(text),
			want:   `S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			name:   "the end marker comes without a finish reason",
			stream: frames(text, done),
			want:   `S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			name:   "no finish reason from a vendor that gives none",
			compat: protocol.Compat{OptionalFinishReason: true},
			stream: frames(text),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "a call from a vendor that gives no finish reason",
			compat: protocol.Compat{OptionalFinishReason: true},
			stream: frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`), done),
			want:   `S+ I+c1 f I~"{}" I- C c1 f {} SF(tool-calls) F(tool-calls)`,
		},
		{
			name:   "nothing at all from a vendor that gives no finish reason",
			compat: protocol.Compat{OptionalFinishReason: true},
			stream: frames(`{"role":"assistant"}`, done),
			want:   `E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			name:   "the end marker is missing",
			stream: frames(text, ended("stop")),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "content after the finish reason",
			stream: frames(text, ended("stop"), text, done),
			want:   `S+ T+text-0 T~"a" E(invalid-output "the response continued after its finish reason")`,
		},
		{
			name:   "a call after the finish reason",
			stream: frames(text, ended("stop"), calls(`{"index":0,"id":"c1"}`), done),
			want:   `S+ T+text-0 T~"a" E(invalid-output "the response continued after its finish reason")`,
		},
		{
			name:   "empty deltas and another finish reason after the first",
			stream: frames(text, ended("stop"), `{"content":"","tool_calls":[]}`, ended("length"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "bytes after the end marker",
			stream: frames(text, ended("stop"), done, text),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{name: "end means stop", stream: frames(text, ended("end"), done), want: `S+ T+text-0 T~"a" T- SF(stop raw=end) F(stop)`},
		{name: "length", stream: frames(text, ended("length"), done), want: `S+ T+text-0 T~"a" T- SF(length) F(length)`},
		{
			name: "the model's own length", stream: frames(text, ended("model_length"), done),
			want: `S+ T+text-0 T~"a" T- SF(length raw=model_length) F(length)`,
		},
		{
			name: "content filter", stream: frames(text, ended("content_filter"), done),
			want: `S+ T+text-0 T~"a" T- SF(content-filter raw=content_filter) F(content-filter)`,
		},
		{
			name: "a reason nobody knows", stream: frames(text, ended("moon"), done),
			want: `S+ T+text-0 T~"a" T- SF(unknown raw=moon) F(unknown)`,
		},
		{
			name:   "a gateway's and its vendor's reason",
			stream: frames(text, `{"choices":[{"delta":{},"finish_reason":"stop","native_finish_reason":"STOP_SEQUENCE"}]}`, done),
			want:   `S+ T+text-0 T~"a" T- SF(stop raw=STOP_SEQUENCE) F(stop)`,
		},
		{
			name: "network error", stream: frames(text, ended("network_error"), done),
			want: `S+ T+text-0 T~"a" E(provider-internal "the vendor ended the response early: network error")`,
		},
		{
			name: "error", stream: frames(text, ended("error"), done),
			want: `S+ T+text-0 T~"a" E(unknown "the vendor ended the response early with an unexplained error")`,
		},
	})
}

func TestErrors(t *testing.T) {
	checkAnswers(t, []answerCase{
		{
			name:   "a number as code is a status",
			stream: frames(`{"error":{"message":"rate limit","code":429}}`),
			want:   `E(rate-limit "rate limit")`,
		},
		{
			name:   "an error that is null",
			stream: frames(`{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "in the middle, beside a choice",
			stream: frames(`{"content":"a"}`, `{"error":{"code":502,"message":"upstream"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`),
			want:   `S+ T+text-0 T~"a" E(provider-internal "upstream")`,
		},
		{
			name:   "as an object that calls itself error",
			stream: frames(`{"object":"error","message":"This model's maximum context length is 4096 tokens","choices":null}`),
			want:   `E(context-overflow "This model's maximum context length is 4096 tokens")`,
		},
		{
			name:   "as text",
			stream: frames(`{"error":"model runner has stopped"}`),
			want:   `E(unknown "model runner has stopped")`,
		},
		{
			name:   "in a list",
			stream: frames(`[{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}]`),
			want:   `E(provider-internal "overloaded")`,
		},
		{
			name:   "with a delay",
			stream: frames(`{"error":{"code":"rate_limit_exceeded","message":"try again in 1.5s"}}`),
			want:   `E(rate-limit "try again in 1.5s" after=1.5s)`,
		},
		{
			name:   "a chunk that is no JSON",
			stream: frames(`{"choices":[`),
			want:   `E(invalid-output "a chunk is not what chat completions send: unexpected end of JSON input")`,
		},
	})
}

func TestUsage(t *testing.T) {
	usage := func(figures string) []byte {
		return frames(ended("stop"), `{"choices":[],"usage":{`+figures+`}}`, done)
	}
	checkAnswers(t, []answerCase{
		{
			name: "cache hits as DeepSeek tells them", stream: usage(`"prompt_tokens":10,"prompt_cache_hit_tokens":8,"completion_tokens":1`),
			want: `S+ SF(stop) F(stop in=10 read=8 out=1 total=11)`,
		},
		{
			name: "cache hits at the top", stream: usage(`"prompt_tokens":10,"cached_tokens":3,"completion_tokens":1,"total_tokens":12`),
			want: `S+ SF(stop) F(stop in=10 read=3 out=1 total=12)`,
		},
		{
			name: "details that are null", stream: usage(`"prompt_tokens":10,"prompt_tokens_details":null,"completion_tokens":null`),
			want: `S+ SF(stop) F(stop in=10 total=10)`,
		},
		{
			name: "reasoning", stream: usage(`"prompt_tokens":1,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":7}`),
			want: `S+ SF(stop) F(stop in=1 out=9 reasoning=7 total=10)`,
		},
		{
			name: "a figure of another kind is not known", stream: usage(`"prompt_tokens":"many","completion_tokens":2`),
			want: `S+ SF(stop) F(stop out=2 total=2)`,
		},
		{
			name: "in the choice",
			stream: frames(`{"content":"a"}`,
				`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"cached_tokens":1}}]}`, done),
			want: `S+ T+text-0 T~"a" T- SF(stop) F(stop in=3 read=1 out=4 total=7)`,
		},
		{
			name: "without choices at all", stream: frames(`{"content":"a"}`, ended("stop"), `{"choices":null,"usage":{"prompt_tokens":3,"completion_tokens":4}}`, done),
			want: `S+ T+text-0 T~"a" T- SF(stop) F(stop in=3 out=4 total=7)`,
		},
		{
			name: "in every chunk, the last one counts",
			stream: frames(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, ended("stop"),
				`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":0.25}}`, done),
			want: `S+ T+text-0 T~"a" T- SF(stop) F(stop in=3 out=2 total=5)`,
		},
	})
}

func TestWhatTheVendorChargedIsKept(t *testing.T) {
	events := protocoltest.Events(t, Protocol{}, asked(protocol.Compat{}), frames(ended("stop"), `{"choices":[],"usage":{"prompt_tokens":1,"cost":0.25}}`, done))
	u := events[len(events)-1].(llm.Finish).Usage
	if u.CostUSD == nil || *u.CostUSD != 0.25 {
		t.Errorf("cost = %v, want 0.25", u.CostUSD)
	}
	if got, want := string(u.Raw), `{"prompt_tokens":1,"cost":0.25}`; got != want {
		t.Errorf("raw usage %s, want %s", got, want)
	}
}
