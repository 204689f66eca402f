package claude_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestRefused(t *testing.T) {
	tests := []struct {
		message string
		want    bool
	}{
		{"messages.1.content.0: Invalid `signature` in `thinking` block", true},
		{"invalid_request_error: messages.1.content.0: Invalid `data` in `redacted_thinking` block", true},
		{"messages.129.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.", true},
		{"messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", true},
		{"messages.1: The final block in an assistant message cannot be `thinking`.", true},
		{"prompt is too long", false},
		{"thinking.enabled.budget_tokens: Input should be greater than or equal to 1024", false},
		{"Thinking may not be enabled when tool_choice forces tool use.", false},
	}
	for _, tt := range tests {
		if got := claude.Refused(&llm.Error{Code: llm.ErrInvalidRequest, Message: tt.message}); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.message, got, tt.want)
		}
	}
	if claude.Refused(nil) || claude.Refused(&llm.Error{Code: llm.ErrProviderInternal, Message: "Invalid signature in thinking block"}) {
		t.Error("only a refused request is one")
	}
}

func TestSampling(t *testing.T) {
	warm, one, narrow, wide := 0.5, 1.0, 0.97, 0.5
	top := int64(5)
	on := &claude.Thinking{Type: "adaptive"}
	for _, tt := range []struct {
		name     string
		in       llm.Generation
		thinking *claude.Thinking
		want     string // what is left
		warns    string
	}{
		{"without thinking", llm.Generation{Temperature: &warm, TopK: &top}, nil, "temperature top_k", ""},
		{"thinking is off", llm.Generation{Temperature: &warm}, &claude.Thinking{Type: "disabled"}, "temperature", ""},
		{"one of two", llm.Generation{Temperature: &warm, TopP: &wide}, nil, "temperature", "either"},
		{"a temperature beside thinking", llm.Generation{Temperature: &warm}, on, "", "temperature"},
		{"the only one that goes without saying", llm.Generation{Temperature: &one}, on, "", ""},
		{"top_p within bounds", llm.Generation{TopP: &narrow}, on, "top_p", ""},
		{"top_p beyond them", llm.Generation{TopP: &wide}, on, "", "top_p"},
		{"top_k", llm.Generation{TopK: &top}, on, "", "top_k"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var warned []string
			r := &protocol.Request{Request: &llm.Request{Generation: tt.in}, Warn: func(s string) { warned = append(warned, s) }}
			g := claude.Sampling(r, tt.thinking)
			var left []string
			if g.Temperature != nil {
				left = append(left, "temperature")
			}
			if g.TopP != nil {
				left = append(left, "top_p")
			}
			if g.TopK != nil {
				left = append(left, "top_k")
			}
			if got := strings.Join(left, " "); got != tt.want {
				t.Errorf("left is %q, want %q", got, tt.want)
			}
			if all := strings.Join(warned, " "); tt.warns == "" && all != "" || !strings.Contains(all, tt.warns) {
				t.Errorf("warnings %q, want %q", all, tt.warns)
			}
			if r.Generation.Temperature != tt.in.Temperature {
				t.Error("the request itself was changed")
			}
		})
	}
}
