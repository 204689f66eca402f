package responses_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// spoken are items as the vendor finishes them. Each comes back with the next request; want is how, if not as it was.
var spoken = []struct {
	name, item, want string
	ends             bool // with it an answer is something that can go back
}{
	{"encrypted reasoning", `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"<a>"},{"type":"summary_text","text":"b"}],"encrypted_content":"AbC+/="}`, "", false},
	{"reasoning without a summary", `{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"X"}`, "", false},
	{"thoughts in the clear", `{"type":"reasoning","id":"rs_3","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}`, "", false},
	{"a digest", `{"type":"compaction","id":"cmp_1","encrypted_content":"D"}`, "", true},
	{"a remark", `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"<I> look.","annotations":[]}],"phase":"commentary"}`, "", true},
	{"an answer with its source", `{"type":"message","id":"msg_2","role":"assistant","content":[{"type":"output_text","text":"So.","annotations":[{"type":"url_citation","url":"http://x?a=1&b=2","start_index":0}]}],"phase":"final_answer"}`, "", true},
	{"a call", `{"type":"function_call","id":"fc_1","call_id":"c1","name":"db__look","arguments":"{\"q\": \"<x>\"}"}`, "", true},
	{"a call of a grammar tool", `{"type":"custom_tool_call","id":"ctc_1","call_id":"c2","name":"apply_patch","input":"*** Begin\n<x>"}`, "", true},
	{"a search of the vendor's for tools", `{"type":"tool_search_call","id":"tsc_1","call_id":null,"execution":"server","status":"completed","arguments":{"paths":["cal"]}}`, "", true},
	{"what it found", `{"type":"tool_search_output","id":"tso_1","call_id":null,"execution":"server","status":"completed","tools":[{"type":"function","name":"f","description":"<x>","parameters":{"type":"object"},"strict":false,"defer_loading":true}]}`, "", true},
	{"a search", `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"<q> \\u003c \"","sources":[{"type":"url","url":"http://x"}]}}`, "", true},
	{"a search in files", `{"id":"fs_1","type":"file_search_call","status":"completed","queries":["q"],"results":[{"text":"found"}]}`, "", true},
	{"code", `{"id":"ci_1","type":"code_interpreter_call","status":"completed","code":"1+1","container_id":"cntr_1","outputs":[{"type":"logs","logs":"2"}]}`, "", true},
	{"a tool of an MCP server", `{"id":"mcp_1","type":"mcp_call","status":"completed","server_label":"s","name":"n","arguments":"{}","output":"out","error":null}`, "", true},
	{"a picture", `{"type":"image_generation_call","id":"ig_1","status":"completed","output_format":"webp","revised_prompt":"a cat","result":"UE5H"}`,
		`{"id":"ig_1","output_format":"webp","result":"UE5H","revised_prompt":"a cat","status":"completed","type":"image_generation_call"}`, true},
}

// answered is an answer with these items, told to the end.
func answered(items ...string) []byte {
	frames := []string{`{"type":"response.created","response":{"id":"resp_1","model":"gpt-x"}}`}
	for i, item := range items {
		frames = append(frames, fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item))
	}
	return stream(append(frames, fmt.Sprintf(`{"type":"response.completed","response":{"id":"resp_1","output":[%s]}}`, strings.Join(items, ",")))...)
}

// next is the items of the next request of a thread in which the user asked, the model gave this answer and each call got
// its result.
func next(t *testing.T, stream []byte, recorded func(m llm.Message) []llm.Message) []string {
	t.Helper()
	r := request()
	r.Model = thinker()
	r.Tools = []llm.Tool{{Name: "look", Namespace: "db", InputSchema: anything}, patch()}
	r.Messages = []llm.Message{user(words("hi"))}
	var fold llm.Fold
	for _, e := range protocoltest.Events(t, responses.Protocol{}, r, stream) {
		fold.Add(e)
	}
	r.Messages = append(r.Messages, recorded(*fold.Message())...)
	for _, c := range fold.Calls() {
		r.Messages = append(r.Messages, tool(&llm.ToolResult{ID: c.ID, Content: llm.Parts{words("ok")}}))
	}
	body, err := (responses.Protocol{}).Body(r)
	if err != nil {
		t.Fatal(err)
	}
	return itemsOf(t, body)[1:]
}

func whole(m llm.Message) []llm.Message { return []llm.Message{m} }

// apart records each part as a message of its own, as the host does while an answer comes in.
func apart(m llm.Message) []llm.Message {
	var out []llm.Message
	for _, p := range m.Parts {
		out = append(out, assistant(p))
	}
	return out
}

// stored is what a store gives back later.
func stored(t *testing.T) func(m llm.Message) []llm.Message {
	return func(m llm.Message) []llm.Message {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var out llm.Message
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return []llm.Message{out}
	}
}

func TestWhatAnAnswerSaidComesBack(t *testing.T) {
	t.Parallel()
	last := spoken[4].item // reasoning does not go out alone
	for _, tc := range spoken {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			items := []string{tc.item}
			if !tc.ends {
				items = append(items, last)
			}
			got := next(t, answered(items...), whole)
			want := tc.want
			if want == "" {
				want = tc.item
			}
			if len(got) == 0 || !sameJSON(t, got[0], want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), want)
			}
		})
	}
}

// sameJSON compares without regard to the order of keys and to escapes.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	canonical := func(s string) string {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatalf("%v: %s", err, s)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	return canonical(a) == canonical(b)
}

func TestALongAnswerComesBackInOrderAndAlwaysAlike(t *testing.T) {
	t.Parallel()
	var items []string
	for _, i := range []int{0, 4, 1, 8, 9, 10, 11, 12, 2, 6, 7, 3, 5} {
		items = append(items, spoken[i].item)
	}
	want := next(t, answered(items...), whole)
	if len(want) != len(items)+2 { // and two results
		t.Fatalf("%d items came back as %d:\n%s", len(items), len(want), strings.Join(want, "\n"))
	}
	for i := range items {
		if !sameJSON(t, items[i], want[i]) {
			t.Errorf("item %d\ngot  %s\nwant %s", i, want[i], items[i])
		}
	}
	for name, recorded := range map[string]func(llm.Message) []llm.Message{"again": whole, "part by part": apart, "from a store": stored(t)} {
		if got := next(t, answered(items...), recorded); !slices.Equal(got, want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// An answer that was cut off keeps what was whole; the thoughts that were not go, and the ids of what they led to.
func TestWhatWasWholeOfABrokenAnswerComesBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		frames []string
		want   []string
	}{
		{"after a message", []string{messageDone, strings.NewReplacer("rs_1", "rs_2", `index":0`, `index":1`).Replace(addThought)},
			[]string{`{"type":"message","id":"m_1","role":"assistant","content":[{"type":"output_text","text":"Hi","annotations":[]}]}`}},
		{"inside a thought", []string{addThought, summary(0, "a"), summary(1, "b")}, nil},
		{"after a thought", []string{thoughtDone}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Model = thinker()
			var fold llm.Fold
			for _, e := range protocoltest.Events(t, responses.Protocol{}, r, stream(tc.frames...)) {
				fold.Add(e)
			}
			if err := fold.Err(); err == nil || err.Code != llm.ErrIncompleteStream {
				t.Fatalf("error %v", err)
			}
			r.Messages = []llm.Message{*fold.Ended()}
			body, err := (responses.Protocol{}).Body(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := itemsOf(t, body); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// hostedItems are what the canonical form tells of tools that the vendor ran.
var hostedItems = []struct{ name, item, want string }{
	{"files", `{"type":"file_search_call","id":"h_1","status":"completed","queries":["q"],"results":[{"text":"t"}]}`, `C h_1 file_search(hosted) {"queries":["q"]} X h_1 file_search(hosted) "[{\"text\":\"t\"}]"`},
	{"files without results", `{"type":"file_search_call","id":"h_1","queries":["q"],"results":null}`, `C h_1 file_search(hosted) {"queries":["q"]} X h_1 file_search(hosted) "completed"`},
	{"code", `{"type":"code_interpreter_call","id":"h_1","code":"1+1","container_id":"k","outputs":[{"type":"logs","logs":"2"},{"type":"image","url":"http://x/y.png"}]}`,
		`C h_1 code_interpreter(hosted) {"code":"1+1","container_id":"k"} X h_1 code_interpreter(hosted) "2" image/png`},
	{"code without outputs", `{"type":"code_interpreter_call","id":"h_1","code":"1","container_id":null,"outputs":[]}`, `C h_1 code_interpreter(hosted) {"code":"1"} X h_1 code_interpreter(hosted) "completed"`},
	{"a computer", `{"type":"computer_call","id":"h_1","call_id":"c","action":{"type":"click","x":1}}`, `C h_1 computer_use(hosted) {"type":"click","x":1} X h_1 computer_use(hosted) "completed"`},
	{"a picture", `{"type":"image_generation_call","id":"h_1","status":"completed","output_format":"webp","revised_prompt":"a cat","result":"UE5H"}`,
		`C h_1 image_generation(hosted) {"revised_prompt":"a cat"} X h_1 image_generation(hosted) image/webp`},
	{"a picture that failed", `{"type":"image_generation_call","id":"h_1","status":"failed","result":null}`, `C h_1 image_generation(hosted) {} X! h_1 image_generation(hosted) "failed"`},
	{"an MCP server", `{"type":"mcp_call","id":"h_1","server_label":"s","name":"n","arguments":"{\"a\":1}","output":"out","error":null}`,
		`C h_1 mcp(hosted) {"server_label":"s","name":"n","arguments":"{\"a\":1}"} X h_1 mcp(hosted) "out"`},
	{"an MCP server that failed", `{"type":"mcp_call","id":"h_1","server_label":"s","name":"n","arguments":"{}","error":{"type":"x","message":"no"}}`,
		`C h_1 mcp(hosted) {"server_label":"s","name":"n","arguments":"{}"} X! h_1 mcp(hosted) "no"`},
	{"an error as text", `{"type":"mcp_call","id":"h_1","name":"n","error":"no"}`, `C h_1 mcp(hosted) {"name":"n"} X! h_1 mcp(hosted) "no"`},
	{"a search with sources", `{"type":"web_search_call","id":"h_1","status":"completed","action":{"type":"search","sources":["http://x"]}}`,
		`C h_1 web_search(hosted) {"type":"search","sources":["http://x"]} X h_1 web_search(hosted) "[\"http://x\"]"`},
	{"a search without action", `{"type":"web_search_call","id":"h_1","status":"failed"}`, `C h_1 web_search(hosted) {} X! h_1 web_search(hosted) "failed"`},
	{"one of later days", `{"type":"tool_search_call","id":"h_1","arguments":{"q":1},"call_id":null}`, `C h_1 tool_search(hosted) {"arguments":{"q":1}} X h_1 tool_search(hosted) "completed"`},
	{"one without an id", `{"type":"web_search_call","status":"completed"}`, `C call_1 web_search(hosted) {} X call_1 web_search(hosted) "completed"`},
	{"one of another shape", `{"type":"web_search_call","id":7}`, ``},
}

func TestToolsThatTheVendorRan(t *testing.T) {
	t.Parallel()
	for _, tc := range hostedItems {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := request()
			r.Namespace = "" // metadata is another test's matter
			got := protocoltest.Run(t, responses.Protocol{}, r, stream(`{"type":"response.output_item.done","output_index":0,"item":`+tc.item+`}`, `{"type":"response.completed","response":{"output":[`+tc.item+`]}}`))
			want := strings.ReplaceAll("S+ "+tc.want+" SF(stop raw=completed) F(stop)", "  ", " ")
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}
