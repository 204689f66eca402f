package messages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// markedPlaces lists where a body is marked for the cache.
func markedPlaces(t testing.TB, r *protocol.Request) []string {
	t.Helper()
	raw, err := Protocol{}.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	places := map[string][]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s.%d", at, i), e)
			}
		case map[string]any:
			for k, e := range v {
				if k == "cache_control" {
					top, _, _ := strings.Cut(at[1:], ".")
					places[top] = append(places[top], at[1:])
				}
				walk(at+"."+k, e)
			}
		}
	}
	walk("", v)
	return slices.Concat(places["tools"], places["system"], places["messages"])
}

// turns writes a body's messages down, one line each: u is the user, a the model, s a note; the blocks follow.
func turns(t testing.TB, r *protocol.Request) string {
	t.Helper()
	var lines []string
	for _, turn := range lowered(t, r).Messages {
		line := turn["role"].(string)[:1]
		for _, c := range turn["content"].([]any) {
			b := c.(map[string]any)
			switch b["type"] {
			case "text":
				line += fmt.Sprintf(" %q", b["text"])
			case "thinking":
				line += fmt.Sprintf(" think(%v %v)", b["thinking"], b["signature"])
			case "redacted_thinking":
				line += fmt.Sprintf(" redacted(%v)", b["data"])
			case "tool_use":
				line += fmt.Sprintf(" %v:%v(%s)", b["id"], b["name"], encoded(t, b["input"]))
			case "tool_result":
				mark := "="
				if b["is_error"] == true {
					mark = "!"
				}
				line += fmt.Sprintf(" %v%s%s", b["tool_use_id"], mark, encoded(t, b["content"]))
			default:
				line += " " + encoded(t, b)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestHistory(t *testing.T) {
	call := func(id string) *llm.ToolCall { return &llm.ToolCall{ID: id, Name: "f", Input: `{"a":1}`} }
	text := func(s string) *llm.Text { return &llm.Text{Text: s} }
	redacted := &llm.Reasoning{Metadata: llm.Metadata{Namespace: json.RawMessage(`{"redactedData":"D"}`)}}
	foreign := &llm.Reasoning{Text: "t", Metadata: llm.Metadata{"openai": json.RawMessage(`{"itemId":"rs_1"}`)}}
	fails := func(id string, content ...llm.Part) llm.Message {
		return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, IsError: true, Content: content}}}
	}
	paused := llm.Metadata{Namespace: json.RawMessage(`{"stopReason":"pause_turn"}`)}
	image := &llm.Media{MediaType: "image/png", Data: []byte("x")}
	tests := []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"two results of one answer are one turn", []llm.Message{userSays("hi"), modelSays(call("c1"), call("c2")), toolSays("c1", "one"), toolSays("c2", "two")},
			`u "hi"
a c1:f({"a":1}) c2:f({"a":1})
u c1="one" c2="two"`},
		{"what the user says next belongs to it, and comes after", []llm.Message{userSays("hi"), modelSays(call("c1"), call("c2")), toolSays("c1", "one"), toolSays("c2", "two"), userSays("go")},
			`u "hi"
a c1:f({"a":1}) c2:f({"a":1})
u c1="one" c2="two" "go"`},
		{"an answer in messages of their own", []llm.Message{userSays("hi"), modelSays(signed("t", "s")), modelSays(text("a")), modelSays(call("c1")), modelSays(call("c2")),
			toolSays("c1", "one"), toolSays("c2", "two")},
			`u "hi"
a think(t s) "a" c1:f({"a":1}) c2:f({"a":1})
u c1="one" c2="two"`},
		{"messages of the user in a row", []llm.Message{userSays("a"), userSays("b"), modelSays(text("c")), userSays("d")},
			`u "a" "b"
a "c"
u "d"`},
		{"an error is a text", []llm.Message{userSays("hi"), modelSays(call("c1")), fails("c1", text("boom"))},
			`u "hi"
a c1:f({"a":1})
u c1!"boom"`},
		{"and nothing else", []llm.Message{userSays("hi"), modelSays(call("c1")), fails("c1", text("boom"), image, text("bang"))},
			`u "hi"
a c1:f({"a":1})
u c1!"boom\nbang"`},
		{"an error without a message", []llm.Message{userSays("hi"), modelSays(call("c1")), fails("c1", image)},
			`u "hi"
a c1:f({"a":1})
u c1!"(no tool output)"`},
		{"a result in parts", []llm.Message{userSays("hi"), modelSays(call("c1")), {Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "c1", Content: llm.Parts{text("a"), text(" "), text("b")}}}}},
			`u "hi"
a c1:f({"a":1})
u c1=[{"text":"a","type":"text"},{"text":"b","type":"text"}]`},
		{"a blank result", []llm.Message{userSays("hi"), modelSays(call("c1")), toolSays("c1", " \n")},
			`u "hi"
a c1:f({"a":1})
u c1="(no tool output)"`},
		{"blank texts are dropped", []llm.Message{userSays("hi"), userSays(" \n"), modelSays(text(""), text(" "), text("a")), userSays("go")},
			`u "hi"
a "a"
u "go"`},
		{"thinking goes back to the letter", []llm.Message{userSays("hi"), modelSays(signed(" t\n", "s/+="), redacted, signed("", "s2"), text("a")), userSays("go")},
			`u "hi"
a think( t
 s/+=) redacted(D) think( s2) "a"
u "go"`},
		{"unsigned thinking and that of others stay behind", []llm.Message{userSays("hi"), modelSays(&llm.Reasoning{Text: "t"}, foreign, text("a")), userSays("go")},
			`u "hi"
a "a"
u "go"`},
		{"an answer of thinking alone is none", []llm.Message{userSays("hi"), modelSays(signed("t", "s")), userSays("go")}, `u "hi" "go"`},
		{"and its thinking is not the next answer's", []llm.Message{userSays("hi"), modelSays(signed("t", "s")), userSays("go"), modelSays(text("a")), userSays("on")},
			`u "hi" "go"
a "a"
u "on"`},
		{"an answer does not end in thinking", []llm.Message{userSays("hi"), modelSays(text("a"), signed("t", "s")), userSays("go")},
			`u "hi"
a "a"
u "go"`},
		{"thinking between calls stays there", []llm.Message{userSays("hi"), modelSays(signed("t1", "s1"), text("a"), signed("t2", "s2"), call("c1")), toolSays("c1", "one")},
			`u "hi"
a think(t1 s1) "a" think(t2 s2) c1:f({"a":1})
u c1="one"`},
		{"an answer at the start", []llm.Message{modelSays(text("a")), userSays("go")},
			`u "Continue."
a "a"
u "go"`},
		{"an answer at the end, as after a stream that broke", []llm.Message{userSays("hi"), modelSays(text("a "))},
			`u "hi"
a "a "
u "Continue."`},
		{"an answer at the end that was paused", []llm.Message{userSays("hi"), {Role: llm.RoleAssistant, Parts: []llm.Part{text("a")}, Metadata: paused}},
			`u "hi"
a "a"`},
		{"a paused answer that was continued", []llm.Message{userSays("hi"), {Role: llm.RoleAssistant, Parts: []llm.Part{text("a")}, Metadata: paused}, modelSays(text("b")), userSays("go")},
			`u "hi"
a "a" "b"
u "go"`},
		{"a call without a result", []llm.Message{userSays("hi"), modelSays(call("c1")), userSays("go")},
			`u "hi"
a c1:f({"a":1})
u c1!"The result of this call is missing: the call ended before it could be recorded." "go"`},
		{"a result without a call", []llm.Message{userSays("hi"), toolSays("c9", "one"), userSays("go")}, `u "hi" "go"`},
		{"a note of the host", []llm.Message{hostSays("be <brief>"), userSays("hi"), modelSays(text("a")), hostSays("b"), userSays("go"), hostSays("c")},
			`u "<system-update>\nbe &lt;brief&gt;\n</system-update>" "hi"
a "a"
u "<system-update>\nb\n</system-update>" "go" "<system-update>\nc\n</system-update>"`},
		{"a note between a call and its results", []llm.Message{userSays("hi"), modelSays(call("c1"), call("c2")), hostSays("n"), toolSays("c1", "one"), hostSays("m"), toolSays("c2", "two")},
			`u "hi"
a c1:f({"a":1}) c2:f({"a":1})
u c1="one" c2="two" "<system-update>\nn\n</system-update>" "<system-update>\nm\n</system-update>"`},
		{"media of an answer has no place", []llm.Message{userSays("hi"), modelSays(image, text("a")), userSays("go")},
			`u "hi"
a "a"
u "go"`},
		{"ids that the vendor does not take", []llm.Message{userSays("hi"), modelSays(call("a.b"), call("a:b"), call("a_b")), toolSays("a.b", "1"), toolSays("a:b", "2"), toolSays("a_b", "3")},
			`u "hi"
a a_b_2e7336dc8eba:f({"a":1}) a_b_6783a31eabf6:f({"a":1}) a_b:f({"a":1})
u a_b_2e7336dc8eba="1" a_b_6783a31eabf6="2" a_b="3"`},
		{"ids that are used again", []llm.Message{userSays("hi"), modelSays(call("call_1")), toolSays("call_1", "one"), modelSays(call("call_1")), toolSays("call_1", "two")},
			`u "hi"
a call_1:f({"a":1})
u call_1="one"
a call_1_2_b3c5a5d1d6f7:f({"a":1})
u call_1_2_b3c5a5d1d6f7="two"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) { r.Messages, r.Model.Input = tt.messages, []string{"image"} })
			if got := turns(t, r); got != tt.want {
				t.Errorf("turns\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestNotesAsMessages is for models that take notes of the host as messages of their own: only behind the user's turn, and
// before an answer or the end.
func TestNotesAsMessages(t *testing.T) {
	call := &llm.ToolCall{ID: "c1", Name: "f", Input: `{}`}
	tests := []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"first", []llm.Message{hostSays("n"), userSays("hi")}, `u "hi"
s "n"`},
		{"last", []llm.Message{userSays("hi"), hostSays("n"), hostSays("m")}, `u "hi"
s "n" "m"`},
		{"between two of the user", []llm.Message{userSays("hi"), hostSays("n"), userSays("go")}, `u "hi" "go"
s "n"`},
		{"behind an answer", []llm.Message{userSays("hi"), modelSays(&llm.Text{Text: "a"}), hostSays("n"), userSays("go"), modelSays(&llm.Text{Text: "b"}), userSays("on")}, `u "hi"
a "a"
u "go"
s "n"
a "b"
u "on"`},
		{"between a call and its result", []llm.Message{userSays("hi"), modelSays(call), hostSays("n"), toolSays("c1", "one")}, `u "hi"
a c1:f({})
u c1="one"
s "n"`},
		{"behind an answer at the end", []llm.Message{userSays("hi"), modelSays(&llm.Text{Text: "a"}), hostSays("n")}, `u "hi"
a "a"
u "<system-update>\nn\n</system-update>"`},
		{"alone", []llm.Message{hostSays("n")}, `u "<system-update>\nn\n</system-update>"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(func(r *protocol.Request) { r.Messages, r.Model.Compat.SystemUpdates = tt.messages, true })
			if got := turns(t, r); got != tt.want {
				t.Errorf("turns\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestInputs(t *testing.T) {
	freeform := llm.Tool{Name: "patch", Freeform: &llm.Freeform{Property: "diff"}}
	tests := []struct {
		name string
		call llm.ToolCall
		want string
	}{
		{"an object as the model wrote it", llm.ToolCall{Input: " {\"b\": 1, \"a\":\"<\"} "}, `{"b":1,"a":"<"}`},
		{"nothing", llm.ToolCall{}, `{}`},
		{"broken JSON", llm.ToolCall{Input: `{"a":`}, `{"input":"{\"a\":"}`},
		{"another value", llm.ToolCall{Input: `[1]`}, `{"input":"[1]"}`},
		{"raw text", llm.ToolCall{Name: "patch", Freeform: true, Input: "*** Begin"}, `{"diff":"*** Begin"}`},
		{"raw text of a tool that is gone", llm.ToolCall{Name: "old", Freeform: true, Input: "x"}, `{"input":"x"}`},
		{"raw text that looks like JSON", llm.ToolCall{Name: "patch", Freeform: true, Input: "{}"}, `{"diff":"{}"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.call.ID = "c1"
			if tt.call.Name == "" {
				tt.call.Name = "f"
			}
			r := request(func(r *protocol.Request) {
				r.Tools = []llm.Tool{freeform}
				r.Messages = append(r.Messages, modelSays(&tt.call), toolSays("c1", "ok"))
			})
			raw, err := Protocol{}.Body(r)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(raw), `"input":`+tt.want+`}`) {
				t.Errorf("body %s, want the input %s", raw, tt.want)
			}
		})
	}
}

// TestUnsignedThinkingGoesBack is for vendors who copy the format, sign nothing, and want thinking on every answer.
func TestUnsignedThinkingGoesBack(t *testing.T) {
	r := request(func(r *protocol.Request) {
		budgetModel(r, "high")
		r.Model.Compat.RequireReasoning = true
		r.Messages = append(r.Messages, modelSays(&llm.Reasoning{Text: "t"}, &llm.ToolCall{ID: "c1", Name: "f"}), toolSays("c1", "one"),
			modelSays(&llm.ToolCall{ID: "c2", Name: "f"}), toolSays("c2", "two"))
	})
	want := `u "hi"
a think(t ) c1:f({})
u c1="one"
a think( ) c2:f({})
u c2="two"`
	if got := turns(t, r); got != want {
		t.Errorf("turns\n%s\nwant\n%s", got, want)
	}
}

// TestCitationsGoBack sends those of the vendor's own search, which it needs to go on.
func TestCitationsGoBack(t *testing.T) {
	own := `{"type":"web_search_result_location","url":"u","encrypted_index":"E"}`
	r := request(func(r *protocol.Request) {
		r.Messages = append(r.Messages, modelSays(&llm.Text{Text: "a", Metadata: llm.Metadata{
			Namespace: json.RawMessage(`{"citations":[` + own + `,{"type":"char_location","document_index":0}]}`),
		}}), userSays("go"))
	})
	want := `[{"type":"text","text":"a","citations":[` + own + `]}]`
	if got := lowered(t, r).Messages[1]["content"]; !sameJSON(t, got, want) {
		t.Errorf("%s, want %s", encoded(t, got), want)
	}
}

// TestPrefixes demands that a longer history only adds to the end of the bytes, which is what prompt caches go by.
func TestPrefixes(t *testing.T) {
	n := 0
	step := rapid.Custom(func(t *rapid.T) []llm.Message {
		n++
		id := fmt.Sprintf("c.%d", n)
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0:
			return []llm.Message{modelSays(signed("t", "s"), &llm.Text{Text: "a"}), userSays("u")}
		case 1:
			return []llm.Message{modelSays(&llm.ToolCall{ID: id, Name: "f", Input: `{"a":1}`}), toolSays(id, "ok")}
		case 2:
			return []llm.Message{modelSays(&llm.ToolCall{ID: "call_1", Name: "f"}), toolSays("call_1", "again")}
		case 3:
			return []llm.Message{modelSays(signed("t", "s")), modelSays(&llm.ToolCall{ID: id, Name: "f"}), modelSays(&llm.ToolCall{ID: id + "b", Name: "f"}),
				toolSays(id, "1"), hostSays("n"), toolSays(id+"b", "2")}
		}
		return []llm.Message{modelSays(&llm.Text{Text: "a"}), hostSays("n"), userSays("u")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		r := request(func(r *protocol.Request) {
			thinkingModel(r, "high")
			r.System, r.Tools = []string{"s"}, []llm.Tool{{Name: "f"}}
			r.Model.Compat.SystemUpdates = rapid.Bool().Draw(rt, "native notes")
		})
		before := ""
		for _, more := range rapid.SliceOfN(step, 1, 8).Draw(rt, "steps") {
			r.Messages = append(r.Messages, more...)
			raw, err := Protocol{}.Body(r)
			if err != nil {
				rt.Fatal(err)
			}
			body := strings.TrimSuffix(string(raw), "]}")
			if !strings.HasPrefix(body, before) {
				rt.Fatalf("the longer history\n%s\ndoes not begin with the shorter one\n%s", body, before)
			}
			before = body
		}
	})
}
