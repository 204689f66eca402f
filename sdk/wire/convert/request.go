package convert

import (
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrUnknownPart is returned where a conversation holds a part that this version doesn't know. The sender speaks a newer
// contract; update the side that reports it.
var ErrUnknownPart = errors.New("unknown kind of part")

// RequestToProto translates a request.
func RequestToProto(r *llm.Request) *gantryv1.LlmRequest {
	if r == nil {
		return nil
	}
	p := &gantryv1.LlmRequest{
		Model:               text(r.Model),
		System:              each(r.System, func(s string) *gantryv1.SystemPart { return &gantryv1.SystemPart{Text: text(s)} }),
		Messages:            each(r.Messages, MessageToProto),
		Tools:               each(r.Tools, LLMToolToProto),
		Generation:          generationToProto(r.Generation),
		ProviderOptionsJson: metadataToProto(r.ProviderOptions),
		PromptCacheKey:      text(r.PromptCacheKey),
		Cache:               text(r.Cache),
		ReasoningEffort:     text(r.ReasoningEffort),
		OutputSchemaJson:    r.OutputSchema,
		OutputSchemaName:    text(r.OutputSchemaName),
		HostedTools:         texts(r.HostedTools),
		ParallelToolCalls:   r.ParallelToolCalls,
		ServiceTier:         text(r.ServiceTier),
	}
	if r.ToolChoice != (llm.ToolChoice{}) {
		p.ToolChoice = &gantryv1.LlmToolChoice{Mode: text(r.ToolChoice.Mode), Name: text(r.ToolChoice.Name)}
	}
	return p
}

// RequestFromProto translates a request. The error matches [ErrUnknownPart].
func RequestFromProto(p *gantryv1.LlmRequest) (*llm.Request, error) {
	if p == nil {
		return nil, nil
	}
	r := &llm.Request{
		Model:             p.GetModel(),
		System:            each(p.GetSystem(), (*gantryv1.SystemPart).GetText),
		Tools:             each(p.GetTools(), LLMToolFromProto),
		ToolChoice:        llm.ToolChoice{Mode: p.GetToolChoice().GetMode(), Name: p.GetToolChoice().GetName()},
		Generation:        generationFromProto(p.GetGeneration()),
		ProviderOptions:   metadataFromProto(p.GetProviderOptionsJson()),
		PromptCacheKey:    p.GetPromptCacheKey(),
		Cache:             p.GetCache(),
		ReasoningEffort:   p.GetReasoningEffort(),
		OutputSchema:      raw(p.GetOutputSchemaJson()),
		OutputSchemaName:  p.GetOutputSchemaName(),
		HostedTools:       p.GetHostedTools(),
		ParallelToolCalls: p.GetParallelToolCalls(),
		ServiceTier:       p.GetServiceTier(),
	}
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

func generationToProto(g llm.Generation) *gantryv1.Generation {
	if g.MaxTokens == nil && g.Temperature == nil && g.TopP == nil && g.TopK == nil && g.FrequencyPenalty == nil &&
		g.PresencePenalty == nil && g.Seed == nil && len(g.Stop) == 0 {
		return nil
	}
	return &gantryv1.Generation{
		MaxTokens: g.MaxTokens, Temperature: g.Temperature, TopP: g.TopP, TopK: g.TopK, FrequencyPenalty: g.FrequencyPenalty,
		PresencePenalty: g.PresencePenalty, Seed: g.Seed, Stop: texts(g.Stop),
	}
}

func generationFromProto(p *gantryv1.Generation) llm.Generation {
	if p == nil {
		return llm.Generation{}
	}
	return llm.Generation{
		MaxTokens: p.MaxTokens, Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, FrequencyPenalty: p.FrequencyPenalty,
		PresencePenalty: p.PresencePenalty, Seed: p.Seed, Stop: p.Stop,
	}
}

// LLMToolToProto translates a tool as the model sees it.
func LLMToolToProto(t llm.Tool) *gantryv1.LlmTool {
	p := &gantryv1.LlmTool{
		Name: text(t.Name), Namespace: text(t.Namespace), Description: text(t.Description), InputSchemaJson: t.InputSchema,
		Strict: t.Strict, Search: t.Search,
	}
	if t.Freeform != nil {
		p.Freeform = &gantryv1.LlmFreeform{
			Syntax: text(t.Freeform.Syntax), Definition: text(t.Freeform.Definition), Property: text(t.Freeform.Property),
		}
	}
	return p
}

// LLMToolFromProto translates a tool as the model sees it.
func LLMToolFromProto(p *gantryv1.LlmTool) llm.Tool {
	t := llm.Tool{
		Name: p.GetName(), Namespace: p.GetNamespace(), Description: p.GetDescription(), InputSchema: raw(p.GetInputSchemaJson()),
		Strict: p.GetStrict(), Search: p.GetSearch(),
	}
	if f := p.GetFreeform(); f != nil {
		t.Freeform = &llm.Freeform{Syntax: f.GetSyntax(), Definition: f.GetDefinition(), Property: f.GetProperty()}
	}
	return t
}

// MessageToProto translates a message. Nil parts are left out.
func MessageToProto(m llm.Message) *gantryv1.LlmMessage {
	return &gantryv1.LlmMessage{
		Id:                   text(m.ID),
		Role:                 enum[llm.Role, gantryv1.LlmRole](m.Role, llm.RoleTool),
		Parts:                llmPartsToProto(m.Parts),
		ProviderMetadataJson: metadataToProto(m.Metadata),
	}
}

// MessageFromProto translates a message. The error matches [ErrUnknownPart].
func MessageFromProto(p *gantryv1.LlmMessage) (llm.Message, error) {
	parts, err := llmPartsFromProto(p.GetParts())
	if err != nil {
		return llm.Message{}, err
	}
	return llm.Message{
		ID:       p.GetId(),
		Role:     enum[gantryv1.LlmRole, llm.Role](p.GetRole(), gantryv1.LlmRole_LLM_ROLE_TOOL),
		Parts:    parts,
		Metadata: metadataFromProto(p.GetProviderMetadataJson()),
	}, nil
}

func llmPartsToProto(ps []llm.Part) []*gantryv1.LlmPart {
	return eachKnown(ps, func(p llm.Part) (*gantryv1.LlmPart, bool) {
		q := LLMPartToProto(p)
		return q, q != nil
	})
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

// LLMPartToProto translates a part of a message; nil stays nil.
func LLMPartToProto(p llm.Part) *gantryv1.LlmPart {
	switch p := p.(type) {
	case *llm.Text:
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_Text{Text: &gantryv1.LlmText{Text: text(p.Text)}},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	case *llm.Media:
		m := &gantryv1.LlmMedia{MediaType: text(p.MediaType), Filename: text(p.Filename), Detail: text(p.Detail)}
		switch {
		case p.Artifact != "":
			m.Source = &gantryv1.LlmMedia_Artifact{Artifact: text(p.Artifact)}
		case p.URL != "":
			m.Source = &gantryv1.LlmMedia_Url{Url: text(p.URL)}
		case len(p.Data) > 0:
			m.Source = &gantryv1.LlmMedia_Data{Data: p.Data}
		}
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_Media{Media: m},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	case *llm.ToolCall:
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_ToolCall{ToolCall: toolCallToProto(p)},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	case *llm.ToolResult:
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_ToolResult{ToolResult: toolResultToProto(p)},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	case *llm.Reasoning:
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_Reasoning{Reasoning: &gantryv1.LlmReasoning{Text: text(p.Text)}},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	case *llm.Sealed:
		return &gantryv1.LlmPart{
			Part:                 &gantryv1.LlmPart_Sealed{Sealed: &gantryv1.LlmSealed{Namespace: text(p.Namespace), Data: text(p.Data)}},
			ProviderMetadataJson: metadataToProto(p.Metadata),
		}
	}
	return nil
}

// LLMPartFromProto translates a part of a message. The error matches [ErrUnknownPart].
func LLMPartFromProto(p *gantryv1.LlmPart) (llm.Part, error) {
	meta := metadataFromProto(p.GetProviderMetadataJson())
	switch c := p.GetPart().(type) {
	case *gantryv1.LlmPart_Text:
		return &llm.Text{Text: c.Text.GetText(), Metadata: meta}, nil
	case *gantryv1.LlmPart_Media:
		return &llm.Media{
			MediaType: c.Media.GetMediaType(), Data: raw(c.Media.GetData()), URL: c.Media.GetUrl(), Artifact: c.Media.GetArtifact(),
			Filename: c.Media.GetFilename(), Detail: c.Media.GetDetail(), Metadata: meta,
		}, nil
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
		return &llm.Reasoning{Text: c.Reasoning.GetText(), Metadata: meta}, nil
	case *gantryv1.LlmPart_Sealed:
		return &llm.Sealed{Namespace: c.Sealed.GetNamespace(), Data: c.Sealed.GetData(), Metadata: meta}, nil
	}
	return nil, ErrUnknownPart
}

func toolCallToProto(c *llm.ToolCall) *gantryv1.LlmToolCall {
	return &gantryv1.LlmToolCall{
		Id: text(c.ID), Name: text(c.Name), Namespace: text(c.Namespace), Input: text(c.Input), Freeform: c.Freeform,
		ProviderExecuted: c.ProviderExecuted, Search: c.Search,
	}
}

func toolCallFromProto(p *gantryv1.LlmToolCall) llm.ToolCall {
	return llm.ToolCall{
		ID: p.GetId(), Name: p.GetName(), Namespace: p.GetNamespace(), Input: p.GetInput(), Freeform: p.GetFreeform(),
		ProviderExecuted: p.GetProviderExecuted(), Search: p.GetSearch(),
	}
}

func toolResultToProto(r *llm.ToolResult) *gantryv1.LlmToolResult {
	return &gantryv1.LlmToolResult{
		Id: text(r.ID), Name: text(r.Name), Namespace: text(r.Namespace), Content: llmPartsToProto(r.Content), IsError: r.IsError,
		Freeform: r.Freeform, ProviderExecuted: r.ProviderExecuted, Search: r.Search, Tools: each(r.Tools, LLMToolToProto),
	}
}

func toolResultFromProto(p *gantryv1.LlmToolResult) (llm.ToolResult, error) {
	content, err := llmPartsFromProto(p.GetContent())
	if err != nil {
		return llm.ToolResult{}, fmt.Errorf("result of call %s: %w", p.GetId(), err)
	}
	return llm.ToolResult{
		ID: p.GetId(), Name: p.GetName(), Namespace: p.GetNamespace(), Content: content, IsError: p.GetIsError(),
		Freeform: p.GetFreeform(), ProviderExecuted: p.GetProviderExecuted(), Search: p.GetSearch(),
		Tools: each(p.GetTools(), LLMToolFromProto),
	}, nil
}
