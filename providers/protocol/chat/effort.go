package chat

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// effort is the reasoning effort in the form of gateways for many vendors.
type effort struct {
	Effort string `json:"effort"`
}

// effort sets the reasoning effort in the vendor's terms and form.
func (b *body) effort(r *protocol.Request) {
	asked := r.ReasoningEffort
	c := &r.Model.Compat
	if asked == "" || c.EffortField == "none" {
		return
	}
	off := asked == "none"
	if !r.Model.Reasons {
		if !off {
			r.Warning(fmt.Sprintf("the reasoning effort %q was left out: %s is not known to reason", asked, r.Model.ID))
		}
		return
	}
	if off && r.Model.AlwaysThinks {
		r.Warning(fmt.Sprintf("the reasoning effort %q was left out: %s always thinks", asked, r.Model.ID))
		return
	}
	word, mapped := c.EffortMap[asked]
	if !mapped {
		word = asked
	}
	// Reasoning can be switched off even if the efforts have other names.
	toggled := off && c.EffortField == "thinking"
	if list := r.Model.Efforts; len(list) > 0 && !toggled && !slices.Contains(list, asked) && !slices.Contains(list, word) {
		r.Warning(fmt.Sprintf("the reasoning effort %q was left out: %s takes %q", asked, r.Model.ID, list))
		return
	}
	switch c.EffortField {
	case "reasoning":
		b.Reasoning = &effort{Effort: word}
	case "thinking":
		if off {
			b.Thinking = &kind{Type: "disabled"}
			return
		}
		b.Thinking = &kind{Type: "enabled"}
		// The efforts have names; a mere switch has none.
		if mapped {
			b.ReasoningEffort = word
		}
	default:
		b.ReasoningEffort = word
	}
}
