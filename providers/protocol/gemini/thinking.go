package gemini

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// thinkingBudgets are the tokens for an effort, for models that count them.
var thinkingBudgets = map[string]int64{
	"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 16000, "xhigh": 24576, "max": 32768, "ultra": 32768,
}

// efforts are the known efforts, weakest first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"}

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
			return nil, invalid("the options of thinkingConfig hold a budget and a level; a model takes one of them",
				"leave thinkingBudget out for models of generation 3, thinkingLevel for older ones")
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
			if word = nearest(effort, m.Efforts); word == "" {
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
	known := l.r.Model.Efforts
	if len(known) == 0 {
		known = efforts
	}
	return invalid(fmt.Sprintf("the model %s has no reasoning effort %q", modelID(l.r), effort),
		"choose one of "+strings.Join(known, ", "))
}

// nearest finds the level for an effort among those offered; of two that are as near, the stronger one. Empty when the
// effort is not known.
func nearest(effort string, offered []string) string {
	if slices.Contains(offered, effort) && effort != "none" {
		return effort
	}
	if len(offered) == 0 {
		offered = levels
	}
	want := slices.Index(efforts, effort)
	if want < 0 {
		return ""
	}
	best, bestDistance := "", len(efforts)
	for i, e := range efforts {
		if e == "none" || !slices.Contains(offered, e) { // thinking can't be switched off by a level
			continue
		}
		if d := max(want-i, i-want); d <= bestDistance {
			best, bestDistance = e, d
		}
	}
	return best
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
	case budget == 0 && l.gen.alwaysThinks():
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
