package convert

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrUnknownPart is returned for a conversation with a part of an unknown kind. The sender uses a newer version of the contract;
// update the side that reports the error.
var ErrUnknownPart = errors.New("unknown kind of part")

// RequestFromProto converts a request. The error matches [ErrUnknownPart].
func RequestFromProto(p *gantryv1.LlmRequest) (*llm.Request, error) {
	if p == nil {
		return nil, nil
	}
	r := requestFieldsFromProto(p)
	if n := len(p.GetMessages()); n > 0 {
		r.Messages = make([]llm.Message, n)
	}
	for i, m := range p.GetMessages() {
		var err error
		if r.Messages[i], err = MessageFromProto(m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return r, nil
}

// MessageFromProto converts a message. The error matches [ErrUnknownPart].
func MessageFromProto(p *gantryv1.LlmMessage) (llm.Message, error) {
	parts, err := llmPartsFromProto(p.GetParts())
	if err != nil {
		return llm.Message{}, err
	}
	m := messageFieldsFromProto(p)
	m.Parts = parts
	return m, nil
}

func llmPartsToProto(ps []llm.Part) []*gantryv1.LlmPart {
	return eachKnown(ps, notNil(LLMPartToProto))
}

func llmPartsFromProto(ps []*gantryv1.LlmPart) ([]llm.Part, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	out := make([]llm.Part, len(ps))
	for i, p := range ps {
		var err error
		if out[i], err = LLMPartFromProto(p); err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
	}
	return out, nil
}

// LLMPartToProto converts a part of a message; nil stays nil.
func LLMPartToProto(p llm.Part) *gantryv1.LlmPart {
	q := &gantryv1.LlmPart{}
	var meta llm.Metadata
	switch p := p.(type) {
	case *llm.Text:
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_Text{Text: llmTextToProto(*p)}
	case *llm.Media:
		m := llmMediaToProto(*p)
		switch {
		case p.Artifact != "":
			m.Source = &gantryv1.LlmMedia_Artifact{Artifact: text(p.Artifact)}
		case p.URL != "":
			m.Source = &gantryv1.LlmMedia_Url{Url: text(p.URL)}
		case len(p.Data) > 0:
			m.Source = &gantryv1.LlmMedia_Data{Data: p.Data}
		}
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_Media{Media: m}
	case *llm.ToolCall:
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_ToolCall{ToolCall: toolCallToProto(*p)}
	case *llm.ToolResult:
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_ToolResult{ToolResult: toolResultToProto(*p)}
	case *llm.Reasoning:
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_Reasoning{Reasoning: reasoningToProto(*p)}
	case *llm.Sealed:
		meta, q.Part = p.Metadata, &gantryv1.LlmPart_Sealed{Sealed: llmSealedToProto(*p)}
	default:
		return nil
	}
	q.ProviderMetadataJson = metadataToProto(meta)
	return q
}

// LLMPartFromProto converts a part of a message. The error matches [ErrUnknownPart].
func LLMPartFromProto(p *gantryv1.LlmPart) (llm.Part, error) {
	meta := metadataFromProto(p.GetProviderMetadataJson())
	switch c := p.GetPart().(type) {
	case *gantryv1.LlmPart_Text:
		t := llmTextFromProto(c.Text)
		t.Metadata = meta
		return &t, nil
	case *gantryv1.LlmPart_Media:
		m := llmMediaFromProto(c.Media)
		m.Metadata = meta
		return &m, nil
	case *gantryv1.LlmPart_ToolCall:
		call := toolCallFromProto(c.ToolCall)
		call.Metadata = meta
		return &call, nil
	case *gantryv1.LlmPart_ToolResult:
		res, err := toolResultFromProto(c.ToolResult)
		if err != nil {
			return nil, err
		}
		res.Metadata = meta
		return &res, nil
	case *gantryv1.LlmPart_Reasoning:
		r := reasoningFromProto(c.Reasoning)
		r.Metadata = meta
		return &r, nil
	case *gantryv1.LlmPart_Sealed:
		s := llmSealedFromProto(c.Sealed)
		s.Metadata = meta
		return &s, nil
	}
	return nil, ErrUnknownPart
}

func toolResultFromProto(p *gantryv1.LlmToolResult) (llm.ToolResult, error) {
	content, err := llmPartsFromProto(p.GetContent())
	if err != nil {
		return llm.ToolResult{}, fmt.Errorf("result of call %s: %w", p.GetId(), err)
	}
	res := toolResultFieldsFromProto(p)
	res.Content = content
	return res, nil
}

func systemToProto(s string) *gantryv1.SystemPart { return &gantryv1.SystemPart{Text: text(s)} }

func systemFromProto(p *gantryv1.SystemPart) string { return p.GetText() }

// ModelRowsToProto converts rows of models.
func ModelRowsToProto(rs []llm.ModelRow) []*gantryv1.ModelRow { return each(rs, ModelRowToProto) }

// ModelRowsFromProto converts rows of models.
func ModelRowsFromProto(ps []*gantryv1.ModelRow) []llm.ModelRow { return each(ps, ModelRowFromProto) }
