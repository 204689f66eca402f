// Package policy decides what a call may do before anybody is asked: run, ask, or forbid.
//
// It owns: the approval policies and their decision table. It must not know: how a question is put, what a grant is made
// of, which tool or plugin the call belongs to.
//
// Start with [Decide].
package policy

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Approval says when a person is asked.
type Approval string

// The approval policies. Never: nothing is asked, what would need a question is refused. OnRequest: asked when a call
// wants more than its sandbox gives. Untrusted: asked before everything that has an effect.
const (
	Never     Approval = "never"
	OnRequest Approval = "on-request"
	Untrusted Approval = "untrusted"
)

// FullAccess is the sandbox mode that there is nothing to escape from.
const FullAccess = "full-access"

// Verdict is what happens with a call.
type Verdict int

// The verdicts; unknown counts as forbid.
const (
	Unknown Verdict = iota
	Run
	Ask
	Forbid
)

// Request is what is decided on.
type Request struct {
	Approval   Approval
	Sandbox    string // mode of the grant: "full-access", "workspace-write", "read-only"
	Effects    []contract.Effect
	Escalation *contract.Escalation
	ReadOnly   bool
	// Writable says whether the sandbox lets a path be written; absolute. Not asked under full access.
	Writable func(path string) bool
}

// Decision is a verdict with its reason: for the user where it asks, for the model where it forbids.
type Decision struct {
	Verdict Verdict
	Reason  string
	Wider   *contract.Escalation // what the grant has to have beyond its mode, when the call is approved
}

// Decide is pure. The strictest rule wins.
func Decide(r Request) Decision {
	switch r.Approval {
	case Never, OnRequest, Untrusted:
	default:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("approval policy %q is not known; use never, on-request or untrusted", r.Approval)}
	}
	if r.Escalation != nil && r.Approval == Never {
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(
			"approval policy is %[1]s; reject command — you cannot ask for escalated permissions if the approval policy is %[1]s",
			r.Approval)}
	}
	if r.ReadOnly && len(r.Effects) == 0 {
		return Decision{Verdict: Run}
	}
	if outside := r.outside(); len(outside) > 0 {
		return r.decideOutside(outside)
	}
	switch r.Approval {
	case Untrusted:
		if r.Escalation != nil && r.Sandbox != FullAccess {
			return Decision{Verdict: Ask, Reason: "it asks to run outside of the sandbox: " + r.Escalation.Justification}
		}
		return Decision{Verdict: Ask, Reason: "the approval policy is untrusted: everything that has an effect is asked about"}
	case OnRequest:
		// Under full access there is nothing to escape from, so an escalation asks for nothing new.
		if r.Escalation != nil && r.Sandbox != FullAccess {
			return Decision{Verdict: Ask, Reason: r.Escalation.Justification}
		}
	}
	return Decision{Verdict: Run}
}

// Retry decides on a call that its sandbox stopped: whether it may be tried again outside, and whether that is asked about
// first. Under untrusted whoever approved the call approved what it does, so the second try needs no other question; under
// on-request only changes of files are asked about, commands say themselves that they need more. Matches codex 0.169.
func Retry(r Request, _ *contract.Result) (again *contract.Escalation, ask bool) {
	outside := &contract.Escalation{Unsandboxed: true, Additional: r.Effects}
	switch {
	case r.Sandbox == FullAccess || r.Escalation != nil && r.Escalation.Unsandboxed:
		return nil, false
	case r.Approval == Untrusted:
		return outside, r.ReadOnly && len(r.Effects) == 0
	case r.Approval == OnRequest && onlyWrites(r.Effects):
		return outside, true
	}
	return nil, false
}

func onlyWrites(effects []contract.Effect) bool {
	for _, e := range effects {
		if _, ok := e.(contract.WriteEffect); !ok {
			return false
		}
	}
	return len(effects) > 0
}

// outside are the files that a call says it changes and that its sandbox does not let it.
func (r Request) outside() []string {
	if r.Sandbox == FullAccess || r.Escalation != nil && r.Escalation.Unsandboxed || r.Writable == nil {
		return nil
	}
	var out []string
	for _, e := range r.Effects {
		w, ok := e.(contract.WriteEffect)
		if !ok {
			continue
		}
		for _, p := range w.Paths {
			if !r.Writable(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// decideOutside: who approves it widens the sandbox by just these files' folders. The texts of a refusal match codex 0.169.
func (r Request) decideOutside(paths []string) Decision {
	if r.Approval == Never {
		what := "writing outside of the project"
		if r.Sandbox == "read-only" {
			what = "writing is blocked by read-only sandbox"
		}
		return Decision{Verdict: Forbid, Reason: "patch rejected: " + what + "; rejected by user approval settings"}
	}
	text := paths[0]
	if len(paths) > 1 {
		text = fmt.Sprintf("%s and %d more", text, len(paths)-1)
	}
	return Decision{
		Verdict: Ask, Reason: "it changes what the sandbox keeps from being written: " + text,
		Wider: &contract.Escalation{Additional: []contract.Effect{contract.WriteEffect{Paths: paths}}},
	}
}
