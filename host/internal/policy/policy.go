// Package policy decides whether a call runs, needs an approval, or is forbidden.
//
// It owns: the approval policies and their decision table, the combination of rules and the classification of commands, and the rule
// that is offered to a user who does not want to be asked again. It must not know: how a question is asked, what a grant consists of.
//
// Start with [Decide]. The strictest decision applies, among a call's effects, a script's commands, and the rules for them.
package policy

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Approval is an approval policy: it says when the user is asked.
type Approval string

// The approval policies.
const (
	Never     Approval = "never"      // there are no questions; what would need one is refused
	OnRequest Approval = "on-request" // about calls that request more than the sandbox allows
	OnFailure Approval = "on-failure" // another name for OnRequest
	Granular  Approval = "granular"   // as OnRequest, but kinds of questions can be turned off, see [Questions]
	Untrusted Approval = "untrusted"  // about all calls that have an effect
)

// Approvals lists the policies, by their names in the configuration.
var Approvals = []string{string(Untrusted), string(OnRequest), string(OnFailure), string(Granular), string(Never)}

// Questions are the kinds of questions that [Granular] permits. Instead of asking any other, the call is refused.
type Questions struct {
	Sandbox     bool // about running outside of the sandbox, or again there
	Rules       bool // that a rule requires
	Elicitation bool // of tools of plugins and MCP servers
	Permissions bool // about requests for permissions
}

// FullAccess is the sandbox mode without a sandbox.
const FullAccess = "full-access"

// Verdict says what happens with a call.
type Verdict int

// The verdicts, in the order of strictness. Unknown is treated like Forbid.
const (
	Unknown Verdict = iota
	Run
	Ask
	Forbid
)

var verdictNames = [...]string{"unknown", "run", "ask", "forbid"}

// String returns the verdict's name in events.
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdictNames) {
		return verdictNames[0]
	}
	return verdictNames[v]
}

// Request describes a call to decide on.
type Request struct {
	Approval   Approval
	Questions  Questions // under Granular
	Sandbox    string    // mode of the grant: "full-access", "workspace-write", "read-only"
	Effects    []contract.Effect
	Escalation *contract.Escalation
	ReadOnly   bool
	// ByClient says that a client of the thread runs the call, so that no sandbox confines it. The client speaks for the user.
	ByClient bool
	// PermissionRequest says that the call requests permissions for later calls.
	PermissionRequest bool
	// Prompted is the position of a rule, other than for commands, that requires a question; empty: there is none.
	Prompted string
	// Additional is the setting that lets calls request single permissions.
	Additional bool
	// Typed is the incomplete line in the session that the call types into.
	Typed Typed
	// Outside says that the session that the call types into runs outside of the sandbox.
	Outside bool
	// Approved says that the user, a reviewer or a hook has approved the call.
	Approved bool
	// Rules are the user's rules; nil: there are none. RulesErr says that some can't be read, so that a command is not allowed just
	// because no rule forbids it.
	Rules    *rules.Set
	RulesErr error
	// SafeCommands is the setting that lets read-only commands run without a question under Untrusted.
	SafeCommands bool
	// Trusted reports whether a program, by name or path, can't have been put there by the call itself. nil: no program is trusted.
	Trusted func(program, cwd string) bool
	// Tool has the user's settings for the call's tool; nil: the call is decided on by its effects alone.
	Tool *Tool
	// Writable reports whether the sandbox allows to write an absolute path. It is not called under full access.
	Writable func(path string) bool
}

// unsandboxed reports whether the call requests to run outside of the sandbox.
func (r Request) unsandboxed() bool { return r.Escalation != nil && r.Escalation.Unsandboxed }

// escalates reports whether the call requests more than its sandbox allows. Without a sandbox, it can't.
func (r Request) escalates() bool { return r.Escalation != nil && r.Sandbox != FullAccess }

// Decision is a verdict with its reason, which is for the user if it is a question, and for the model if it is a refusal.
type Decision struct {
	Verdict Verdict
	Reason  string
	Wider   *contract.Escalation // to be granted beyond the sandbox mode if the call runs
	Rules   []*rules.Prefix      // that were decisive
	// Short has rules that match the first words of the commands, but do not apply as the other words may start another program or
	// write elsewhere. It is set if all commands would run outside of the sandbox otherwise.
	Short []*rules.Prefix
	// Tool says that an approval is for the tool, as long as its descriptor is unchanged; Once, that it is for this call alone.
	Tool, Once bool
	// Hint is the setting that would make the question unnecessary.
	Hint string
	// Offer has the words of the rules that together would answer the question permanently; nil: there are none.
	Offer [][]string

	approved bool // by the user's settings for the tool
}

// WhyShort says why the rules of [Decision.Short] do not apply.
const WhyShort = "what follows its words may start another program or write elsewhere"

// Decide decides on a call. It is a pure function.
func Decide(r Request) Decision {
	switch r.Approval {
	case OnFailure:
		r.Approval = OnRequest
	case Never, OnRequest, Untrusted, Granular:
	default:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("unknown approval policy %q; use never, on-request, granular or untrusted", r.Approval)}
	}
	switch {
	case r.PermissionRequest:
		return r.decidePermissions()
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
	var otherwise string // reason to run what is not a command
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
		rest := r.decideRest()
		decisions = append(decisions, rest)
		otherwise = rest.Reason
	} else if r.Tool != nil { // the settings for the tool apply in addition to the decisions on its commands
		if t := r.decideTool(); t.Verdict != Run {
			decisions = append(decisions, t)
		}
	}
	d := slices.MaxFunc(decisions, func(a, b Decision) int { return int(a.Verdict) - int(b.Verdict) })
	if d.Verdict == Run && r.Tool != nil && otherwise != "" {
		d.Reason = otherwise
	}
	// A call runs outside of the sandbox only if rules allow all of it.
	if d.Verdict == Run && bypass < len(r.Effects) {
		d.Wider = nil
	}
	return d
}

// decideOther decides by the approval policy and the sandbox alone.
func (r Request) decideOther() Decision {
	switch r.Approval {
	case Untrusted:
		if r.escalates() {
			return Decision{Verdict: Ask, Reason: "it requests to run outside of the sandbox: " + r.Escalation.Justification}
		}
		return Decision{Verdict: Ask, Reason: askedUntrusted}
	case OnRequest, Granular:
		// Without a sandbox, an escalation requests nothing.
		if r.escalates() {
			return Decision{Verdict: Ask, Reason: r.Escalation.Justification}
		}
	}
	return Decision{Verdict: Run, Reason: r.contained()}
}

const askedUntrusted = "the approval policy is untrusted: everything that has an effect needs an approval"

// contained is the reason to run a call without an approval.
func (r Request) contained() string {
	if r.ByClient {
		return "a client of the thread runs it"
	}
	if r.Sandbox == FullAccess {
		return "the sandbox mode is full-access, and no rule or setting requires an approval"
	}
	return "the sandbox confines it"
}

// Retry decides whether a call that its sandbox stopped may run again outside of it, and whether that needs an approval. Under untrusted
// and granular, an approval of the call covers the second attempt. Under on-request, only changes of files may be retried, as commands
// request what they need. Matches codex 0.169.
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
