package responses_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// stream is frames as server-sent events, named after their type as OpenAI does.
func stream(frames ...string) []byte {
	var b strings.Builder
	for _, f := range frames {
		var head struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(f), &head) == nil && head.Type != "" {
			b.WriteString("event: " + head.Type + "\n")
		}
		b.WriteString("data: " + f + "\n\n")
	}
	return []byte(b.String())
}

// nameless is the same without the names, as some vendors send it.
func nameless(frames ...string) []byte {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString("data: " + f + "\n\n")
	}
	return []byte(b.String())
}

func request() *protocol.Request {
	return &protocol.Request{Request: &llm.Request{}, Namespace: "openai"}
}

const (
	done        = `{"type":"response.completed","response":{"id":"resp_1"}}`
	doneStop    = ` SF(stop raw=completed) F(stop)@{"responseId":"resp_1"}`
	doneCalls   = ` SF(tool-calls raw=completed) F(tool-calls)@{"responseId":"resp_1"}`
	addMessage  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m_1","role":"assistant","content":[]}}`
	sayHi       = `{"type":"response.output_text.delta","item_id":"m_1","output_index":0,"content_index":0,"delta":"Hi"}`
	messageDone = `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m_1","content":[{"type":"output_text","text":"Hi","annotations":[]}]}}`
	messageHi   = `S+ T+m_1@{"itemId":"m_1"} T~"Hi" T-@{"itemId":"m_1"}`

	addThought  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`
	thoughtDone = `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"E"}}`

	addCall  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":""}}`
	callDone = `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}}`
	callF    = `S+ I+c1 f `
	callFEnd = `I-@{"itemId":"fc_1"} C c1 f {"a":1}@{"itemId":"fc_1"}`
)

func args(delta string) string {
	return `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":` + quoted(delta) + `}`
}

func argsDone(whole string) string {
	return `{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":` + quoted(whole) + `}`
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func summary(index int, delta string) string {
	b, err := json.Marshal(map[string]any{
		"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": index, "delta": delta,
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// answers are streams and the events that they give.
var answers = []struct {
	name   string
	frames []string
	want   string
}{
	{
		"text with usage",
		[]string{
			`{"type":"response.created","response":{"id":"resp_1","model":"gpt-x-2026"}}`, `{"type":"response.in_progress","response":{"id":"resp_1"}}`,
			addMessage, sayHi, messageDone,
			`{"type":"response.completed","response":{"id":"resp_1","service_tier":"flex","usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":2},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":7}}}`,
		},
		`S+(model=gpt-x-2026 id=resp_1) T+m_1@{"itemId":"m_1"} T~"Hi" T-@{"itemId":"m_1"} SF(stop raw=completed) F(stop in=5 read=1 write=2 out=2 reasoning=0 total=7)@{"responseId":"resp_1","serviceTier":"flex"}`,
	},
	{
		"usage that is null or partly unknown",
		[]string{addMessage, `{"type":"response.completed","response":{"usage":{"input_tokens":5,"input_tokens_details":null,"output_tokens":null}}}`},
		`S+ SF(stop raw=completed) F(stop in=5 total=5)`,
	},
	{"a model that is not done", []string{`{"type":"response.completed","response":{"end_turn":false}}`}, `S+ SF(stop raw=completed again) F(stop)`},
	{"a model that is done", []string{`{"type":"response.completed","response":{"end_turn":true}}`}, `S+ SF(stop raw=completed) F(stop)`},
	{"no usage", []string{`{"type":"response.completed","response":{"id":"resp_1","usage":null,"output":null,"error":null,"incomplete_details":null}}`}, `S+(id=resp_1)` + doneStop},
	{
		"two parts of a summary",
		[]string{
			addThought, `{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`,
			summary(0, "a"), `{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"a"}`,
			`{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1}`, summary(1, "b"), thoughtDone, done,
		},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} R+rs_1:1@{"itemId":"rs_1"} R~"b" R-@{"itemId":"rs_1","reasoningEncryptedContent":"E"}` + doneStop,
	},
	{
		"a summary without the frames of its parts",
		[]string{addThought, summary(0, "a"), summary(1, "b"), thoughtDone, done},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} R+rs_1:1@{"itemId":"rs_1"} R~"b" R-@{"itemId":"rs_1","reasoningEncryptedContent":"E"}` + doneStop,
	},
	{
		"a summary that comes only with its item",
		[]string{thoughtDone, done},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} R+rs_1:1@{"itemId":"rs_1"} R~"b" R-@{"itemId":"rs_1","reasoningEncryptedContent":"E"}` + doneStop,
	},
	{
		"a summary that comes only whole",
		[]string{addThought, `{"type":"response.reasoning_summary_text.done","item_id":"rs_1","summary_index":0,"text":"a"}`, done},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"}` + doneStop,
	},
	{
		"encrypted reasoning without words",
		[]string{addThought, `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"E"}}`, done},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R-@{"itemId":"rs_1","reasoningEncryptedContent":"E"}` + doneStop,
	},
	{
		"thoughts in the clear",
		[]string{
			addThought, `{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"hm"}`,
			`{"type":"response.reasoning_text.done","item_id":"rs_1","output_index":0,"content_index":0,"text":"hm"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}}`, done,
		},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~~"hm" R-@{"content":true,"itemId":"rs_1"}` + doneStop,
	},
	{
		"thoughts in the clear and a summary of them",
		[]string{
			addThought, summary(0, "a"), `{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"content_index":0,"delta":"hm"}`, done,
		},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} R+rs_1:content:0@{"itemId":"rs_1"} R~~"hm" R-@{"content":true,"itemId":"rs_1"}` + doneStop,
	},
	{
		"the vendor shortens the history",
		[]string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"compaction","id":"cmp_1","encrypted_content":"E"}}`, done},
		`S+ R+cmp_1@{"compaction":"E","itemId":"cmp_1"} R-@{"compaction":"E","itemId":"cmp_1"}` + doneStop,
	},
	{"a call", []string{addCall, args(`{"a"`), args(`:1}`), argsDone(`{"a":1}`), callDone, done}, callF + `I~"{\"a\"" I~":1}" ` + callFEnd + doneCalls},
	{"a call whose last piece is missing", []string{addCall, args(`{"a"`), argsDone(`{"a":1}`), callDone, done}, callF + `I~"{\"a\"" I~":1}" ` + callFEnd + doneCalls},
	{"a call that ends otherwise than it began", []string{addCall, args(`{"b"`), argsDone(`{"a":1}`), callDone, done}, callF + `I~"{\"b\"" ` + callFEnd + doneCalls},
	{"a call that comes only whole", []string{callDone, done}, callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls},
	{"a call that comes only with the answer", []string{`{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}]}}`}, `S+(id=resp_1) I+c1 f I~"{\"a\":1}" ` + callFEnd + doneCalls},
	{"a call whose end leaves out what was streamed", []string{addCall, args(`{"a":1}`), argsDone(""), strings.Replace(callDone, `"{\"a\":1}"`, `""`, 1), done}, callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls},
	{"a call that never ends", []string{addCall, args(`{"a":1}`), done}, callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls},
	{"a call without arguments", []string{addCall, done}, callF + `I-@{"itemId":"fc_1"} C c1 f {}@{"itemId":"fc_1"}` + doneCalls},
	{"a call whose arguments are no JSON", []string{addCall, args(`{"a`), done}, callF + `I~"{\"a" I!c1 "{\"a"@{"itemId":"fc_1"}` + doneCalls},
	{
		"a call whose name comes late",
		[]string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c1"}}`, args(`{"a"`), callDone, done},
		callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls,
	},
	{
		"a call without an id of its own",
		[]string{`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"f","arguments":"{\"a\":1}"}}`, done},
		callF[:3] + `I+call_1 f I~"{\"a\":1}" I- C call_1 f {"a":1}` + doneCalls,
	},
	{"the same call twice", []string{callDone, strings.ReplaceAll(strings.ReplaceAll(callDone, "fc_1", "fc_2"), `index":0`, `index":1`), done}, callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls},
	{
		"two calls under one item id and one index",
		[]string{
			strings.ReplaceAll(callDone, "fc_1", "x"), strings.ReplaceAll(strings.ReplaceAll(callDone, "fc_1", "x"), "c1", "c2"), done,
		},
		`S+ I+c1 f I~"{\"a\":1}" I-@{"itemId":"x"} C c1 f {"a":1}@{"itemId":"x"} I+c2 f I~"{\"a\":1}" I-@{"itemId":"x"} C c2 f {"a":1}@{"itemId":"x"}` + doneCalls,
	},
	{
		"parallel calls whose pieces alternate",
		[]string{
			addCall, `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"g","namespace":"db"}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":1,"delta":"{}"}`, args(`{"a":1}`), done,
		},
		callF + `I+c2 db.g I~"{}" I~c1"{\"a\":1}" I-c1@{"itemId":"fc_1"} C c1 f {"a":1}@{"itemId":"fc_1"} I-@{"itemId":"fc_2"} C c2 db.g {}@{"itemId":"fc_2"}` + doneCalls,
	},
	{
		"a grammar tool",
		[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","id":"ct_1","call_id":"c1","name":"apply_patch","input":""}}`,
			`{"type":"response.custom_tool_call_input.delta","item_id":"ct_1","output_index":0,"delta":"*** B"}`,
			`{"type":"response.custom_tool_call_input.done","item_id":"ct_1","output_index":0,"input":"*** Begin"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"custom_tool_call","id":"ct_1","call_id":"c1","name":"apply_patch","input":"*** Begin"}}`, done,
		},
		`S+ I+c1 apply_patch(freeform) I~"*** B" I~"egin" I-@{"itemId":"ct_1"} C c1 apply_patch(freeform) "*** Begin"@{"itemId":"ct_1"}` + doneCalls,
	},
	{"the index rules over a wrong id", []string{addMessage, strings.Replace(sayHi, "m_1", "m_9", 1), messageDone, done}, messageHi + doneStop},
	{
		"the index rules over the id of another item",
		[]string{
			addCall, `{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"g"}}`,
			strings.Replace(args("{}"), `index":0`, `index":1`, 1), done,
		},
		callF + `I+c2 g I~"{}" I-c1@{"itemId":"fc_1"} C c1 f {}@{"itemId":"fc_1"} I-@{"itemId":"fc_2"} C c2 g {}@{"itemId":"fc_2"}` + doneCalls,
	},
	{
		"all items under one index",
		[]string{addMessage, sayHi, messageDone, strings.Replace(addMessage, "m_1", "m_2", 1), strings.Replace(sayHi, "m_1", "m_2", 1), strings.Replace(messageDone, "m_1", "m_2", 1), done},
		messageHi + ` T+m_2@{"itemId":"m_2"} T~"Hi" T-@{"itemId":"m_2"}` + doneStop,
	},
	{
		"an answer whose last account has other ids and places",
		[]string{addMessage, sayHi, messageDone, `{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"reasoning","id":"rs_9","summary":[]},{"type":"message","id":"m_9","content":[{"type":"output_text","text":"Hi"}]}]}}`},
		messageHi + ` R+rs_9:0@{"itemId":"rs_9"} R-@{"itemId":"rs_9"}` + doneStop,
	},
	{
		"late words for a part that has ended",
		[]string{addThought, summary(0, "a"), summary(1, "b"), summary(0, "c"), done},
		`S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} R+rs_1:1@{"itemId":"rs_1"} R~"b" R~"c" R-@{"itemId":"rs_1"}` + doneStop,
	},
	{"the id where the index says nothing", []string{addMessage, strings.Replace(sayHi, `"output_index":0,`, "", 1), messageDone, done}, messageHi + doneStop},
	{
		"ids that change from frame to frame",
		[]string{addMessage, strings.Replace(sayHi, "m_1", "m_2", 1), strings.Replace(messageDone, "m_1", "m_3", 1), `{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"message","id":"m_4","content":[{"type":"output_text","text":"Hi"}]}]}}`},
		`S+ T+m_1@{"itemId":"m_1"} T~"Hi" T-@{"itemId":"m_3"}` + doneStop,
	},
	{"a delta without an item id", []string{addMessage, strings.Replace(sayHi, `"item_id":"m_1",`, "", 1)}, `S+ E(invalid-output "response.output_text.delta is missing item_id")`},
	{"arguments without an item id", []string{addCall, strings.Replace(args("{"), `"item_id":"fc_1",`, "", 1)}, `S+ I+c1 f E(invalid-output "response.function_call_arguments.delta is missing item_id")`},
	{"thoughts without an item id", []string{addThought, strings.Replace(summary(0, "a"), `"item_id":"rs_1",`, "", 1)}, `S+ R+rs_1:0@{"itemId":"rs_1"} E(invalid-output "response.reasoning_summary_text.delta is missing item_id")`},
	{"deltas of items that nobody announced", []string{sayHi, args("{"), summary(0, "a"), done}, `S+(id=resp_1)` + doneStop},
	{"a delta of an item of another kind", []string{addCall, strings.Replace(sayHi, "m_1", "fc_1", 1), done}, callF + `I-@{"itemId":"fc_1"} C c1 f {}@{"itemId":"fc_1"}` + doneCalls},
	{"a delta after its item", []string{addMessage, sayHi, messageDone, sayHi, done}, messageHi + doneStop},
	{"text that comes only whole", []string{addMessage, `{"type":"response.output_text.done","item_id":"m_1","output_index":0,"content_index":0,"text":"Hi"}`, messageDone, done}, messageHi + doneStop},
	{"text that comes only with its item", []string{messageDone, done}, messageHi + doneStop},
	{"text that comes only with the answer", []string{`{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"message","id":"m_1","content":[{"type":"output_text","text":"Hi"}]}]}}`}, strings.Replace(messageHi, "S+", "S+(id=resp_1)", 1) + doneStop},
	{"text whose item never ends", []string{addMessage, sayHi, `{"type":"response.completed","response":{"id":"resp_1","output":[{"type":"message","id":"m_1","phase":"final_answer","content":[{"type":"output_text","text":"Hi"}]}]}}`}, `S+ T+m_1@{"itemId":"m_1"} T~"Hi" T-@{"itemId":"m_1","phase":"final_answer"}` + doneStop},
	{
		"a refusal",
		[]string{
			addMessage, `{"type":"response.refusal.delta","item_id":"m_1","output_index":0,"content_index":0,"delta":"No"}`,
			`{"type":"response.refusal.done","item_id":"m_1","output_index":0,"content_index":0,"refusal":"No"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m_1","content":[{"type":"refusal","refusal":"No"}]}}`, done,
		},
		strings.Replace(messageHi, "Hi", "No", 1) + doneStop,
	},
	{
		"a refusal that comes only whole",
		[]string{addMessage, `{"type":"response.refusal.done","item_id":"m_1","output_index":0,"content_index":0,"refusal":"No"}`, done},
		strings.Replace(messageHi, "Hi", "No", 1) + doneStop,
	},
	{
		"a remark, then the answer with its source",
		[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m_1","phase":"commentary","content":[]}}`, sayHi,
			`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"m_2","phase":"final_answer","content":[]}}`,
			`{"type":"response.output_text.delta","item_id":"m_2","output_index":1,"content_index":0,"delta":"Yo"}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"m_2","phase":"final_answer","content":[{"type":"output_text","text":"Yo","annotations":[{"type":"url_citation","url":"http://x"}]}]}}`, done,
		},
		`S+ T+m_1@{"itemId":"m_1","phase":"commentary"} T~"Hi" T-@{"itemId":"m_1","phase":"commentary"} T+m_2@{"itemId":"m_2","phase":"final_answer"} T~"Yo" T-@{"annotations":[{"type":"url_citation","url":"http://x"}],"itemId":"m_2","phase":"final_answer"}` + doneStop,
	},
	{
		"a message of two parts",
		[]string{addMessage, sayHi, strings.Replace(strings.Replace(sayHi, "Hi", "Ho", 1), `content_index":0`, `content_index":1`, 1), done},
		`S+ T+m_1@{"itemId":"m_1"} T~"Hi" T~"Ho" T-@{"itemId":"m_1"}` + doneStop,
	},
	{
		"a search by the vendor",
		[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}`,
			`{"type":"response.web_search_call.searching","item_id":"ws_1","output_index":0}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}}}`, done,
		},
		`S+ C ws_1 web_search(hosted) {"type":"search","query":"q"}@{"itemId":"ws_1"} X ws_1 web_search(hosted) "completed"@{"item":{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},"itemId":"ws_1"}` + doneStop,
	},
	{
		"a search under the id of a call",
		[]string{callDone, `{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"c1","status":"completed"}}`, done},
		callF + `I~"{\"a\":1}" ` + callFEnd + doneCalls,
	},
	{"anything else is ignored", []string{`{"type":"response.content_part.added","item_id":"m_1"}`, `{"type":"response.later.delta","delta":{"x":1}}`, `{"type":"response.output_item.added","output_index":0,"item":{"type":"novelty","id":7}}`, `{"type":"response.output_item.done","output_index":0,"item":{"type":"novelty","id":"n_1"}}`, `null`, `{}`, done}, `S+(id=resp_1)` + doneStop},
	{"cut off by length", []string{addMessage, sayHi, `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}`}, messageHi + ` SF(length raw=max_output_tokens) F(length)`},
	{"cut off by the filter", []string{addMessage, sayHi, `{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`}, messageHi + ` SF(content-filter raw=content_filter) F(content-filter)`},
	{"cut off for another reason", []string{`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"moon"}}}`}, `S+ SF(unknown raw=moon) F(unknown)`},
	{"cut off for another reason after a call", []string{callDone, `{"type":"response.incomplete","response":{}}`}, callF + `I~"{\"a\":1}" ` + callFEnd + ` SF(tool-calls) F(tool-calls)`},
	{
		"cut off inside a call",
		[]string{addCall, args(`{"a"`), `{"type":"response.incomplete","response":{"output":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\"","status":"incomplete"}],"incomplete_details":{"reason":"max_output_tokens"}}}`},
		callF + `I~"{\"a\"" SF(length raw=max_output_tokens) F(length)`,
	},
	{"the bytes end early", []string{addMessage, sayHi}, `S+ T+m_1@{"itemId":"m_1"} T~"Hi" E(incomplete-stream "the stream ended before the answer was complete")`},
	{"more after the end", []string{addMessage, sayHi, messageDone, done, `nonsense`, sayHi}, messageHi + doneStop},
	{"a known frame that is no JSON", []string{addMessage, `{"type":"response.output_text.delta"`}, `S+ E(invalid-output "a frame of the stream is not a JSON object: unexpected end of JSON input")`},
	{"a known frame of another shape", []string{addMessage, strings.Replace(sayHi, `"Hi"`, `["Hi"]`, 1)}, `S+ E(invalid-output "response.output_text.delta: json: cannot unmarshal array into Go struct field wireFrame.delta of type string")`},
	{"a call of another shape", []string{strings.Replace(callDone, `"name":"f"`, `"name":7`, 1)}, `E(invalid-output "response.output_item.done: json: cannot unmarshal number into Go struct field wireItem.name of type string")`},
	{"a call without a name", []string{strings.Replace(callDone, `"name":"f",`, "", 1)}, `S+ E(invalid-output "a function_call has no name")`},
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range answers {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := protocoltest.Splits(t, responses.Protocol{}, request(), stream(tc.frames...)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if got := protocoltest.Run(t, responses.Protocol{}, request(), nameless(tc.frames...)); got != tc.want {
				t.Errorf("without names of events\ngot  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTheTypeInsideRulesOverTheNameOfTheEvent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, stream, want string }{
		{"another known name", "event: response.failed\ndata: " + done + "\n\n", `S+(id=resp_1)` + doneStop},
		{"an unknown name", "event: proxy.stats\ndata: " + done + "\n\n", `S+(id=resp_1)` + doneStop},
		{"a known name over an unknown type", "event: response.failed\ndata: {\"type\":\"proxy.stats\"}\n\ndata: " + done + "\n\n", `S+(id=resp_1)` + doneStop},
		{"no type", "event: response.completed\ndata: {\"response\":{\"id\":\"resp_1\"}}\n\n", `S+(id=resp_1)` + doneStop},
		{"no JSON under an unknown name", "event: proxy.stats\ndata: load 3\n\ndata: " + done + "\n\n", `S+(id=resp_1)` + doneStop},
		{"no JSON under a known name", "event: response.completed\ndata: load 3\n\n", `E(invalid-output "response.completed: invalid character 'l' looking for beginning of value")`},
		{"the end marker of other formats", "data: [DONE]\n\ndata: " + done + "\n\n", `S+(id=resp_1)` + doneStop},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := protocoltest.Run(t, responses.Protocol{}, request(), []byte(tc.stream)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAVendorThatNeverSaysThatItIsDone(t *testing.T) {
	t.Parallel()
	req := request()
	req.Model.Compat.OptionalFinishReason = true
	for _, tc := range []struct {
		name   string
		frames []string
		want   string
	}{
		{"text", []string{addMessage, sayHi}, messageHi + ` SF(stop) F(stop)`},
		{"a call", []string{addCall, args(`{"a":1}`)}, callF + `I~"{\"a\":1}" ` + callFEnd + ` SF(tool-calls) F(tool-calls)`},
		{"thoughts", []string{addThought, summary(0, "a")}, `S+ R+rs_1:0@{"itemId":"rs_1"} R~"a" R-@{"itemId":"rs_1"} SF(stop) F(stop)`},
		{"nothing", nil, `E(incomplete-stream "the stream ended before the answer was complete")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := protocoltest.Splits(t, responses.Protocol{}, req, stream(tc.frames...)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNamesOfToolsComeBack(t *testing.T) {
	t.Parallel()
	req := request()
	req.Tools = []llm.Tool{{Name: "f", Namespace: "db"}, {Name: "f.g"}}
	wire := protocol.WireName("", "f.g")
	got := protocoltest.Run(t, responses.Protocol{}, req, stream(
		strings.Replace(callDone, `"name":"f"`, `"name":"db__f"`, 1),
		strings.NewReplacer(`"name":"f"`, `"name":"`+wire+`"`, "c1", "c2", "fc_1", "fc_2", `index":0`, `index":1`).Replace(callDone), done))
	if !strings.Contains(got, "C c1 db.f {") || !strings.Contains(got, "C c2 f.g {") {
		t.Errorf("got %s", got)
	}
}

func TestWhatComesBackIsStampedWithItsModel(t *testing.T) {
	t.Parallel()
	req := request()
	req.Model = protocol.Model{ID: "gpt-x-mini", Family: "gpt-x"}
	got := protocoltest.Run(t, responses.Protocol{}, req, stream(addThought, summary(0, "a"), thoughtDone, done))
	want := `S+ R+rs_1:0@{"itemId":"rs_1","model":"gpt-x"} R~"a" R-@{"itemId":"rs_1","model":"gpt-x","reasoningEncryptedContent":"E"}` + doneStop
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMadeUpIDsAreTheRequestsOwn(t *testing.T) {
	t.Parallel()
	req := request()
	req.NewID = func() string { return "own_1" }
	got := protocoltest.Run(t, responses.Protocol{}, req, stream(`{"type":"response.output_item.done","item":{"type":"function_call","name":"f"}}`, done))
	if want := `S+ I+own_1 f I- C own_1 f {}` + doneCalls; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRawUsageIsKept(t *testing.T) {
	t.Parallel()
	var fold llm.Fold
	for _, e := range protocoltest.Events(t, responses.Protocol{}, request(), stream(`{"type":"response.completed","response":{"usage":{"input_tokens":"many","moon":1}}}`)) {
		fold.Add(e)
	}
	u := fold.End().Usage
	if got, want := string(u.Raw), `{"input_tokens":"many","moon":1}`; got != want || u.Input != nil || u.Total != nil {
		t.Errorf("usage = %+v, raw %s", u, got)
	}
}
