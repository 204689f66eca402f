package messages

import (
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
	cached
}

type toolChoice struct {
	Type                   string `json:"type"`
	Name                   string `json:"name,omitempty"`
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitempty"`
}

// forced reports whether the model must call a tool.
func (c *toolChoice) forced() bool { return c != nil && (c.Type == "any" || c.Type == "tool") }

// tools puts the hosted tools first, so that the mark at the last function includes them.
func (l *lowering) tools() ([]any, error) {
	out, err := l.hostedTools()
	if err != nil {
		return nil, err
	}
	for i := range l.Tools {
		out = append(out, l.tool(&l.Tools[i]))
	}
	if len(out) > 0 {
		return out, nil
	}
	// Services reject a history with calls if no tools are declared, for example when a conversation is summarized.
	for _, name := range protocol.CalledTools(l.Messages) {
		out = append(out, &tool{Name: name, Description: protocol.NoLongerOffered, InputSchema: protocol.Sanitised(nil, "")})
	}
	return out, nil
}

// markTools marks functions; marks are indices into the request's tools.
func (l *lowering) markTools(b *body, marks []int) {
	for _, i := range marks {
		if at := len(l.hosted) + i; at < len(b.Tools) {
			if m, ok := b.Tools[at].(marker); ok {
				l.mark(m)
			}
		}
	}
}

func (l *lowering) tool(t *llm.Tool) *tool {
	out := &tool{
		Name: protocol.WireName(t.Namespace, t.Name), Description: t.Description,
		Strict: t.Strict && !l.Model.Compat.NoStrict,
	}
	if t.Freeform != nil {
		out.InputSchema = protocol.FreeformSchema(t)
		return out
	}
	out.InputSchema = protocol.Sanitised(t.InputSchema, l.Model.Compat.Sanitizer)
	if len(out.InputSchema) == 0 {
		out.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return out
}

func (l *lowering) toolChoice(tools int) (*toolChoice, error) {
	if tools == 0 {
		return nil, nil // without tools, the format allows no choice
	}
	if len(l.Tools)+len(l.hosted) == 0 {
		return &toolChoice{Type: "none"}, nil // they are only declared
	}
	c := &toolChoice{DisableParallelToolUse: !l.ParallelToolCalls && !l.Model.Compat.NoParallelTools}
	switch l.ToolChoice.Mode {
	case "", "auto":
		if !c.DisableParallelToolUse {
			return nil, nil // the vendor's default
		}
		c.Type = "auto"
	case "none":
		return &toolChoice{Type: "none"}, nil
	case "required":
		c.Type = "any"
	case "tool":
		c.Type = "tool"
		switch t := l.ChosenTool(); {
		case t != nil:
			c.Name = protocol.WireName(t.Namespace, t.Name)
		case slices.Contains(l.HostedTools, l.ToolChoice.Name):
			c.Name = hostedName(l.ToolChoice.Name)
		default:
			return nil, l.InvalidChoice()
		}
	default:
		return nil, l.InvalidChoice()
	}
	return c, nil
}
