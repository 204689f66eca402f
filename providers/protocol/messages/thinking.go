package messages

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

// adaptive tells whether a model decides by itself how long it thinks. Such a model takes efforts; one that counts tokens
// too does so only if it knows the effort "max": the generation before took three efforts, for the length of its answers.
func adaptive(m *protocol.Model) bool {
	counts := m.BudgetMin > 0 || m.BudgetMax > 0
	return len(m.Efforts) > 0 && (!counts || slices.Contains(m.Efforts, "max"))
}

func thinks(t *Thinking) bool { return t != nil && (t.Type == "adaptive" || t.Type == "enabled") }

// thinking decides how the model thinks, and which effort is sent:
//
//   - The options' thinking wins. Otherwise no effort means that nothing is said, and the vendor's own way holds.
//   - A model that decides by itself is sent the effort; "none" switches it off. One that can't be switched off is sent the
//     weakest effort and nothing else, so that it thinks as little as it can.
//   - Any other model is sent a budget, see [budgetFor]; "none" says nothing, since off is its own way.
//   - A tool that must be called switches thinking off: the vendor takes only one of them.
func (l *lowering) thinking(maxTokens int64) (t *Thinking, effort string, err error) {
	m := &l.Model
	own := l.opts.Thinking
	chosen := own != nil && own.Type != ""
	asked := l.ReasoningEffort
	if asked != "" && !m.Reasons && len(m.Efforts) == 0 {
		l.Warning("the reasoning effort is left out: the model does not think")
		asked = ""
	}
	if asked != "" && (asked != "none" || m.AlwaysThinks && adaptive(m)) && len(m.Efforts) > 0 {
		if effort, err = l.effort(asked); err != nil {
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
	case adaptive(m):
		t = &Thinking{Type: "adaptive"}
	default:
		budget, ok := budgets[asked]
		if !ok {
			return nil, "", l.unknownEffort(asked)
		}
		t = &Thinking{Type: "enabled", BudgetTokens: budget}
	}
	if l.choice.forced() {
		if thinks(t) {
			l.Warning("the model does not think in this request: the vendor takes no thinking where a tool must be called")
		}
		t = off(m)
	}
	if t != nil && t.Type == "enabled" {
		t = l.budgetFor(t.BudgetTokens, maxTokens)
	}
	if thinks(t) && own != nil {
		t.Display = own.Display
	}
	if t != nil && t.Type == "disabled" && protocol.EffortRank(effort) > protocol.EffortRank("high") {
		effort = "high" // the newest models refuse more of it without thinking
	}
	return t, effort, nil
}

// off switches thinking off. Nil: that is the model's own way, or it has no other than to think.
func off(m *protocol.Model) *Thinking {
	if adaptive(m) && !m.AlwaysThinks {
		return &Thinking{Type: "disabled"}
	}
	return nil
}

// effort is the vendor's word for an effort: the one of the model's row, or the nearest that the model takes.
func (l *lowering) effort(asked string) (string, error) {
	m := &l.Model
	if word, ok := m.Compat.EffortMap[asked]; ok {
		return word, nil
	}
	near := protocol.NearestEffort(asked, m.Efforts)
	if near == "" {
		return "", l.unknownEffort(asked)
	}
	if near != asked {
		l.Warning(fmt.Sprintf("the model takes no reasoning effort %q; it is sent %q", asked, near))
	}
	return near, nil
}

func (l *lowering) unknownEffort(asked string) error {
	return protocol.Invalid("use one of "+strings.Join(l.Model.KnownEfforts(), ", "), "the model knows no reasoning effort %q", asked)
}

// budgetFor fits tokens for thinking between the vendor's least and three quarters of what may be written in all: the
// rest is for the answer. Nil: there is no room for thinking.
func (l *lowering) budgetFor(want, maxTokens int64) *Thinking {
	if maxTokens <= minBudget {
		l.Warning(fmt.Sprintf("the model does not think in this request: with at most %d tokens there is no room for it", maxTokens))
		return nil
	}
	least := max(minBudget, l.Model.BudgetMin)
	most := max(maxTokens-maxTokens/4, minBudget)
	if l.Model.BudgetMax > 0 {
		most = min(most, l.Model.BudgetMax)
	}
	return &Thinking{Type: "enabled", BudgetTokens: max(minBudget, min(max(want, least), most))}
}

// thoughtMeta is what reasoning needs to go back.
type thoughtMeta struct {
	Signature    string  `json:"signature"`
	RedactedData string  `json:"redactedData"`
	Family       *string `json:"model"` // of the models that can read it; nil: any
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"` // empty where the vendor shows nothing
	Signature string `json:"signature"`
}

type redactedBlock struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// thought is the block that reasoning came in, to the letter. Nil: the vendor would refuse it, since it is not signed or
// was signed by a model of another family.
func (l *lowering) thought(p *llm.Reasoning) any {
	var m thoughtMeta
	protocol.MetaOf(p.Metadata, l.Namespace, &m)
	if m.Family != nil && *m.Family != l.Family() {
		return nil
	}
	switch {
	case m.Signature != "":
		return thinkingBlock{Type: "thinking", Thinking: p.Text, Signature: m.Signature}
	case m.RedactedData != "":
		return redactedBlock{Type: "redacted_thinking", Data: m.RedactedData}
	case l.Model.Compat.RequireReasoning && p.Text != "":
		return thinkingBlock{Type: "thinking", Thinking: p.Text}
	}
	return nil
}

// lostThinking looks at the answer whose calls the history's last results belong to. The vendor takes up its thinking
// there, so that a request with thinking can't do without it:
//
//   - an answer that had thinking must still have some;
//   - with a budget, the first answer since the user spoke must begin with thinking.
//
// messages are those of the request before anything was cleaned up. Thinking is then not mentioned at all, as not every
// model lets it be switched off.
func (l *lowering) lostThinking(messages []llm.Message, t *Thinking) bool {
	if !thinks(t) {
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
			r, ok := p.(*llm.Reasoning)
			whole := ok && l.thought(r) != nil
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

// ThinkingRefused tells whether the vendor refused a request because of the thinking in its history: a signature that it
// does not accept, or thinking that it misses. [StripThinking] then makes a request that it takes. Asking once more that
// way is enough: a second refusal has another cause.
func ThinkingRefused(err *llm.Error) bool {
	return err != nil && err.Code == llm.ErrInvalidRequest && refusedThinking.MatchString(err.Message)
}

// StripThinking returns a copy of r whose reasoning has lost all that the vendor signed, so that none of it is sent, and
// where a tool's results are pending the model answers without thinking. ok is false when there was nothing signed: then
// r would be refused again.
func StripThinking(r *protocol.Request) (_ *protocol.Request, ok bool) {
	ns := withNamespace(r).Namespace
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
