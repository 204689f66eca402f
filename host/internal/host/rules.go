package host

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/judges"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/role"
)

// rulesNotices returns a notice when the rules files have a new error.
func (r *running) rulesNotices() []event.Notice {
	_, err := r.host.rules.Current()
	if err == nil {
		r.rules = ""
		return nil
	}
	if r.rules == err.Error() {
		return nil
	}
	r.rules = err.Error()
	return []event.Notice{{
		Text: "the rules can't be used, so every command needs an approval, or is refused if there is no one to ask: " + err.Error(),
		Next: "correct the file; `gantry policy check COMMAND` checks it",
	}}
}

// decide is the policy of the thread. If a rule matches only the first words of a command and does not apply, it says so once.
func (r *running) decide(q policy.Request) policy.Decision {
	mode, b := r.bounds()
	q.Sandbox = role.Narrower(q.Sandbox, role.Narrower(mode, b.Sandbox))
	if why := beyond(b, q); why != "" {
		return policy.Decision{Verdict: policy.Forbid, Reason: why}
	}
	d := judges.Decide(r.role, q)
	if role.Confines(b) { // a rule of the user lets commands out of the sandbox, but not those of an agent that is bound to it
		d.Wider = nil
	}
	if d.Verdict != policy.Run {
		return d // the question contains the reason
	}
	for _, rule := range d.Short {
		if !r.told.First("rule " + rule.Where()) {
			continue
		}
		r.publish(event.Notice{Text: fmt.Sprintf("the rule %s does not apply to a command that begins with the same words: %s; the command stays in the sandbox", rule.Where(), policy.WhyShort), Next: d.Hint})
	}
	return d
}

// reviewed are the approval policies under which the guardian answers instead of a person.
var reviewed = []policy.Approval{policy.OnRequest, policy.OnFailure, policy.Granular}

// reviewer returns what answers approvals instead of a person in a turn; nil: nothing. "untrusted" means that the person wants to be asked.
func (r *running) reviewer(id event.TurnID, started event.TurnStarted, model string) orchestrate.Reviewer {
	h := r.host
	if h.guardian == nil || r.role.Unattended || !slices.Contains(reviewed, policy.Approval(started.Approval)) {
		return nil
	}
	return h.guardian.Turn(r.thread.ID(), id, cmp.Or(h.opts.Config.Guardian.Model, model), r.thread)
}
