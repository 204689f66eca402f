package converse_test

import (
	"bytes"
	"testing"

	aws "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/gantry-agent/gantry/providers/framing/eventstream"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/converse"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// format is the protocol as it is used.
var format = eventstream.Over(converse.Protocol{})

// stream is the events NAME, PAYLOAD, ... in binary frames. A name that begins with "!" is an exception.
func stream(pairs ...string) []byte {
	var b bytes.Buffer
	for i := 0; i < len(pairs); i += 2 {
		name, kind, header := pairs[i], "event", ":event-type"
		if name[0] == '!' {
			name, kind, header = name[1:], "exception", ":exception-type"
		}
		m := aws.Message{Payload: []byte(pairs[i+1])}
		m.Headers.Set(header, aws.StringValue(name))
		m.Headers.Set(":content-type", aws.StringValue("application/json"))
		m.Headers.Set(":message-type", aws.StringValue(kind))
		if err := aws.NewEncoder().Encode(&b, m); err != nil {
			panic(err) // literals of this test
		}
	}
	return b.Bytes()
}

func request(messages ...llm.Message) *protocol.Request {
	return &protocol.Request{
		Request: &llm.Request{Messages: messages}, Namespace: "bedrock",
		Model: protocol.Model{ID: "us.anthropic.claude-haiku-4-5-20251001-v1:0", Input: []string{"image", "pdf"}},
	}
}

const (
	begins  = `{"role":"assistant","p":"abcdefgh"}`
	counts  = `{"usage":{"inputTokens":7,"outputTokens":5,"totalTokens":32,"cacheReadInputTokens":20,"cacheWriteInputTokens":0},"metrics":{"latencyMs":12}}`
	counted = ` in=27 read=20 write=0 out=5 total=32)`
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	const model = `"model":"us.anthropic.claude-haiku-4-5-20251001-v1:0"`
	for _, tt := range []struct {
		name   string
		stream []byte
		want   string
	}{
		{
			"a text with its usage behind the end",
			stream("messageStart", begins, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hel"},"p":"a"}`,
				"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"lo é"}}`, "contentBlockStop", `{"contentBlockIndex":0}`,
				"messageStop", `{"stopReason":"end_turn"}`, "metadata", counts),
			`S+ T+text-0 T~"Hel" T~"lo é" T- SF(stop raw=end_turn) F(stop` + counted,
		},
		{
			"thoughts, their signature, and calls side by side",
			stream("messageStart", begins, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`,
				"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}`, "contentBlockStop", `{"contentBlockIndex":0}`,
				"contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t1","name":"look"}}}`,
				"contentBlockStart", `{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"t2","name":"look"}}}`,
				"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"a\":"}}}`,
				"contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":""}}}`,
				"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"1}"}}}`,
				"contentBlockStop", `{"contentBlockIndex":2}`, "contentBlockStop", `{"contentBlockIndex":1}`,
				"messageStop", `{"stopReason":"tool_use"}`, "metadata", counts),
			`S+ R+reasoning-0 R~"hm" R-@{` + model + `,"signature":"c2ln"} I+t1 look I+t2 look I~t1"{\"a\":" I~t1"1}" I- C t2 look {} I- C t1 look {"a":1} ` +
				`SF(tool-calls raw=tool_use) F(tool-calls` + counted,
		},
		{
			"sealed thoughts",
			stream("messageStart", begins, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"redactedContent":"eHg="}}}`,
				"contentBlockStop", `{"contentBlockIndex":0}`, "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"a"}}`,
				"messageStop", `{"stopReason":"end_turn"}`, "metadata", counts),
			`S+ R+reasoning-0 R-@{` + model + `,"redactedData":"eHg="} T+text-1 T~"a" T- SF(stop raw=end_turn) F(stop` + counted,
		},
		{
			"the figures never come", stream("messageStart", begins, "contentBlockDelta", `{"delta":{"text":"a"}}`, "messageStop", `{"stopReason":"stop_sequence"}`),
			`S+ T+text-0 T~"a" T- SF(stop raw=stop_sequence) F(stop)`,
		},
		{
			"the figures come first", stream("messageStart", begins, "metadata", counts, "messageStop", `{"stopReason":"end_turn"}`),
			`S+ SF(stop raw=end_turn) F(stop` + counted,
		},
		{
			"cut off inside a call",
			stream("messageStart", begins, "contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t1","name":"f"}}}`,
				"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a"}}}`, "contentBlockStop", `{"contentBlockIndex":0}`,
				"messageStop", `{"stopReason":"max_tokens"}`, "metadata", counts),
			`S+ I+t1 f I~"{\"a" SF(length raw=max_tokens) F(length` + counted,
		},
		{
			"input that is no JSON",
			stream("messageStart", begins, "contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t1","name":"f"}}}`,
				"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a"}}}`, "contentBlockStop", `{"contentBlockIndex":0}`,
				"messageStop", `{"stopReason":"tool_use"}`, "metadata", counts),
			`S+ I+t1 f I~"{\"a" I!t1 "{\"a" SF(tool-calls raw=tool_use) F(tool-calls` + counted,
		},
		{
			"a call that its model says nothing of at the end",
			stream("messageStart", begins, "contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"","name":"f"}}}`,
				"messageStop", `{"stopReason":"end_turn"}`, "metadata", counts),
			`S+ I+call_1 f I- C call_1 f {} SF(tool-calls raw=end_turn) F(tool-calls` + counted,
		},
		{
			"a guardrail", stream("messageStart", begins, "contentBlockDelta", `{"delta":{"text":"no"}}`, "messageStop", `{"stopReason":"guardrail_intervened"}`,
				"metadata", `{"usage":{"inputTokens":1,"outputTokens":0,"totalTokens":1},"trace":{"guardrail":{}}}`),
			`S+ T+text-0 T~"no" T- SF(content-filter raw=guardrail_intervened) F(content-filter in=1 out=0 total=1)@{"trace":{"guardrail":{}}}`,
		},
		{
			"the model wrote nonsense", stream("messageStart", begins, "messageStop", `{"stopReason":"malformed_tool_use"}`, "metadata", `{}`),
			`S+ SF(error raw=malformed_tool_use) F(error)`,
		},
		{
			"kinds of events and deltas that nobody knows", stream("messageStart", begins, "song", `not JSON`, "contentBlockStart", `{"start":{"image":{}}}`,
				"contentBlockDelta", `{"contentBlockIndex":9,"delta":{"citation":{}}}`, "contentBlockDelta", `{"contentBlockIndex":9,"delta":{"toolUse":{"input":"x"}}}`,
				"contentBlockStop", `{"contentBlockIndex":9}`, "messageStop", `{"stopReason":"what"}`, "metadata", `{"usage":null}`),
			`S+ SF(unknown raw=what) F(unknown)`,
		},
		{
			"nothing is read after the end", append(stream("messageStart", begins, "messageStop", `{"stopReason":"end_turn"}`, "metadata", `{}`), "garbage"...),
			`S+ SF(stop raw=end_turn) F(stop)`,
		},
		{"cut off", stream("messageStart", begins, "contentBlockDelta", `{"delta":{"text":"a"}}`), `S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`},
		{"cut off in a frame", stream("messageStart", begins)[:20], `E(incomplete-stream "the stream ended before the answer was complete")`},
		{"throttled", stream("messageStart", begins, "!throttlingException", `{"message":"Too many tokens, please wait."}`), `S+ E(rate-limit "throttlingException: Too many tokens, please wait.")`},
		{"the model broke", stream("messageStart", begins, "!modelStreamErrorException", `{"message":"stream broke","originalStatusCode":500,"originalMessage":"boom"}`),
			`S+ E(provider-internal "modelStreamErrorException: stream broke: boom")`},
		{"the service broke", stream("!internalServerException", `{}`), `E(provider-internal "internalServerException")`},
		{"not available", stream("!serviceUnavailableException", `no JSON`), `E(provider-internal "serviceUnavailableException")`},
		{"not valid", stream("!validationException", `{"message":"The model returned the following errors: no"}`), `E(invalid-request "validationException: The model returned the following errors: no")`},
		{"too long", stream("!validationException", `{"message":"Input is too long for requested model."}`), `E(context-overflow "validationException: Input is too long for requested model.")`},
		{"payload that is no JSON", stream("messageStart", `{`), `E(invalid-output "messageStart is not what the format says: unexpected end of JSON input")`},
		{"two kinds in one block", stream("messageStart", begins, "contentBlockDelta", `{"delta":{"text":"a"}}`, "contentBlockDelta", `{"delta":{"reasoningContent":{"text":"b"}}}`),
			`S+ T+text-0 T~"a" E(invalid-output "reasoning came for the block 0, which is of another kind")`},
		{"a call without a name", stream("messageStart", begins, "contentBlockStart", `{"start":{"toolUse":{"toolUseId":"x"}}}`), `S+ E(invalid-output "a call of the answer has no name")`},
		{"a block that starts twice", stream("contentBlockStart", `{"start":{"toolUse":{"toolUseId":"x","name":"f"}}}`, "contentBlockStart", `{"start":{"toolUse":{"toolUseId":"y","name":"f"}}}`),
			`S+ I+x f E(invalid-output "the block 0 started twice")`},
		{"it goes on after its end", stream("messageStop", `{"stopReason":"end_turn"}`, "contentBlockDelta", `{"delta":{"text":"a"}}`), `S+ E(invalid-output "the answer went on after its end")`},
		{"it ends twice", stream("messageStop", `{"stopReason":"end_turn"}`, "messageStop", `{"stopReason":"end_turn"}`), `S+ E(invalid-output "the answer ended twice")`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := protocoltest.Splits(t, format, request(), tt.stream); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAnEndThatIsNotTold(t *testing.T) {
	t.Parallel()
	r := request()
	r.Model.Compat.OptionalFinishReason = true
	got := protocoltest.Splits(t, format, r, stream("messageStart", begins, "contentBlockDelta", `{"delta":{"text":"a"}}`))
	if want := `S+ T+text-0 T~"a" T- SF(stop raw=end_turn) F(stop)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzAnswers(f *testing.F) {
	r := request(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}})
	protocoltest.Fuzz(f, format, r,
		stream("messageStart", begins, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}`, "contentBlockStop", `{"contentBlockIndex":0}`,
			"contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t1","name":"look"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`, "messageStop", `{"stopReason":"tool_use"}`, "metadata", counts),
		stream("messageStart", begins, "!throttlingException", `{"message":"m"}`),
	)
}

// FuzzEvents goes past the checksums, which random bytes never have: each line is an event, its name before a blank.
func FuzzEvents(f *testing.F) {
	f.Add("messageStart {}\ncontentBlockDelta {\"delta\":{\"text\":\"a\"}}\nmessageStop {\"stopReason\":\"end_turn\"}\nmetadata " + counts)
	f.Add("contentBlockStart {\"start\":{\"toolUse\":{\"toolUseId\":\"t\",\"name\":\"f\"}}}\ncontentBlockDelta {\"delta\":{\"toolUse\":{\"input\":\"{\"}}}\ncontentBlockStop {}\nmessageStop {\"stopReason\":\"tool_use\"}")
	f.Add("contentBlockDelta {\"delta\":{\"reasoningContent\":{\"redactedContent\":\"eA==\"}}}\n!throttlingException {\"message\":\"m\"}")
	f.Fuzz(func(t *testing.T, lines string) {
		var pairs []string
		for line := range bytes.Lines([]byte(lines)) {
			name, payload, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
			if len(name) > 0 && len(name) < 100 {
				pairs = append(pairs, string(name), string(payload))
			}
		}
		r := request(llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}}})
		var fold llm.Fold
		for _, e := range protocoltest.Events(t, format, r, stream(pairs...)) {
			fold.Add(e)
		}
		next := request(append(r.Messages, *fold.Ended())...)
		if _, err := format.Body(next); err != nil {
			if _, ok := err.(*llm.Error); !ok {
				t.Errorf("the error is a %T: %v", err, err)
			}
		}
	})
}
