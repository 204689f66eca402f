package chat

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// folded is the message that an answer makes.
func folded(t *testing.T, r *protocol.Request, stream []byte) *llm.Message {
	t.Helper()
	var f llm.Fold
	for _, e := range protocoltest.Events(t, Protocol{}, r, stream) {
		f.Add(e)
	}
	if f.Err() != nil {
		t.Fatal(f.Err())
	}
	return f.Message()
}

// What a vendor gave along with an answer stands in the next request as it came.
func TestContinuity(t *testing.T) {
	const c1 = `{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`
	const c1Sent = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	signed := []byte(nil)
	signed = append(signed, frames(`{"reasoning":"h","reasoning_details":[{"type":"reasoning.text","text":"h","format":"anthropic-claude-v1","index":0}]}`,
		`{"reasoning":"m","reasoning_details":[{"type":"reasoning.text","text":"m","format":"anthropic-claude-v1","index":0}]}`,
		`{"reasoning_details":[{"type":"reasoning.text","signature":"a/b+c==","format":"anthropic-claude-v1","index":0}]}`,
		`{"reasoning_details":[{"type":"reasoning.encrypted","data":"<E>","id":"c1","format":"google-gemini-v1","index":1}]}`, calls(c1), ended("tool_calls"), done)...)
	tests := []struct {
		name   string
		compat protocol.Compat
		stream []byte
		want   string
	}{
		{
			"the field", protocol.Compat{}, frames(`{"reasoning":"hm"}`, calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":null,"reasoning":"hm",` + c1Sent,
		},
		{
			"the field, required", protocol.Compat{ReasoningField: "reasoning_content", RequireReasoning: true},
			frames(`{"reasoning_content":"hm"}`, `{"content":"a"}`, calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":"a","reasoning_content":"hm",` + c1Sent,
		},
		{
			"the field, required, but nothing was thought", protocol.Compat{RequireReasoning: true}, frames(calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":null,"reasoning_content":"",` + c1Sent,
		},
		{
			"signed and sealed entries", protocol.Compat{}, signed,
			`{"role":"assistant","content":null,"reasoning":"hm","reasoning_details":[{"format":"anthropic-claude-v1","index":0,"signature":"a/b+c==","text":"hm","type":"reasoning.text"},` +
				`{"data":"<E>","format":"google-gemini-v1","id":"c1","index":1,"type":"reasoning.encrypted"}],` + c1Sent,
		},
		{
			"entries without a prefix", protocol.Compat{},
			frames(`{"reasoning_content":"hm","reasoning_details":[{"type":"summary","summary":"s","index":0},{"type":"encrypted","encrypted":"E","index":1}]}`, calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":null,"reasoning_content":"hm","reasoning_details":[{"summary":"s","type":"summary"},{"encrypted":"E","type":"encrypted"}],` + c1Sent,
		},
		{
			"parts of the content", protocol.Compat{},
			frames(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`, calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true}],` + c1Sent,
		},
		{
			"a call's signature", protocol.Compat{},
			frames(calls(strings.Replace(c1, `"id"`, `"extra_content":{"google":{"thought_signature":"<s>"}},"id"`, 1)), ended("tool_calls"), done),
			`{"role":"assistant","content":null,` + strings.Replace(c1Sent, `"{}"}}`, `"{}"},"extra_content":{"google":{"thought_signature":"<s>"}}}`, 1),
		},
		{
			"thinking that was marked in the text does not go back", protocol.Compat{ThinkTags: &protocol.ThinkTags{Open: "<think>", Close: "</think>"}},
			frames(`{"content":"<think>hm</think>a"}`, calls(c1), ended("tool_calls"), done),
			`{"role":"assistant","content":"a",` + c1Sent,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := asked(tt.compat)
			answer := folded(t, r, tt.stream)
			history := []llm.Message{say("hi"), *answer, of(llm.RoleTool, result("c1", text("ok"))), say("go on")}
			want := `[{"role":"user","content":"hi"},` + tt.want + `,{"role":"tool","content":"ok","tool_call_id":"c1"},{"role":"user","content":"go on"}]`
			r.Messages = history
			if got := sent(t, r, "messages"); got != want {
				t.Errorf("messages\n%s\nwant\n%s", got, want)
			}
			// A host may keep each part of an answer by itself.
			r.Messages = []llm.Message{say("hi")}
			for _, p := range answer.Parts {
				r.Messages = append(r.Messages, of(llm.RoleAssistant, p))
			}
			r.Messages = append(r.Messages, history[2:]...)
			if got := sent(t, r, "messages"); got != want {
				t.Errorf("kept in parts: messages\n%s\nwant\n%s", got, want)
			}
			// Another vendor gets nothing of it.
			r.Messages, r.Namespace = history, "other"
			r.Model.Compat = protocol.Compat{}
			if got := sent(t, r, "messages"); strings.Contains(got, "reasoning") || strings.Contains(got, "extra_content") || strings.Contains(got, "thinking") {
				t.Errorf("to another vendor: %s", got)
			}
		})
	}
}

// The same model, another family of models, and the model behind another provider.
func TestSignaturesStayInTheFamily(t *testing.T) {
	r := asked(protocol.Compat{})
	r.Model.Family = "claude"
	answer := folded(t, r, frames(`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","signature":"s"}]}`, `{"content":"a"}`, ended("stop"), done))
	r.Messages = []llm.Message{say("hi"), *answer, say("go on")}
	for _, tt := range []struct {
		id, family string
		signed     bool
	}{{"m", "claude", true}, {"another of them", "claude", true}, {"m", "gpt", false}, {"m", "", false}} {
		r.Model.ID, r.Model.Family = tt.id, tt.family
		if got := sent(t, r, "messages"); strings.Contains(got, `"signature":"s"`) != tt.signed {
			t.Errorf("model %q of family %q is sent %s", tt.id, tt.family, got)
		}
	}
}
