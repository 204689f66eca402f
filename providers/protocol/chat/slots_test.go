package chat

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestCalls(t *testing.T) {
	checkAnswers(t, []answerCase{
		{
			name: "arguments in pieces",
			stream: frames(calls(`{"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":""}}`),
				calls(`{"index":0,"function":{"arguments":"{\"q\":"}}`), calls(`{"index":0,"function":{"arguments":"\"x\"}"}}`), ended("tool_calls"), done),
			want: `S+ I+c1 look I~"{\"q\":" I~"\"x\"}" I- C c1 look {"q":"x"} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "arguments, id and name one after another",
			stream: frames(calls(`{"index":0,"function":{"arguments":"{}"}}`), calls(`{"index":0,"id":"c1"}`),
				calls(`{"index":0,"function":{"name":"look"}}`), ended("tool_calls"), done),
			want: `S+ I+c1 look I~"{}" I- C c1 look {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "name, arguments and id one after another",
			stream: frames(calls(`{"index":0,"function":{"name":"look"}}`), calls(`{"index":0,"function":{"arguments":"{\"a\""}}`),
				calls(`{"index":0,"id":"c1","function":{"arguments":":1}"}}`), ended("tool_calls"), done),
			want: `S+ I+c1 look I~"{\"a\":1}" I- C c1 look {"a":1} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "empty texts are no id and no name",
			stream: frames(calls(`{"index":0,"id":"c1","function":{"name":"look","arguments":""}}`), calls(`{"index":0,"id":"","function":{"name":"","arguments":"{}"}}`), ended("tool_calls"), done),
			want:   `S+ I+c1 look I~"{}" I- C c1 look {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "the id never comes",
			stream: frames(calls(`{"index":0,"function":{"name":"look","arguments":"{}"}}`), ended("tool_calls"), done),
			want:   `E(invalid-output "a tool call came without an id or a name")`,
		},
		{
			name: "no index, two calls in a chunk, pieces by id",
			stream: frames(calls(`{"id":"a","function":{"name":"f"}}`, `{"id":"b","function":{"name":"g"}}`), calls(`{"id":"b","function":{"arguments":"{\"b\":1}"}}`),
				calls(`{"id":"a","function":{"arguments":"{\"a\":1}"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I+b g I~"{\"b\":1}" I~a"{\"a\":1}" I-a C a f {"a":1} I- C b g {"b":1} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "no index, one call after another",
			stream: frames(calls(`{"id":"a","function":{"name":"f"}}`), calls(`{"function":{"arguments":"{}"}}`), calls(`{"id":"b","function":{"name":"g"}}`),
				calls(`{"function":{"arguments":"{}"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I~"{}" I+b g I~"{}" I-a C a f {} I- C b g {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "no index and no id, pieces by their place in the chunk",
			stream: frames(calls(`{"id":"a","function":{"name":"f"}}`, `{"id":"b","function":{"name":"g"}}`),
				calls(`{"function":{"arguments":"[1]"}}`, `{"function":{"arguments":"[2]"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I+b g I~a"[1]" I~"[2]" I-a C a f [1] I- C b g [2] SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "index 0 for all calls, with ids of their own",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calls(`{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}`),
				calls(`{"index":0,"function":{"arguments":"}"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I~"{}" I+b g I~"{" I~"}" I-a C a f {} I- C b g {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "index 0 for all calls in one chunk",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`, `{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}`),
				ended("tool_calls"), done),
			want: `S+ I+a f I~"{}" I+b g I~"{}" I-a C a f {} I- C b g {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "one index several times in one chunk",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f"}}`, `{"index":0,"function":{"arguments":"{"}}`, `{"index":0,"function":{"arguments":"}"}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I~"{" I~"}" I- C a f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "the index drifts, the id stays",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), calls(`{"index":1,"id":"a","function":{"arguments":"}"}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I~"{" I~"}" I- C a f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "the index drifts, and nothing else is said",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), calls(`{"index":1,"function":{"arguments":"}"}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I~"{" I~"}" I- C a f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "arguments of the next call come before its name, the first call is complete",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`), calls(`{"index":1,"function":{"arguments":"[1]"}}`),
				calls(`{"index":1,"id":"b","function":{"name":"g"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I~"{}" I+b g I~"[1]" I-a C a f {} I- C b g [1] SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "arguments of two calls come in turns before their names",
			stream: frames(calls(`{"index":0,"function":{"arguments":"{\"a\":"}}`), calls(`{"index":1,"function":{"arguments":"[2"}}`),
				calls(`{"index":0,"function":{"arguments":"1}"}}`), calls(`{"index":1,"function":{"arguments":"]"}}`),
				calls(`{"index":0,"id":"a","function":{"name":"f"}}`), calls(`{"index":1,"id":"b","function":{"name":"g"}}`), ended("tool_calls"), done),
			want: `S+ I+a f I~"{\"a\":1}" I+b g I~"[2]" I-a C a f {"a":1} I- C b g [2] SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "an index that is a text, and one that is null",
			stream: frames(calls(`{"index":"0","id":"a","function":{"name":"f","arguments":"{"}}`), calls(`{"index":null,"id":null,"function":{"name":null,"arguments":"}"}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I~"{" I~"}" I- C a f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "arguments that are an object already",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f","arguments":{"a":[1]}}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I~"{\"a\":[1]}" I- C a f {"a":[1]} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "no arguments",
			stream: frames(calls(`{"index":0,"id":"a","function":{"name":"f"}}`), ended("tool_calls"), done),
			want:   `S+ I+a f I- C a f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "pieces that say nothing",
			stream: frames(calls(`{"index":0,"function":{"arguments":""}}`), `{"content":"a"}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "arguments that break off, and the model believes it is done",
			stream: frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"q\":"}}`), ended("tool_calls"), done),
			want:   `S+ I+c1 f I~"{\"q\":" I!c1 "{\"q\":" SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "arguments that break off at the limit",
			stream: frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"q\":"}}`), ended("length"), done),
			want:   `S+ I+c1 f I~"{\"q\":" SF(length) F(length)`,
		},
		{
			name:   "a call without a name that breaks off at the limit",
			stream: frames(calls(`{"index":0,"id":"c1"}`), ended("length"), done),
			want:   `S+ SF(length) F(length)`,
		},
		{
			name:   "a complete call with the reason stop",
			stream: frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`), ended("stop"), done),
			want:   `S+ I+c1 f I~"{}" I- C c1 f {} SF(tool-calls raw=stop) F(tool-calls)`,
		},
		{
			name:   "text beside a call",
			stream: frames(`{"content":"see"}`, calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`), `{"content":"!"}`, ended("function_call"), done),
			want:   `S+ T+text-0 T~"see" I+c1 f I~"{}" T~"!" I- C c1 f {} T- SF(tool-calls raw=function_call) F(tool-calls)`,
		},
		{
			name:   "a call and its end in one chunk",
			stream: frames(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, done),
			want:   `S+ I+c1 f I~"{}" I- C c1 f {} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name: "a signature beside the function",
			stream: frames(calls(`{"index":0,"id":"c1","extra_content":{"google":{"thought_signature":"s<1>"}},"function":{"name":"f","arguments":"{}"}}`),
				ended("tool_calls"), done),
			want: `S+ I+c1 f I~"{}" I-@{"extraContent":{"google":{"thought_signature":"s<1>"}},"model":"m"}` +
				` C c1 f {}@{"extraContent":{"google":{"thought_signature":"s<1>"}},"model":"m"} SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
	})
}

func TestNamesOnTheWireAreTurnedBack(t *testing.T) {
	req := asked(protocol.Compat{}, llm.Tool{Namespace: "git", Name: "log"})
	got := protocoltest.Run(t, Protocol{}, req, frames(calls(`{"index":0,"id":"c1","function":{"name":"git__log","arguments":"{}"}}`), ended("tool_calls"), done))
	want := `S+ I+c1 git.log I~"{}" I- C c1 git.log {} SF(tool-calls raw=tool_calls) F(tool-calls)`
	if got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}

func TestFlatArgumentsAreNestedWhereTheToolWantsIt(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"edits":{"type":"array"}}}`)
	req := asked(protocol.Compat{}, llm.Tool{Name: "f", InputSchema: schema})
	got := protocoltest.Splits(t, Protocol{}, req,
		frames(calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"edits[0].path\":"}}`), calls(`{"index":0,"function":{"arguments":"\"a\"}"}}`), ended("tool_calls"), done))
	want := `S+ I+c1 f I~"{\"edits[0].path\":" I~"\"a\"}" I- C c1 f {"edits":[{"path":"a"}]} SF(tool-calls raw=tool_calls) F(tool-calls)`
	if got != want {
		t.Errorf("events\n%s\nwant\n%s", got, want)
	}
}
