package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// shelf is a plugin with more tools than a model wants to be told of, and with something to say that only OpenAI's models can read.
func shelf() tool.Plugin {
	type none struct{}
	answer := func(text string) func(context.Context, *tool.Call, none) (*tool.Result, error) {
		return func(context.Context, *tool.Call, none) (*tool.Result, error) { return tool.Text(text), nil }
	}
	return tool.Plugin{
		Name: "shelf", Version: "1.0.0", Description: "Has many tools.",
		Tools: []tool.Tool{
			tool.New("create_event", "Create calendar meeting", answer("created"), tool.Deferred(), tool.ReadOnly(), tool.Namespace("cal")),
			tool.New("boil", "Boils an egg", answer("boiled"), tool.Deferred(), tool.ReadOnly(), tool.SearchText("breakfast")),
			tool.New("letter", "Reads a letter", func(context.Context, *tool.Call, none) (*tool.Result, error) {
				return &tool.Result{Parts: []tool.Part{&tool.TextPart{Text: "it says:"}, &tool.SealedPart{Namespace: "openai", Data: "U0VDUkVU"}}}, nil
			}, tool.ReadOnly()),
		},
	}
}

// wrote writes an answer of OpenAI's of these items, and ends it.
func wrote(w io.Writer, n int, items ...map[string]any) {
	send := func(event map[string]any) {
		b, err := json.Marshal(event)
		if err != nil {
			panic(err) // literals of these tests
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], b) // whoever left is told by what follows
	}
	id := fmt.Sprintf("resp_%d", n)
	send(map[string]any{"type": "response.created", "response": map[string]any{"id": id, "model": "gpt-5.4"}})
	for i, item := range items {
		send(map[string]any{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	send(map[string]any{"type": "response.completed", "response": map[string]any{
		"id": id, "status": "completed", "output": items, "usage": map[string]any{"input_tokens": 100, "output_tokens": 10, "total_tokens": 110},
	}})
}

// A model that can search for tools is told of none that are found by search; what it finds it calls, under its namespace. The
// requests begin alike all the time, so that the vendor has them cached.
func TestToolsThatAreSearched(t *testing.T) {
	t.Parallel()
	item := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	play := func(items ...map[string]any) vendors.Answer {
		return vendors.Answer{Play: func(w io.Writer, n int) { wrote(w, n, items...) }}
	}
	done := item("type", "message", "id", "msg_9", "role", "assistant", "status", "completed", "content", []any{item("type", "output_text", "text", "done", "annotations", []any{})})
	search := func(id string, args map[string]any) map[string]any {
		return item("type", "tool_search_call", "id", "tsc_"+id, "call_id", "s"+id, "execution", "client", "status", "completed", "arguments", args)
	}
	s := vendors.Start(t, "openai-responses",
		play(search("1", item("query", "calendar meeting")), search("2", item("query", "breakfast")), search("3", item("query", "submarine")), search("4", item("words", "x"))),
		play(item("type", "function_call", "id", "fc_5", "call_id", "c5", "namespace", "cal", "name", "create_event", "arguments", "{}", "status", "completed"),
			item("type", "function_call", "id", "fc_6", "call_id", "c6", "name", "boil", "arguments", "{}", "status", "completed"),
			item("type", "function_call", "id", "fc_7", "call_id", "c7", "name", "letter", "arguments", "{}", "status", "completed")),
		play(done),
	)
	r := rig.New(t, "")
	useVendor(r, "openai-responses", s.URL)
	r.Config("plugin \"shell\" {\n  enabled = false\n}\nagents {\n  tools = \"none\"\n}\ngoals {\n  enabled = false\n}\n")
	addOdd(t, r, "shelf", "shelf", "")
	if res := r.OK("exec", "plan breakfast"); !strings.Contains(res.Stdout, "done") {
		t.Errorf("stdout:\n%s", res.Stdout)
	}
	var bodies []struct {
		Tools, Input []json.RawMessage
	}
	for _, q := range s.Requests() {
		bodies = append(bodies, struct{ Tools, Input []json.RawMessage }{})
		if err := json.Unmarshal(q.Raw, &bodies[len(bodies)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 3 {
		t.Fatalf("%d requests", len(bodies))
	}
	for i, b := range bodies {
		var kinds []string
		for _, raw := range b.Tools {
			var tl struct{ Type, Name string }
			if err := json.Unmarshal(raw, &tl); err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, strings.TrimSpace(tl.Type+" "+tl.Name))
		}
		if want := []string{"function letter", "function update_plan", "function request_permissions", "tool_search"}; !slices.Equal(kinds, want) {
			t.Errorf("request %d offers %q, want %q", i+1, kinds, want)
		}
		for k := range min(len(b.Input), len(bodies[max(i-1, 0)].Input)) {
			if i > 0 && string(b.Input[k]) != string(bodies[i-1].Input[k]) {
				t.Errorf("request %d differs from the one before at item %d:\n%s\n%s", i+1, k+1, b.Input[k], bodies[i-1].Input[k])
			}
		}
	}
	var got []string
	for _, raw := range bodies[2].Input {
		var it struct {
			Type   string
			CallID string `json:"call_id"`
			Output json.RawMessage
			Tools  []struct {
				Type, Name   string
				DeferLoading bool `json:"defer_loading"`
				Tools        []struct {
					Name         string
					DeferLoading bool `json:"defer_loading"`
				}
			}
		}
		if err := json.Unmarshal(raw, &it); err != nil {
			t.Fatal(err)
		}
		switch it.Type {
		case "tool_search_output":
			line := it.CallID + ":"
			for _, tl := range it.Tools {
				line += fmt.Sprintf(" %s %s %v", tl.Type, tl.Name, tl.DeferLoading)
				for _, inner := range tl.Tools {
					line += fmt.Sprintf(" (%s %v)", inner.Name, inner.DeferLoading)
				}
			}
			got = append(got, line)
		case "function_call_output":
			got = append(got, it.CallID+": "+string(it.Output))
		}
	}
	want := []string{
		"s1: namespace cal false (create_event true)", "s2: function boil true", "s3:", "s4:", `c5: "created"`, `c6: "boiled"`,
		`c7: "it says:\nencrypted content omitted because this model can't read it"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the model reads\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := string(s.Requests()[1].Raw); !strings.Contains(all, "The search for tools (call s4) failed") {
		t.Error("the model does not learn why a search failed")
	}
}
