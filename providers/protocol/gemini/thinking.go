package gemini

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// thinkingBudgets are the tokens for efforts, for models with token budgets.
var thinkingBudgets = map[string]int64{
	"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 16000, "xhigh": 24576, "max": 32768, "ultra": 32768,
}

// levels are the thinking levels of all generation 3 models; a model's row lists further ones.
var levels = []string{"low", "medium", "high"}

// thinking returns the config for the request's effort, overridden by the vendor's options. Nil: send none.
func (l *lowering) thinking(opts *ThinkingConfig) (*ThinkingConfig, error) {
	c, err := l.thinkingFor(l.r.ReasoningEffort)
	if err != nil || c == nil && opts == nil {
		return nil, err
	}
	if c == nil {
		c = &ThinkingConfig{}
	}
	if opts != nil {
		if opts.ThinkingBudget != nil && opts.ThinkingLevel != "" {
			return nil, protocol.Invalid("leave thinkingBudget out for models of generation 3, thinkingLevel for older ones",
				"the options of thinkingConfig contain a budget and a level; a model accepts only one of them")
		}
		// The two are mutually exclusive, so an option replaces both.
		if opts.ThinkingBudget != nil || opts.ThinkingLevel != "" {
			c.ThinkingBudget, c.ThinkingLevel = opts.ThinkingBudget, opts.ThinkingLevel
		}
		c.IncludeThoughts = opts.IncludeThoughts
	}
	if c.ThinkingBudget != nil {
		c.ThinkingBudget = new(l.fitted(*c.ThinkingBudget))
		if *c.ThinkingBudget == 0 {
			c.IncludeThoughts = nil // rejected where there are none
			return c, nil
		}
	}
	if c.IncludeThoughts == nil {
		c.IncludeThoughts = new(true)
	}
	return c, nil
}

func (l *lowering) thinkingFor(effort string) (*ThinkingConfig, error) {
	m := &l.r.Model
	switch {
	case !m.Reasons && effort != "" && effort != "none":
		l.r.Warning(fmt.Sprintf("the model %s does not think, so the effort %q was omitted", modelID(l.r), effort))
		return nil, nil
	case !m.Reasons:
		return nil, nil
	case effort == "":
		return &ThinkingConfig{}, nil
	}
	word, mapped := m.Compat.EffortMap[effort]
	if !l.gen.gemini && len(m.Efforts) == 0 && !mapped {
		return &ThinkingConfig{}, nil // the model decides
	}
	if !l.gen.budgets() {
		if !mapped {
			if word = level(effort, m.Efforts); word == "" {
				return nil, l.unknownEffort(effort)
			}
		}
		return &ThinkingConfig{ThinkingLevel: word}, nil
	}
	budget, ok := thinkingBudgets[effort]
	if mapped {
		n, err := strconv.ParseInt(word, 10, 64)
		budget, ok = n, err == nil
	}
	if !ok {
		return nil, l.unknownEffort(effort)
	}
	return &ThinkingConfig{ThinkingBudget: &budget}, nil
}

func (l *lowering) unknownEffort(effort string) error {
	return protocol.Invalid("choose one of "+strings.Join(l.r.Model.KnownEfforts(), ", "),
		"the model %s has no reasoning effort %q", modelID(l.r), effort)
}

// level returns the thinking level for an effort among those offered, or "" if the effort is unknown. No level disables thinking.
func level(effort string, offered []string) string {
	if len(offered) == 0 {
		offered = levels
	}
	return protocol.NearestEffort(effort, slices.DeleteFunc(slices.Clone(offered), func(e string) bool { return e == "none" }))
}

// minThinkingBudget is the minimum budget that is requested: with less, the model stops in mid-thought.
const minThinkingBudget = 512

// leastThinking is the minimum budget of a model that always thinks, if its row has none.
const leastThinking = 128

// fitted limits a budget so that half of the output is left for the response, and to the range of the model. 0 (off) and -1 (the
// model decides) are unchanged if the model accepts them.
func (l *lowering) fitted(budget int64) int64 {
	m := &l.r.Model
	switch {
	case budget < 0:
		return budget
	case budget == 0 && (m.AlwaysThinks || l.gen.alwaysThinks()):
		return cmp.Or(m.BudgetMin, leastThinking)
	case budget == 0:
		return 0
	}
	output := m.MaxOutputTokens
	if l.r.Generation.MaxTokens != nil {
		output = *l.r.Generation.MaxTokens
	}
	if output > 0 {
		budget = min(budget, output/2)
	}
	budget = max(budget, minThinkingBudget, m.BudgetMin)
	if m.BudgetMax > 0 {
		budget = min(budget, m.BudgetMax)
	}
	return budget
}
