package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/visible"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Values of [event.CallDecided.By] other than those of [approval.Answer.By].
const (
	byPolicy     = "policy"
	byRemembered = "remembered"
	byHook       = "hook"
	byNobody     = "nobody"
	byCancelled  = "cancelled"
)

// question is a question about a call.
type question struct {
	reason         string
	effects        []contract.Effect
	wanted         *contract.Escalation
	wider          bool // an approval grants more than the sandbox
	discriminators []string
	offer          *event.RuleOffer // rule that would answer it permanently; nil: there is none
	tool           bool             // an approval is for the tool
	once           bool             // an approval is for this call alone
	hint           string           // setting that would make the question unnecessary
}

// ask puts a question about the call to hooks, the reviewer and the user, unless it was answered before. nil: the call may run. The
// report receives the answer and who gave it.
func (d *decision) ask(ctx context.Context, about question, report *event.CallDecided) *outcome {
	keys := approval.Keys(d.entry.Digest, about.effects, about.wanted, append(slices.Clip(about.discriminators), scriptDigests(about.effects)...))
	if about.tool {
		keys = approval.ToolKey(d.entry.Plugin, d.entry.Digest, about.discriminators)
	}
	if !d.reviewed() && !about.once && d.pipeline.deps.Approver.Allowed(d.call.Turn, keys) {
		report.By, d.approved = byRemembered, !about.tool
		return nil
	}
	if d.hooked.Allow && d.plainToHooks() && !d.reviewed() && !about.wider && about.wanted == nil && !d.executed {
		// The hook saw the command but not its permissions, so its approval covers neither wider permissions nor a second attempt.
		// It also does not count as the review that a user has asked for.
		report.By, report.Answer = byHook, approval.Approve
		return nil
	}
	q := d.question(about)
	if end := d.showChanges(ctx); end != nil {
		return end
	}
	a, err := d.put(ctx, q, about.wanted)
	report.By, report.Answer = a.By, a.Choice
	ended, ok := errors.AsType[*endedError](err)
	switch {
	case ok:
		return &ended.outcome
	case errors.Is(err, approval.ErrNoApprover):
		text := "rejected: " + err.Error() + "; the approval policy asks before this call"
		if about.hint != "" {
			text += "; " + about.hint
		}
		if a.Message != "" {
			text += ". " + a.Message
		}
		return denied(text)
	case err != nil:
		return denied("rejected: the question could not be asked: " + err.Error())
	case a.Choice == approval.DenyAlways && slices.Contains(q.Options, approval.DenyAlways):
		d.writeRule(ctx, event.RuleOffer{Line: q.Rule.Deny, File: q.Rule.File})
		return denied(cmp.Or(a.Message, rejected))
	case a.Choice == approval.Unusable:
		return failed("the approval request failed: the client's answer can't be used")
	case !slices.Contains(q.Options, a.Choice) || a.Choice == approval.Deny: // anything but an offered approval is a no
		return denied(cmp.Or(a.Message, rejected))
	case a.Choice == approval.ApproveTurn:
		d.pipeline.deps.Approver.AllowTurn(d.call.Turn, keys)
	case a.Choice == approval.ApproveSession:
		d.pipeline.deps.Approver.Allow(keys)
	case a.Choice == approval.ApproveAlways:
		d.writeRule(ctx, *q.Rule)
	}
	d.approved = !about.tool // approving a tool does not approve the commands of its calls
	return nil
}

// rejected is the model's text for a refusal without a message; codex-compatible.
const rejected = "rejected by user"

// endedError ends the call with an outcome.
type endedError struct{ outcome outcome }

func (e *endedError) Error() string { return cmp.Or(e.outcome.text, "the call was aborted") }

// put puts a question to the PermissionRequest hooks, then the reviewer, then the user. The ruling says who answered and how, with an
// error too. A hook that approves chooses the first option. The error is an [*endedError] if a hook refuses, the user aborts or ctx
// ends, and an [approval.ErrNoApprover] if there is no one to ask; the ruling's message then is the reviewer's.
func (d *decision) put(ctx context.Context, q approval.Question, wanted *contract.Escalation) (Ruling, error) {
	defer d.asker.Wait()()
	if end, decided := d.permission(ctx, cmp.Or(q.Message, q.Reason)); decided && end == nil {
		return Ruling{Answer: approval.Answer{Choice: q.Options[0], By: byHook}}, nil
	} else if decided {
		return Ruling{Answer: approval.Answer{Choice: approval.Deny, By: byHook}}, &endedError{*end}
	}
	a, err := d.answer(ctx, q, wanted)
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		if a.By != approval.ByTimeout {
			a.By = byNobody
		}
	case ctx.Err() != nil:
		a.By = byCancelled
		return a, &endedError{*aborted()}
	case err != nil:
		a.By = byNobody
	case a.Choice == approval.Abort:
		end := denied(cmp.Or(a.Message, rejected))
		end.abort = true
		return a, &endedError{*end}
	}
	return a, err
}

// answer asks the reviewer, then the user.
func (d *decision) answer(ctx context.Context, q approval.Question, wanted *contract.Escalation) (Ruling, error) {
	message := ""
	if rv := d.pipeline.deps.Reviewer; rv != nil {
		a, ok, err := rv.Review(ctx, ReviewRequest{
			Question: q, Tool: d.entry.FullName(), Input: d.input, Cwd: d.call.Cwd, Sandbox: d.call.Sandbox,
			Unsandboxed: wanted != nil && wanted.Unsandboxed, Retry: d.executed, History: d.call.History,
		})
		if err != nil { // fail closed
			return Ruling{Answer: approval.Answer{Choice: approval.Deny, By: "reviewer"}, Message: "rejected: the reviewer failed: " + err.Error()}, nil
		}
		if ok {
			return a, nil
		}
		message = a.Message
	}
	a, err := d.pipeline.deps.Approver.Ask(ctx, q)
	if err != nil {
		return Ruling{Answer: a, Message: message}, err
	}
	return Ruling{Answer: a}, nil
}

// showChanges publishes the item of a call that changes files before its question, so that clients can show the diff above it.
func (d *decision) showChanges(ctx context.Context) *outcome {
	if d.item.shown || len(d.item.item.Changes) == 0 {
		return nil
	}
	if _, err := d.publish(ctx, event.ItemStarted{Item: d.item.begin()}); err != nil {
		return publishFailed(ctx, err)
	}
	return nil
}

// scriptDigests returns discriminators for the scripts that commands name: an approval does not apply after a script has changed.
func scriptDigests(effects []contract.Effect) (out []string) {
	for _, e := range effects {
		if x, ok := e.(contract.ExecEffect); ok {
			if sum := hook.Content(policy.Script(x.Argv), x.Cwd); sum != "" {
				out = append(out, "content="+sum)
			}
		}
	}
	return out
}

// question returns the question as clients show it. Text of plugins and models is bounded, and hides no characters.
func (d *decision) question(about question) approval.Question {
	title := d.assessment.Summary
	if title == "" {
		title = d.item.title()
	}
	q := approval.Question{
		About: event.QuestionApproval, Turn: d.call.Turn, Call: d.call.ID, Chain: d.chain(), Title: visible.Text(title, maxTitle), Reason: visible.Text(about.reason, maxReason),
		Effects: about.effects, Options: []string{approval.Approve, approval.ApproveTurn, approval.ApproveSession},
	}
	if changes := visible.Text(d.entry.Changes, maxReason); changes != "" {
		q.Changes, q.Reason = changes, q.Reason+"; the declaration of the tool has changed since it was last called"
	}
	if about.once {
		q.Options = q.Options[:1]
	}
	if e := d.assessment.Escalation; e != nil {
		q.Message = visible.Text(e.Justification, maxReason)
	}
	if w := about.wanted; w != nil && !w.Unsandboxed {
		q.Wanted = w.Additional
	}
	if about.offer != nil {
		q.Rule = about.offer
		q.Options = append(q.Options, approval.ApproveAlways)
	}
	q.Options = append(q.Options, approval.Deny)
	if q.Rule != nil && q.Rule.Deny != "" {
		q.Options = append(q.Options, approval.DenyAlways)
	}
	q.Options = append(q.Options, approval.Abort)
	return q
}

// writeRule writes the rule that the question showed. The approval is valid even if that fails.
func (d *decision) writeRule(ctx context.Context, o event.RuleOffer) {
	err := d.pipeline.deps.Rulebook.Write(ctx, o)
	if err == nil {
		return
	}
	notice := event.Notice{
		Text: "the rule was not written, so the next such call is asked about again: " + err.Error(), Next: "write it to " + o.File + " yourself: " + o.Line,
	}
	if _, err := d.publish(context.WithoutCancel(ctx), notice); err != nil {
		d.pipeline.log.Warn("notice not published", "call", d.call.ID, "err", err)
	}
}

// Bounds of text in questions that plugins and models have written, in bytes: some lines, and about a screen.
const (
	maxTitle  = 1 << 10
	maxReason = 4 << 10
)
