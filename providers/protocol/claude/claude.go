// Package claude implements the requirements of Anthropic's models for requests with thinking, for all services and formats that
// offer these models.
//
// It owns the conversion of an effort to thinking ([Think]), the thinking that is sent back ([SealOf], [Lost]), the sampling
// settings that are compatible with it ([Sampling]), and what to send after signed thinking was rejected ([Strip]). It does not
// know how any of it is represented in a body.
//
// Start with [Think].
package claude

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// minBudget is the vendor's minimum for thinking.
const minBudget = 1024

// budgets are the tokens for efforts, for models with token budgets.
var budgets = map[string]int64{
	"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 16_384, "xhigh": 24_576, "max": 32_768, "ultra": 32_768,
}

// Adaptive reports whether a model decides for itself how long it thinks. Such models accept efforts. A model that also accepts
// token budgets is adaptive only if it has the effort "max": in the previous generation, efforts controlled the length of
// responses.
func Adaptive(m *protocol.Model) bool {
	counts := m.BudgetMin > 0 || m.BudgetMax > 0
	return len(m.Efforts) > 0 && (!counts || slices.Contains(m.Efforts, "max"))
}

// Thinking configures thinking in the vendor's terms.
type Thinking struct {
	Type         string `json:"type"`                    // "adaptive", "enabled" (with a budget) or "disabled"
	BudgetTokens int64  `json:"budget_tokens,omitempty"` // at least 1024 and less than the maximum output
	Display      string `json:"display,omitempty"`       // "summarized" or "omitted"
}

// On reports whether thinking is enabled.
func (t *Thinking) On() bool { return t != nil && (t.Type == "adaptive" || t.Type == "enabled") }

// Check rejects an unknown type.
func (t *Thinking) Check() error {
	if t == nil {
		return nil
	}
	switch t.Type {
	case "", "adaptive", "enabled", "disabled":
		return nil
	}
	return protocol.Invalid(`thinking is "adaptive", "enabled" or "disabled"`, "provider options: thinking has the unknown type %q", t.Type)
}

// Think determines how the model thinks, and the effort to send. own is the setting in the provider options, forced is set if a
// tool call is required, and maxTokens is the maximum output:
//
//   - The provider options take precedence. Otherwise, without an effort nothing is sent, and the vendor's default applies.
//   - An adaptive model is sent the effort; "none" disables thinking. If thinking cannot be disabled, the lowest effort is sent.
//   - Other models are sent a budget, see budgetFor; for "none" nothing is sent, because their default is off.
//   - A required tool call disables thinking, because the vendor does not accept both.
func Think(r *protocol.Request, own *Thinking, forced bool, maxTokens int64) (t *Thinking, effort string, err error) {
	m := &r.Model
	chosen := own != nil && own.Type != ""
	asked := r.ReasoningEffort
	if asked != "" && !m.Reasons && len(m.Efforts) == 0 {
		r.Warning("the reasoning effort is left out: the model does not think")
		asked = ""
	}
	if asked != "" && (asked != "none" || m.AlwaysThinks && Adaptive(m)) && len(m.Efforts) > 0 {
		if effort, err = effortOf(r, asked); err != nil {
			return nil, "", err
		}
	}
	switch {
	case chosen:
		t = &Thinking{Type: own.Type}
		if own.Type == "enabled" {
			t.BudgetTokens = own.BudgetTokens
		}
	case asked == "":
	case asked == "none":
		t = off(m)
	case Adaptive(m):
		t = &Thinking{Type: "adaptive"}
	default:
		budget, ok := budgets[asked]
		if !ok {
			return nil, "", unknownEffort(r, asked)
		}
		t = &Thinking{Type: "enabled", BudgetTokens: budget}
	}
	if forced {
		if t.On() {
			r.Warning("the model does not think in this request: the vendor accepts no thinking with a required tool call")
		}
		t = off(m)
	}
	if t != nil && t.Type == "enabled" {
		t = budgetFor(r, t.BudgetTokens, maxTokens)
	}
	if t.On() && own != nil {
		t.Display = own.Display
	}
	if t != nil && t.Type == "disabled" && protocol.EffortRank(effort) > protocol.EffortRank("high") {
		effort = "high" // the latest models reject higher efforts without thinking
	}
	return t, effort, nil
}

// off disables thinking. It returns nil if that is the model's default, or if thinking cannot be disabled.
func off(m *protocol.Model) *Thinking {
	if Adaptive(m) && !m.AlwaysThinks {
		return &Thinking{Type: "disabled"}
	}
	return nil
}

// effortOf returns the vendor's name for an effort: the one in the model's row, or the nearest that the model supports.
func effortOf(r *protocol.Request, asked string) (string, error) {
	m := &r.Model
	if word, ok := m.Compat.EffortMap[asked]; ok {
		return word, nil
	}
	near := protocol.NearestEffort(asked, m.Efforts)
	if near == "" {
		return "", unknownEffort(r, asked)
	}
	if near != asked {
		r.Warning(fmt.Sprintf("the model does not support the reasoning effort %q; using %q", asked, near))
	}
	return near, nil
}

func unknownEffort(r *protocol.Request, asked string) error {
	return protocol.Invalid("use one of "+strings.Join(r.Model.KnownEfforts(), ", "), "the model has no reasoning effort %q", asked)
}

// budgetFor fits a budget between the vendor's minimum and three quarters of the maximum output; the rest is for the response. It
// returns nil if there is no room for thinking.
func budgetFor(r *protocol.Request, want, maxTokens int64) *Thinking {
	if maxTokens <= minBudget {
		r.Warning(fmt.Sprintf("the model does not think in this request: a maximum of %d tokens leaves no room for it", maxTokens))
		return nil
	}
	least := max(minBudget, r.Model.BudgetMin)
	most := max(maxTokens-maxTokens/4, minBudget)
	if r.Model.BudgetMax > 0 {
		most = min(most, r.Model.BudgetMax)
	}
	return &Thinking{Type: "enabled", BudgetTokens: max(minBudget, min(max(want, least), most))}
}

// Seal is the vendor's signature or encryption of reasoning, without which it rejects the reasoning.
type Seal struct {
	Signature    string  `json:"signature"`
	RedactedData string  `json:"redactedData"`
	Family       *string `json:"model"` // of models that can read it; nil: any
}

// SealOf returns the seal of reasoning, unchanged. ok is false if the vendor would reject the reasoning, because it has no seal or
// one for another model family.
func SealOf(r *protocol.Request, p *llm.Reasoning) (s Seal, ok bool) {
	protocol.MetaOf(p.Metadata, r.Namespace, &s)
	if s.Family != nil && *s.Family != r.Family() {
		return Seal{}, false
	}
	return s, s.Signature != "" || s.RedactedData != "" || r.Model.Compat.RequireReasoning && p.Text != ""
}

// Lost examines the response that contains the calls of the history's last results. The vendor continues its thinking there, so
// thinking must be disabled for the request if it is incomplete:
//
//   - a response that had thinking must still have some;
//   - with a budget, the first response after the user's message must begin with thinking.
//
// r is the original request before normalization. If Lost returns true, thinking is omitted from the request, because not every
// model lets it be disabled explicitly.
func Lost(r *protocol.Request, t *Thinking) bool {
	messages := r.Messages
	if !t.On() {
		return false
	}
	i := len(messages) - 1
	results := false
	for ; i >= 0 && messages[i].Role != llm.RoleAssistant; i-- {
		results = results || messages[i].Role == llm.RoleTool
	}
	if i < 0 || !results {
		return false
	}
	had, kept, begins := false, false, false
	answer := true // still in the last response
	for ; i >= 0 && messages[i].Role != llm.RoleUser; i-- {
		if messages[i].Role != llm.RoleAssistant {
			answer = answer && messages[i].Role != llm.RoleTool
			continue
		}
		for _, p := range slices.Backward(messages[i].Parts) {
			thought, ok := p.(*llm.Reasoning)
			whole := false
			if ok {
				_, whole = SealOf(r, thought)
			}
			if ok && answer {
				had, kept = true, kept || whole
			}
			if ok || !isBlank(p) {
				begins = whole // the last one examined is the first response
			}
		}
	}
	return had && !kept || t.Type == "enabled" && !begins
}

func isBlank(p llm.Part) bool {
	t, ok := p.(*llm.Text)
	return ok && strings.TrimSpace(t.Text) == ""
}

var refusedThinking = regexp.MustCompile(`(?i)` + strings.Join([]string{
	"invalid .?(?:signature|data).? in .?(?:redacted_)?thinking",
	"expected .?(?:redacted_)?thinking.?",
	"must start with a thinking block",
	"thinking.? blocks? .*cannot be modified",
	"final block in an assistant message cannot be .?(?:redacted_)?thinking",
}, "|"))

// Refused reports whether the vendor rejected a request because of the thinking in its history: an invalid signature, or missing
// thinking. [Strip] returns a request that it accepts. One retry is sufficient: a second rejection has another cause.
func Refused(err *llm.Error) bool {
	return err != nil && err.Code == llm.ErrInvalidRequest && refusedThinking.MatchString(err.Message)
}

// Strip returns a copy of r without signed reasoning, and without thinking while tool results are pending. ok is false if nothing
// was signed: r would be rejected again.
func Strip(r *protocol.Request) (_ *protocol.Request, ok bool) {
	ns := r.Namespace
	inner := *r.Request
	inner.Messages = slices.Clone(inner.Messages)
	for i, m := range inner.Messages {
		var parts []llm.Part
		for j, p := range m.Parts {
			t, is := p.(*llm.Reasoning)
			if !is || len(t.Metadata[ns]) == 0 {
				continue
			}
			if parts == nil {
				parts = slices.Clone(m.Parts)
			}
			bare := *t
			bare.Metadata = maps.Clone(t.Metadata)
			delete(bare.Metadata, ns)
			parts[j] = &bare
		}
		if parts != nil {
			inner.Messages[i].Parts = parts
			ok = true
		}
	}
	out := *r
	out.Request = &inner
	return &out, ok
}

// Sampling returns the sampling settings that are compatible with thinking.
func Sampling(r *protocol.Request, t *Thinking) llm.Generation {
	g := r.Generation
	if t.On() {
		if g.Temperature != nil && *g.Temperature != 1 {
			r.Warning("temperature is left out: the vendor accepts none while the model thinks")
		}
		g.Temperature = nil
		if p := g.TopP; p != nil && (*p < 0.95 || *p > 1) {
			r.Warning("top_p is left out: while the model thinks, the vendor accepts 0.95 to 1")
			g.TopP = nil
		}
		if g.TopK != nil {
			r.Warning("top_k is left out: the vendor accepts none while the model thinks")
			g.TopK = nil
		}
	}
	if g.Temperature != nil && g.TopP != nil {
		r.Warning("top_p is left out: current models accept either temperature or top_p")
		g.TopP = nil
	}
	return g
}

// Values in [Betas].
const (
	betaInterleavedThinking = "interleaved-thinking-2025-05-14"
	betaEffort              = "effort-2025-11-24"
)

// Betas returns the beta features that thinking needs for a model. tools is set if the model has tools.
func Betas(m *protocol.Model, t *Thinking, effort string, tools bool) []string {
	var out []string
	// With a budget, models think between calls only with this feature.
	if t != nil && t.Type == "enabled" && tools {
		out = append(out, betaInterleavedThinking)
	}
	if effort != "" && !Adaptive(m) {
		out = append(out, betaEffort)
	}
	return out
}
