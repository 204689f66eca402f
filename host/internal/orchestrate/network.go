package orchestrate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// OfCall finds a running call.
func (t *Tokens) OfCall(thread event.ThreadID, call event.CallID) (*Live, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.live {
		if l.Call.Thread == thread && l.Call.ID == call {
			return l, true
		}
	}
	return nil, false
}

// Connect asks whether the call's processes may reach a host that the network rules neither allow nor deny, as for any request beyond
// the grant: the reviewer, then the user. If the approval policy forbids questions, the answer is no. A process may outlive its call,
// so Connect works after the call's end. rule is the position of the rule that requires the question; "": no rule matches the host.
// asked reports whether a person or program answered, rather than the policy.
func (l *Live) Connect(ctx context.Context, protocol, host string, port uint16, rule string) (allowed, asked bool) {
	reason := fmt.Sprintf("%s is not among the hosts that the network rules allow", host)
	if rule != "" {
		reason = fmt.Sprintf("a rule asks about %s: %s", host, rule)
	}
	verdict, asked := l.askHost(ctx, contract.NetworkEffect{Host: host, Port: uint32(port)}, protocol, host, fmt.Sprintf("network access: %s://%s:%d", protocol, host, port), reason, rule)
	return verdict == policy.Ask, asked // a policy without rules for hosts can't allow one
}

// Browse asks whether the plugin may do something on a host that the network rules neither allow nor deny, before it does, like Connect.
// reason is the plugin's. Without a sandbox there is no question.
func (l *Live) Browse(ctx context.Context, e contract.BrowserEffect, protocol, host, reason, rule string) (allowed bool) {
	why := fmt.Sprintf("%s is not among the hosts that the network rules allow", host)
	if rule != "" {
		why = fmt.Sprintf("a rule asks about %s: %s", host, rule)
	}
	verdict, _ := l.askHost(ctx, e, protocol, host, cmp.Or(reason, "browser: "+e.Origin), why, rule)
	return verdict != policy.Forbid
}

// askHost decides about an effect on a host. The verdict is what the policy says: Ask if it was asked and the answer is yes, Forbid if it is
// no.
func (l *Live) askHost(ctx context.Context, e contract.Effect, protocol, host, summary, reason, rule string) (verdict policy.Verdict, asked bool) {
	d, ok := l.decision()
	if !ok {
		return policy.Forbid, false
	}
	effects := []contract.Effect{e}
	d.assessment = contract.Assessment{
		Effects: effects, Summary: summary, Escalation: &contract.Escalation{Justification: reason, Additional: effects},
	}
	req := d.policyRequest()
	req.Prompted, req.Tool = rule, nil // the question is about a process in the sandbox, not about the tool
	p := l.Pipeline.deps.Policy(req)
	if p.Verdict != policy.Ask {
		return p.Verdict, false
	}
	p.Reason = reason
	var offer *event.RuleOffer
	if book := l.Pipeline.deps.Rulebook; book != nil {
		offer = book.OfferHost(protocol, host)
	}
	end := d.settle(ctx, p, []string{"network", protocol}, offer)
	reports := d.takeReports()
	var by string
	if report, ok := reports[len(reports)-1].(event.CallDecided); ok {
		by = report.By
	}
	if _, err := d.publish(context.WithoutCancel(ctx), reports...); err != nil {
		return policy.Forbid, false
	}
	if end != nil && end.abort {
		l.abortTurn()
	}
	asked = by != byNobody && by != byCancelled
	if end != nil {
		return policy.Forbid, asked
	}
	return policy.Ask, asked
}
