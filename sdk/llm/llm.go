// Package llm is the canonical model of a conversation with a language model: the requests to a provider and its answers,
// independent of the vendor.
//
// It owns: the types of requests, messages, parts, events, usage and errors, their JSON form, and the rules for the order
// of events ([Checker], [Fold]). It must not know: any vendor's wire format, gRPC, or how a conversation is stored.
//
// Start with [Request] and [Event].
package llm

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Metadata contains data that a vendor expects back unchanged: namespace → JSON object. The host removes other namespaces
// before a request.
type Metadata map[string]json.RawMessage

// Role is the author of a message.
type Role int

// The roles. System is a message of the host within the history, called developer by some vendors.
const (
	RoleUnknown Role = iota
	RoleSystem
	RoleUser
	RoleAssistant
	RoleTool
)

var roleNames = [...]string{"unknown", "system", "user", "assistant", "tool"}

// String returns the name used in JSON.
func (r Role) String() string { return nameOf(roleNames[:], int(r)) }

// MarshalText implements [encoding.TextMarshaler].
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Role) UnmarshalText(b []byte) error {
	i, err := indexOf(roleNames[:], string(b), "role")
	*r = Role(i)
	return err
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return names[0]
	}
	return names[i]
}

func indexOf(names []string, s, what string) (int, error) {
	if i := slices.Index(names, s); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown %s %q", what, s)
}

// Request is one request to a model.
type Request struct {
	Model             string                     `json:"model"`
	System            []string                   `json:"system,omitempty"`
	Messages          []Message                  `json:"messages,omitempty"`
	Tools             []Tool                     `json:"tools,omitempty"`
	ToolChoice        ToolChoice                 `json:"toolChoice,omitzero"`
	Generation        Generation                 `json:"generation,omitzero"`
	ProviderOptions   map[string]json.RawMessage `json:"providerOptions,omitempty"`
	PromptCacheKey    string                     `json:"promptCacheKey,omitempty"`
	Cache             string                     `json:"cache,omitempty"`           // "auto" (default) or "none"
	ReasoningEffort   string                     `json:"reasoningEffort,omitempty"` // empty: the model's default
	OutputSchema      json.RawMessage            `json:"outputSchema,omitempty"`
	OutputSchemaName  string                     `json:"outputSchemaName,omitempty"`
	HostedTools       []string                   `json:"hostedTools,omitempty"`
	ParallelToolCalls bool                       `json:"parallelToolCalls,omitempty"`
	ServiceTier       string                     `json:"serviceTier,omitempty"`
	// Namespaces are descriptions of the namespaces of tools, also of those that a search has found. It is only set for models whose
	// [ModelRow.ToolKinds] contain "namespace" or "search".
	Namespaces map[string]string `json:"namespaces,omitempty"`
}

// ToolChoice controls whether the model uses tools. Mode is "auto" (default when empty), "none", "required" or "tool" with
// Name.
type ToolChoice struct {
	Mode string `json:"mode,omitempty"`
	Name string `json:"name,omitempty"`
}

// Generation contains sampling settings; nil fields mean the model's defaults.
type Generation struct {
	MaxTokens        *int64   `json:"maxTokens,omitempty"`
	Temperature      *float64 `json:"temperature,omitempty"`
	TopP             *float64 `json:"topP,omitempty"`
	TopK             *int64   `json:"topK,omitempty"`
	FrequencyPenalty *float64 `json:"frequencyPenalty,omitempty"`
	PresencePenalty  *float64 `json:"presencePenalty,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
	Stop             []string `json:"stop,omitempty"`
}

// Tool is a tool as the model sees it.
type Tool struct {
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"` // JSON Schema of an object; empty for freeform tools
	Freeform    *Freeform       `json:"freeform,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
	// Search declares that the tool searches for tools that are not in the request. It is only offered to models whose
	// [ModelRow.ToolKinds] contain "search".
	Search bool `json:"search,omitempty"`
}

// Freeform declares that a tool takes raw text. Property is the name of the only string property, for vendors that do not
// support grammars.
type Freeform struct {
	Syntax     string `json:"syntax,omitempty"` // "lark", "regex" or empty: any text
	Definition string `json:"definition,omitempty"`
	Property   string `json:"property,omitempty"`
}

// Message is one message of a history.
type Message struct {
	ID       string   `json:"id,omitempty"`
	Role     Role     `json:"role"`
	Parts    []Part   `json:"parts"`
	Metadata Metadata `json:"providerMetadata,omitempty"`
}

// Text returns the message's text parts joined without a separator.
func (m Message) Text() string {
	var s string
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok {
			s += t.Text
		}
	}
	return s
}

// Part is one part of a message: [*Text], [*Media], [*ToolCall], [*ToolResult], [*Reasoning] or [*Sealed].
type Part interface {
	partType() string
}

// Text is text.
type Text struct {
	Text     string   `json:"text"`
	Metadata Metadata `json:"providerMetadata,omitempty"`
}

// Media is an image, audio or document. Exactly one of Data, URL and Artifact is set.
type Media struct {
	MediaType string   `json:"mediaType"`
	Data      []byte   `json:"data,omitempty"`
	URL       string   `json:"url,omitempty"`
	Artifact  string   `json:"artifact,omitempty"` // SHA-256 of stored content
	Filename  string   `json:"filename,omitempty"`
	Detail    string   `json:"detail,omitempty"` // "", "auto", "low", "high", "original"
	Metadata  Metadata `json:"providerMetadata,omitempty"`
}

// ToolCall is a call made by the model. Input is JSON as the model wrote it, or raw text if Freeform.
type ToolCall struct {
	ID               string   `json:"id"`
	Name             string   `json:"name"`
	Namespace        string   `json:"namespace,omitempty"`
	Input            string   `json:"input"`
	Freeform         bool     `json:"freeform,omitempty"`
	ProviderExecuted bool     `json:"providerExecuted,omitempty"`
	Search           bool     `json:"search,omitempty"` // a search for tools in the vendor's own form
	Metadata         Metadata `json:"providerMetadata,omitempty"`
}

// ToolResult is the result of a call. Content contains only [*Text], [*Media] and [*Sealed].
type ToolResult struct {
	ID               string   `json:"id"`
	Name             string   `json:"name,omitempty"`
	Namespace        string   `json:"namespace,omitempty"`
	Content          Parts    `json:"content"`
	IsError          bool     `json:"isError,omitempty"`
	Freeform         bool     `json:"freeform,omitempty"`
	ProviderExecuted bool     `json:"providerExecuted,omitempty"`
	Search           bool     `json:"search,omitempty"` // the result of a search for tools
	Tools            []Tool   `json:"tools,omitempty"`  // found by the search; the model may call them from now on
	Metadata         Metadata `json:"providerMetadata,omitempty"`
}

// Sealed is content of a tool result that only the models of one vendor can read.
type Sealed struct {
	Namespace string   `json:"namespace"` // the vendor's metadata namespace
	Data      string   `json:"data"`
	Metadata  Metadata `json:"providerMetadata,omitempty"`
}

// Reasoning is the model's reasoning, as far as the vendor discloses it.
type Reasoning struct {
	Text     string   `json:"text,omitempty"`
	Metadata Metadata `json:"providerMetadata,omitempty"`
}

func (*Text) partType() string       { return "text" }
func (*Media) partType() string      { return "media" }
func (*ToolCall) partType() string   { return "tool-call" }
func (*ToolResult) partType() string { return "tool-result" }
func (*Reasoning) partType() string  { return "reasoning" }
func (*Sealed) partType() string     { return "sealed" }

// Parts is a list of parts with a JSON form: each part is an object with a "type".
type Parts []Part

// MarshalJSON implements [json.Marshaler].
func (ps Parts) MarshalJSON() ([]byte, error) {
	out := make([]json.RawMessage, 0, len(ps))
	for _, p := range ps {
		b, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		// Insert the type as the first field of the object, which may be empty.
		head := fmt.Appendf(nil, `{"type":%q`, p.partType())
		if len(b) > 2 {
			head = append(head, ',')
		}
		out = append(out, append(head, b[1:]...))
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (ps *Parts) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	out := make(Parts, 0, len(raw))
	for i, r := range raw {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(r, &head); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		var p Part
		switch head.Type {
		case "text":
			p = &Text{}
		case "media":
			p = &Media{}
		case "tool-call":
			p = &ToolCall{}
		case "tool-result":
			p = &ToolResult{}
		case "reasoning":
			p = &Reasoning{}
		case "sealed":
			p = &Sealed{}
		default:
			return fmt.Errorf("part %d: unknown type %q", i, head.Type)
		}
		if err := json.Unmarshal(r, p); err != nil {
			return fmt.Errorf("part %d (%s): %w", i, head.Type, err)
		}
		out = append(out, p)
	}
	*ps = out
	return nil
}

type messageJSON struct {
	ID       string   `json:"id,omitempty"`
	Role     Role     `json:"role"`
	Parts    Parts    `json:"parts"`
	Metadata Metadata `json:"providerMetadata,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(messageJSON{ID: m.ID, Role: m.Role, Parts: m.Parts, Metadata: m.Metadata})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Message) UnmarshalJSON(b []byte) error {
	var j messageJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*m = Message{ID: j.ID, Role: j.Role, Parts: j.Parts, Metadata: j.Metadata}
	return nil
}
