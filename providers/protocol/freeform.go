package protocol

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// A freeform tool receives text instead of JSON. For vendors that only have functions, it is a function with a single string
// property.

// textProperty contains the text if the tool does not name a property, or no longer exists.
const textProperty = "input"

// FreeformSchema returns the schema of a freeform tool as a function. A grammar that the vendor cannot enforce becomes part of the
// description.
func FreeformSchema(t *llm.Tool) json.RawMessage {
	type property struct {
		Type        string `json:"type"`
		Description string `json:"description,omitempty"`
	}
	p := property{Type: "string"}
	if f := t.Freeform; f != nil && f.Definition != "" {
		p.Description = fmt.Sprintf("Text that follows this %s grammar:\n%s", f.Syntax, f.Definition)
	}
	name := freeformProperty(t)
	return mustEncode(struct {
		Type                 string              `json:"type"`
		Properties           map[string]property `json:"properties"`
		Required             []string            `json:"required"`
		AdditionalProperties bool                `json:"additionalProperties"`
	}{"object", map[string]property{name: p}, []string{name}, false})
}

// freeformProperty returns the property with a tool's text. A tool that is no longer freeform but has a single required property
// receives it there.
func freeformProperty(t *llm.Tool) string {
	if t == nil {
		return textProperty
	}
	if t.Freeform != nil && t.Freeform.Property != "" {
		return t.Freeform.Property
	}
	var schema struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(t.InputSchema, &schema) == nil && len(schema.Required) == 1 {
		return schema.Required[0]
	}
	return textProperty
}

// FreeformArguments returns the text of a freeform call as the arguments of a function: {"property": text}.
func (r *Request) FreeformArguments(c *llm.ToolCall) json.RawMessage {
	return mustEncode(map[string]string{freeformProperty(r.Tool(c.Namespace, c.Name)): c.Input})
}

// Arguments returns the input of a call as a JSON object, for formats that only accept objects. Text becomes a property, and so do
// other values, such as the invalid JSON of a call that was answered with an error.
func (r *Request) Arguments(c *llm.ToolCall) json.RawMessage {
	if c.Freeform {
		return r.FreeformArguments(c)
	}
	switch input := strings.TrimSpace(c.Input); {
	case input == "":
		return json.RawMessage("{}")
	case input[0] == '{' && json.Valid([]byte(input)):
		return json.RawMessage(input)
	}
	return mustEncode(map[string]string{textProperty: c.Input})
}

// mustEncode encodes values that consist of strings.
func mustEncode(v any) json.RawMessage {
	b, err := Encode(v)
	if err != nil {
		panic("protocol: encode strings: " + err.Error())
	}
	return b
}
