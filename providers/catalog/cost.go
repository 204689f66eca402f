package catalog

import "github.com/gantry-agent/gantry/sdk/llm"

// Cost is in US dollars per million tokens. nil is unknown.
type Cost struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	Reasoning  *float64 `json:"reasoning,omitempty"` // nil: as output
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
	Tiers      []Tier   `json:"tiers,omitempty"` // ascending; prices of requests whose input is larger than Size
}

// Tier is the price list of large requests.
type Tier struct {
	Size int64 `json:"size"` // tokens of input, inclusive of cached ones
	Cost
}

// Prices is the form in which the host hears of them.
func (c *Cost) Prices() llm.Prices {
	if c == nil {
		return llm.Prices{}
	}
	p := llm.Prices{Input: c.Input, Output: c.Output, Reasoning: c.Reasoning, CacheRead: c.CacheRead, CacheWrite: c.CacheWrite}
	for _, t := range c.Tiers {
		p.Tiers = append(p.Tiers, llm.PriceTier{
			Above: t.Size, Input: t.Input, Output: t.Output, Reasoning: t.Reasoning, CacheRead: t.CacheRead, CacheWrite: t.CacheWrite,
		})
	}
	return p
}
