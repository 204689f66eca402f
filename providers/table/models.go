package table

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// byFamily holds for the models of a family wherever they are served.
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

// openrouter passes cache marks on to the vendors that take them; Alibaba takes none on tools.
func openrouter(model string, c *protocol.Compat) {
	switch {
	case strings.HasPrefix(model, "anthropic/"):
		c.InlineCache = true
	case strings.HasPrefix(model, "qwen/"):
		c.InlineCache, c.NoToolCache = true, true
	}
}

// groq keeps thinking out of the text only where it is told to, and only these models take the field.
func groq(model string, c *protocol.Compat) {
	if strings.HasPrefix(model, "qwen/qwen3") || strings.HasPrefix(model, "deepseek-r1") {
		c.Body = json.RawMessage(`{"reasoning_format":"parsed"}`)
	}
}

// moonshot gave thinking degrees with K3; before, it is on or off.
func moonshot(model string, c *protocol.Compat) {
	if version(model, "kimi-k").atLeast(3, 0) {
		c.EffortField, c.EffortMap = "", threeDegrees()
	}
}

// zai streams the arguments of calls from GLM 4.6 on and knows degrees of thinking from 5.2 on.
func zai(model string, c *protocol.Compat) {
	switch model {
	case "glm-4.5", "glm-4.5-air", "glm-4.5-flash", "glm-4.5v":
		c.ToolStream = false
	}
	if version(model, "glm-").atLeast(5, 2) {
		c.EffortMap = threeDegrees()
	}
}

// numbered is a version like 5.2.
type numbered struct{ major, minor int }

// version reads the number that follows a prefix of a model's id; 0.0 when there is none.
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
	v.major, _ = strconv.Atoi(major) // no number: 0
	v.minor, _ = strconv.Atoi(minor)
	return v
}

func (v numbered) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}
