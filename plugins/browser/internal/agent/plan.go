package agent

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// plan is what the model intends to do.
type plan struct {
	Items   []string `json:"items,omitempty"`
	Current int      `json:"current,omitempty"` // index; what is before it is done
}

// update applies what the model says of its plan.
func (p *plan) update(o *history.Output) {
	if o.PlanUpdate != nil {
		p.Items, p.Current = o.PlanUpdate, 0
	}
	if o.CurrentItem != nil {
		p.Current = min(max(0, *o.CurrentItem), max(0, len(p.Items)-1))
	}
}

// String returns the plan as the model reads it.
func (p *plan) String() string {
	var b strings.Builder
	for i, item := range p.Items {
		sign := " "
		switch {
		case i < p.Current:
			sign = "x"
		case i == p.Current:
			sign = ">"
		}
		fmt.Fprintf(&b, "[%s] %d: %s\n", sign, i, item)
	}
	return b.String()
}
