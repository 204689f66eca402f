package history

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// A vendor refuses a call of its own tools without its result and the other way round, so it gets back pairs only, and the
// call that it paused in the middle of.
func TestCallsOfTheVendorGoBackInPairs(t *testing.T) {
	call := func(id, ns string) llm.Message {
		return say(&llm.ToolCall{ID: id, Name: "search", ProviderExecuted: true, Metadata: md(ns)})
	}
	result := func(id, ns string) llm.Message {
		return say(&llm.ToolResult{ID: id, Name: "search", ProviderExecuted: true, Metadata: md(ns), Content: llm.Parts{&llm.Text{Text: "x"}}})
	}
	user := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "and?"}}}
	local := say(&llm.ToolCall{ID: "1", Name: "f"})
	output := llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "1", Content: llm.Parts{&llm.Text{Text: "y"}}}}}
	for _, tc := range []struct {
		name   string
		in     []llm.Message
		paused int
		want   string
	}{
		{"a pair", []llm.Message{call("1", "a"), result("1", "a")}, 0, "assistant C(1 search)@a\nassistant O(1: T(x))@a"},
		{"a pair with others between", []llm.Message{call("1", "a"), user, result("1", "a")}, 0,
			"assistant C(1 search)@a\nuser T(and?)\nassistant O(1: T(x))@a"},
		{"a call whose stream broke", []llm.Message{user, call("1", "a"), user}, 0, "user T(and?)\nuser T(and?)"},
		{"the same, asked again", []llm.Message{user, call("1", "a"), call("1", "a"), result("1", "a")}, 0,
			"user T(and?)\nassistant C(1 search)@a\nassistant O(1: T(x))@a"},
		{"beside words", []llm.Message{say(&llm.Text{Text: "hm"}, &llm.ToolCall{ID: "1", ProviderExecuted: true, Metadata: md("a")})}, 0, "assistant T(hm)"},
		{"a result without its call", []llm.Message{user, result("1", "a")}, 0, "user T(and?)"},
		{"a result before its call", []llm.Message{result("1", "a"), call("1", "a")}, 0, ""},
		{"ids of our own calls are something else", []llm.Message{local, call("1", "a"), output}, 0,
			"assistant C(1 f)\ntool O(1: T(y))"},
		{"of another vendor's all is told", []llm.Message{call("1", "b"), result("2", "b")}, 0,
			"assistant T((The tool search was run by the vendor of the model that answered here.))\nassistant T((The tool search gave:)\nx)"},
		{"another vendor's result answers nothing here", []llm.Message{call("1", "a"), result("1", "b")}, 0,
			"assistant T((The tool search gave:)\nx)"},
		{"a paused answer goes back as it is", []llm.Message{user, call("1", "a")}, 2, "user T(and?)\nassistant C(1 search)@a"},
		{"also with outputs of ours behind it", []llm.Message{user, local, call("2", "a"), output}, 4,
			"user T(and?)\nassistant C(1 f)\nassistant C(2 search)@a\ntool O(1: T(y))"},
		{"until the user says something", []llm.Message{user, call("1", "a"), user}, 2, "user T(and?)\nuser T(and?)"},
		{"what broke behind the pause goes", []llm.Message{user, call("1", "a"), call("2", "a")}, 2, "user T(and?)\nassistant C(1 search)@a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := rendered(tc.in)
			if got := rendered(New(tc.in).ForPrompt(Traits{Namespace: "a", Paused: tc.paused})); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if rendered(tc.in) != before {
				t.Error("the history changed")
			}
		})
	}
}

// What the vendor said of an answer that it paused goes back with the answer's last message, to it alone, and only in the request.
func TestWhatWasSaidOfAPauseGoesBack(t *testing.T) {
	user := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "go"}}}
	first := llm.Message{Role: llm.RoleAssistant, Metadata: llm.Metadata{"a": json.RawMessage(`1`)}, Parts: []llm.Part{&llm.Text{Text: "x"}}}
	last := llm.Message{Role: llm.RoleAssistant, Metadata: llm.Metadata{"a": json.RawMessage(`2`)}, Parts: []llm.Part{&llm.Text{Text: "y"}}}
	output := llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "1", Content: llm.Parts{&llm.Text{Text: "z"}}}}}
	call := say(&llm.ToolCall{ID: "1", Name: "f"})
	for name, tc := range map[string]struct {
		in     []llm.Message
		paused int
		vendor string
		want   string // metadata of the messages
	}{
		"the last message": {[]llm.Message{user, first, last}, 3, "a", "- 1 paused"},
		"not a later one":  {[]llm.Message{user, first, last}, 2, "a", "- paused 2"},
		"no pause":         {[]llm.Message{user, first, last}, 0, "a", "- 1 2"},
		"another vendor":   {[]llm.Message{user, first, last}, 3, "b", "- - -"},
		"outputs of ours":  {[]llm.Message{user, call, output}, 3, "a", "- - -"},
	} {
		t.Run(name, func(t *testing.T) {
			h := New(tc.in)
			metas := func(ms []llm.Message) string {
				var out []string
				for _, m := range ms {
					out = append(out, cmp.Or(string(m.Metadata["a"]), string(m.Metadata["b"]), "-"))
				}
				return strings.Join(out, " ")
			}
			before := metas(h.Messages())
			got := metas(h.ForPrompt(Traits{Namespace: tc.vendor, Paused: tc.paused, PausedWith: llm.Metadata{"a": json.RawMessage("paused")}}))
			if got != tc.want {
				t.Errorf("metadata %s, want %s", got, tc.want)
			}
			if after := metas(h.Messages()); after != before {
				t.Errorf("the history changed from %s to %s", before, after)
			}
		})
	}
}
