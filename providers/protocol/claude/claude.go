// Package claude is what the models of Anthropic demand of a request that has them think, whoever serves them and in
// whatever format.
//
// It owns: how an effort becomes thinking ([Think]), which thoughts go back ([SealOf], [Lost]), which settings of sampling
// stand beside them ([Sampling]), and what is left to send when signed thinking is refused ([Strip]). It must not know: how
// any of it is written down in a body.
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

// minBudget is the least that the vendor takes for thinking.
const minBudget = 1024

// budgets are the tokens that efforts stand for where the vendor counts tokens.
var budgets = map[string]int64{
	"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 16_384, "xhigh": 24_576, "max": 32_768, "ultra": 32_768,
}

// Adaptive tells whether a model decides by itself how long it thinks. Such a model takes efforts; one that counts tokens
// too does so only if it knows the effort "max": the generation before took three efforts, for the length of its answers.
func Adaptive(m *protocol.Model) bool {
	counts := m.BudgetMin > 0 || m.BudgetMax > 0
	return len(m.Efforts) > 0 && (!counts || slices.Contains(m.Efforts, "max"))
}

// Thinking is how the model thinks, in the vendor's words.
type Thinking struct {
	Type         string `json:"type"`                    // "adaptive", "enabled" (with a budget) or "disabled"
	BudgetTokens int64  `json:"budget_tokens,omitempty"` // at least 1024 and less than what may be written in all
	Display      string `json:"display,omitempty"`       // "summarized" or "omitted"
}

// On tells that the model thinks.
func (t *Thinking) On() bool { return t != nil && (t.Type == "adaptive" || t.Type == "enabled") }

// Check refuses a kind of thinking that there is not.
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

// Think decides how the model thinks, and which effort is sent. own is what the provider options say, forced tells that a
// tool must be called, maxTokens is what may be written in all:
//
//   - The options' thinking wins. Otherwise no effort means that nothing is said, and the vendor's own way holds.
//   - A model that decides by itself is sent the effort; "none" switches it off. One that can't be switched off is sent the
//     weakest effort and nothing else, so that it thinks as little as it can.
//   - Any other model is sent a budget, see budgetFor; "none" says nothing, since off is its own way.
//   - A tool that must be called switches thinking off: the vendor takes only one of them.
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
			r.Warning("the model does not think in this request: the vendor takes no thinking where a tool must be called")
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
		effort = "high" // the newest models refuse more of it without thinking
	}
	return t, effort, nil
}

// off switches thinking off. Nil: that is the model's own way, or it has no other than to think.
func off(m *protocol.Model) *Thinking {
	if Adaptive(m) && !m.AlwaysThinks {
		return &Thinking{Type: "disabled"}
	}
	return nil
}

// effortOf is the vendor's word for an effort: the one of the model's row, or the nearest that the model takes.
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
		r.Warning(fmt.Sprintf("the model takes no reasoning effort %q; it is sent %q", asked, near))
	}
	return near, nil
}

func unknownEffort(r *protocol.Request, asked string) error {
	return protocol.Invalid("use one of "+strings.Join(r.Model.KnownEfforts(), ", "), "the model knows no reasoning effort %q", asked)
}

// budgetFor fits tokens for thinking between the vendor's least and three quarters of what may be written in all: the
// rest is for the answer. Nil: there is no room for thinking.
func budgetFor(r *protocol.Request, want, maxTokens int64) *Thinking {
	if maxTokens <= minBudget {
		r.Warning(fmt.Sprintf("the model does not think in this request: with at most %d tokens there is no room for it", maxTokens))
		return nil
	}
	least := max(minBudget, r.Model.BudgetMin)
	most := max(maxTokens-maxTokens/4, minBudget)
	if r.Model.BudgetMax > 0 {
		most = min(most, r.Model.BudgetMax)
	}
	return &Thinking{Type: "enabled", BudgetTokens: max(minBudget, min(max(want, least), most))}
}

// Seal is what the vendor put on reasoning, without which it takes none back.
type Seal struct {
	Signature    string  `json:"signature"`
	RedactedData string  `json:"redactedData"`
	Family       *string `json:"model"` // of the models that can read it; nil: any
}

// SealOf is what reasoning goes back with, to the letter. ok is false when the vendor would refuse it, since it is not sealed
// or was sealed by a model of another family.
func SealOf(r *protocol.Request, p *llm.Reasoning) (s Seal, ok bool) {
	protocol.MetaOf(p.Metadata, r.Namespace, &s)
	if s.Family != nil && *s.Family != r.Family() {
		return Seal{}, false
	}
	return s, s.Signature != "" || s.RedactedData != "" || r.Model.Compat.RequireReasoning && p.Text != ""
}

// Lost looks at the answer whose calls the history's last results belong to. The vendor takes up its thinking
// there, so that a request with thinking can't do without it:
//
//   - an answer that had thinking must still have some;
//   - with a budget, the first answer since the user spoke must begin with thinking.
//
// r is the request before anything was cleaned up. Thinking is then not mentioned at all, as not every model lets it be
// switched off.
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
	answer := true // still in the last answer
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
				begins = whole // the last one looked at is the first one said
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

// Refused tells whether the vendor refused a request because of the thinking in its history: a signature that it
// does not accept, or thinking that it misses. [Strip] then makes a request that it takes. Asking once more that
// way is enough: a second refusal has another cause.
func Refused(err *llm.Error) bool {
	return err != nil && err.Code == llm.ErrInvalidRequest && refusedThinking.MatchString(err.Message)
}

// Strip returns a copy of r whose reasoning has lost all that the vendor signed, so that none of it is sent, and
// where a tool's results are pending the model answers without thinking. ok is false when there was nothing signed: then
// r would be refused again.
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

// Sampling is the settings of a request that stand beside how the model thinks.
func Sampling(r *protocol.Request, t *Thinking) llm.Generation {
	g := r.Generation
	if t.On() {
		if g.Temperature != nil && *g.Temperature != 1 {
			r.Warning("temperature is left out: the vendor takes none while the model thinks")
		}
		g.Temperature = nil
		if p := g.TopP; p != nil && (*p < 0.95 || *p > 1) {
			r.Warning("top_p is left out: while the model thinks the vendor takes 0.95 to 1")
			g.TopP = nil
		}
		if g.TopK != nil {
			r.Warning("top_k is left out: the vendor takes none while the model thinks")
			g.TopK = nil
		}
	}
	if g.Temperature != nil && g.TopP != nil {
		r.Warning("top_p is left out: current models take either temperature or top_p")
		g.TopP = nil
	}
	return g
}

// The tokens of [Betas].
const (
	betaInterleavedThinking = "interleaved-thinking-2025-05-14"
	betaEffort              = "effort-2025-11-24"
)

// Betas lists the tokens of abilities that thinking needs and that are not a matter of course. tools tells that the model
// has some.
func Betas(m *protocol.Model, t *Thinking, effort string, tools bool) []string {
	var out []string
	// With a budget, the models think between calls only when asked to.
	if t != nil && t.Type == "enabled" && tools {
		out = append(out, betaInterleavedThinking)
	}
	if effort != "" && !Adaptive(m) {
		out = append(out, betaEffort)
	}
	return out
}
