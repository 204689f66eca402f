package chat

import (
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// message is a message on the wire.
type message struct {
	Role             string            `json:"role"`
	Content          any               `json:"content"` // string, []part or nil
	ReasoningContent *string           `json:"reasoning_content,omitempty"`
	Reasoning        *string           `json:"reasoning,omitempty"`
	ReasoningText    *string           `json:"reasoning_text,omitempty"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCalls        []toolCall        `json:"tool_calls,omitempty"`
	ToolCallID       string            `json:"tool_call_id,omitempty"`
}

type part struct {
	Type         string    `json:"type"`
	Text         string    `json:"text,omitempty"`
	Thinking     []part    `json:"thinking,omitempty"`
	Closed       bool      `json:"closed,omitempty"`
	ImageURL     *imageURL `json:"image_url,omitempty"`
	File         *file     `json:"file,omitempty"`
	InputAudio   *audio    `json:"input_audio,omitempty"`
	CacheControl *kind     `json:"cache_control,omitempty"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type file struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type audio struct {
	Data   []byte `json:"data"` // base64 on the wire
	Format string `json:"format"`
}

type toolCall struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Function     calledFunction  `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type calledFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Fields of a message that contain reasoning. A vendor may also have its own field, see [named].
const (
	fieldContent   = "content" // reasoning parts of the content
	fieldReasoning = "reasoning_content"
	fieldDetails   = "reasoning_details" // structured entries only
)

// setReasoning sets reasoning in the given field. It returns the value to send.
func (m *message) setReasoning(field, text string) any {
	switch field {
	case fieldReasoning:
		m.ReasoningContent = &text
	case "reasoning":
		m.Reasoning = &text
	case "reasoning_text":
		m.ReasoningText = &text
	case fieldDetails:
	case fieldContent:
		if text == "" {
			break
		}
		parts := []part{{Type: "thinking", Thinking: []part{{Type: "text", Text: text}}, Closed: true}}
		switch said := m.Content.(type) {
		case string:
			if said != "" {
				parts = append(parts, part{Type: "text", Text: said})
			}
		case []part:
			parts = append(parts, said...)
		}
		m.Content = parts
	default:
		return named{m, field, text}
	}
	return m
}

// named is a message with reasoning in a field with an unusual name.
type named struct {
	*message
	field, text string
}

// MarshalJSON implements [json.Marshaler].
func (n named) MarshalJSON() ([]byte, error) {
	b, err := protocol.Encode(n.message)
	if err != nil {
		return nil, err
	}
	b = append(b[:len(b)-1], ',')
	b = append(b, quoted(n.field)...)
	b = append(b, ':')
	b = append(b, quoted(n.text)...)
	return append(b, '}'), nil
}

func quoted(s string) json.RawMessage {
	b, err := protocol.Encode(s)
	if err != nil { // cannot fail for a string
		panic("chat: encode a string: " + err.Error())
	}
	return b
}

// marked returns text with a cache mark, if there is one.
func marked(text string, mark *kind) any {
	if mark == nil {
		return text
	}
	return []part{{Type: "text", Text: text, CacheControl: mark}}
}

// appendContent appends the content of another user message: a string or parts.
func (m *message) appendContent(content any) {
	before, plain := m.Content.(string)
	after, alike := content.(string)
	if plain && alike {
		m.Content = before + "\n\n" + after
		return
	}
	m.Content = append(partsOf(m.Content), partsOf(content)...)
}

func partsOf(content any) []part {
	if s, ok := content.(string); ok {
		return []part{{Type: "text", Text: s}}
	}
	parts, _ := content.([]part)
	return slices.Clip(parts)
}

// appendText appends text to a user message.
func (m *message) appendText(text string, mark *kind) {
	if s, ok := m.Content.(string); ok && mark == nil {
		m.Content = s + "\n" + text
		return
	}
	if s, ok := m.Content.(string); ok {
		m.Content = []part{{Type: "text", Text: s}}
	}
	parts, _ := m.Content.([]part)
	m.Content = append(parts, part{Type: "text", Text: text, CacheControl: mark})
}
