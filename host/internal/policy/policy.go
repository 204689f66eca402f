// Package policy decides what a call may do before anybody is asked: run, ask, or forbid.
//
// It owns: the approval policies and their decision table, what rules and the classification of commands come to, which rule is
// offered to a user who never wants to be asked again. It must not know: how a question is put, what a grant is made of, which tool
// or plugin the call belongs to.
//
// Start with [Decide]. The strictest of all that counts is the answer: of a call's effects, of a script's commands, of rules.
package policy

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Approval says when a person is asked.
type Approval string

// The approval policies. Never: nothing is asked, what would need a question is refused. OnRequest: asked when a call
// wants more than its sandbox gives; OnFailure is another name of it. Granular: the same, but kinds of questions can be
// switched off, which then are refused. Untrusted: asked before everything that has an effect.
const (
	Never     Approval = "never"
	OnRequest Approval = "on-request"
	OnFailure Approval = "on-failure"
	Granular  Approval = "granular"
	Untrusted Approval = "untrusted"
)

// Approvals are the policies, by the names that users write.
var Approvals = []string{string(Untrusted), string(OnRequest), string(OnFailure), string(Granular), string(Never)}

// Questions are what may be asked under [Granular]. What is false is refused instead.
type Questions struct {
	Sandbox     bool // to run outside of the sandbox, or to try again there
	Rules       bool // what a rule says is to be asked about
	Elicitation bool // of an MCP server
	Permissions bool // for more permissions
}

// FullAccess is the sandbox mode that there is nothing to escape from.
const FullAccess = "full-access"

// Verdict is what happens with a call.
type Verdict int

// The verdicts; unknown counts as forbid. A stricter one is larger.
const (
	Unknown Verdict = iota
	Run
	Ask
	Forbid
)

var verdictNames = [...]string{"unknown", "run", "ask", "forbid"}

// String is the verdict's name in events.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return verdictNames[0]
	}
	return verdictNames[v]
}

// Request is what is decided on.
type Request struct {
	Approval   Approval
	Questions  Questions // under Granular
	Sandbox    string    // mode of the grant: "full-access", "workspace-write", "read-only"
	Effects    []contract.Effect
	Escalation *contract.Escalation
	ReadOnly   bool
	// PermissionRequest says that the call asks for permissions itself, for later ones.
	PermissionRequest bool
	// Prompted says that a rule which is not about commands wants the call to be asked about; where it stands. Empty: none does.
	Prompted string
	// Additional lets calls ask for single permissions.
	Additional bool
	// Typed is what stands already in a session that is typed into.
	Typed Typed
	// Outside says that a session which is typed into runs outside of the sandbox.
	Outside bool
	// Approved says that a person, or who answers in his place, has approved the call.
	Approved bool
	// Rules are the user's; nil: there are none. RulesErr says that some can't be read: then nothing is allowed for want of a rule.
	Rules    *rules.Set
	RulesErr error
	// SafeCommands lets commands that only look run without a question under Untrusted.
	SafeCommands bool
	// Trusted says whether a program, by name or path, is one that the call can't have put there itself. nil: none is.
	Trusted func(program, cwd string) bool
	// Tool is the tool of the call, where it is decided on as one; nil: only its effects count.
	Tool *Tool
	// Writable says whether the sandbox lets a path be written; absolute. Not asked under full access.
	Writable func(path string) bool
}

// unsandboxed reports whether the call asks to run outside.
func (r Request) unsandboxed() bool { return r.Escalation != nil && r.Escalation.Unsandboxed }

// escalates reports whether the call asks for more than the sandbox gives; where there is none, it can't.
func (r Request) escalates() bool { return r.Escalation != nil && r.Sandbox != FullAccess }

// Decision is a verdict with its reason: for the user where it asks, for the model where it forbids.
type Decision struct {
	Verdict Verdict
	Reason  string
	Wider   *contract.Escalation // what the grant has to have beyond its mode, when the call runs
	Rules   []*rules.Prefix      // that led to it
	// Short are rules that allow how the commands begin, and do not apply: what follows may start another program, or write elsewhere.
	// They are set where all commands would run outside of the sandbox otherwise.
	Short []*rules.Prefix
	// Tool says that a yes is to the tool, as long as it says the same of itself; Once that a yes is for this call alone.
	Tool, Once bool
	// Hint is the setting that would make the question unnecessary.
	Hint string
	// Offer are the words of the rules that would together answer the question for good; nil: there are none that would.
	Offer [][]string

	approved bool // the user has said so ahead of the call
}

// WhyShort says why the rules of [Decision.Short] do not apply.
const WhyShort = "what follows its words may start another program or write elsewhere"

// Decide is pure. The strictest rule wins.
func Decide(r Request) Decision {
	switch r.Approval {
	case OnFailure:
		r.Approval = OnRequest
	case Never, OnRequest, Untrusted, Granular:
	default:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("approval policy %q is not known; use never, on-request, granular or untrusted", r.Approval)}
	}
	switch {
	case r.PermissionRequest:
		return r.decideWish()
	case r.Prompted != "":
		return r.byRule("a rule asks about it: "+r.Prompted, nil)
	}
	if r.additional() && r.Approval != OnRequest {
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(refusedAdditional, r.Approval)}
	}
	if r.additional() && !r.Additional {
		return Decision{Verdict: Forbid, Reason: additionalOff}
	}
	if r.Escalation != nil && (r.Approval == Never || r.Approval == Granular && !r.Questions.Sandbox) {
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(
			"approval policy is %[1]s; reject command — you cannot ask for escalated permissions if the approval policy is %[1]s",
			r.Approval)}
	}
	if r.ReadOnly && len(r.Effects) == 0 && !r.escalates() {
		if r.Tool != nil {
			return r.decideTool()
		}
		return Decision{Verdict: Run, Reason: "it only reads"}
	}
	var decisions []Decision
	if paths := r.outside(); len(paths) > 0 {
		decisions = append(decisions, r.decideOutside(paths))
	}
	var classified, bypass int
	var beside string // why what is no command may run
	for _, e := range r.Effects {
		switch e := e.(type) {
		case contract.ExecEffect:
			d := r.decideExec(e)
			if d.Wider != nil {
				bypass++
			}
			decisions = append(decisions, d)
			classified++
		case contract.SessionInputEffect:
			decisions = append(decisions, r.decideInput(e))
		}
	}
	if classified == 0 || classified < len(r.Effects) {
		rest := r.rest()
		decisions = append(decisions, rest)
		beside = rest.Reason
	} else if r.Tool != nil { // commands are judged by themselves; what is set for the tool counts all the same
		if t := r.decideTool(); t.Verdict != Run {
			decisions = append(decisions, t)
		}
	}
	d := slices.MaxFunc(decisions, func(a, b Decision) int { return int(a.Verdict) - int(b.Verdict) })
	if d.Verdict == Run && r.Tool != nil && beside != "" {
		d.Reason = beside
	}
	// Outside of the sandbox runs only what is allowed as a whole.
	if d.Verdict == Run && bypass < len(r.Effects) {
		d.Wider = nil
	}
	return d
}

// decideOther is for what is told by its kind alone, and for tools of which nothing is known.
func (r Request) decideOther() Decision {
	switch r.Approval {
	case Untrusted:
		if r.escalates() {
			return Decision{Verdict: Ask, Reason: "it asks to run outside of the sandbox: " + r.Escalation.Justification}
		}
		return Decision{Verdict: Ask, Reason: askedUntrusted}
	case OnRequest, Granular:
		// Under full access there is nothing to escape from, so an escalation asks for nothing new.
		if r.escalates() {
			return Decision{Verdict: Ask, Reason: r.Escalation.Justification}
		}
	}
	return Decision{Verdict: Run, Reason: r.contained()}
}

const askedUntrusted = "the approval policy is untrusted: everything that has an effect is asked about"

// contained is why a call that nobody is asked about may run.
func (r Request) contained() string {
	if r.Sandbox == FullAccess {
		return "the sandbox mode is full-access, and nothing asks about it"
	}
	return "the sandbox holds it"
}

// Retry decides on a call that its sandbox stopped: whether it may be tried again outside, and whether that is asked about
// first. Whoever approved the call under untrusted or granular approved what it does, so the second try needs no other question;
// under on-request only changes of files are asked about, commands say themselves that they need more. Matches codex 0.169.
func Retry(r Request, _ *contract.Result) (again *contract.Escalation, ask bool) {
	outside := &contract.Escalation{Unsandboxed: true, Additional: r.Effects}
	switch {
	case r.Sandbox == FullAccess || r.unsandboxed():
		return nil, false
	case r.Approval == Untrusted, r.Approval == Granular && r.Questions.Sandbox:
		return outside, !r.Approved
	case (r.Approval == OnRequest || r.Approval == OnFailure) && onlyWrites(r.Effects):
		return outside, true
	}
	return nil, false
}
