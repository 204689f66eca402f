package orchestrate

import (
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
	d, ok := l.decision()
	if !ok {
		return false, false
	}
	effects := []contract.Effect{contract.NetworkEffect{Host: host, Port: uint32(port)}}
	reason := fmt.Sprintf("%s is not among the hosts that the network rules allow", host)
	if rule != "" {
		reason = fmt.Sprintf("a rule asks about %s: %s", host, rule)
	}
	d.assessment = contract.Assessment{
		Effects: effects, Summary: fmt.Sprintf("network access: %s://%s:%d", protocol, host, port),
		Escalation: &contract.Escalation{Justification: reason, Additional: effects},
	}
	req := d.policyRequest()
	req.Prompted, req.Tool = rule, nil // the question is about a process in the sandbox, not about the tool
	p := l.Pipeline.deps.Policy(req)
	if p.Verdict != policy.Ask { // a policy without rules for hosts can't allow one
		return false, false
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
		return false, false
	}
	if end != nil && end.abort {
		l.abortTurn()
	}
	return end == nil, by != byNobody && by != byCancelled
}
