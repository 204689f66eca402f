package history_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// conversation makes messages from words: U of the user, C context, T a task by mail, A a text of the agent, K a call, O its output.
func conversation(words string) (out []llm.Message) {
	for w := range strings.FieldsSeq(words) {
		text := []llm.Part{&llm.Text{Text: w}}
		switch w[0] {
		case 'U':
			out = append(out, llm.Message{Role: llm.RoleUser, Parts: text})
		case 'C':
			out = append(out, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "<environment_context>" + w + "</environment_context>"}}})
		case 'T':
			out = append(out, history.MailMessage(event.Mail{Author: "/root", Recipient: "/root/a", Type: event.MailTask, Text: w}))
		case 'M':
			out = append(out, history.MailMessage(event.Mail{Author: "/root", Recipient: "/root/a", Type: event.MailMessage, Text: w}))
		case 'A':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: text})
		case 'K':
			out = append(out, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: w, Name: "x", Input: "{}"}}})
		case 'O':
			out = append(out, llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: w, Name: "x"}}})
		}
	}
	return out
}

func TestInherit(t *testing.T) {
	const whole = "C1 U1 A1 K1 O1 A2 U2 K2 O2 A3 T1 A4 M1 K3"
	for _, tc := range []struct {
		turns      int
		said, want string
	}{
		{1, "C1 U1 A1 U2 A2 K1", "U2"},
		{2, "C1 U1 A1 U2 A2 K1", "U1 A1 U2"},
		{9, "C1 U1 A1 U2 A2 K1", "U1 A1 U2"},
		{1, whole, ""}, // the task by mail, which is somebody else's
		{2, whole, "U2 A3"},
		{3, whole, "U1 A2 U2 A3"},
		{1, "C1 A1 K1", ""},
		{1, "U1 A1 U2 U3 K1", "U2 U3"}, // both began one turn
		{1, "", ""},
	} {
		var got []string
		for _, m := range history.Inherit(conversation(tc.said), tc.turns) {
			got = append(got, m.Text())
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%q, %d turns: %q, want %q", tc.said, tc.turns, s, tc.want)
		}
	}
	if all := history.Inherit(conversation(whole), 0); len(all) != len(conversation(whole)) {
		t.Errorf("all: %d messages", len(all))
	}
}
