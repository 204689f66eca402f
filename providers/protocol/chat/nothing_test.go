package chat

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestAnEmptyListOfToolsThatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words string
		code  llm.ErrorCode
		tools []llm.Tool
		told  bool // the first body had none already
		want  bool
	}{
		{"OpenAI's words", "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.", llm.ErrInvalidRequest, nil, false, true},
		{"vLLM's words", "`tools` must not be an empty array", llm.ErrInvalidRequest, nil, false, true},
		{"a validator's words", "[] is too short - 'tools'", llm.ErrInvalidRequest, nil, false, true},
		{"other words about tools", "tools: unknown type retrieval", llm.ErrInvalidRequest, nil, false, false},
		{"words about another list", "Invalid 'messages': empty array.", llm.ErrInvalidRequest, nil, false, false},
		{"another failure", "tools are too many, at least for now", llm.ErrRateLimit, nil, false, false},
		{"the list was not empty", "tools must not be empty", llm.ErrInvalidRequest, []llm.Tool{{Name: "f"}}, false, false},
		{"there was no list", "tools must not be empty", llm.ErrInvalidRequest, nil, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := asked(protocol.Compat{NoEmptyTools: tt.told}, tt.tools...)
			r.Messages = []llm.Message{of(llm.RoleAssistant, call("c1", "f", "{}")), of(llm.RoleTool, result("c1", text("ok")))}
			again, ok := WithoutEmptyTools(r, &llm.Error{Code: tt.code, Message: tt.words})
			if ok != tt.want {
				t.Fatalf("asks again: %v, want %v", ok, tt.want)
			}
			if !ok {
				return
			}
			if got := sent(t, again, "tools"); got != "" {
				t.Errorf("tools = %s, want none", got)
			}
			if got := sent(t, r, "tools"); got != "[]" {
				t.Errorf("the request itself has the tools %s now", got)
			}
		})
	}
}
