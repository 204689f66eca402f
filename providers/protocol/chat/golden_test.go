package chat

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// conversation is a thread with a bit of everything.
func conversation(c protocol.Compat) *protocol.Request {
	r := asked(c,
		llm.Tool{Namespace: "fs", Name: "read", Description: "Reads a file.", InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		llm.Tool{Name: "apply_patch", Description: "Changes files.", Freeform: &llm.Freeform{Syntax: "lark", Definition: `start: "x"`, Property: "patch"}},
	)
	r.System = []string{"You are careful.", "Be brief."}
	r.ToolChoice.Mode = "auto"
	r.ParallelToolCalls = true
	r.PromptCacheKey = "thread-1"
	r.ReasoningEffort = "high"
	r.Generation = llm.Generation{MaxTokens: number[int64](4096), Temperature: number(0.2), Seed: number[int64](7)}
	r.Messages = []llm.Message{
		of(llm.RoleSystem, text("The folder is /src.")),
		of(llm.RoleUser, text("What is wrong here?"), image()),
		of(llm.RoleAssistant, thought("Let me look.", `{"model":"m","reasoningDetails":[{"format":"x","signature":"s","text":"Let me look.","type":"reasoning.text"}],"reasoningField":"reasoning"}`)),
		of(llm.RoleAssistant, text("I look at two files.")),
		of(llm.RoleAssistant, &llm.ToolCall{ID: "call_abc-123456", Namespace: "fs", Name: "read", Input: `{"path":"a.go"}`,
			Metadata: llm.Metadata{"acme": json.RawMessage(`{"extraContent":{"google":{"thought_signature":"sig"}},"model":"m"}`)}}),
		of(llm.RoleAssistant, &llm.ToolCall{ID: "call_abc-123999", Namespace: "fs", Name: "read", Input: `{"path":"b.png"}`}),
		of(llm.RoleTool, result("call_abc-123456", text("package a"))),
		of(llm.RoleTool, result("call_abc-123999", text("a picture"), image())),
		of(llm.RoleSystem, text("Writing is <allowed> now.")),
		of(llm.RoleUser, text("Put it right.")),
	}
	return r
}

func TestGoldenBodies(t *testing.T) {
	for name, compat := range map[string]protocol.Compat{
		"plain":    {},
		"gateway":  {InlineCache: true, EffortField: "reasoning", NoStore: true, ToolCallIDs: "claude", Body: json.RawMessage(`{"usage":{"include":true}}`)},
		"deepseek": {MaxTokensField: "max_tokens", NoStore: true, NoImages: true, ReasoningField: "reasoning_content", RequireReasoning: true, EffortField: "thinking", EffortMap: map[string]string{"high": "high"}},
		"mistral":  {MaxTokensField: "max_tokens", NoStore: true, NoStreamUsage: true, RandomSeed: true, ReasoningField: "content", ToolCallIDs: "mistral", AssistantAfterTool: true},
	} {
		t.Run(name, func(t *testing.T) { protocoltest.Golden(t, name, Protocol{}, conversation(compat)) })
	}
}

// A body is the same each time: vendors' caches compare bytes.
func TestBodiesAreStable(t *testing.T) {
	r := conversation(protocol.Compat{InlineCache: true, EffortMap: map[string]string{"high": "high", "low": "low"}, Body: json.RawMessage(`{"b":1,"a":{"d":2,"c":3}}`)})
	first, err := Protocol{}.Body(r)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := (Protocol{}).Body(r); err != nil || string(again) != string(first) {
			t.Fatalf("a second body differs (%v):\n%s\n%s", err, again, first)
		}
	}
}
