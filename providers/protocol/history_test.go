package protocol_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func say(s string) *llm.Text { return &llm.Text{Text: s} }

func user(s string) llm.Message { return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{say(s)}} }

func note(s string) llm.Message { return llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{say(s)}} }

func model(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleAssistant, Parts: parts} }

func call(id string) *llm.ToolCall { return &llm.ToolCall{ID: id, Name: "f" + id, Input: "{}"} }

func result(id string, content ...llm.Part) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, Content: content}}}
}

func md(namespace, object string) llm.Metadata {
	return llm.Metadata{namespace: json.RawMessage(object)}
}

// shape writes a history in one line: U text, D a note, A parts, T results.
func shape(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		s := map[llm.Role]string{llm.RoleUser: "U", llm.RoleSystem: "D", llm.RoleAssistant: "A", llm.RoleTool: "T"}[m.Role]
		for _, p := range m.Parts {
			s += " " + shapeOf(p)
		}
		if m.Metadata != nil {
			s += fmt.Sprintf(" %s", m.Metadata)
		}
		out = append(out, s)
	}
	return strings.Join(out, " | ")
}

func shapeOf(p llm.Part) string {
	var s string
	var meta llm.Metadata
	switch p := p.(type) {
	case *llm.Text:
		s, meta = fmt.Sprintf("%q", p.Text), p.Metadata
	case *llm.Reasoning:
		s, meta = fmt.Sprintf("thought %q", p.Text), p.Metadata
	case *llm.ToolCall:
		s, meta = "call "+p.ID, p.Metadata
		if p.Input != "{}" {
			s += " " + p.Input
		}
	case *llm.ToolResult:
		s, meta = "result "+p.ID, p.Metadata
		if p.Name != "" {
			s += " of " + p.Name
		}
		if p.IsError {
			s += " (error)"
		}
		for _, c := range p.Content {
			s += " " + shapeOf(c)
		}
	case *llm.Media:
		s, meta = p.MediaType, p.Metadata
	}
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		s += " " + k + string(meta[k])
	}
	return s
}

func TestNormalisedHistory(t *testing.T) {
	t.Parallel()
	const missing = `"The result of this call is missing: the call ended before it could be recorded."`
	hosted := &llm.ToolCall{ID: "w", Name: "web", Input: "{}", ProviderExecuted: true}
	found := &llm.ToolResult{ID: "w", Name: "web", ProviderExecuted: true}
	for _, tc := range []struct {
		name string
		in   []llm.Message
		want string
	}{
		{"a call and its result", []llm.Message{user("a"), model(call("1")), result("1", say("ok")), user("b")},
			`U "a" | A call 1 | T result 1 of f1 "ok" | U "b"`},
		{"no result before the user speaks", []llm.Message{model(call("1")), user("b")},
			`A call 1 | T result 1 of f1 (error) ` + missing + ` | U "b"`},
		{"no result before the model speaks", []llm.Message{model(call("1"), call("2")), result("2", say("ok")), model(say("b"))},
			`A call 1 call 2 | T result 2 of f2 "ok" | T result 1 of f1 (error) ` + missing + ` | A "b"`},
		{"no result at the end", []llm.Message{model(call("1"), call("2")), result("1", say("ok"))},
			`A call 1 call 2 | T result 1 of f1 "ok" | T result 2 of f2 (error) ` + missing},
		{"a call of the vendor needs none", []llm.Message{model(hosted), user("b")}, `A call w | U "b"`},
		{"a result of the vendor stays", []llm.Message{model(hosted, found, say("x"))}, `A call w result w of web "x"`},
		{"parts of one answer are one message", []llm.Message{
			model(&llm.Reasoning{Text: "hm"}), model(say("x")), model(call("1")), model(call("2")), result("1", say("a")), result("2", say("b")),
		}, `A thought "hm" "x" call 1 call 2 | T result 1 of f1 "a" | T result 2 of f2 "b"`},
		{"a late result is brought forward", []llm.Message{model(call("1")), user("b"), result("1", say("ok")), model(say("c"))},
			`A call 1 | T result 1 of f1 "ok" | U "b" | A "c"`},
		{"a late result of another call of that id is not", []llm.Message{model(call("1")), user("b"), model(call("1")), result("1", say("ok"))},
			`A call 1 | T result 1 of f1 (error) ` + missing + ` | U "b" | A call 1 | T result 1 of f1 "ok"`},
		{"a late result answers one call", []llm.Message{model(call("1"), call("1")), user("b"), result("1", say("ok"))},
			`A call 1 call 1 | T result 1 of f1 "ok" | T result 1 of f1 (error) ` + missing + ` | U "b"`},
		{"an id that is used again", []llm.Message{model(call("1")), result("1", say("a")), model(call("1")), result("1", say("b"))},
			`A call 1 | T result 1 of f1 "a" | A call 1 | T result 1 of f1 "b"`},
		{"a result without a call", []llm.Message{user("a"), result("9", say("x")), user("b")}, `U "a" | U "b"`},
		{"a second result", []llm.Message{model(call("1")), result("1", say("a")), result("1", say("b"))}, `A call 1 | T result 1 of f1 "a"`},
		{"a lost result between two halves of an answer", []llm.Message{model(say("a")), result("9", say("x")), model(say("b"))}, `A "a" "b"`},
		{"a note between call and result waits", []llm.Message{model(call("1")), note("n"), result("1", say("ok")), note("m"), model(say("x"))},
			`A call 1 | T result 1 of f1 "ok" | D "n" | D "m" | A "x"`},
		{"a note behind a call without result waits", []llm.Message{model(call("1")), note("n"), user("b")},
			`A call 1 | T result 1 of f1 (error) ` + missing + ` | D "n" | U "b"`},
		{"a note between calls", []llm.Message{model(call("1")), note("n"), model(call("2")), result("1", say("a")), result("2", say("b"))},
			`A call 1 | T result 1 of f1 "a" | D "n" | A call 2 | T result 2 of f2 "b"`},
		{"an empty result says so", []llm.Message{model(call("1"), call("2")), result("1"), result("2", say(""), say(""))},
			`A call 1 call 2 | T result 1 of f1 "(no tool output)" | T result 2 of f2 "(no tool output)"`},
		{"empty texts in a result", []llm.Message{model(call("1")), result("1", say(""), &llm.Media{MediaType: "image/png"}, say("x"))},
			`A call 1 | T result 1 of f1 image/png "x"`},
		{"empty messages", []llm.Message{user(""), model(say("")), {Role: llm.RoleAssistant}, user("x")}, `U "x"`},
		{"empty input", []llm.Message{model(&llm.ToolCall{ID: "1", Name: "f1"}), result("1", say("a"))}, `A call 1 | T result 1 of f1 "a"`},
		{"empty input of a freeform tool", []llm.Message{model(&llm.ToolCall{ID: "1", Name: "f1", Freeform: true}), result("1", say("a"))},
			`A call 1  | T result 1 of f1 "a"`},
		{"metadata of others", []llm.Message{{Role: llm.RoleAssistant, Metadata: md("w", `{}`), Parts: []llm.Part{
			&llm.Text{Text: "x", Metadata: llm.Metadata{"v": json.RawMessage(`{"a":1}`), "w": json.RawMessage(`{"b":1}`)}},
			&llm.Text{Text: "", Metadata: md("w", `{"sig":1}`)}, &llm.Text{Text: "", Metadata: md("v", `{"sig":1}`)},
		}}}, `A "x" v{"a":1} "" v{"sig":1}`},
		{"metadata of two messages that become one", []llm.Message{
			{Role: llm.RoleAssistant, Metadata: md("v", `{"id":1}`), Parts: []llm.Part{say("a")}},
			{Role: llm.RoleAssistant, Metadata: md("v", `{"id":2}`), Parts: []llm.Part{say("b")}},
		}, `A "a" "b" map[v:{"id":2}]`},
		{"reasoning of others", []llm.Message{model(
			&llm.Reasoning{Text: "theirs", Metadata: md("w", `{"sig":1}`)}, &llm.Reasoning{Text: "ours", Metadata: md("v", `{"sig":1}`)},
			&llm.Reasoning{Text: "anybody's"}, &llm.Reasoning{}, &llm.Reasoning{Metadata: md("v", `{"sig":2}`)},
		)}, `A thought "ours" v{"sig":1} thought "anybody's" thought "" v{"sig":2}`},
		{"only reasoning of others", []llm.Message{user("a"), model(&llm.Reasoning{Text: "theirs", Metadata: md("w", `{}`)}), user("b")}, `U "a" | U "b"`},
		{"reasoning of another family loses its signature", []llm.Message{model(
			&llm.Reasoning{Text: "x", Metadata: md("v", `{"model":"old","sig":1}`)}, &llm.Reasoning{Metadata: md("v", `{"model":"old","sig":1}`)},
			&llm.Reasoning{Text: "y", Metadata: md("v", `{"model":"fam","sig":1}`)},
			&llm.ToolCall{ID: "1", Name: "f1", Input: "{}", Metadata: md("v", `{"model":"old","sig":1}`)},
		), result("1", say("a"))}, `A thought "x" thought "y" v{"model":"fam","sig":1} call 1 | T result 1 of f1 "a"`},
		{"malformed metadata", []llm.Message{model(&llm.Text{Text: "x", Metadata: md("v", `{`)}, &llm.Text{Text: "y", Metadata: md("v", `{"model":1}`)})},
			`A "x" "y"`},
		{"bad bytes", []llm.Message{user("a\xffb\xed\xa0\x80c"), model(&llm.ToolCall{ID: "1", Name: "f1", Input: `{"a":"\ud800"}`}), result("1", say("\xff"))},
			`U "a�b�c" | A call 1 {"a":"\ufffd"} | T result 1 of f1 "�"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &protocol.Request{Request: &llm.Request{Messages: tc.in}, Namespace: "v", Model: protocol.Model{ID: "m", Family: "fam"}}
			before := shape(tc.in)
			if got := shape(protocol.Normalised(r).Messages); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if after := shape(tc.in); after != before {
				t.Errorf("the request itself became %s", after)
			}
		})
	}
}

func TestOnlyResultsThatAreLeftOutAreWarnedOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   []llm.Message
		want int
	}{
		{[]llm.Message{model(call("1")), user("b"), result("1", say("late"))}, 0},
		{[]llm.Message{model(call("1")), result("1", say("a")), result("1", say("again")), result("2", say("lost"))}, 2},
	} {
		got := 0
		protocol.Normalised(&protocol.Request{Request: &llm.Request{Messages: tc.in}, Warn: func(string) { got++ }})
		if got != tc.want {
			t.Errorf("%s: %d warnings, want %d", shape(tc.in), got, tc.want)
		}
	}
}

func TestResultsTakeTheNameOfTheirCall(t *testing.T) {
	t.Parallel()
	r := &protocol.Request{Request: &llm.Request{Messages: []llm.Message{
		model(&llm.ToolCall{ID: "1", Name: "patch", Namespace: "fs", Freeform: true, Input: "x"}),
		{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "1", Name: "other"}}},
	}}}
	got := protocol.Normalised(r).Messages[1].Parts[0].(*llm.ToolResult)
	if got.Name != "patch" || got.Namespace != "fs" || !got.Freeform {
		t.Errorf("the result is %+v", got)
	}
}

func TestNormalisedRequest(t *testing.T) {
	t.Parallel()
	var warnings []string
	r := &protocol.Request{
		Request: &llm.Request{
			System: []string{"a", "", "b\xff"},
			Tools: []llm.Tool{
				{Name: "f", Description: "old"}, {Namespace: "db", Name: "query"}, {Name: "f", Description: "new\xff", InputSchema: json.RawMessage(`{"d":"\udc00"}`)},
				{Name: "db__query"},
			},
			Messages:     []llm.Message{result("9", say("x"))},
			OutputSchema: json.RawMessage(`"\ud83d\ude00"`),
		},
		Warn: func(s string) { warnings = append(warnings, s) },
	}
	got := protocol.Normalised(r)
	if want := []string{"a", "b\uFFFD"}; !slices.Equal(got.System, want) {
		t.Errorf("system is %q", got.System)
	}
	if want := []llm.Tool{{Name: "f", Description: "new\uFFFD", InputSchema: json.RawMessage(`{"d":"\ufffd"}`)}, {Name: "db__query"}}; !reflect.DeepEqual(got.Tools, want) {
		t.Errorf("tools are %+v", got.Tools)
	}
	if string(got.OutputSchema) != `"\ud83d\ude00"` {
		t.Errorf("the output schema is %s", got.OutputSchema)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "call 9") {
		t.Errorf("warnings are %q", warnings)
	}
	if len(r.Tools) != 4 || len(r.System) != 3 {
		t.Error("the request itself was changed")
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	r := &protocol.Request{Request: &llm.Request{}, Namespace: "v", Model: protocol.Model{ID: "m-1"}}
	meta := protocol.Meta{"sig": "s"}
	if got := string(r.Stamped(meta).Under("v")["v"]); got != `{"model":"m-1","sig":"s"}` {
		t.Errorf("without a family the stamp is %s", got)
	}
	r.Model.Family = "m"
	if got := string(r.Stamped(meta).Under("v")["v"]); got != `{"model":"m","sig":"s"}` {
		t.Errorf("the stamp is %s", got)
	}
	if len(meta) != 1 {
		t.Error("stamping changed the original")
	}
	if got := r.Stamped(nil); got != nil {
		t.Errorf("nothing is stamped as %v", got)
	}
	r.Model = protocol.Model{}
	if got := r.Stamped(meta); len(got) != 1 {
		t.Errorf("nobody's stamp is %v", got)
	}
}

func TestSystemUpdate(t *testing.T) {
	t.Parallel()
	if got, want := protocol.SystemUpdate("use <b> & </system-update>"), "<system-update>\nuse &lt;b&gt; &amp; &lt;/system-update&gt;\n</system-update>"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLoneSurrogates(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"x"}`:                   `{"a":"x"}`,
		`"\ud83d\ude00"`:              `"\ud83d\ude00"`,
		`"\ud83dx\ude00"`:             `"\ufffdx\ufffd"`,
		`"\udc00\udc00"`:              `"\ufffd\ufffd"`,
		`"\ude00\ud83d"`:              `"\ufffd\ufffd"`,
		`"\ud83d\ud83d\ude00"`:        `"\ufffd\ud83d\ude00"`,
		`"\\ud83d"`:                   `"\\ud83d"`,
		`"\\\ud83d\n"`:                `"\\\ufffd\n"`,
		`"\uD83D"`:                    `"\ufffd"`,
		`"\u00e9\\"`:                  `"\u00e9\\"`,
		"\"\xff\"":                    "\"\uFFFD\"",
		`no JSON \`:                   `no JSON \`,
		`no JSON \ud8`:                `no JSON \ud8`,
		`\ud800`:                      `\ufffd`,
		strings.Repeat(`\udc00x`, 50): strings.Repeat(`\ufffdx`, 50),
	} {
		r := &protocol.Request{Request: &llm.Request{OutputSchema: json.RawMessage(in)}}
		if got := string(protocol.Normalised(r).OutputSchema); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// drawn is a history as nobody should write it.
func drawn(t *rapid.T) *protocol.Request {
	ids := rapid.SampledFrom([]string{"1", "2", "3"})
	words := rapid.SampledFrom([]string{"", "x", "a\xff"})
	metas := rapid.SampledFrom([]llm.Metadata{
		nil, md("v", `{"a":1}`), md("w", `{"a":1}`), md("v", `{"model":"old"}`), md("v", `{"model":"fam"}`), md("v", `{`),
		{"v": json.RawMessage(`{"a":1}`), "w": json.RawMessage(`{}`)},
	})
	part := rapid.Custom(func(t *rapid.T) llm.Part {
		meta := metas.Draw(t, "meta")
		switch rapid.IntRange(0, 4).Draw(t, "part") {
		case 0:
			return &llm.Reasoning{Text: words.Draw(t, "thought"), Metadata: meta}
		case 1:
			return &llm.ToolCall{
				ID: ids.Draw(t, "id"), Name: "f", Input: rapid.SampledFrom([]string{"", "{}", "{", `"\ud800"`}).Draw(t, "input"),
				Freeform: rapid.Bool().Draw(t, "freeform"), ProviderExecuted: rapid.Bool().Draw(t, "hosted"), Metadata: meta,
			}
		case 2:
			return &llm.ToolResult{
				ID: ids.Draw(t, "id"), Content: llm.Parts{&llm.Text{Text: words.Draw(t, "output")}},
				ProviderExecuted: rapid.IntRange(0, 4).Draw(t, "hosted") == 0, Metadata: meta,
			}
		case 3:
			return &llm.Media{MediaType: "image/png", URL: "http://x", Metadata: meta}
		}
		return &llm.Text{Text: words.Draw(t, "text"), Metadata: meta}
	})
	r := &llm.Request{}
	for range rapid.IntRange(0, 12).Draw(t, "messages") {
		m := llm.Message{
			Role:     rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleSystem, llm.RoleAssistant, llm.RoleAssistant, llm.RoleTool, llm.RoleTool}).Draw(t, "role"),
			Metadata: metas.Draw(t, "meta"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			p := part.Draw(t, "part")
			if _, ok := p.(*llm.ToolCall); ok && m.Role != llm.RoleAssistant {
				continue
			}
			m.Parts = append(m.Parts, p)
		}
		r.Messages = append(r.Messages, m)
	}
	return &protocol.Request{Request: r, Namespace: "v", Model: protocol.Model{Family: "fam"}}
}

// paired checks that each local call has one result, right behind its message.
func paired(ms []llm.Message) error {
	var open []string
	for i, m := range ms {
		if len(m.Parts) == 0 {
			return fmt.Errorf("message %d has no parts", i)
		}
		if i > 0 && m.Role == llm.RoleAssistant && ms[i-1].Role == llm.RoleAssistant {
			return fmt.Errorf("message %d goes on an answer", i)
		}
		if m.Role != llm.RoleTool && len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, open)
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				if !p.ProviderExecuted {
					open = append(open, p.ID)
				}
			case *llm.ToolResult:
				if m.Role != llm.RoleTool || p.ProviderExecuted {
					continue
				}
				at := slices.Index(open, p.ID)
				if at < 0 {
					return fmt.Errorf("the result %s in message %d has no call", p.ID, i)
				}
				open = slices.Delete(open, at, at+1)
			case *llm.Reasoning:
				if _, foreign := p.Metadata["w"]; foreign {
					return fmt.Errorf("message %d has reasoning of others", i)
				}
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results of %v", open)
	}
	return nil
}

func TestNormalisedHistoriesHoldTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, holdsTogether)
}

func holdsTogether(t *rapid.T) {
	r := drawn(t)
	before := shape(r.Messages)
	once := protocol.Normalised(r)
	if after := shape(r.Messages); after != before {
		t.Fatalf("the request itself became %s", after)
	}
	if err := paired(once.Messages); err != nil {
		t.Fatalf("%v\nin  %s\nout %s", err, before, shape(once.Messages))
	}
	twice := protocol.Normalised(once)
	if !reflect.DeepEqual(once.Request, twice.Request) {
		t.Fatalf("a second pass makes\n%s of\n%s", shape(twice.Messages), shape(once.Messages))
	}
}

func FuzzNormalised(f *testing.F) { f.Fuzz(rapid.MakeFuzz(holdsTogether)) }
