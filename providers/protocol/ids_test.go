package protocol_test

import (
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// An id that is made up is nobody else's in the conversation, and the same each time the conversation is.
func TestIDs(t *testing.T) {
	t.Parallel()
	history := func(ids ...string) *protocol.Request {
		r := &llm.Request{}
		for _, id := range ids {
			r.Messages = append(r.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{}, &llm.ToolCall{ID: id}}})
		}
		return &protocol.Request{Request: r}
	}
	for _, tc := range []struct {
		r    *protocol.Request
		want string
	}{
		{history(), "[call_1 call_2]"},
		{history("call_1"), "[call_2 call_3]"},
		{history("toolu_a", "toolu_b", "call_3"), "[call_4 call_5]"},
		{history("call_4", "x", "y"), "[call_5 call_6]"},
		{history("call_2", "call_1", "call_4"), "[call_5 call_6]"},
	} {
		for range 2 {
			id := tc.r.IDs()
			if got := fmt.Sprint([]string{id(), id()}); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		}
	}
}
