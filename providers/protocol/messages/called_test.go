package messages

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Without tools of its own, a request whose history speaks of calls names those that were called, and lets none be called.
func TestToolsOfTheHistoryAreNamed(t *testing.T) {
	history := []llm.Message{
		{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "go"}}},
		{Role: llm.RoleAssistant, Parts: []llm.Part{
			&llm.ToolCall{ID: "a", Name: "look", Input: "{}"}, &llm.ToolCall{ID: "b", Namespace: "web", Name: "get", Input: "{}"},
			&llm.ToolCall{ID: "c", Name: "look", Input: "{}"},
		}},
		{Role: llm.RoleTool, Parts: []llm.Part{
			&llm.ToolResult{ID: "a", Content: llm.Parts{&llm.Text{Text: "x"}}}, &llm.ToolResult{ID: "b", Content: llm.Parts{&llm.Text{Text: "x"}}},
			&llm.ToolResult{ID: "c", Content: llm.Parts{&llm.Text{Text: "x"}}},
		}},
		{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "sum up"}}},
	}
	s := lowered(t, &protocol.Request{Request: &llm.Request{Model: "m", Messages: history}})
	if len(s.Tools) != 2 || s.Tools[0].(map[string]any)["name"] != "look" || s.Tools[1].(map[string]any)["name"] != "web__get" {
		t.Errorf("tools %v", s.Tools)
	}
	if got := string(s.fields["tool_choice"]); got != `{"type":"none"}` {
		t.Errorf("tool_choice %s", got)
	}
	s = lowered(t, &protocol.Request{Request: &llm.Request{Model: "m", Messages: history[:1]}})
	if s.Tools != nil || s.fields["tool_choice"] != nil {
		t.Errorf("a history without calls: %v, %s", s.Tools, s.fields["tool_choice"])
	}
}
