package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chunk is one frame of a response. It is reused, so that a delta costs little more than its text: reset clears it and keeps its
// memory.
type chunk struct {
	ID      once            `json:"id"`
	Model   once            `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Delta              delta           `json:"delta"`
	FinishReason       string          `json:"finish_reason"`
	NativeFinishReason string          `json:"native_finish_reason"`
	Usage              json.RawMessage `json:"usage"`
}

type delta struct {
	Content          content         `json:"content"`
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningText    string          `json:"reasoning_text"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []toolDelta     `json:"tool_calls"`
}

type toolDelta struct {
	Index    place  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

func (c *chunk) reset() {
	for i := range c.Choices {
		calls := c.Choices[i].Delta.ToolCalls
		clear(calls)
		c.Choices[i] = choice{Delta: delta{ToolCalls: calls[:0]}}
	}
	c.Choices, c.Usage, c.Error = c.Choices[:0], c.Usage[:0], c.Error[:0]
}

// said reports whether a raw value is present and not null.
func said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// once is a text that all frames repeat; the first value is kept.
type once struct{ text string }

// UnmarshalJSON implements [json.Unmarshaler].
func (o *once) UnmarshalJSON(b []byte) error {
	if o.text == "" && b[0] == '"' {
		o.text = unquote(b)
	}
	return nil
}

// place is an optional index.
type place struct {
	set bool
	n   int
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *place) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(string(bytes.Trim(b, `"`)))
	*p = place{set: err == nil, n: n}
	return nil
}

// content is text, or a list of parts that are text or reasoning.
type content struct{ text, thinking string }

var errContent = errors.New("content is neither text nor a list of parts")

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case 'n': // null
		return nil
	case '"':
		c.text = unquote(b)
		return nil
	case '[':
	default:
		return errContent
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(b, &parts) != nil {
		return errContent
	}
	var text, thinking strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text":
			text.WriteString(p.Text)
		case "thinking":
			var units content
			if said(p.Thinking) && units.UnmarshalJSON(p.Thinking) == nil {
				thinking.WriteString(units.text)
			}
		}
	}
	c.text, c.thinking = text.String(), thinking.String()
	return nil
}

// arguments is a string with a part of a JSON text. Some vendors send the object itself.
type arguments string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *arguments) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		*a = arguments(unquote(b))
	case '{', '[':
		*a = arguments(b)
	}
	return nil
}

// unquote decodes a JSON string. Most have no escapes and are copied.
func unquote(b []byte) string {
	if plain := b[1 : len(b)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return string(plain)
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return "" // the decoder has already validated it
	}
	return s
}
