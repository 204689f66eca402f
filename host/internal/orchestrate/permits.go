package orchestrate

import (
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
)

// Permits keeps what calls may do beyond their sandbox mode for longer than one of them.
type Permits interface {
	// Permitted is what holds in a turn, and what of it holds for the session.
	Permitted(turn event.TurnID) (all, session policy.Permissions)
	// Permit adds to it, for the turn or for the session.
	Permit(turn event.TurnID, p policy.Permissions, session bool)
	// Review has every later call of the turn approved before it runs; Reviewed tells whether that is so.
	Review(turn event.TurnID)
	Reviewed(turn event.TurnID) bool
}

const reviewReason = "with the permissions of this turn goes that each of its calls is approved"

// reviewed tells whether the call has to be approved though the policy lets it run.
func (r *run) reviewed() bool {
	p := r.pipeline.deps.Permits
	return p != nil && len(r.assessment.Effects) > 0 && p.Reviewed(r.call.Turn)
}

// permitted is what was granted ahead of the call.
func (r *run) permitted() policy.Permissions {
	if r.pipeline.deps.Permits == nil {
		return policy.Permissions{}
	}
	all, _ := r.pipeline.deps.Permits.Permitted(r.call.Turn)
	return all
}
