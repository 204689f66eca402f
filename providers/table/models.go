package table

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// byFamily sets what applies to a family's models at any vendor.
func byFamily(model string, c *protocol.Compat) {
	id := strings.ToLower(model)
	for _, family := range []string{"mistral", "devstral", "codestral", "pixtral", "mixtral"} {
		if strings.Contains(id, family) {
			c.ToolCallIDs, c.AssistantAfterTool = "mistral", true
			return
		}
	}
	switch {
	case c.ToolCallIDs != "":
	case strings.Contains(id, "claude"):
		c.ToolCallIDs = "claude"
	case strings.HasPrefix(id, "openai/"):
		c.ToolCallIDs = "openai"
	}
}

// openrouter forwards cache marks to the vendors that support them; Alibaba does not support them for tools.
func openrouter(model string, c *protocol.Compat) {
	switch {
	case strings.HasPrefix(model, "anthropic/"):
		c.InlineCache = true
	case strings.HasPrefix(model, "qwen/"):
		c.InlineCache, c.NoToolCache = true, true
	}
}

// groq separates reasoning from the text only on request, and only these models support the field.
func groq(model string, c *protocol.Compat) {
	if strings.HasPrefix(model, "qwen/qwen3") || strings.HasPrefix(model, "deepseek-r1") {
		c.Body = json.RawMessage(`{"reasoning_format":"parsed"}`)
	}
}

// moonshot has reasoning efforts since K3; earlier models only have a switch.
func moonshot(model string, c *protocol.Compat) {
	if version(model, "kimi-k").atLeast(3, 0) {
		c.EffortField, c.EffortMap = "", threeDegrees()
	}
}

// zai streams the arguments of calls since GLM 4.6, and has reasoning efforts since 5.2.
func zai(model string, c *protocol.Compat) {
	switch model {
	case "glm-4.5", "glm-4.5-air", "glm-4.5-flash", "glm-4.5v":
		c.ToolStream = false
	}
	if version(model, "glm-").atLeast(5, 2) {
		c.EffortMap = threeDegrees()
	}
}

// numbered is a version such as 5.2.
type numbered struct{ major, minor int }

// version parses the number after a prefix of a model's ID, or returns 0.0.
func version(model, prefix string) numbered {
	rest, ok := strings.CutPrefix(model, prefix)
	if !ok {
		return numbered{}
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end >= 0 {
		rest = rest[:end]
	}
	major, minor, _ := strings.Cut(rest, ".")
	var v numbered
	v.major, _ = strconv.Atoi(major) // not a number: 0
	v.minor, _ = strconv.Atoi(minor)
	return v
}

func (v numbered) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}
