package chat

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// effort is how much a model is to think, in the shape of gateways that serve many vendors.
type effort struct {
	Effort string `json:"effort"`
}

// effort writes how much the model is to think, in its vendor's words and shape.
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
	// A switch can be thrown also where the degrees are others.
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
		// Where there are degrees there are words for them; a mere switch has none.
		if mapped {
			b.ReasoningEffort = word
		}
	default:
		b.ReasoningEffort = word
	}
}
