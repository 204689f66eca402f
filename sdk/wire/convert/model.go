package convert

import (
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ModelRowToProto translates a row of a provider's models.
func ModelRowToProto(r llm.ModelRow) *gantryv1.ModelRow {
	p := &gantryv1.ModelRow{
		Id:                     text(r.ID),
		DisplayName:            text(r.DisplayName),
		ContextWindow:          r.ContextWindow,
		MaxContextWindow:       r.MaxContextWindow,
		ContextWindowSource:    text(string(r.ContextWindowSource)),
		MaxOutputTokens:        r.MaxOutputTokens,
		InputModalities:        texts(r.InputModalities),
		OutputModalities:       texts(r.OutputModalities),
		ToolKinds:              texts(r.ToolKinds),
		ToolTraits:             texts(r.ToolTraits),
		HostedTools:            each(r.HostedTools, hostedToolToProto),
		ReasoningEfforts:       texts(r.ReasoningEfforts),
		DefaultReasoningEffort: text(r.DefaultReasoningEffort),
		Compatibility:          texts(r.Compatibility),
		ParallelToolCalls:      r.ParallelToolCalls,
		Fallback:               r.Fallback,
		TruncationMode:         text(r.TruncationMode),
		TruncationLimit:        r.TruncationLimit,
		MetadataNamespace:      text(r.MetadataNamespace),
		Notes:                  texts(r.Notes),
	}
	if q := r.Prices; !q.IsZero() {
		p.Prices = &gantryv1.Prices{
			Input: q.Input, Output: q.Output, CacheRead: q.CacheRead, CacheWrite: q.CacheWrite, Reasoning: q.Reasoning,
			Tiers: each(q.Tiers, priceTierToProto),
		}
	}
	return p
}

// ModelRowFromProto translates a row of a provider's models.
func ModelRowFromProto(p *gantryv1.ModelRow) llm.ModelRow {
	r := llm.ModelRow{
		ID:                     p.GetId(),
		DisplayName:            p.GetDisplayName(),
		ContextWindow:          p.GetContextWindow(),
		MaxContextWindow:       p.GetMaxContextWindow(),
		ContextWindowSource:    llm.WindowSource(p.GetContextWindowSource()),
		MaxOutputTokens:        p.GetMaxOutputTokens(),
		InputModalities:        p.GetInputModalities(),
		OutputModalities:       p.GetOutputModalities(),
		ToolKinds:              p.GetToolKinds(),
		ToolTraits:             p.GetToolTraits(),
		HostedTools:            each(p.GetHostedTools(), hostedToolFromProto),
		ReasoningEfforts:       p.GetReasoningEfforts(),
		DefaultReasoningEffort: p.GetDefaultReasoningEffort(),
		Compatibility:          p.GetCompatibility(),
		ParallelToolCalls:      p.GetParallelToolCalls(),
		Fallback:               p.GetFallback(),
		TruncationMode:         p.GetTruncationMode(),
		TruncationLimit:        p.GetTruncationLimit(),
		MetadataNamespace:      p.GetMetadataNamespace(),
		Notes:                  p.GetNotes(),
	}
	if q := p.GetPrices(); q != nil {
		r.Prices = llm.Prices{
			Input: q.Input, Output: q.Output, CacheRead: q.CacheRead, CacheWrite: q.CacheWrite, Reasoning: q.Reasoning,
			Tiers: each(q.GetTiers(), priceTierFromProto),
		}
	}
	return r
}

// ModelRowsToProto translates rows.
func ModelRowsToProto(rs []llm.ModelRow) []*gantryv1.ModelRow { return each(rs, ModelRowToProto) }

// ModelRowsFromProto translates rows.
func ModelRowsFromProto(ps []*gantryv1.ModelRow) []llm.ModelRow { return each(ps, ModelRowFromProto) }

func hostedToolToProto(t llm.HostedTool) *gantryv1.HostedTool {
	return &gantryv1.HostedTool{Kind: text(t.Kind), Effects: texts(t.Effects)}
}

func hostedToolFromProto(p *gantryv1.HostedTool) llm.HostedTool {
	return llm.HostedTool{Kind: p.GetKind(), Effects: p.GetEffects()}
}

func priceTierToProto(t llm.PriceTier) *gantryv1.PriceTier {
	return &gantryv1.PriceTier{
		Above: t.Above, Input: t.Input, Output: t.Output, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning,
	}
}

func priceTierFromProto(p *gantryv1.PriceTier) llm.PriceTier {
	return llm.PriceTier{
		Above: p.GetAbove(), Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Reasoning: p.Reasoning,
	}
}
