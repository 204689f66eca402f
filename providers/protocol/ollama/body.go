package ollama

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// body is the request body.
type body struct {
	Model     string          `json:"model"`
	Messages  []message       `json:"messages"`
	Tools     []tool          `json:"tools,omitempty"`
	Think     json.RawMessage `json:"think,omitempty"`
	Format    json.RawMessage `json:"format,omitempty"`
	Options   runOptions      `json:"options,omitzero"`
	Stream    bool            `json:"stream"`
	KeepAlive json.RawMessage `json:"keep_alive,omitempty"`
	// By default the server truncates the prompt, and discards its beginning while the response grows. We disable both, so that
	// they become errors.
	Truncate *bool `json:"truncate"`
	Shift    *bool `json:"shift"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"` // base64
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// toolCall is a call in requests and responses. Only recent servers have the ID.
type toolCall struct {
	ID       string   `json:"id,omitempty"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type tool struct {
	Type     string      `json:"type"`
	Function declaration `json:"function"`
}

type declaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// runOptions are the settings of one run of the model.
type runOptions struct {
	Runner
	Sampling
}

// Sampling are the settings that every vendor has.
type Sampling struct {
	NumPredict       *int64   `json:"num_predict,omitempty"`
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"top_p,omitempty"`
	TopK             *int64   `json:"top_k,omitempty"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty  *float64 `json:"presence_penalty,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
	Stop             []string `json:"stop,omitempty"`
}

func sampling(r *protocol.Request) Sampling {
	g := r.Generation
	return Sampling{
		NumPredict: g.MaxTokens, Temperature: g.Temperature, TopP: g.TopP, TopK: g.TopK,
		FrequencyPenalty: g.FrequencyPenalty, PresencePenalty: g.PresencePenalty, Seed: g.Seed, Stop: g.Stop,
	}
}

// tools returns the tools. Calls cannot be forced, only prevented.
func tools(r *protocol.Request) []tool {
	switch r.ToolChoice.Mode {
	case "none":
		return nil
	case "required", "tool":
		r.Warning("Ollama can't require a call; the model decides whether it calls a tool")
	}
	var out []tool
	for i := range r.Tools {
		t := &r.Tools[i]
		schema := t.InputSchema
		if t.Freeform != nil {
			schema = protocol.FreeformSchema(t)
		}
		out = append(out, tool{Type: "function", Function: declaration{
			Name: protocol.WireName(t.Namespace, t.Name), Description: t.Description,
			Parameters: protocol.Sanitised(schema, r.Model.Compat.Sanitizer),
		}})
	}
	return out
}

// think returns whether, and to which degree, the model should think. The server rejects the setting for models that cannot, so
// none is sent for an unknown model.
func think(r *protocol.Request, option json.RawMessage) (json.RawMessage, error) {
	effort := r.ReasoningEffort
	switch {
	case len(option) > 0:
		return option, nil
	case !r.Model.Reasons:
		if effort != "" && effort != "none" {
			r.Warning(fmt.Sprintf("the model %s does not think, so the effort %q was omitted", modelID(r), effort))
		}
		return nil, nil
	case effort == "":
		return json.RawMessage("true"), nil // as a separate field rather than as tags in the text
	}
	word, mapped := r.Model.Compat.EffortMap[effort]
	if !mapped {
		if word = degree(effort, r.Model.Efforts); word == "" {
			return nil, protocol.Invalid("choose one of "+strings.Join(r.Model.KnownEfforts(), ", "),
				"the model %s has no reasoning effort %q", modelID(r), effort)
		}
	}
	if word == "true" || word == "false" {
		return json.RawMessage(word), nil
	}
	b, _ := json.Marshal(word) // cannot fail for a string
	return b, nil
}

// degree returns the degree for an effort among those offered. A model without degrees is switched on or off. It returns "" if the
// effort is unknown.
func degree(effort string, offered []string) string {
	if len(offered) > 0 {
		effort = protocol.NearestEffort(effort, offered)
	}
	switch {
	case protocol.EffortRank(effort) == 0:
		return "false"
	case len(offered) > 0:
		return effort
	case protocol.EffortRank(effort) > 0:
		return "true"
	}
	return ""
}
