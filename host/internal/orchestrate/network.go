package orchestrate

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// OfCall finds a call that runs.
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

// Connect asks whether the call's processes may reach a host that the network rules neither allow nor deny. It is asked as
// about any wish for more than the grant: the reviewer, then the person; under a policy that asks nobody the answer is no. A
// process may outlive its call, so this may be asked after the call's end. rule is where the rule stands that wants it to be asked about; empty: none
// says anything of the host. asked: the no is somebody's, not the policy's.
func (l *Live) Connect(ctx context.Context, protocol, host string, port uint16, rule string) (allowed, asked bool) {
	entry, ok := l.Call.Tools.Lookup(l.Call.Model.Namespace, l.Call.Model.Name)
	if !ok {
		return false, false
	}
	effects := []contract.Effect{contract.NetworkEffect{Host: host, Port: uint32(port)}}
	reason := fmt.Sprintf("%s is not among the hosts that the network rules allow", host)
	if rule != "" {
		reason = fmt.Sprintf("a rule asks about %s: %s", host, rule)
	}
	r := &run{pipeline: l.Pipeline, call: l.Call, asker: l, entry: entry, item: itemState{redact: l.Pipeline.deps.Redact, item: event.Item{ID: l.item, Tool: entry.FullName()}}}
	r.assessment = contract.Assessment{
		Effects: effects, Summary: fmt.Sprintf("network access: %s://%s:%d", protocol, host, port),
		Escalation: &contract.Escalation{Justification: reason, Additional: effects},
	}
	// Whoever lets a connection through without a word has not understood what is asked: only an answer counts.
	req := r.policyRequest()
	req.Prompted, req.Tool = rule, nil // it is about a process in the sandbox
	d := l.Pipeline.deps.Policy(req)
	if d.Verdict != policy.Ask {
		return false, false
	}
	d.Reason = reason
	var offer *event.RuleOffer
	if book := l.Pipeline.deps.Rulebook; book != nil {
		offer = book.OfferHost(protocol, host)
	}
	v := r.settle(ctx, d, []string{"network", protocol}, offer)
	var by string
	if note, ok := r.decided[len(r.decided)-1].(event.CallDecided); ok {
		by = note.By
	}
	if _, err := l.Pipeline.deps.Journal.Publish(context.WithoutCancel(ctx), l.Call.Turn, r.takeDecided()...); err != nil {
		return false, false
	}
	return v == nil, by != byNobody && by != byCancelled
}
