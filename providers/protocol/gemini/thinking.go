package gemini

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// thinkingBudgets are the tokens for an effort, for models that count them.
var thinkingBudgets = map[string]int64{
	"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 16000, "xhigh": 24576, "max": 32768, "ultra": 32768,
}

// levels are the thinking levels that every model of generation 3 takes; which others it takes its row says.
var levels = []string{"low", "medium", "high"}

// thinking is the config for the request's effort with the vendor's own options over it. Nil when nothing is to be said.
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
				"the options of thinkingConfig hold a budget and a level; a model takes one of them")
		}
		// The two exclude each other, so an option replaces both.
		if opts.ThinkingBudget != nil || opts.ThinkingLevel != "" {
			c.ThinkingBudget, c.ThinkingLevel = opts.ThinkingBudget, opts.ThinkingLevel
		}
		c.IncludeThoughts = opts.IncludeThoughts
	}
	if c.ThinkingBudget != nil {
		c.ThinkingBudget = new(l.fitted(*c.ThinkingBudget))
		if *c.ThinkingBudget == 0 {
			c.IncludeThoughts = nil // refused where there are none
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
		l.r.Warning(fmt.Sprintf("the model %s does not think, so the effort %q was left out", modelID(l.r), effort))
		return nil, nil
	case !m.Reasons:
		return nil, nil
	case effort == "":
		return &ThinkingConfig{}, nil
	}
	word, mapped := m.Compat.EffortMap[effort]
	if !l.gen.gemini && len(m.Efforts) == 0 && !mapped {
		return &ThinkingConfig{}, nil // it thinks as it likes
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

// level is the thinking level for an effort among those offered. Empty when the effort is not known. No level switches
// thinking off.
func level(effort string, offered []string) string {
	if len(offered) == 0 {
		offered = levels
	}
	return protocol.NearestEffort(effort, slices.DeleteFunc(slices.Clone(offered), func(e string) bool { return e == "none" }))
}

// minThinkingBudget is the least that is asked for when thinking is on: below it the model stops in mid-thought.
const minThinkingBudget = 512

// leastThinking is the budget of a model that can't do without, where its row says nothing.
const leastThinking = 128

// fitted cuts a budget so that half of the output stays for the answer, and puts it into what the model takes. 0 (off)
// and -1 (as the model likes) stay as they are where the model takes them.
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
