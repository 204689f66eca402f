package catalog

import "github.com/gantry-agent/gantry/sdk/llm"

// Cost contains prices in US dollars per million tokens. nil means unknown.
type Cost struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	Reasoning  *float64 `json:"reasoning,omitempty"` // nil: the same as output
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
	Tiers      []Tier   `json:"tiers,omitempty"` // ascending; prices of requests whose input exceeds Size
}

// Tier contains the prices of large requests.
type Tier struct {
	Size int64 `json:"size"` // input tokens, including cached ones
	Cost
}

// Prices converts the prices to the form that the host uses.
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
