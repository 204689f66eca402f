package gemini_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/gemini"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// stream writes chunks as Google sends them.
func stream(chunks ...string) []byte {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\r\n\r\n")
	}
	return []byte(b.String())
}

// says is a chunk with these parts.
func says(parts string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]},"index":0}]}`
}

// ends is a chunk that ends the answer.
func ends(reason string) string {
	return `{"candidates":[{"finishReason":"` + reason + `","index":0}]}`
}

func request() *protocol.Request {
	return &protocol.Request{
		Request: &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}}}},
		Model:   protocol.Model{ID: "gemini-3-pro-preview", Family: "g3"}, Namespace: "google",
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		stream []byte
		want   string
	}{
		{
			"a thought, a text and the usage",
			stream(
				says(`{"text":"t","thought":true}`), says(`{"text":"Hi"}`),
				`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2,"thoughtsTokenCount":1,"cachedContentTokenCount":1,"totalTokenCount":7}}`,
			),
			`S+ R+reasoning-0 R~"t" R- T+text-0 T~"Hi" T- SF(stop raw=STOP) F(stop in=5 read=1 out=3 reasoning=1 total=7)`,
		},
		{
			"all in one chunk, with the model that serves it",
			stream(`{"candidates":[{"content":{"parts":[{"text":"t","thought":true},{"text":"Hi"}]},"finishReason":"STOP"}],"modelVersion":"gemini-3-pro-001","responseId":"r1"}`),
			`S+(model=gemini-3-pro-001 id=r1) R+reasoning-0 R~"t" R- T+text-0 T~"Hi" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"garbage behind the end",
			stream(says(`{"text":"Hi"}`), ends("STOP"), `{"usageMetadata":`, "what?"),
			`S+ T+text-0 T~"Hi" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"a signed call without an id",
			stream(says(`{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"s"}`), ends("STOP")),
			`S+ C call_1 f {"a":1}@{"model":"g3","thoughtSignature":"s"} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"a call with an id, and one without arguments",
			stream(says(`{"functionCall":{"id":"v1","name":"f","args":{"a":1}}},{"functionCall":{"id":"v2","name":"g"}}`), ends("STOP")),
			`S+ C v1 f {"a":1}@{"functionCallId":"v1"} C v2 g {}@{"functionCallId":"v2"} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"arguments that are null",
			stream(says(`{"functionCall":{"id":"v1","name":"f","args":null}}`), ends("STOP")),
			`S+ C v1 f {}@{"functionCallId":"v1"} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"two calls with the same id",
			stream(says(`{"functionCall":{"id":"v1","name":"f"}}`), says(`{"functionCall":{"id":"v1","name":"f"}}`), ends("STOP")),
			`S+ C v1 f {}@{"functionCallId":"v1"} C call_1 f {}@{"functionCallId":"v1"} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"a prompt that is refused",
			stream(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5,"totalTokenCount":5}}`),
			`S+ SF(content-filter raw=SAFETY) F(content-filter in=5 total=5)@{"promptFeedback":{"blockReason":"SAFETY"}}`,
		},
		{
			"feedback on a prompt that is not refused",
			stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"promptFeedback":{"safetyRatings":[]}}`),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"a call that the model got wrong",
			stream(`{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: print(f("}]}`),
			`S+ SF(error raw=MALFORMED_FUNCTION_CALL) F(error)@{"finishMessage":"Malformed function call: print(f("}`,
		},
		{
			"text on both sides of a call",
			stream(says(`{"text":"a"}`), says(`{"functionCall":{"name":"f"}}`), says(`{"text":"b"}`), ends("STOP")),
			`S+ T+text-0 T~"a" T- C call_1 f {} T+text-1 T~"b" T- SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"thoughts on both sides of a text",
			stream(says(`{"text":"t","thought":true},{"text":"a"},{"text":"u","thought":true}`), ends("STOP")),
			`S+ R+reasoning-0 R~"t" R- T+text-0 T~"a" T- R+reasoning-1 R~"u" R- SF(stop raw=STOP) F(stop)`,
		},
		{
			"pieces of one text",
			stream(says(`{"text":"He"}`), says(`{"text":"l"},{"text":"lo é"}`), ends("STOP")),
			`S+ T+text-0 T~"He" T~"l" T~"lo é" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"bytes that end behind a call",
			stream(says(`{"functionCall":{"name":"f"}}`)),
			`S+ C call_1 f {} SF(tool-calls) F(tool-calls)`,
		},
		{
			"bytes that end inside a text",
			stream(says(`{"text":"a"}`), `{"usageMetadata":{"promptTokenCount":5}}`),
			`S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			"no bytes", nil,
			`E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			"a signature that comes after its text",
			stream(says(`{"text":"a"}`), says(`{"text":"","thoughtSignature":"s"}`), ends("STOP")),
			`S+ T+text-0 T~"a" T-@{"model":"g3","thoughtSignature":"s"} SF(stop raw=STOP) F(stop)`,
		},
		{
			"a signature after the finish reason",
			stream(says(`{"text":"a"}`), ends("STOP"), says(`{"text":"","thoughtSignature":"s"}`)),
			`S+ T+text-0 T~"a" T-@{"model":"g3","thoughtSignature":"s"} SF(stop raw=STOP) F(stop)`,
		},
		{
			"a signed thought",
			stream(says(`{"text":"t","thought":true}`), says(`{"text":"u","thought":true,"thoughtSignature":"s"}`), says(`{"text":"a"}`), ends("STOP")),
			`S+ R+reasoning-0 R~"t" R~"u" R-@{"model":"g3","thoughtSignature":"s"} T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"a signature without a text of its own",
			stream(says(`{"text":"t","thought":true}`), says(`{"text":"","thoughtSignature":"s"}`), ends("STOP")),
			`S+ R+reasoning-0 R~"t" R- T+text-0 T-@{"model":"g3","thoughtSignature":"s"} SF(stop raw=STOP) F(stop)`,
		},
		{
			"text behind a signature is another part",
			stream(says(`{"text":"a","thoughtSignature":"s"},{"text":"b"},{"text":"c","thoughtSignature":"u"}`), ends("STOP")),
			`S+ T+text-0 T~"a" T-@{"model":"g3","thoughtSignature":"s"} T+text-1 T~"b" T~"c" T-@{"model":"g3","thoughtSignature":"u"} SF(stop raw=STOP) F(stop)`,
		},
		{
			"parallel calls, the first signed, then a signature for nothing",
			stream(says(`{"functionCall":{"name":"f"},"thoughtSignature":"s"},{"functionCall":{"name":"g"}}`), says(`{"text":""}`), ends("STOP")),
			`S+ C call_1 f {}@{"model":"g3","thoughtSignature":"s"} C call_2 g {} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"parts of unknown kinds",
			stream(says(`{"inlineData":{"mimeType":"image/png","data":"AA=="}},{"text":"a"},{"novelty":{}}`), ends("STOP")),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"chunks that say nothing",
			stream(`{}`, `{"candidates":null}`, `{"candidates":[]}`, `{"candidates":[{"content":{"parts":null}}]}`, `{"error":null}`, `{"error":{}}`, says(`{"text":"a"}`), ends("STOP")),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"only the first candidate counts",
			stream(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"b"}]},"finishReason":"SAFETY"}]}`),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"a shorter chunk after a longer one",
			stream(says(`{"text":"a","thoughtSignature":"s"},{"functionCall":{"name":"f","args":{"x":1}},"thoughtSignature":"u"}`), says(`{"text":"b"},{"text":"c"}`), ends("STOP")),
			`S+ T+text-0 T~"a" T-@{"model":"g3","thoughtSignature":"s"} C call_1 f {"x":1}@{"model":"g3","thoughtSignature":"u"} T+text-1 T~"b" T~"c" T- SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"grounding goes with the end",
			stream(says(`{"text":"a"}`), `{"candidates":[{"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"]},"citationMetadata":{"c":1},"urlContextMetadata":{"u":1}}]}`),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)@{"citationMetadata":{"c":1},"groundingMetadata":{"webSearchQueries":["q"]},"urlContextMetadata":{"u":1}}`,
		},
		{
			"code that Google ran",
			stream(says(`{"executableCode":{"language":"PYTHON","code":"print(1)"},"thoughtSignature":"s"},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}},{"text":"one"}`), ends("STOP")),
			`S+ C call_1 code_execution(hosted) {"language":"PYTHON","code":"print(1)"}@{"model":"g3","part":{"executableCode":{"language":"PYTHON","code":"print(1)"}},"thoughtSignature":"s"}` +
				` X call_1 code_execution(hosted) "1\n"@{"part":{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1\n"}}}` +
				` T+text-0 T~"one" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"code that failed",
			stream(says(`{"executableCode":{"id":"x1","code":"1/0"}},{"codeExecutionResult":{"id":"x1","outcome":"OUTCOME_FAILED","output":"division by zero"}}`), ends("STOP")),
			`S+ C x1 code_execution(hosted) {"id":"x1","code":"1/0"}@{"part":{"executableCode":{"id":"x1","code":"1/0"}}}` +
				` X! x1 code_execution(hosted) "division by zero"@{"part":{"codeExecutionResult":{"id":"x1","outcome":"OUTCOME_FAILED","output":"division by zero"}}}` +
				` SF(stop raw=STOP) F(stop)`,
		},
		{
			"a search that Google shows, beside a call of ours",
			stream(says(`{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["q"]},"id":"g1"},"thoughtSignature":"s"},{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","response":{"r":1},"id":"g1"}},{"functionCall":{"id":"v1","name":"f"},"thoughtSignature":"u"}`), ends("STOP")),
			`S+ C g1 google_search_web(hosted) {"queries":["q"]}@{"model":"g3","part":{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["q"]},"id":"g1"}},"thoughtSignature":"s"}` +
				` X g1 google_search_web(hosted) "{\"r\":1}"@{"part":{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","response":{"r":1},"id":"g1"}}}` +
				` C v1 f {}@{"functionCallId":"v1","model":"g3","thoughtSignature":"u"} SF(tool-calls raw=STOP) F(tool-calls)`,
		},
		{
			"the result of a hosted call that was not made",
			stream(says(`{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`), ends("STOP")),
			`S+ SF(stop raw=STOP) F(stop)`,
		},
		{
			"an end mark, as proxies send it",
			append(stream(says(`{"text":"a"}`), ends("STOP")), "data: [DONE]\n\n"...),
			`S+ T+text-0 T~"a" T- SF(stop raw=STOP) F(stop)`,
		},
		{
			"an end mark inside an answer",
			append(stream(says(`{"text":"a"}`)), "data: [DONE]\n\n"...),
			`S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`,
		},
		{
			"thoughts alone are output",
			stream(`{"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":5,"thoughtsTokenCount":9,"totalTokenCount":14}}`),
			`S+ SF(length raw=MAX_TOKENS) F(length in=5 out=9 reasoning=9 total=14)`,
		},
		{
			"what is not counted is unknown",
			stream(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5}}`),
			`S+ SF(stop raw=STOP) F(stop in=5 total=5)`,
		},
		{
			"the last usage counts",
			stream(`{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":6}}`, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"totalTokenCount":8}}`, `{"usageMetadata":null}`),
			`S+ SF(stop raw=STOP) F(stop in=5 out=3 total=8)`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, gemini.Protocol{}, request(), tt.stream); got != tt.want {
				t.Errorf("events:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name   string
		stream []byte
		want   string
	}{
		{
			"a quota of a minute, which says when to come back",
			stream(`{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`),
			`E(rate-limit "You exceeded your current quota, please check your plan and billing details." after=34.5s)`,
		},
		{
			"a quota that is used up",
			stream(`{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"}}`),
			`E(quota-exceeded "You exceeded your current quota, please check your plan and billing details.")`,
		},
		{
			"overload in mid-answer",
			stream(says(`{"text":"a"}`), `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`),
			`S+ T+text-0 T~"a" E(provider-internal "The model is overloaded.")`,
		},
		{
			"too long a prompt",
			stream(`{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`),
			`E(context-overflow "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")`,
		},
		{
			"a wrong key",
			stream(`{"error":{"code":403,"message":"Permission denied.","status":"PERMISSION_DENIED"}}`),
			`E(authentication "Permission denied.")`,
		},
		{
			"an error in a list",
			stream(`[{"error":{"code":500,"message":"Internal error.","status":"INTERNAL"}}]`),
			`E(provider-internal "Internal error.")`,
		},
		{
			"no JSON",
			stream(`{"candidates":` + "\r\ndata: oops"),
			`E(invalid-output "a chunk of the answer can't be read: invalid character 'o' looking for beginning of value")`,
		},
		{
			"text that is none",
			stream(says(`{"text":1}`)),
			`E(invalid-output "a chunk of the answer can't be read: json: cannot unmarshal number into Go struct field answerPart.candidates.content.parts.text of type string")`,
		},
		{
			"a call without a name",
			stream(says(`{"functionCall":{"args":{}}}`)),
			`E(invalid-output "a call of the answer has no name")`,
		},
		{
			"usage that is none",
			stream(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":"x"}}`),
			`E(invalid-output "the usage of the answer can't be read: json: cannot unmarshal string into Go struct field .promptTokenCount of type int64")`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, gemini.Protocol{}, request(), tt.stream); got != tt.want {
				t.Errorf("events:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// The rate limit is one that the turn loop may wait for.
func TestRateLimitIsRetryable(t *testing.T) {
	events := protocoltest.Events(t, gemini.Protocol{}, request(), stream(
		`{"error":{"code":429,"message":"You exceeded your current quota.","details":[{"retryDelay":"2s"}]}}`))
	e, ok := events[0].(*llm.Error)
	if !ok || !e.Retryable || e.Next != "" {
		t.Errorf("error = %#v, want a retryable one without advice to pay", events[0])
	}
}

func TestFinishReasons(t *testing.T) {
	reasons := map[string]string{
		"STOP": "stop", "MAX_TOKENS": "length",
		"SAFETY": "content-filter", "RECITATION": "content-filter", "BLOCKLIST": "content-filter", "PROHIBITED_CONTENT": "content-filter",
		"SPII": "content-filter", "MODEL_ARMOR": "content-filter", "IMAGE_SAFETY": "content-filter",
		"IMAGE_PROHIBITED_CONTENT": "content-filter", "IMAGE_RECITATION": "content-filter", "LANGUAGE": "content-filter",
		"MALFORMED_FUNCTION_CALL": "error", "UNEXPECTED_TOOL_CALL": "error", "TOO_MANY_TOOL_CALLS": "error",
		"MISSING_THOUGHT_SIGNATURE": "error", "MALFORMED_RESPONSE": "error", "NO_IMAGE": "error",
		"OTHER": "unknown", "FINISH_REASON_UNSPECIFIED": "unknown", "NOVELTY": "unknown",
	}
	for raw, want := range reasons {
		got := protocoltest.Run(t, gemini.Protocol{}, request(), stream(ends(raw)))
		if want = "S+ SF(" + want + " raw=" + raw + ") F(" + want + ")"; got != want {
			t.Errorf("%s: events %s, want %s", raw, got, want)
		}
	}
}

// Routes that never say why an answer ended are accepted where their row says so.
func TestNoFinishReason(t *testing.T) {
	r := request()
	r.Model.Compat.OptionalFinishReason = true
	for _, tt := range []struct{ name, parts, want string }{
		{"text", `{"text":"a"}`, `S+ T+text-0 T~"a" T- SF(unknown) F(unknown)`},
		{"a call", `{"functionCall":{"name":"f"}}`, `S+ C call_1 f {} SF(tool-calls) F(tool-calls)`},
		{"nothing", ``, `E(incomplete-stream "the stream ended before the answer was complete")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, gemini.Protocol{}, r, stream(says(tt.parts))); got != tt.want {
				t.Errorf("events %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNamesAndIDs(t *testing.T) {
	r := request()
	r.Tools = []llm.Tool{{Name: "read", Namespace: "files"}}
	r.NewID = func() string { return "tool_7" }
	got := protocoltest.Splits(t, gemini.Protocol{}, r, stream(says(`{"functionCall":{"name":"files__read"}}`), ends("STOP")))
	if want := `S+ C tool_7 files.read {} SF(tool-calls raw=STOP) F(tool-calls)`; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// What comes from here is kept under the route's own key.
func TestNamespace(t *testing.T) {
	r := request()
	r.Namespace = "my-vertex"
	for _, e := range protocoltest.Events(t, gemini.Protocol{}, r, stream(says(`{"functionCall":{"name":"f"},"thoughtSignature":"s"}`), ends("STOP"))) {
		if c, ok := e.(llm.ToolCallDone); ok {
			if got := string(c.Call.Metadata["my-vertex"]); got != `{"model":"g3","thoughtSignature":"s"}` {
				t.Errorf("metadata = %v", c.Call.Metadata)
			}
			return
		}
	}
	t.Error("there is no call")
}

func FuzzDecode(f *testing.F) {
	r := request()
	r.Tools = []llm.Tool{{Name: "f"}}
	protocoltest.Fuzz(f, gemini.Protocol{}, r,
		stream(says(`{"text":"t","thought":true,"thoughtSignature":"s"},{"text":"Hi"}`), says(`{"text":"","thoughtSignature":"u"}`), ends("STOP")),
		stream(says(`{"functionCall":{"id":"v1","name":"f","args":{"a":1}},"thoughtSignature":"s"},{"functionCall":{"id":"v1","name":"f"}}`), ends("STOP")),
		stream(says(`{"executableCode":{"code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}`), says(`{"toolCall":{"toolType":"X","id":"a"}},{"toolResponse":{"id":"a","response":{}}}`), ends("MAX_TOKENS")),
		stream(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5}}`),
		stream(`{"error":{"code":429,"message":"no","details":[{"retryDelay":"2s"}]}}`),
	)
}
