package protocol

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// A freeform tool takes text instead of JSON. Where a vendor has functions only, it is one with a single property of text.

// textProperty carries the text where the tool does not say by what name, or is gone.
const textProperty = "input"

// FreeformSchema is the schema of a freeform tool as a function. A grammar that the vendor can't hold the model to is
// told to the model.
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

// freeformProperty is the property that carries a tool's text. A tool that is no longer freeform but has one required
// property took it there.
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

// FreeformArguments is the text of a freeform call as the arguments of a function: {"property": text}.
func (r *Request) FreeformArguments(c *llm.ToolCall) json.RawMessage {
	return mustEncode(map[string]string{freeformProperty(r.Tool(c.Namespace, c.Name)): c.Input})
}

// Arguments is the input of a call as a JSON object, for formats that take nothing else. Text becomes a property, and so
// does what is no object, such as the broken JSON of a call that was answered with an error.
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

// mustEncode encodes strings and what is made of them.
func mustEncode(v any) json.RawMessage {
	b, err := Encode(v)
	if err != nil {
		panic("protocol: encode strings: " + err.Error())
	}
	return b
}
