package messages

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sse writes events as the vendor sends them: each is the JSON of one, which says its name.
func sse(events ...string) []byte {
	var b strings.Builder
	for _, e := range events {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(e), &head); err != nil {
			panic(err)
		}
		b.WriteString("event: " + head.Type + "\ndata: " + e + "\n\n")
	}
	return []byte(b.String())
}

// Events that most answers have.
const (
	begins    = `{"type":"message_start","message":{"usage":{"input_tokens":5}}}`
	stopsAt0  = `{"type":"content_block_stop","index":0}`
	stopsAt1  = `{"type":"content_block_stop","index":1}`
	textAt0   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	endsTurn  = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	endsCalls = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`
	ends      = `{"type":"message_stop"}`
)

func says(index, text string) string {
	return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"text_delta","text":"` + text + `"}}`
}

func inputs(index, partial string) string {
	quoted, _ := json.Marshal(partial)
	return `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"input_json_delta","partial_json":` + string(quoted) + `}}`
}

func calls(index, id, name string) string {
	return `{"type":"content_block_start","index":` + index + `,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}}`
}

func stopped(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"}}`
}

func request(change func(*protocol.Request)) *protocol.Request {
	r := &protocol.Request{
		Request: &llm.Request{
			Model: "claude-test", ParallelToolCalls: true, Cache: "none",
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}}},
		},
		Namespace: Namespace,
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestDecode(t *testing.T) {
	const finish = " SF(stop raw=end_turn) F(stop in=5 out=2 total=7)"
	tests := []struct {
		name   string
		stream []byte
		want   string
	}{
		{"thinking is signed at its end, and cached input counts as input", sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"think"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}`,
			stopsAt0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			says("1", "Hello"), stopsAt1, endsTurn, ends),
			`S+ R+reasoning-0 R~"think" R-@{"signature":"sig"} T+text-1 T~"Hello" T- SF(stop raw=end_turn) F(stop in=6 read=1 out=2 total=8)`},
		{"a call's input in pieces", sse(begins, calls("0", "t1", "lookup"), inputs("0", `{"query"`), inputs("0", `:"weather"}`), stopsAt0,
			endsCalls, ends),
			`S+ I+t1 lookup I~"{\"query\"" I~":\"weather\"}" I- C t1 lookup {"query":"weather"} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"a call without input", sse(begins, calls("0", "t1", "now"), inputs("0", ""), stopsAt0, endsCalls, ends),
			`S+ I+t1 now I- C t1 now {} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"a call whose input came with its start", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}}`, stopsAt0, endsCalls, ends),
			`S+ I+t1 f I~"{\"a\":1}" I- C t1 f {"a":1} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"deltas win over input that came with the start", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}}`,
			inputs("0", `{"a":2}`), stopsAt0, endsCalls, ends),
			`S+ I+t1 f I~"{\"a\":2}" I- C t1 f {"a":2} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"two calls, the first one published before the second begins", sse(begins, calls("0", "t1", "f"), inputs("0", `{"a":1}`), stopsAt0,
			calls("1", "t2", "g"), inputs("1", `{}`), stopsAt1, endsCalls, ends),
			`S+ I+t1 f I~"{\"a\":1}" I- C t1 f {"a":1} I+t2 g I~"{}" I- C t2 g {} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"two calls at once", sse(begins, calls("0", "t1", "f"), calls("1", "t2", "g"), inputs("1", `{"b":2}`), inputs("0", `{"a":1}`), stopsAt1, stopsAt0, endsCalls, ends),
			`S+ I+t1 f I+t2 g I~"{\"b\":2}" I~t1"{\"a\":1}" I- C t2 g {"b":2} I- C t1 f {"a":1} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"arguments that are no JSON are for the model to hear of", sse(begins, calls("0", "t1", "f"), inputs("0", `{"a":`), stopsAt0, endsCalls, ends),
			`S+ I+t1 f I~"{\"a\":" I!t1 "{\"a\":" SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"a call that the limit cut off is none", sse(begins, calls("0", "t1", "f"), inputs("0", `{"a":`), stopsAt0, stopped("max_tokens"), ends),
			`S+ I+t1 f I~"{\"a\":" SF(length raw=max_tokens) F(length in=5 total=5)`},
		{"nor is one that was cut off before its input", sse(begins, calls("0", "t1", "rm"), stopsAt0, stopped("max_tokens"), ends),
			`S+ I+t1 rm SF(length raw=max_tokens) F(length in=5 total=5)`},
		{"a whole call before the limit is one", sse(begins, calls("0", "t1", "f"), inputs("0", `{}`), stopsAt0,
			calls("1", "t2", "g"), inputs("1", `{"b`), stopsAt1, stopped("max_tokens"), ends),
			`S+ I+t1 f I~"{}" I- C t1 f {} I+t2 g I~"{\"b" SF(length raw=max_tokens) F(length in=5 total=5)`},
		{"an empty call that another one follows was not cut off", sse(begins, calls("0", "t1", "now"), stopsAt0, calls("1", "t2", "g"), inputs("1", `{"b`), stopsAt1,
			stopped("max_tokens"), ends),
			`S+ I+t1 now I- C t1 now {} I+t2 g I~"{\"b" SF(length raw=max_tokens) F(length in=5 total=5)`},
		{"unknown figures stay unknown until they are told", sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":null}}}`, textAt0, says("0", "x"), stopsAt0,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"output_tokens":8,"output_tokens_details":{"thinking_tokens":3}}}`, ends),
			`S+ T+text-0 T~"x" T- SF(stop raw=end_turn) F(stop in=7 out=8 reasoning=3 total=15)`},
		{"null takes back nothing", sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_creation_input_tokens":3}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"cache_creation_input_tokens":null,"output_tokens":1}}`, ends),
			`S+ SF(stop raw=end_turn) F(stop in=10 write=3 out=1 total=11)`},
		{"what was written to the cache for 5 minutes and for an hour", sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":300}}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`, ends),
			`S+ SF(stop raw=end_turn) F(stop in=321 write=320 out=1 total=322)`},
		{"figures that are none", sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":-4,"output_tokens":"many","cache_creation":7}}}`,
			stopped("end_turn"), ends),
			`S+ SF(stop raw=end_turn) F(stop in=5 total=5)`},
		{"no usage at all", sse(`{"type":"message_start","message":{"usage":null}}`, stopped("end_turn"), ends), `S+ SF(stop raw=end_turn) F(stop)`},
		{"an answer without its end", sse(begins, textAt0, says("0", "x"), stopsAt0, endsTurn),
			`S+ T+text-0 T~"x" T- E(incomplete-stream "the stream ended before the answer was complete")`},
		{"nothing at all", nil, `E(incomplete-stream "the stream ended before the answer was complete")`},
		{"names of others are dropped unread", append([]byte("event: proxy.stats\ndata: not JSON\n\n"), sse(begins, textAt0, says("0", "x"), stopsAt0, endsTurn, ends)...),
			`S+ T+text-0 T~"x" T-` + finish},
		{"an end mark for data", []byte("event: message_start\ndata: [DONE]\n\n"),
			`E(invalid-output "the event message_start has an end mark for its data")`},
		{"an end mark by itself", append(sse(begins, textAt0, says("0", "x"), stopsAt0, endsTurn), "data: [DONE]\n\n"...),
			`S+ T+text-0 T~"x" T- E(incomplete-stream "the stream ended before the answer was complete")`},
		{"broken JSON of a known event", []byte("event: content_block_stop\ndata: {\"index\":\n\n"),
			`E(invalid-output "content_block_stop is not what the format says: unexpected end of JSON input")`},
		{"a field of the wrong type", sse(begins, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":5}}`),
			`S+ E(invalid-output "content_block_delta is not what the format says: json: cannot unmarshal number into Go struct field .delta.text of type string")`},
		{"redacted thinking", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"D"}}`, stopsAt0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}`, stopsAt1, endsTurn, ends),
			`S+ R+reasoning-0 R-@{"redactedData":"D"} T+text-1 T~"Hi" T-` + finish},
		{"a signature replaces the one before", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a","signature":"s0"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s1"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s2"}}`,
			stopsAt0, endsTurn, ends),
			`S+ R+reasoning-0 R~"a" R-@{"signature":"s2"}` + finish},
		{"overloaded after a good status", append(sse(begins), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"...),
			`S+ E(overloaded "overloaded_error: Overloaded")`},
		{"a refusal by policy", sse(begins, textAt0, says("0", "x"), stopsAt0,
			`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber"}}}`, ends),
			`S+ T+text-0 T~"x" T- SF(content-filter raw=refusal) F(content-filter in=5 total=5)@{"stopDetails":{"type":"refusal","category":"cyber"}}`},
		{"a pause", sse(begins, textAt0, says("0", "x"), stopsAt0, stopped("pause_turn"), ends),
			`S+ T+text-0 T~"x" T- SF(stop raw=pause_turn again) F(stop in=5 total=5)@{"stopReason":"pause_turn"}`},
		{"the window is full", sse(begins, textAt0, says("0", "x"), stopsAt0, stopped("model_context_window_exceeded"), ends),
			`S+ T+text-0 T~"x" T- SF(length raw=model_context_window_exceeded) F(length in=5 total=5)`},
		{"a stop sequence", sse(begins, textAt0, says("0", "x"), stopsAt0,
			`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END"}}`, ends),
			`S+ T+text-0 T~"x" T- SF(stop raw=stop_sequence) F(stop in=5 total=5)@{"stopSequence":"END"}`},
		{"a reason that nobody knows", sse(begins, textAt0, says("0", "x"), stopsAt0, stopped("tired"), ends),
			`S+ T+text-0 T~"x" T- SF(unknown raw=tired) F(unknown in=5 total=5)`},
		{"no reason", sse(begins, textAt0, says("0", "x"), stopsAt0, ends), `S+ T+text-0 T~"x" T- SF(unknown) F(unknown in=5 total=5)`},
		{"calls decide where the reason doesn't", sse(begins, calls("0", "t1", "f"), inputs("0", `{}`), stopsAt0, endsTurn, ends),
			`S+ I+t1 f I~"{}" I- C t1 f {} SF(tool-calls raw=end_turn) F(tool-calls in=5 out=2 total=7)`},
		{"input for a block that is not open", sse(begins, inputs("4", `{"a":1}`), textAt0, inputs("0", `{}`), says("0", "x"), stopsAt0, endsTurn, ends),
			`S+ T+text-0 T~"x" T-` + finish},
		{"the end of a block that is not open", sse(begins, stopsAt1, endsTurn, ends), `S+` + finish},
		{"pings say nothing", sse(begins, `{"type":"ping"}`, textAt0, says("0", "a"), `{"type":"ping"}`, says("0", "b"), stopsAt0, endsTurn, ends),
			`S+ T+text-0 T~"a" T~"b" T-` + finish},
		{"a block that starts twice", sse(begins, textAt0, textAt0), `S+ T+text-0 E(invalid-output "the block 0 started twice")`},
		{"an index that is used again", sse(begins, textAt0, says("0", "a"), stopsAt0, textAt0, says("0", "b"), stopsAt0, endsTurn, ends),
			`S+ T+text-0 T~"a" T- T+text-0#2 T~"b" T-` + finish},
		{"text without a start", sse(begins, says("0", "a"), says("0", "b"), stopsAt0, endsTurn, ends), `S+ T+text-0 T~"a" T~"b" T-` + finish},
		{"text in a block of thinking", sse(begins, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, says("0", "a")),
			`S+ R+reasoning-0 E(invalid-output "a text_delta came for the block 0, which is of another kind")`},
		{"blocks that nobody ended", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"sig"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"a"}}`,
			calls("2", "t1", "f"), inputs("2", `{}`), endsCalls, ends),
			`S+ R+reasoning-0 R~"t" T+text-1 T~"a" I+t1 f I~"{}" R-@{"signature":"sig"} T- I- C t1 f {} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"blocks of kinds to come", sse(begins, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram","x":1}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","x":1}}`, stopsAt0, endsTurn, ends), `S+` + finish},
		{"a call's id that is used again", sse(begins, calls("0", "t1", "f"), inputs("0", `{}`), stopsAt0, calls("1", "t1", "f"), inputs("1", `{}`), stopsAt1, endsCalls, ends),
			`S+ I+t1 f I~"{}" I- C t1 f {} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"a call without an id", sse(begins, calls("0", "", "f"), inputs("0", `{}`), stopsAt0, endsCalls, ends),
			`S+ I+call_1 f I~"{}" I- C call_1 f {} SF(tool-calls raw=tool_use) F(tool-calls in=5 out=2 total=7)`},
		{"a call without a name", sse(begins, calls("0", "t1", "")), `S+ E(invalid-output "a tool_use has no name")`},
		{"who answers", sse(`{"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[],"usage":{"input_tokens":5}}}`, endsTurn, ends),
			`S+(model=claude-x id=msg_1)` + finish},
		{"a start that is told twice", sse(`{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":4}}}`, begins, textAt0, says("0", "x"), stopsAt0, endsTurn, ends),
			`S+(id=msg_1) T+text-0 T~"x" T-` + finish},
		{"blocks of a start that is told twice", sse(
			`{"type":"message_start","message":{"content":[{"type":"text","text":"a"}],"usage":{"input_tokens":5}}}`,
			`{"type":"message_start","message":{"content":[{"type":"text","text":"a"}],"usage":{"input_tokens":5}}}`, endsTurn, ends),
			`S+ T+text-0 T~"a" T-` + finish},
		{"a hosted result before the end of its call", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}}`),
			`S+ I+s1 web_search(hosted) E(invalid-output "a web_search_tool_result came before the end of its call")`},
		{"a hosted result of no call", sse(begins, `{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","content":[]}}`),
			`S+ E(invalid-output "a web_search_tool_result does not say of which call")`},
		{"a hosted call whose input is no JSON", sse(begins,
			`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}`,
			inputs("0", `{"q`), stopsAt0, endsTurn),
			`S+ I+s1 web_search(hosted) I~"{\"q" E(invalid-output "the input of the hosted tool call web_search is not valid JSON")`},
		{"a start that brings blocks along", sse(
			`{"type":"message_start","message":{"content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":5}}}`, ends),
			`S+ I+t1 f I~"{\"a\":1}" I- C t1 f {"a":1} SF(tool-calls raw=tool_use) F(tool-calls in=5 total=5)`},
		{"events without names", []byte(strings.ReplaceAll(string(sse(begins, textAt0, says("0", "x"), `{"type":"ping"}`, stopsAt0, endsTurn, ends)), "event: ", "x-event: ")),
			`S+ T+text-0 T~"x" T-` + finish},
		{"a proxy's error without a name", append(sse(begins), "data: {\"error\":{\"message\":\"Too many requests\",\"code\":429}}\n\n"...),
			`S+ E(rate-limit "Too many requests")`},
		{"no JSON and no name", append(sse(begins), "data: <html>\n\n"...),
			`S+ E(invalid-output "a frame without a name is not what the format says: invalid character '<' looking for beginning of value")`},
		{"what follows the end is not read", append(sse(begins, endsTurn, ends), "event: message_start\ndata: broken\n\n"...), `S+` + finish},
		{"citations belong to their text", sse(begins, textAt0, says("0", "x"),
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a.example","encrypted_index":"E1"}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location","document_index":0}}}`,
			stopsAt0, endsTurn, ends),
			`S+ T+text-0 T~"x" T-@{"citations":[{"type":"web_search_result_location","url":"https://a.example","encrypted_index":"E1"},{"type":"char_location","document_index":0}]}` + finish},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := protocoltest.Splits(t, Protocol{}, request(nil), tt.stream); got != tt.want {
				t.Errorf("events\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestRawUsage checks that how long tokens are cached, which the canonical figures don't tell, is not lost.
func TestRawUsage(t *testing.T) {
	events := protocoltest.Events(t, Protocol{}, request(nil), sse(
		`{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"service_tier":"standard"}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4,"service_tier":null}}`, ends))
	end := events[len(events)-1].(llm.Finish)
	want := `{"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"input_tokens":1,"output_tokens":4,"service_tier":"standard"}`
	if got := string(end.Usage.Raw); got != want {
		t.Errorf("raw usage %s, want %s", got, want)
	}
}

func TestNamesOfToolsComeBack(t *testing.T) {
	r := request(func(r *protocol.Request) { r.Tools = []llm.Tool{{Namespace: "files", Name: "read"}} })
	got := protocoltest.Run(t, Protocol{}, r, sse(begins, calls("0", "t1", "files__read"), inputs("0", `{}`), stopsAt0, endsCalls, ends))
	if !strings.Contains(got, "C t1 files.read {}") {
		t.Errorf("events %s", got)
	}
}

func TestSignaturesNameTheirFamily(t *testing.T) {
	r := request(func(r *protocol.Request) { r.Model = protocol.Model{ID: "claude-opus-9", Family: "claude-opus"} })
	got := protocoltest.Run(t, Protocol{}, r, sse(begins,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"sig"}}`, stopsAt0, endsTurn, ends))
	if want := `R-@{"model":"claude-opus","signature":"sig"}`; !strings.Contains(got, want) {
		t.Errorf("events %s, want %s", got, want)
	}
}

// TestEndIsOptional is for those who copy the format without its end.
func TestEndIsOptional(t *testing.T) {
	r := request(func(r *protocol.Request) { r.Model.Compat.OptionalFinishReason = true })
	got := protocoltest.Splits(t, Protocol{}, r, sse(begins, textAt0, says("0", "x")))
	if want := `S+ T+text-0 T~"x" T- SF(unknown) F(unknown in=5 total=5)`; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	if got := protocoltest.Splits(t, Protocol{}, r, nil); !strings.HasPrefix(got, "E(incomplete-stream") {
		t.Errorf("an answer of nothing gives %s", got)
	}
}

// TestFailures reads the vendor's error objects as they come with a status, and inside a stream.
func TestFailures(t *testing.T) {
	tests := []struct {
		status    int
		kind      string
		message   string
		code      llm.ErrorCode
		retryable bool
	}{
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", llm.ErrContextOverflow, false},
		{400, "invalid_request_error", "max_tokens: Field required", llm.ErrInvalidRequest, false},
		{400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block", llm.ErrInvalidRequest, false},
		{401, "authentication_error", "invalid x-api-key", llm.ErrAuthentication, false},
		{402, "billing_error", "Your credit balance is too low", llm.ErrQuotaExceeded, false},
		{403, "permission_error", "not allowed", llm.ErrAuthentication, false},
		{404, "not_found_error", "model: claude-nope", llm.ErrInvalidRequest, false},
		{413, "request_too_large", "Request exceeds the maximum size", llm.ErrPayloadTooLarge, false},
		{429, "rate_limit_error", "This request would exceed your organization's rate limit", llm.ErrRateLimit, true},
		{500, "api_error", "Internal server error", llm.ErrProviderInternal, true},
		{504, "timeout_error", "The request timed out", llm.ErrProviderInternal, true},
		{529, "overloaded_error", "Overloaded", llm.ErrOverloaded, true},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			quoted, _ := json.Marshal(tt.message)
			body := `{"type":"error","error":{"type":"` + tt.kind + `","message":` + string(quoted) + `},"request_id":"req_1"}`
			f, ok := protocol.ParseFailure([]byte(body))
			if f.Status = tt.status; !ok {
				t.Fatalf("%s is no failure", body)
			}
			if e := protocol.Classify(f); e.Code != tt.code || e.Retryable != tt.retryable || e.Message != tt.message {
				t.Errorf("with its status: %v %q retryable %v, want %v", e.Code, e.Message, e.Retryable, tt.code)
			}
			e := fault([]byte(body))
			if e.Code != tt.code || e.Retryable != tt.retryable || e.Message != tt.kind+": "+tt.message || e.RequestID != "req_1" || e.Status != 0 {
				t.Errorf("in a stream: %+v, want %v", e, tt.code)
			}
		})
	}
	if e := fault([]byte("no JSON")); e.Code != llm.ErrUnknown || e.Message == "" {
		t.Errorf("an error that is no JSON: %+v", e)
	}
}

func FuzzDecode(f *testing.F) {
	recorded, err := os.ReadFile("testdata/hosted.sse")
	if err != nil {
		f.Fatal(err)
	}
	r := request(func(r *protocol.Request) { r.Tools = []llm.Tool{{Namespace: "n", Name: "f"}} })
	protocoltest.Fuzz(f, Protocol{}, r, recorded,
		sse(begins, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"sig"}}`, stopsAt0,
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"D"}}`, stopsAt1,
			calls("2", "t1", "n__f"), inputs("2", `{"a"`), calls("3", "t2", "g"), inputs("2", `:1}`), stopped("max_tokens"), ends),
		sse(begins, textAt0, says("0", "x"), stopsAt0, stopped("pause_turn"), ends),
		[]byte("event: error\ndata: {\"error\":{\"type\":\"api_error\"}}\n\n"),
		sse(`{"type":"message_start","message":{"content":[{"type":"mcp_tool_use","id":"m","name":"f","input":{"a":1}},{"type":"mcp_tool_result","tool_use_id":"m","content":"r"}]}}`, ends),
	)
}

func BenchmarkTextDeltas(b *testing.B) {
	d := Protocol{}.Decode(request(nil))
	events, err := d.Step(nil, protocol.Frame{Event: "content_block_start", Data: []byte(textAt0)})
	if err != nil {
		b.Fatal(err)
	}
	delta := protocol.Frame{Event: "content_block_delta", Data: []byte(says("0", " and the next few words"))}
	b.ReportAllocs()
	b.SetBytes(int64(len(delta.Data)))
	for b.Loop() {
		if events, err = d.Step(events[:0], delta); err != nil || len(events) != 1 {
			b.Fatal(events, err)
		}
	}
}
