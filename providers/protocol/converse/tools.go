package converse

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type toolConfig struct {
	Tools      []tool      `json:"tools"`
	ToolChoice *toolChoice `json:"toolChoice,omitempty"`
}

// tool is a function, or the cache mark after the last one.
type tool struct {
	ToolSpec   *toolSpec   `json:"toolSpec,omitempty"`
	CachePoint *cachePoint `json:"cachePoint,omitempty"`
}

type toolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	InputSchema struct {
		JSON json.RawMessage `json:"json"`
	} `json:"inputSchema"`
	Strict bool `json:"strict,omitempty"`
}

// toolChoice is a union; auto and any are empty objects.
type toolChoice struct {
	Auto *struct{}  `json:"auto,omitempty"`
	Any  *struct{}  `json:"any,omitempty"`
	Tool *namedTool `json:"tool,omitempty"`
}

type namedTool struct {
	Name string `json:"name"`
}

// forced reports whether the model must call a tool.
func (c *toolConfig) forced() bool {
	return c != nil && c.ToolChoice != nil && (c.ToolChoice.Any != nil || c.ToolChoice.Tool != nil)
}

// tools converts the tools. If the history contains calls, the service requires tools: missing ones are declared by name, and the
// choice "none" cannot be enforced.
func (l *lowering) tools() (*toolConfig, error) {
	c := &toolConfig{}
	for i := range l.Tools {
		c.Tools = append(c.Tools, tool{ToolSpec: l.spec(&l.Tools[i])})
	}
	called := protocol.CalledTools(l.Messages)
	if len(c.Tools) == 0 {
		for _, name := range called {
			spec := &toolSpec{Name: name, Description: protocol.NoLongerOffered}
			spec.InputSchema.JSON = protocol.Sanitised(nil, "")
			c.Tools = append(c.Tools, tool{ToolSpec: spec})
		}
	}
	if len(c.Tools) == 0 {
		return nil, nil
	}
	switch l.ToolChoice.Mode {
	case "", "auto":
	case "none":
		if len(called) == 0 {
			return nil, nil
		}
		l.Warning("the tool choice none was omitted: the service requires tools if the history contains calls")
	case "required":
		c.ToolChoice = &toolChoice{Any: &struct{}{}}
	case "tool":
		t := l.ChosenTool()
		if t == nil {
			return nil, l.InvalidChoice()
		}
		c.ToolChoice = &toolChoice{Tool: &namedTool{protocol.WireName(t.Namespace, t.Name)}}
	default:
		return nil, l.InvalidChoice()
	}
	if len(l.marks.Tools) > 0 && len(l.Tools) > 0 && !l.Model.Compat.NoToolCache {
		c.Tools = append(c.Tools, tool{CachePoint: l.cachePoint().CachePoint})
	}
	return c, nil
}

func (l *lowering) spec(t *llm.Tool) *toolSpec {
	s := &toolSpec{
		Name: protocol.WireName(t.Namespace, t.Name), Description: t.Description, Strict: t.Strict && !l.Model.Compat.NoStrict,
	}
	schema := t.InputSchema
	if t.Freeform != nil {
		schema = protocol.FreeformSchema(t)
	}
	s.InputSchema.JSON = protocol.Sanitised(schema, l.Model.Compat.Sanitizer)
	return s
}
