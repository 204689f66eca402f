package responses_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func searching(m *protocol.Model) { m.Search = true }

func searchTool() llm.Tool {
	return llm.Tool{Name: "tool_search", Description: "Finds tools.", InputSchema: anything, Search: true}
}

func search(id, input string) *llm.ToolCall {
	return &llm.ToolCall{ID: id, Name: "tool_search", Input: input, Search: true}
}

func found(id string, tools ...llm.Tool) *llm.ToolResult {
	return &llm.ToolResult{ID: id, Name: "tool_search", Search: true, Tools: tools, Content: llm.Parts{words("Found: …")}}
}

const serverSearch = `{"type":"tool_search_output","id":"tso_1","call_id":null,"execution":"server","status":"completed","tools":[{"type":"namespace","name":"cal","description":"d","tools":[{"type":"function","name":"create_event"}]}]}`

// Searches for tools go out in their own form where the model has one, and as calls like any other elsewhere.
func TestSearchesInTheHistory(t *testing.T) {
	t.Parallel()
	create := llm.Tool{Name: "create_event", Namespace: "cal", Description: "Create calendar meeting", InputSchema: json.RawMessage(`{"type":"object"}`)}
	drop := llm.Tool{Name: "drop_event", Namespace: "cal", InputSchema: json.RawMessage(`{"type":"object"}`)}
	plain := llm.Tool{Name: "plain", InputSchema: json.RawMessage(`{"type":"object"}`)}
	ours := withMeta(search("c1", `{"query":"calendar"}`), `{"itemId":"tsc_1"}`)
	fn := func(name, description string) string {
		return `{"type":"function","name":"` + name + `",` + description + `"parameters":{"type":"object","properties":{}},"strict":false,"defer_loading":true}`
	}
	for _, tc := range []struct {
		name     string
		model    func(*protocol.Model)
		messages []llm.Message
		want     []string
	}{
		{"what was found, by namespace", searching, []llm.Message{assistant(ours), tool(found("c1", create, plain, drop))}, []string{
			`{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","status":"completed","arguments":{"query":"calendar"}}`,
			`{"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[{"type":"namespace","name":"cal","description":"The tools of cal.","tools":[` +
				fn("create_event", `"description":"Create calendar meeting",`) + `,` + fn("drop_event", "") + `]},` + fn("plain", "") + `]}`,
		}},
		{"nothing", searching, []llm.Message{assistant(ours), tool(found("c1"))}, []string{
			`{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","status":"completed","arguments":{"query":"calendar"}}`,
			`{"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[]}`,
		}},
		{"a search without its result", searching, []llm.Message{assistant(search("c1", ``)), user(words("hi"))}, []string{
			`{"type":"tool_search_call","call_id":"c1","execution":"client","status":"completed","arguments":{}}`,
			`{"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[]}`,
			`{"role":"user","content":[{"type":"input_text","text":"hi"}]}`,
		}},
		{"a call under the id of a search", searching, []llm.Message{assistant(ours), tool(found("c1")), assistant(call("c1", "f", `{}`)), tool(result("c1", words("ok")))}, []string{
			`{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","status":"completed","arguments":{"query":"calendar"}}`,
			`{"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[]}`,
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c1","output":"ok"}`,
		}},
		{"a model that does not search", nil, []llm.Message{assistant(search("c1", `{"query":"calendar"}`)), tool(found("c1", create))}, []string{
			`{"type":"function_call","call_id":"c1","name":"tool_search","arguments":"{\"query\":\"calendar\"}"}`,
			`{"type":"function_call_output","call_id":"c1","output":"Found: …"}`,
		}},
		{"what the vendor found, alone", searching, []llm.Message{
			assistant(withMeta(&llm.ToolResult{ID: "tso_1", Name: "tool_search", ProviderExecuted: true, Search: true, Content: llm.Parts{words("found")}}, `{"itemId":"tso_1","item":`+serverSearch+`}`)),
		}, []string{serverSearch}},
	} {
		r := request()
		r.Model = thinker()
		if tc.model != nil {
			tc.model(&r.Model)
			r.Tools = []llm.Tool{searchTool()}
		}
		r.Messages = tc.messages
		body, err := (responses.Protocol{}).Body(r)
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if got := itemsOf(t, body); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// The tool that searches has a form of its own; beside it tools are grouped by namespace, which is how found ones are called.
func TestTheToolThatSearches(t *testing.T) {
	t.Parallel()
	r := request()
	r.Model = thinker()
	r.Model.Search = true
	r.Tools = []llm.Tool{{Name: "look", Namespace: "db", InputSchema: anything}, searchTool()}
	body, err := (responses.Protocol{}).Body(r)
	if err != nil {
		t.Fatal(err)
	}
	var b struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, raw := range b.Tools {
		got = append(got, string(raw))
	}
	want := []string{
		`{"type":"namespace","name":"db","description":"The tools of db.","tools":[{"type":"function","name":"look","parameters":` + string(anything) + `,"strict":false}]}`,
		`{"type":"tool_search","execution":"client","description":"Finds tools.","parameters":` + string(anything) + `}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A search of the client's is a call of ours; one of the vendor's, and what it found, are pairs that go back as they came.
func TestSearchesInAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, item, want string }{
		{"ours", `{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","status":"completed","arguments":{"query": "cal", "limit": 2}}`,
			`C c1 tool_search {"query": "cal", "limit": 2} SF(tool-calls raw=completed) F(tool-calls)`},
		{"ours, with its arguments as text", `{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","arguments":"{\"query\":\"cal\"}"}`,
			`C c1 tool_search {"query":"cal"} SF(tool-calls raw=completed) F(tool-calls)`},
		{"ours, without arguments", `{"type":"tool_search_call","id":"tsc_1","call_id":"c1","execution":"client","arguments":null}`,
			`C c1 tool_search {} SF(tool-calls raw=completed) F(tool-calls)`},
		{"the vendor's", `{"type":"tool_search_call","id":"tsc_1","call_id":null,"execution":"server","arguments":{"paths":["cal"]}}`,
			`C tsc_1 tool_search(hosted) {"arguments":{"paths":["cal"]}} X tsc_1 tool_search(hosted) "completed" SF(stop raw=completed) F(stop)`},
		{"nobody's", `{"type":"tool_search_call","id":"tsc_1","call_id":null,"execution":"client","arguments":{}}`,
			`C tsc_1 tool_search(hosted) {"arguments":{}} X tsc_1 tool_search(hosted) "completed" SF(stop raw=completed) F(stop)`},
		{"what the vendor found", serverSearch, `C tso_1 tool_search(hosted) {} X tso_1 tool_search(hosted) "found: cal.create_event" SF(stop raw=completed) F(stop)`},
		{"that it found nothing", `{"type":"tool_search_output","id":"tso_1","execution":"server","tools":[]}`,
			`C tso_1 tool_search(hosted) {} X tso_1 tool_search(hosted) "nothing was found" SF(stop raw=completed) F(stop)`},
		{"of another shape", `{"type":"tool_search_output","id":"tso_1","tools":7}`, `SF(stop raw=completed) F(stop)`},
	} {
		r := request()
		r.Namespace = ""
		r.Model.Search = true
		r.Tools = []llm.Tool{searchTool()}
		got := protocoltest.Run(t, responses.Protocol{}, r, stream(`{"type":"response.output_item.done","output_index":0,"item":`+tc.item+`}`, `{"type":"response.completed","response":{"output":[`+tc.item+`]}}`))
		if want := "S+ " + tc.want; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.name, got, want)
		}
	}
}

// A tool that was found is called by the names that it went out under, whatever they look like.
func TestCallOfAToolThatWasFound(t *testing.T) {
	t.Parallel()
	odd := llm.Tool{Name: "create-event", Namespace: "my cal", InputSchema: json.RawMessage(`{"type":"object"}`)}
	r := request()
	r.Namespace = ""
	r.Model.Search = true
	r.Tools = []llm.Tool{searchTool()}
	r.Messages = []llm.Message{assistant(search("c1", `{}`)), tool(found("c1", odd))}
	got := protocoltest.Run(t, responses.Protocol{}, r, stream(`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c2","name":"`+
		protocol.WireName("my cal", "create-event")+`","arguments":"{}"}}`, `{"type":"response.completed","response":{"output":[]}}`))
	if !strings.Contains(got, "C c2 my cal.create-event {}") {
		t.Error(got)
	}
}

// Content that is encrypted for the vendor's models goes out where the vendor takes it.
func TestEncryptedOutput(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		takes     bool
		namespace string
		want      string
	}{
		{"its own", true, "openai", `[{"type":"input_text","text":"a"},{"type":"encrypted_content","encrypted_content":"XYZ"}]`},
		{"another's", true, "other", `"a\nencrypted content omitted because this model can't read it"`},
		{"where nobody says that it is taken", false, "openai", `"a\nencrypted content omitted because this model can't read it"`},
	} {
		r := request()
		r.Namespace = "openai"
		r.Model = thinker()
		r.Model.Compat.SealedOutput = tc.takes
		r.Messages = []llm.Message{assistant(call("c1", "f", `{}`)), tool(result("c1", words("a"), &llm.Sealed{Namespace: tc.namespace, Data: "XYZ"}))}
		body, err := (responses.Protocol{}).Body(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := itemsOf(t, body)[1], `{"type":"function_call_output","call_id":"c1","output":`+tc.want+`}`; got != want {
			t.Errorf("%s: %s, want %s", tc.name, got, want)
		}
	}
}

// A text says whether it is a remark on the way.
func TestRemarks(t *testing.T) {
	t.Parallel()
	for phase, want := range map[string]bool{"commentary": true, "final_answer": false, "": false} {
		item := `{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"a"}],"phase":"` + phase + `"}`
		for _, e := range protocoltest.Events(t, responses.Protocol{}, request(), answered(item)) {
			if end, ok := e.(llm.BlockEnd); ok && end.Remark != want {
				t.Errorf("phase %q: remark %v", phase, end.Remark)
			}
		}
	}
}
