package converse

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/claude"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// The service has no common setting for thinking: each vendor's models have their own fields. [protocol.Compat] selects the style
// with effort_field.
const (
	styleClaude = "thinking"         // Anthropic's fields thinking and output_config
	styleNova   = "reasoning_config" // Amazon's field reasoningConfig
	styleEffort = "reasoning_effort" // OpenAI's field
)

// defaultMaxTokens is the assumed maximum output of an unknown model, where a budget for thinking needs a limit.
const defaultMaxTokens = 32_000

// think sets the model-specific fields for thinking, and returns the compatible sampling settings. asked is the original request
// before normalization.
func (l *lowering) think(asked *protocol.Request, tools *toolConfig) (llm.Generation, error) {
	g := l.Generation
	switch l.Model.Compat.EffortField {
	case styleClaude:
		return l.claude(asked, tools)
	case styleNova:
		return l.nova(g)
	}
	if g.TopK != nil {
		l.Warning("top_k was left out: the service has none; if the model supports it, set it in additionalModelRequestFields")
	}
	word, err := l.effort(l.Model.Efforts)
	if err != nil || word == "" {
		return g, err
	}
	if l.Model.Compat.EffortField != styleEffort {
		l.Warning(fmt.Sprintf("the reasoning effort %q was omitted: it is not known how to set it for %s", l.ReasoningEffort, modelID(l.Request)))
		return g, nil
	}
	l.fields["reasoning_effort"] = word
	return g, nil
}

// effort returns the model's name for the request's effort, or for the nearest of those offered. Empty: send nothing.
func (l *lowering) effort(offered []string) (string, error) {
	asked, m := l.ReasoningEffort, &l.Model
	word, mapped := m.Compat.EffortMap[asked]
	switch {
	case asked == "":
		return "", nil
	case mapped:
		return word, nil
	case len(offered) == 0:
		if asked != "none" {
			l.Warning(fmt.Sprintf("the reasoning effort %q was left out: %s knows no efforts", asked, modelID(l.Request)))
		}
		return "", nil
	}
	near := protocol.NearestEffort(asked, offered)
	if near == "" {
		return "", protocol.Invalid(fmt.Sprintf("choose one of %q", m.KnownEfforts()), "the model has no reasoning effort %q", asked)
	}
	if near != asked {
		l.Warning(fmt.Sprintf("the model does not support the reasoning effort %q; using %q", asked, near))
	}
	return near, nil
}

func (l *lowering) claude(asked *protocol.Request, tools *toolConfig) (llm.Generation, error) {
	maxTokens := l.Model.MaxOutputTokens
	if maxTokens == 0 {
		maxTokens = defaultMaxTokens
	}
	if n := l.Generation.MaxTokens; n != nil {
		maxTokens = min(*n, maxTokens)
	}
	t, effort, err := claude.Think(l.Request, l.opts.Thinking, tools.forced(), maxTokens)
	if err != nil {
		return llm.Generation{}, err
	}
	if claude.Lost(asked, t) {
		t = nil
		l.Warning("the signed thinking before the pending tool call is gone, so the model answers without thinking")
	}
	g := claude.Sampling(l.Request, t)
	if t != nil {
		l.fields["thinking"] = t
		if t.BudgetTokens > 0 && g.MaxTokens == nil { // which includes the budget
			g.MaxTokens = &maxTokens
		}
	}
	if effort != "" {
		l.fields["output_config"] = map[string]string{"effort": effort}
	}
	if betas := claude.Betas(&l.Model, t, effort, tools != nil); len(betas) > 0 {
		l.fields["anthropic_beta"] = betas
	}
	if g.TopK != nil {
		l.fields["top_k"] = *g.TopK
	}
	return g, nil
}

// nova sets the fields of Amazon's models. At the highest effort they accept no sampling settings.
func (l *lowering) nova(g llm.Generation) (llm.Generation, error) {
	m := &l.Model
	efforts := slices.DeleteFunc(slices.Clone(m.Efforts), func(e string) bool { return e == "none" })
	if g.TopK != nil {
		l.fields["inferenceConfig"] = map[string]int64{"topK": *g.TopK}
	}
	if l.ReasoningEffort == "none" && len(efforts) > 0 && !m.AlwaysThinks {
		l.fields["reasoningConfig"] = kind{"disabled"}
		return g, nil
	}
	word, err := l.effort(efforts)
	if err != nil || word == "" {
		return g, err
	}
	l.fields["reasoningConfig"] = map[string]string{"type": "enabled", "maxReasoningEffort": word}
	if word == "high" && (g.MaxTokens != nil || g.Temperature != nil || g.TopP != nil || g.TopK != nil) {
		l.Warning("max_tokens and the sampling settings were omitted: the model accepts none at its highest effort")
		g = llm.Generation{Stop: g.Stop, Seed: g.Seed, FrequencyPenalty: g.FrequencyPenalty, PresencePenalty: g.PresencePenalty}
		delete(l.fields, "inferenceConfig")
	}
	return g, nil
}
