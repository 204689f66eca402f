package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/judges"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
)

// rulesNews says once that the rules can't be relied on.
func (r *running) rulesNews(b *rulebook.Book) []event.Notice {
	_, err := b.Current()
	if err == nil {
		r.rules = ""
		return nil
	}
	if r.rules == err.Error() {
		return nil
	}
	r.rules = err.Error()
	return []event.Notice{{
		Text: "the rules can't be relied on, so every command is asked about, or refused where nobody can be: " + err.Error(),
		Next: "correct the file; `gantry policy check COMMAND` says whether it is right",
	}}
}

// decide is the policy of a thread. Of a rule that does not apply to what follows its words the user is told once.
func (h *Host) decide(r *running, q policy.Request) policy.Decision {
	d := judges.Decide(r.role, q)
	if d.Verdict != policy.Run {
		return d // the question says more
	}
	for _, rule := range d.Short {
		if !r.told.First("rule " + rule.Where()) {
			continue
		}
		n := event.Notice{Text: fmt.Sprintf("the rule %s does not apply to a command that begins like it: %s; the command stays in the sandbox", rule.Where(), policy.WhyShort), Next: d.Hint}
		if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", n); err != nil {
			h.log.Warn("notice not published", "error", err)
		}
	}
	return d
}

// reviewed are the approval policies under which the guardian answers instead of a person.
var reviewed = []policy.Approval{policy.OnRequest, policy.OnFailure, policy.Granular}

// reviewer returns what answers approvals instead of a person in a turn; nil: nothing. "untrusted" means that the person wants to be asked.
func (r *running) reviewer(h *Host, id event.TurnID, started event.TurnStarted, model string) orchestrate.Reviewer {
	if h.guardian == nil || r.role.Unattended || !slices.Contains(reviewed, policy.Approval(started.Approval)) {
		return nil
	}
	return h.guardian.Turn(r.thread.ID(), id, cmp.Or(h.opts.Config.Guardian.Model, model), r.thread)
}
