package orchestrate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func (r *run) policyRequest() policy.Request {
	before := r.permitted()
	wanted := r.assessment.Escalation
	if wanted != nil && !wanted.Unsandboxed && len(wanted.Additional) > 0 {
		if p, ok := policy.PermissionsOf(wanted.Additional); ok && before.Covers(p) {
			wanted = nil
		}
	}
	return policy.Request{
		Approval: r.call.Approval, Sandbox: r.call.Sandbox, Effects: r.assessment.Effects,
		Escalation: wanted, ReadOnly: r.assessment.ReadOnly, Approved: r.approved,
		Writable: func(path string) bool {
			return r.pipeline.deps.Granter.Writable(GrantRequest{Sandbox: r.call.Sandbox, Cwd: r.call.Cwd, Permitted: before}, path)
		},
		Outside: r.typesOutside(), Typed: r.typed(), Tool: r.tool(),
	}
}

// tool is how the call is decided on as one of its tool. What is set to be asked about each time was asked about when the call began:
// later effects are asked about by what they are.
func (r *run) tool() *policy.Tool {
	if r.pipeline.deps.Tool == nil || r.entry.Plugin == "" {
		return nil
	}
	t := r.pipeline.deps.Tool(r.entry)
	if t != nil && r.late && t.Mode == policy.Prompt {
		later := *t
		later.Mode = policy.Auto
		return &later
	}
	return t
}

// typesOutside tells whether the call types into a session that runs outside of the sandbox.
func (r *run) typesOutside() bool {
	return slices.ContainsFunc(r.assessment.Effects, func(e contract.Effect) bool {
		in, ok := e.(contract.SessionInputEffect)
		return ok && r.pipeline.tokens.runsOutside(r.entry.Plugin, r.call.Thread, in.SessionID)
	})
}

// typedInto is the session that the call types into, and what.
func (r *run) typedInto() (id, text string, ok bool) {
	for _, e := range r.assessment.Effects {
		if in, is := e.(contract.SessionInputEffect); is {
			return in.SessionID, in.Text, true
		}
	}
	return "", "", false
}

// typed is what stands there already.
func (r *run) typed() policy.Typed {
	id, _, ok := r.typedInto()
	if !ok {
		return policy.Typed{}
	}
	return r.pipeline.tokens.typedIn(session{r.entry.Plugin, r.call.Thread, id})
}

// decide is where policy, reviewer and person say whether the call runs.
func (r *run) decide(ctx context.Context) *verdict {
	if t, ok := r.hostTool(); ok && t.Decides {
		return nil
	}
	if v := r.resolve(); v != nil {
		return v
	}
	d := r.askedByHook(r.pipeline.deps.Policy(r.policyRequest()))
	discriminators := r.assessment.Discriminators
	if t := r.typed(); t.All != "" { // what was approved is the whole line
		discriminators = append(slices.Clip(discriminators), "behind="+t.All)
	}
	return r.settle(ctx, d, discriminators, r.offerFor(d))
}

// askedByHook is the policy's decision where a hook wants a person to be asked: what would run is asked about, and where nobody may be
// asked it does not run.
func (r *run) askedByHook(d policy.Decision) policy.Decision {
	if !r.hooked.Ask || d.Verdict != policy.Run {
		return d
	}
	d.Verdict, d.Reason = policy.Ask, r.hooked.Message
	if r.call.Approval == policy.Never {
		d.Verdict, d.Reason = policy.Forbid, "a PreToolUse hook wants a person to be asked ("+r.hooked.Message+"), and the approval policy asks nobody"
	}
	return d
}

// resolve names the permissions that a call asks for as the machine knows them: what is approved is what is given.
func (r *run) resolve() *verdict {
	wanted := r.assessment.Escalation
	if wanted == nil || wanted.Unsandboxed || len(wanted.Additional) == 0 {
		return nil
	}
	p, ok := policy.PermissionsOf(wanted.Additional)
	if !ok {
		return fail("what the call asks for beyond its sandbox are no permissions")
	}
	p, err := r.pipeline.deps.Granter.Resolve(r.call.Cwd, p)
	if err != nil {
		return fail(err.Error())
	}
	e := *wanted
	e.Additional = p.Effects()
	r.assessment.Escalation = &e
	return nil
}

// ruleFor are the rules for commands that begin with these words; nil: there are none, or no file for them.
func (r *run) ruleFor(words [][]string) *event.RuleOffer {
	book := r.pipeline.deps.Rulebook
	if book == nil || words == nil {
		return nil
	}
	o := book.Offer(words)
	return &o
}

// offerFor is the rule that would answer a decision's question for good.
func (r *run) offerFor(d policy.Decision) *event.RuleOffer {
	if book := r.pipeline.deps.Rulebook; book != nil && d.Tool {
		o := book.OfferTool(r.entry.Plugin, r.entry.FullName(), r.entry.Digest)
		return &o
	}
	return r.ruleFor(d.Offer)
}

// settle brings a decision of the policy to its end, and notes how it ended. nil: the call may run.
func (r *run) settle(ctx context.Context, d policy.Decision, discriminators []string, offer *event.RuleOffer) *verdict {
	note := event.CallDecided{Call: r.call.ID, Verdict: d.Verdict.String(), By: byPolicy, Reason: visible(d.Reason, maxReason)}
	for _, rule := range d.Rules {
		note.Rules = append(note.Rules, rule.Where())
	}
	wider := r.assessment.Escalation
	if d.Wider != nil {
		wider = d.Wider
	}
	var v *verdict
	switch d.Verdict {
	case policy.Run:
		if r.call.Sandbox != policy.FullAccess {
			wider = d.Wider // what the call asks for beyond its sandbox is granted by an answer or a rule alone
		}
		if r.reviewed() {
			note.Verdict, note.Reason = policy.Ask.String(), reviewReason
			v = r.ask(ctx, question{reason: reviewReason, effects: r.assessment.Effects, wanted: wider, discriminators: discriminators}, &note)
		}
	case policy.Ask:
		v = r.ask(ctx, question{reason: d.Reason, effects: r.assessment.Effects, wanted: r.assessment.Escalation,
			wider: wider != nil, discriminators: discriminators, offer: offer, tool: d.Tool, once: d.Once, hint: d.Hint}, &note)
	default:
		v = denied(d.Reason)
	}
	if v == nil {
		r.escalation = wider
		note.Unsandboxed = wider != nil && wider.Unsandboxed && r.call.Sandbox != policy.FullAccess
	}
	note.Allowed = v == nil
	r.decided = append(r.decided, note)
	return v
}

// decideAgain is for a call that its sandbox stopped and that the policy lets try again outside, perhaps after a question.
func (r *run) decideAgain(ctx context.Context, wider *contract.Escalation, ask bool) *verdict {
	note := event.CallDecided{Call: r.call.ID, Verdict: policy.Run.String(), By: byPolicy, Reason: "the sandbox stopped it, and it was approved before"}
	var v *verdict
	if ask || r.reviewed() {
		note.Verdict, note.Reason = policy.Ask.String(), retryReason
		v = r.ask(ctx, question{reason: retryReason, effects: wider.Additional, wanted: wider, discriminators: []string{"retry"}}, &note)
	}
	note.Allowed = v == nil
	note.Unsandboxed = v == nil && wider.Unsandboxed
	r.decided = append(r.decided, note)
	return v
}

const retryReason = "command failed; retry without sandbox?"

// takeDecided returns what was decided and is not published yet.
func (r *run) takeDecided() []event.Body {
	out := r.decided
	r.decided = nil
	return out
}

// Who decided, in events.
const (
	byPolicy     = "policy"
	byRemembered = "remembered"
	byHook       = "hook"
	byNobody     = "nobody"
	byCancelled  = "cancelled"
)

// question is what a person is to decide on.
type question struct {
	reason         string
	effects        []contract.Effect
	wanted         *contract.Escalation
	wider          bool // a yes gives more than the sandbox
	discriminators []string
	offer          *event.RuleOffer // a rule that would answer it for good; nil: there is none
	tool           bool             // a yes is to the tool
	once           bool             // a yes is for this call alone
	hint           string           // the setting that would make it unnecessary
}

// ask puts the call before hooks, the reviewer, then the person. nil: it may run. The note gets who decided, and with which answer.
func (r *run) ask(ctx context.Context, about question, note *event.CallDecided) *verdict {
	keys := approval.Keys(r.entry.Digest, about.effects, about.wanted, append(slices.Clip(about.discriminators), contents(about.effects)...))
	if about.tool {
		keys = approval.ToolKey(r.entry.Plugin, r.entry.Digest, about.discriminators)
	}
	if !r.reviewed() && !about.once && r.pipeline.deps.Approver.Allowed(r.call.Turn, keys) {
		note.By, r.approved = byRemembered, !about.tool
		return nil
	}
	if r.hooked.Allow && r.plainToHooks() && !r.reviewed() && !about.wider && about.wanted == nil && !r.executed {
		// It has seen the command, and not with which rights: more of them are asked about, as is a second attempt. Whoever wanted each
		// call to be looked at did not mean by a program.
		note.By, note.Answer = byHook, approval.Approve
		return nil
	}
	q := r.question(about)
	if v := r.showChanges(ctx); v != nil {
		return v
	}
	defer r.asker.Wait()()
	if v, decided := r.permission(ctx, cmp.Or(q.Message, q.Reason)); decided {
		note.By, note.Answer = byHook, approval.Approve
		if v != nil {
			note.Answer = approval.Deny
		}
		r.approved = v == nil && !about.tool
		return v
	}
	answer, err := r.answer(ctx, q, about.wanted)
	note.By, note.Answer = answer.By, answer.Choice
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		note.By = byNobody
		text := "rejected: " + err.Error() + "; the approval policy asks before this call"
		if about.hint != "" {
			text += "; " + about.hint
		}
		if answer.Message != "" {
			text += ". " + answer.Message
		}
		return denied(text)
	case ctx.Err() != nil:
		note.By = byCancelled
		return &verdict{outcome: event.OutcomeAborted}
	case err != nil:
		note.By = byNobody
		return denied("rejected: the question could not be put: " + err.Error())
	}
	switch {
	case answer.Choice == approval.DenyAlways && slices.Contains(q.Options, approval.DenyAlways):
		r.writeRule(ctx, event.RuleOffer{Line: q.Rule.Deny, File: q.Rule.File})
		return denied(cmp.Or(answer.Message, "rejected by user"))
	case answer.Choice == approval.Abort:
		v := denied(cmp.Or(answer.Message, "rejected by user"))
		v.abort = true
		return v
	case !slices.Contains(q.Options, answer.Choice) || answer.Choice == approval.Deny: // whatever is not a clear yes is a no
		return denied(cmp.Or(answer.Message, "rejected by user"))
	case answer.Choice == approval.ApproveTurn:
		r.pipeline.deps.Approver.AllowTurn(r.call.Turn, keys)
	case answer.Choice == approval.ApproveSession:
		r.pipeline.deps.Approver.Allow(keys)
	case answer.Choice == approval.ApproveAlways:
		r.writeRule(ctx, *q.Rule)
	}
	r.approved = !about.tool // which says nothing of the commands of its calls
	return nil
}

// showChanges publishes the item of a call that changes files before its question, so that the diff can stand above it.
func (r *run) showChanges(ctx context.Context) *verdict {
	if r.item.shown || len(r.item.item.Changes) == 0 {
		return nil
	}
	if _, err := r.pipeline.deps.Journal.Publish(ctx, r.call.Turn, event.ItemStarted{Item: r.item.begin()}); err != nil {
		return r.publishFailed(ctx, err)
	}
	return nil
}

// contents are what approvals of commands hold for beside their words: the scripts that they name, which commands may change.
func contents(effects []contract.Effect) (out []string) {
	for _, e := range effects {
		if x, ok := e.(contract.ExecEffect); ok {
			if sum := hook.Content(policy.Script(x.Argv), x.Cwd); sum != "" {
				out = append(out, "content="+sum)
			}
		}
	}
	return out
}

// question words what is asked. What others wrote is bounded and shows all that it is.
func (r *run) question(about question) approval.Question {
	title := r.assessment.Summary
	if title == "" {
		title = r.item.title()
	}
	q := approval.Question{
		About: event.QuestionApproval, Turn: r.call.Turn, Call: r.call.ID, Title: visible(title, maxTitle), Reason: visible(about.reason, maxReason),
		Effects: about.effects, Options: []string{approval.Approve, approval.ApproveTurn, approval.ApproveSession},
	}
	if about.once {
		q.Options = q.Options[:1]
	}
	if e := r.assessment.Escalation; e != nil {
		q.Message = visible(e.Justification, maxReason)
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

// writeRule writes the rule that the person has seen. That it can't be written does not take the approval back.
func (r *run) writeRule(ctx context.Context, o event.RuleOffer) {
	err := r.pipeline.deps.Rulebook.Write(ctx, o)
	if err == nil {
		return
	}
	notice := event.Notice{
		Text: "the rule was not written, so the next such call is asked about again: " + err.Error(), Next: "write it to " + o.File + " yourself: " + o.Line,
	}
	if _, err := r.pipeline.deps.Journal.Publish(context.WithoutCancel(ctx), r.call.Turn, notice); err != nil {
		r.pipeline.log.Warn("notice not published", "call", r.call.ID, "err", err)
	}
}

// answer asks the reviewer, then the person. With [approval.ErrNobody] its message says why the reviewer left it to one.
func (r *run) answer(ctx context.Context, q approval.Question, wanted *contract.Escalation) (Ruling, error) {
	left := ""
	if rv := r.pipeline.deps.Reviewer; rv != nil {
		a, ok, err := rv.Review(ctx, ReviewRequest{
			Question: q, Tool: r.entry.FullName(), Input: r.input, Cwd: r.call.Cwd, Sandbox: r.call.Sandbox,
			Unsandboxed: wanted != nil && wanted.Unsandboxed, Retry: r.executed, History: r.call.History,
		})
		if err != nil { // fails closed
			return Ruling{Answer: approval.Answer{Choice: approval.Deny, By: "reviewer"}, Message: "rejected: the reviewer failed: " + err.Error()}, nil
		}
		if ok {
			return a, nil
		}
		left = a.Message
	}
	a, err := r.pipeline.deps.Approver.Ask(ctx, q)
	if err != nil {
		return Ruling{Answer: a, Message: left}, err
	}
	return Ruling{Answer: a}, nil
}

// Bounds of what a question shows of others' words, in bytes: some lines, and about a screen.
const (
	maxTitle  = 1 << 10
	maxReason = 4 << 10
)

// visible is text of others as a person may be shown it: no longer than that, and without characters that hide or reorder others.
func visible(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && c != '\n' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, s)
}
