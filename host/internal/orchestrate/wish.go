package orchestrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
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

// wish is what the model writes to ask for permissions, and reads of what it was given. A part that is null is none.
type wish struct {
	Network *wishedNetwork `json:"network"`
	Files   *wishedFiles   `json:"file_system"`
}

type wishedNetwork struct {
	Enabled bool `json:"enabled"`
}

type wishedFiles struct {
	Read  []string `json:"read"`
	Write []string `json:"write"`
}

func (w wish) permissions() policy.Permissions {
	var p policy.Permissions
	if w.Network != nil {
		p.Network = w.Network.Enabled
	}
	if w.Files != nil {
		p.Read, p.Write = w.Files.Read, w.Files.Write
	}
	return p
}

func wishOf(p policy.Permissions) wish {
	var w wish
	if p.Network {
		w.Network = &wishedNetwork{Enabled: true}
	}
	if len(p.Read)+len(p.Write) > 0 {
		w.Files = &wishedFiles{Read: append([]string{}, p.Read...), Write: append([]string{}, p.Write...)}
	}
	return w
}

// The scopes of what was granted, as the model reads them.
const (
	scopeTurn    = "turn"
	scopeSession = "session"
)

// grantWish asks for permissions that hold for later calls. What is refused is an answer like any other: nothing was granted.
func (r *run) grantWish(ctx context.Context) verdict {
	var in struct {
		Reason      string `json:"reason"`
		Permissions wish   `json:"permissions"`
	}
	if err := json.Unmarshal(r.input.Arguments, &in); err != nil {
		return r.failed("failed to parse function arguments: " + err.Error())
	}
	asked, err := r.pipeline.deps.Granter.Resolve(r.call.Cwd, in.Permissions.permissions())
	switch {
	case err != nil:
		return r.failed(err.Error())
	case asked.Empty():
		return r.failed(r.entry.Name + " requires at least one permission")
	case r.pipeline.deps.Permits == nil:
		return granted(policy.Permissions{}, scopeTurn)
	}
	if all, session := r.pipeline.deps.Permits.Permitted(r.call.Turn); session.Covers(asked) {
		return granted(asked, scopeSession)
	} else if all.Covers(asked) {
		return granted(asked, scopeTurn)
	}
	req := r.policyRequest()
	req.PermissionRequest = true
	d := r.pipeline.deps.Policy(req)
	note := event.CallDecided{Call: r.call.ID, Verdict: d.Verdict.String(), By: byPolicy, Reason: visible(d.Reason, maxReason)}
	var given policy.Permissions
	scope := scopeTurn
	var v *verdict
	switch d.Verdict {
	case policy.Run:
		given = asked
	case policy.Ask:
		given, scope, v = r.askWish(ctx, asked, in.Reason, d.Reason, &note)
	default:
		r.context = append(r.context, "No permissions were granted: "+d.Reason)
	}
	note.Allowed = !given.Empty()
	if _, err := r.pipeline.deps.Journal.Publish(context.WithoutCancel(ctx), r.call.Turn, note); err != nil {
		return *r.publishFailed(ctx, err)
	}
	if v != nil {
		return *v
	}
	if d.Verdict == policy.Ask && !given.Empty() {
		r.pipeline.deps.Permits.Permit(r.call.Turn, given, scope == scopeSession)
	}
	return granted(given, scope)
}

// askWish puts the wish before hooks, the reviewer, then the person.
func (r *run) askWish(ctx context.Context, asked policy.Permissions, why, reason string, note *event.CallDecided) (policy.Permissions, string, *verdict) {
	q := approval.Question{
		About: event.QuestionPermissions, Turn: r.call.Turn, Call: r.call.ID, Title: "permissions for this and later calls",
		Message: visible(why, maxReason), Reason: visible(reason, maxReason), Wanted: asked.Effects(),
		Options: []string{approval.ApproveTurn, approval.ApproveSession, approval.Deny, approval.Abort},
	}
	none := policy.Permissions{}
	defer r.asker.Wait()()
	if v, decided := r.permission(ctx, cmp.Or(q.Message, q.Reason)); decided {
		note.By, note.Answer = byHook, approval.ApproveTurn
		if v == nil {
			return asked, scopeTurn, nil
		}
		note.Answer = approval.Deny
		if v.outcome == event.OutcomeAborted {
			return none, scopeTurn, v
		}
		r.context = append(r.context, "No permissions were granted: "+v.text)
		return none, scopeTurn, nil
	}
	answer, err := r.answer(ctx, q, &contract.Escalation{Justification: why, Additional: asked.Effects()})
	note.By, note.Answer = answer.By, answer.Choice
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		note.By = byNobody
		r.context = append(r.context, "No permissions were granted: "+err.Error()+". "+answer.Message)
		return none, scopeTurn, nil
	case ctx.Err() != nil:
		note.By = byCancelled
		return none, scopeTurn, &verdict{outcome: event.OutcomeAborted}
	case err != nil:
		note.By = byNobody
		return none, scopeTurn, fail(r.entry.Name + " was cancelled before there was an answer: " + err.Error())
	}
	given := asked
	if len(answer.Data) > 0 {
		var some struct {
			Permissions *wish `json:"permissions"`
			Review      bool  `json:"strict_auto_review"`
		}
		if json.Unmarshal(answer.Data, &some) != nil { // who says what makes no sense has not agreed
			return none, scopeTurn, nil
		}
		if some.Permissions != nil {
			given = asked.Of(some.Permissions.permissions())
		}
		if some.Review && (answer.Choice == approval.Approve || answer.Choice == approval.ApproveTurn || answer.Choice == approval.ApproveSession) {
			r.pipeline.deps.Permits.Review(r.call.Turn)
		}
	}
	switch answer.Choice {
	case approval.Approve, approval.ApproveTurn:
		return given, scopeTurn, nil
	case approval.ApproveSession:
		return given, scopeSession, nil
	case approval.Abort:
		v := denied(cmp.Or(answer.Message, "rejected by user"))
		v.abort = true
		return none, scopeTurn, v
	}
	if answer.Message != "" {
		r.context = append(r.context, answer.Message)
	}
	return none, scopeTurn, nil
}

// granted is the answer that the model reads; codex-compatible.
func granted(p policy.Permissions, scope string) verdict {
	b, err := json.Marshal(struct {
		Permissions wish   `json:"permissions"`
		Scope       string `json:"scope"`
	}{wishOf(p), scope})
	if err != nil { // texts only
		panic("orchestrate: marshal permissions: " + err.Error())
	}
	return verdict{outcome: event.OutcomeOK, result: &contract.Result{
		Parts: []contract.Part{&contract.TextPart{Text: string(b), Fit: contract.FitBounded}}, Structured: b,
	}}
}
