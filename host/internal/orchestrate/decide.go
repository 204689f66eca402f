package orchestrate

import (
	"context"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/visible"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// decision is whether a call may run: what the policy, hooks, the reviewer and the user say.
type decision struct {
	*subject
	escalation *contract.Escalation // approved; nil: the call stays in its sandbox
	approved   bool                 // the call itself, by a person, hook or reviewer
	unreported []event.Body         // decisions that are not published yet
}

// policyRequest returns what the policy decides by. Permissions that were granted before are not requested again.
func (d *decision) policyRequest() policy.Request {
	before := d.permitted()
	wanted := d.assessment.Escalation
	if wanted != nil && !wanted.Unsandboxed && len(wanted.Additional) > 0 {
		if p, ok := policy.PermissionsOf(wanted.Additional); ok && before.Covers(p) {
			wanted = nil
		}
	}
	return policy.Request{
		Approval: d.call.Approval, Sandbox: d.call.Sandbox, Effects: d.assessment.Effects,
		Escalation: wanted, ReadOnly: d.assessment.ReadOnly, Approved: d.approved,
		Writable: func(path string) bool {
			return d.pipeline.deps.Granter.Writable(GrantRequest{Sandbox: d.call.Sandbox, Cwd: d.call.Cwd, Permitted: before}, path)
		},
		Outside: d.typesOutside(), Typed: d.typed(), Tool: d.toolPolicy(), ByClient: d.entry.Client,
	}
}

// toolPolicy returns the user's settings for the tool; nil: the call is decided on by its effects alone. A tool that is always asked
// about was asked about when the call began, so effects that become known later are decided on by what they are.
func (d *decision) toolPolicy() *policy.Tool {
	if d.pipeline.deps.Tool == nil || d.entry.Plugin == "" {
		return nil
	}
	t := d.pipeline.deps.Tool(d.entry)
	if t != nil && d.late && (t.Mode == policy.Prompt || t.Mode == policy.Writes) {
		later := *t
		later.Mode = policy.Auto
		return &later
	}
	return t
}

// decide is the stage in which the policy, the reviewer and the user decide whether the call runs.
func (d *decision) decide(ctx context.Context) *outcome {
	if t, ok := d.hostTool(); ok && t.Decides {
		return nil
	}
	if end := d.resolve(); end != nil {
		return end
	}
	p := d.askedByHook(d.pipeline.deps.Policy(d.policyRequest()))
	discriminators := d.assessment.Discriminators
	if t := d.typed(); t.All != "" { // an approval is for the whole line
		discriminators = append(slices.Clip(discriminators), "behind="+t.All)
	}
	return d.settle(ctx, p, discriminators, d.offerFor(p))
}

// askedByHook turns a decision to run into a question if a hook wants the user to be asked, and into a refusal if the approval policy
// forbids questions.
func (d *decision) askedByHook(p policy.Decision) policy.Decision {
	if !d.hooked.Ask || p.Verdict != policy.Run {
		return p
	}
	p.Verdict, p.Reason = policy.Ask, d.hooked.Message
	if d.call.Approval == policy.Never {
		p.Verdict, p.Reason = policy.Forbid, "a PreToolUse hook asks for the user's approval ("+d.hooked.Message+"), but the approval policy is never"
	}
	return p
}

// resolve replaces the paths of requested permissions by the ones that would be granted, so that these are what the user approves.
func (d *decision) resolve() *outcome {
	wanted := d.assessment.Escalation
	if wanted == nil || wanted.Unsandboxed || len(wanted.Additional) == 0 {
		return nil
	}
	p, ok := policy.PermissionsOf(wanted.Additional)
	if !ok {
		return failed("the call requests effects beyond its sandbox that can't be granted as permissions")
	}
	p, err := d.pipeline.deps.Granter.Resolve(d.call.Cwd, p)
	if err != nil {
		return failed(err.Error())
	}
	e := *wanted
	e.Additional = p.Effects()
	d.assessment.Escalation = &e
	return nil
}

// offerFor returns the rule that would answer the policy's question permanently; nil: there is none, or no file for it.
func (d *decision) offerFor(p policy.Decision) *event.RuleOffer {
	book := d.pipeline.deps.Rulebook
	var o event.RuleOffer
	switch {
	case book == nil:
		return nil
	case p.Tool:
		o = book.OfferTool(d.entry.Plugin, d.entry.FullName(), d.entry.Digest, d.assessment.Effects)
	case p.Offer != nil:
		o = book.Offer(p.Offer)
	default:
		return nil
	}
	return &o
}

// settle carries out a decision of the policy, asking if necessary, and records how it ended. nil: the call may run.
func (d *decision) settle(ctx context.Context, p policy.Decision, discriminators []string, offer *event.RuleOffer) *outcome {
	report := event.CallDecided{Call: d.call.ID, Verdict: p.Verdict.String(), By: byPolicy, Reason: visible.Text(p.Reason, maxReason)}
	for _, rule := range p.Rules {
		report.Rules = append(report.Rules, rule.Where())
	}
	wider := d.assessment.Escalation
	if p.Wider != nil {
		wider = p.Wider
	}
	var end *outcome
	switch p.Verdict {
	case policy.Run:
		if d.call.Sandbox != policy.FullAccess {
			wider = p.Wider // only an answer or a rule grants what the call itself requests beyond its sandbox
		}
		if d.reviewed() {
			report.Verdict, report.Reason = policy.Ask.String(), reviewReason
			end = d.ask(ctx, question{reason: reviewReason, effects: d.assessment.Effects, wanted: wider, discriminators: discriminators}, &report)
		}
	case policy.Ask:
		end = d.ask(ctx, question{reason: p.Reason, effects: d.assessment.Effects, wanted: d.assessment.Escalation,
			wider: wider != nil, discriminators: discriminators, offer: offer, tool: p.Tool, once: p.Once, hint: p.Hint}, &report)
	default:
		end = denied(p.Reason)
	}
	if end == nil {
		d.escalation = wider
		report.Unsandboxed = wider != nil && wider.Unsandboxed && d.call.Sandbox != policy.FullAccess
	}
	report.Allowed = end == nil
	d.unreported = append(d.unreported, report)
	return end
}

// again decides whether a call that its sandbox has stopped runs once more with a wider grant, which the policy allows, perhaps after a
// question. nil: it may.
func (d *decision) again(ctx context.Context, wider *contract.Escalation, ask bool) *outcome {
	report := event.CallDecided{Call: d.call.ID, Verdict: policy.Run.String(), By: byPolicy, Reason: "the sandbox stopped it, and it was approved before"}
	var end *outcome
	if ask || d.reviewed() {
		report.Verdict, report.Reason = policy.Ask.String(), retryReason
		end = d.ask(ctx, question{reason: retryReason, effects: wider.Additional, wanted: wider, discriminators: []string{"retry"}}, &report)
	}
	if end == nil {
		d.escalation = wider
	}
	report.Allowed = end == nil
	report.Unsandboxed = end == nil && wider.Unsandboxed
	d.unreported = append(d.unreported, report)
	return end
}

const (
	retryReason  = "command failed; retry without sandbox?" // codex-compatible
	reviewReason = "every call of this turn must be approved, as its permissions were granted on that condition"
)

// takeReports returns the decisions that are not published yet.
func (d *decision) takeReports() []event.Body {
	out := d.unreported
	d.unreported = nil
	return out
}

// Permits stores what calls may do beyond their sandbox mode for longer than one call.
type Permits interface {
	// Permitted returns the permissions that apply in a turn, and those of them that apply for the session.
	Permitted(turn event.TurnID) (all, session policy.Permissions)
	// Permit adds permissions for the turn or for the session.
	Permit(turn event.TurnID, p policy.Permissions, session bool)
	// Review requires an approval for every later call of the turn; Reviewed reports whether that is so.
	Review(turn event.TurnID)
	Reviewed(turn event.TurnID) bool
}
