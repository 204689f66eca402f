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
}

// Decision is a verdict with its reason: for the user where it asks, for the model where it forbids.
type Decision struct {
	Verdict Verdict
	Reason  string
}

// Decide is pure. The strictest rule wins.
func Decide(r Request) Decision {
	switch r.Approval {
	case Never, OnRequest, Untrusted:
	default:
		return Decision{Forbid, fmt.Sprintf("approval policy %q is not known; use never, on-request or untrusted", r.Approval)}
	}
	if r.Escalation != nil && r.Approval != OnRequest {
		return Decision{Forbid, fmt.Sprintf(
			"approval policy is %[1]s; reject command — you cannot ask for escalated permissions if the approval policy is %[1]s",
			r.Approval)}
	}
	if r.ReadOnly && len(r.Effects) == 0 {
		return Decision{Verdict: Run}
	}
	switch r.Approval {
	case Untrusted:
		return Decision{Ask, "the approval policy is untrusted: everything that has an effect is asked about"}
	case OnRequest:
		// Under full access there is nothing to escape from, so an escalation asks for nothing new.
		if r.Escalation != nil && r.Sandbox != "full-access" {
			return Decision{Ask, r.Escalation.Justification}
		}
	}
	return Decision{Verdict: Run}
}
