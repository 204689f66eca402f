package responses

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// maxCacheKey is the maximum length of OpenAI's prompt_cache_key, in code points.
const maxCacheKey = 64

const encryptedReasoning = "reasoning.encrypted_content"

// body is the request body. Its fields are sent in this order.
type body struct {
	Model                string              `json:"model"`
	Stream               bool                `json:"stream"`
	Instructions         string              `json:"instructions,omitempty"`
	Input                []any               `json:"input"`
	Tools                []any               `json:"tools,omitempty"`
	ToolChoice           any                 `json:"tool_choice,omitempty"`
	ParallelToolCalls    *bool               `json:"parallel_tool_calls,omitempty"`
	MaxToolCalls         *int64              `json:"max_tool_calls,omitempty"`
	Reasoning            *reasoning          `json:"reasoning,omitempty"`
	Store                *bool               `json:"store,omitempty"`
	Include              []string            `json:"include,omitempty"`
	PromptCacheKey       string              `json:"prompt_cache_key,omitempty"`
	PromptCacheRetention string              `json:"prompt_cache_retention,omitempty"`
	PromptCacheOptions   *PromptCacheOptions `json:"prompt_cache_options,omitempty"`
	ServiceTier          string              `json:"service_tier,omitempty"`
	Text                 *text               `json:"text,omitempty"`
	MaxOutputTokens      *int64              `json:"max_output_tokens,omitempty"`
	Temperature          *float64            `json:"temperature,omitempty"`
	TopP                 *float64            `json:"top_p,omitempty"`
	TopLogprobs          *int64              `json:"top_logprobs,omitempty"`
	Truncation           string              `json:"truncation,omitempty"`
	ContextManagement    []ContextManagement `json:"context_management,omitempty"`
	PreviousResponseID   string              `json:"previous_response_id,omitempty"`
	Conversation         string              `json:"conversation,omitempty"`
	Background           *bool               `json:"background,omitempty"`
	SafetyIdentifier     string              `json:"safety_identifier,omitempty"`
	User                 string              `json:"user,omitempty"`
	Metadata             map[string]string   `json:"metadata,omitempty"`
	StreamOptions        *StreamOptions      `json:"stream_options,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

type text struct {
	Verbosity string  `json:"verbosity,omitempty"`
	Format    *format `json:"format,omitempty"`
}

type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Strict *bool           `json:"strict,omitempty"`
	Schema json.RawMessage `json:"schema"`
}

func newBody(r *protocol.Request, opts *Options) (*body, error) {
	b := &body{
		Model:                r.Model.ID,
		Stream:               true,
		Instructions:         strings.Join(r.System, "\n"),
		Store:                storeOf(r, opts),
		Include:              includeOf(r, opts),
		Reasoning:            reasoningOf(r, opts),
		ServiceTier:          r.ServiceTier,
		Text:                 textOf(r, opts),
		MaxOutputTokens:      maxOutputOf(r),
		MaxToolCalls:         opts.MaxToolCalls,
		Temperature:          r.Generation.Temperature,
		TopP:                 r.Generation.TopP,
		TopLogprobs:          opts.TopLogprobs,
		Truncation:           opts.Truncation,
		ContextManagement:    opts.ContextManagement,
		PreviousResponseID:   opts.PreviousResponseID,
		Conversation:         opts.Conversation,
		Background:           opts.Background,
		SafetyIdentifier:     opts.SafetyIdentifier,
		User:                 opts.User,
		Metadata:             opts.Metadata,
		StreamOptions:        opts.StreamOptions,
		PromptCacheOptions:   opts.PromptCacheOptions,
		PromptCacheRetention: opts.PromptCacheRetention,
		PromptCacheKey:       clamp(r.PromptCacheKey, maxCacheKey),
	}
	if b.Model == "" {
		b.Model = r.Request.Model
	}
	if opts.ServiceTier != "" {
		b.ServiceTier = opts.ServiceTier
	}
	if r.Cache == "none" {
		b.PromptCacheKey, b.PromptCacheRetention, b.PromptCacheOptions = "", "", nil
	}
	var err error
	if b.Tools, err = toolsOf(r, opts); err != nil {
		return nil, err
	}
	if len(b.Tools) > 0 {
		if b.ToolChoice, err = toolChoiceOf(r); err != nil {
			return nil, err
		}
		if !r.Model.Compat.NoParallelTools {
			b.ParallelToolCalls = &r.ParallelToolCalls
		}
	}
	if b.Input, err = inputOf(r, b.Store != nil && *b.Store); err != nil {
		return nil, err
	}
	warnOfUnsent(r)
	return b, nil
}

func clamp(s string, codePoints int) string {
	n := 0
	for i := range s {
		if n == codePoints {
			return s[:i]
		}
		n++
	}
	return s
}

func storeOf(r *protocol.Request, opts *Options) *bool {
	if r.Model.Compat.NoStore {
		return nil
	}
	if opts.Store != nil {
		return opts.Store
	}
	return new(bool)
}

func reasons(r *protocol.Request) bool { return r.Model.Reasons || len(r.Model.Efforts) > 0 }

// includeOf requests encrypted reasoning if the model reasons: without it, a history that the vendor does not store would lose the
// reasoning. Models without reasoning reject the request.
func includeOf(r *protocol.Request, opts *Options) []string {
	var include []string
	if reasons(r) {
		include = append(include, encryptedReasoning)
	}
	for _, i := range opts.Include {
		if !slices.Contains(include, i) {
			include = append(include, i)
		}
	}
	return include
}

func reasoningOf(r *protocol.Request, opts *Options) *reasoning {
	out := reasoning{Effort: effortOf(r), Summary: opts.ReasoningSummary}
	if out.Summary == "" && reasons(r) && !r.Model.Compat.NoSummary {
		out.Summary = "auto"
	}
	if out.Summary == "none" {
		out.Summary = ""
	}
	if out == (reasoning{}) {
		return nil
	}
	return &out
}

// effortOf returns the vendor's name for the effort. If the model lacks it, the next weaker one is used, or the weakest.
func effortOf(r *protocol.Request) string {
	asked, m := r.ReasoningEffort, &r.Model
	if asked == "" {
		return ""
	}
	word := func(effort string) string {
		if w, ok := m.Compat.EffortMap[effort]; ok {
			return w
		}
		return effort
	}
	if _, mapped := m.Compat.EffortMap[asked]; mapped || slices.Contains(m.Efforts, asked) {
		return word(asked)
	}
	near := protocol.NearestEffort(asked, m.Efforts)
	if near == "" {
		r.Warning(fmt.Sprintf("reasoning effort %q left out: model %q does not take it", asked, m.ID))
		return ""
	}
	r.Warning(fmt.Sprintf("reasoning effort %q became %q: model %q takes only %s", asked, near, m.ID, strings.Join(m.Efforts, ", ")))
	return word(near)
}

func textOf(r *protocol.Request, opts *Options) *text {
	var out text
	if opts.TextVerbosity == "" && r.Model.Verbosity {
		out.Verbosity = "low" // as codex does: an agent's answers are read between its calls
	}
	if opts.TextVerbosity != "" {
		if r.Model.Verbosity {
			out.Verbosity = opts.TextVerbosity
		} else {
			r.Warning(fmt.Sprintf("text_verbosity %q left out: model %q has no verbosity", opts.TextVerbosity, r.Model.ID))
		}
	}
	if len(r.OutputSchema) > 0 {
		out.Format = &format{Type: "json_schema", Name: "output", Schema: r.OutputSchema}
		if r.OutputSchemaName != "" {
			out.Format.Name = protocol.WireName("", r.OutputSchemaName)
		}
		if !r.Model.Compat.NoStrict {
			strict := opts.StrictOutput == nil || *opts.StrictOutput
			out.Format.Strict = &strict
		}
	}
	if out == (text{}) {
		return nil
	}
	return &out
}

func maxOutputOf(r *protocol.Request) *int64 {
	asked, most := r.Generation.MaxTokens, r.Model.MaxOutputTokens
	if asked == nil || most <= 0 || *asked <= most {
		return asked
	}
	r.Warning(fmt.Sprintf("max tokens %d was reduced to %d, the maximum of model %q", *asked, most, r.Model.ID))
	return &most
}

// warnOfUnsent warns about settings for which the format has no field.
func warnOfUnsent(r *protocol.Request) {
	g := r.Generation
	var names []string
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"top k", g.TopK != nil},
		{"frequency penalty", g.FrequencyPenalty != nil},
		{"presence penalty", g.PresencePenalty != nil},
		{"seed", g.Seed != nil},
		{"stop sequences", len(g.Stop) > 0},
	} {
		if s.set {
			names = append(names, s.name)
		}
	}
	if len(names) > 0 {
		r.Warning(strings.Join(names, ", ") + " left out: the Responses API has no such setting")
	}
}
