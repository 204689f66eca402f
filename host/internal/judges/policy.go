package judges

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Decide is the policy of a thread in a role.
func Decide(as child.Role, q policy.Request) policy.Decision {
	if !as.Unattended {
		return policy.Decide(q)
	}
	if as.ReadOnly && !readsOnly(q) {
		return policy.Decision{Verdict: policy.Forbid, Reason: "only reading is allowed here; continue without it"}
	}
	q.Approval = policy.Approval(as.Approval)
	d := policy.Decide(q)
	if d.Verdict == policy.Ask {
		return policy.Decision{Verdict: policy.Forbid, Rules: d.Rules, Reason: fmt.Sprintf(
			"nobody can be asked here, and the approval policy is %s; go on without it, with what you were given", as.Approval)}
	}
	return d
}

// readsOnly reports whether a call only reads files or runs commands in a read-only sandbox.
func readsOnly(q policy.Request) bool {
	if q.Escalation != nil || q.Sandbox != box.ReadOnly {
		return false
	}
	for _, e := range q.Effects {
		switch e.(type) {
		case contract.ExecEffect, contract.ReadEffect:
		default:
			return false
		}
	}
	return true
}
