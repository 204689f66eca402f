package orchestrate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// A hook rewrites arguments by their names for hooks; arguments that it does not see are unchanged.
func TestHookRewritesWhatRuns(t *testing.T) {
	d := assessed
	d.InputSchema = json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"},"login":{"type":"boolean"}},"additionalProperties":false}`)
	freeform := contract.Descriptor{Name: "patch", Assess: true, Freeform: &contract.Freeform{Property: "input"}, HookName: "apply_patch"}
	for _, tt := range []struct {
		name    string
		d       contract.Descriptor
		input   string
		rewrite string
		runs    string
		says    string
	}{
		{"another command", d, `{"cmd":"ls","login":false}`, `{"command":"echo CHANGED"}`, `{"cmd":"echo CHANGED","login":false}`, ""},
		{"an argument that hooks do not see", d, `{"cmd":"ls"}`, `{"command":"ls","login":true}`, `{"cmd":"ls","login":true}`, ""},
		{"an argument that is not there", d, `{"cmd":"ls"}`, `{"command":"ls","sudo":true}`, "", "rewrote the arguments"},
		{"no object", d, `{"cmd":"ls"}`, `[]`, "", "updatedInput is not an object"},
		{"raw text", freeform, `{"input":"old"}`, `{"command":"new"}`, "new", ""},
		{"raw text that is none", freeform, `{"input":"old"}`, `{"command":5}`, "", `has no string "command"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{hooks: hook.Verdict{Input: json.RawMessage(tt.rewrite)}}
			ran := ""
			b.call = func(s contract.CallStart) (*contract.Result, error) {
				ran = s.Input.Text + string(s.Input.Arguments)
				return contract.Text("ok"), nil
			}
			a := b.run(t, tt.d, tt.input)
			if ran != tt.runs || !strings.Contains(text(a), tt.says) {
				t.Errorf("ran %q, want %q; the model reads %q", ran, tt.runs, text(a))
			}
		})
	}
}

// A hook answers in the user's place, and gets the same information.
func TestHookAllowsWithoutAQuestion(t *testing.T) {
	b := &bench{permission: hook.Permission{Allow: true}, answer: approval.Answer{Choice: approval.Deny}}
	b.policy = policy.Decision{Verdict: policy.Ask, Reason: "the policy is untrusted"}
	if a := b.run(t, assessed, `{"cmd":"ls"}`); a.Outcome != event.OutcomeOK {
		t.Errorf("answer = %q", text(a))
	}
	if slices.ContainsFunc(b.steps, func(s string) bool { return strings.HasPrefix(s, "ask") }) {
		t.Errorf("a person was asked as well:\n%s", strings.Join(b.steps, "\n"))
	}
	if len(b.requested) != 1 || b.requested[0].Tool != "Bash" || string(b.requested[0].Input) != `{"command":"ls"}` || b.requested[0].Retry ||
		b.requested[0].Description != "the policy is untrusted" || !slices.Contains(b.requested[0].Aliases, "act") {
		t.Errorf("the hook was told %+v", b.requested)
	}
}

func TestHookIsAskedAboutASecondAttempt(t *testing.T) {
	b := &bench{permission: hook.Permission{Allow: true}}
	b.retry = func(policy.Request, *contract.Result) (*contract.Escalation, bool) {
		return &contract.Escalation{Unsandboxed: true}, true
	}
	b.call = func(s contract.CallStart) (*contract.Result, error) {
		return &contract.Result{SandboxDenied: s.Attempt == 1, Parts: []contract.Part{&contract.TextPart{Text: "x"}}}, nil
	}
	if a := b.run(t, assessed, `{}`); a.Outcome != event.OutcomeOK {
		t.Errorf("answer = %q", text(a))
	}
	if len(b.requested) != 1 || !b.requested[0].Retry {
		t.Errorf("the hook was told %+v", b.requested)
	}
}

// The verdict of a PreToolUse hook applies to the decision on the call.
func TestHookBeforeACallAffectsTheDecision(t *testing.T) {
	asks, allows := hook.Verdict{Ask: true, Message: "have a look"}, hook.Verdict{Allow: true}
	yes, no := approval.Answer{Choice: approval.Approve}, approval.Answer{Choice: approval.Deny}
	wanted := &contract.Escalation{Unsandboxed: true}
	for _, tt := range []struct {
		name     string
		hooks    hook.Verdict
		policy   policy.Decision
		approval policy.Approval
		wanted   *contract.Escalation
		answer   approval.Answer
		outcome  event.Outcome
		asked    string // the reason of the question; empty: nobody is asked
		says     string
	}{
		{"a question, and a yes", asks, policy.Decision{Verdict: policy.Run}, policy.OnRequest, nil, yes, event.OutcomeOK, "have a look", ""},
		{"a question, and a no", asks, policy.Decision{Verdict: policy.Run}, policy.OnRequest, nil, no, event.OutcomeDenied, "have a look", ""},
		{"a question that the policy has, too", asks, policy.Decision{Verdict: policy.Ask, Reason: "the policy"}, policy.OnRequest, nil, yes, event.OutcomeOK, "the policy", ""},
		{"a question where nobody is asked", asks, policy.Decision{Verdict: policy.Run}, policy.Never, nil, yes, event.OutcomeDenied, "", "have a look"},
		{"a question about what is forbidden", asks, policy.Decision{Verdict: policy.Forbid, Reason: "no"}, policy.OnRequest, nil, yes, event.OutcomeDenied, "", "no"},
		{"a yes", allows, policy.Decision{Verdict: policy.Ask, Reason: "untrusted"}, policy.Untrusted, nil, no, event.OutcomeOK, "", ""},
		{"a yes to what is forbidden", allows, policy.Decision{Verdict: policy.Forbid, Reason: "no"}, policy.OnRequest, nil, yes, event.OutcomeDenied, "", "no"},
		{"a yes to what wants out of the sandbox", allows, policy.Decision{Verdict: policy.Ask, Reason: "out"}, policy.OnRequest, wanted, no, event.OutcomeDenied, "out", ""},
		{"a yes to what the policy would let out", allows, policy.Decision{Verdict: policy.Ask, Reason: "out", Wider: wanted}, policy.OnRequest, nil, no, event.OutcomeDenied, "out", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{hooks: tt.hooks, policy: tt.policy, answer: tt.answer, approval: tt.approval}
			b.assess = func(contract.AssessRequest) (*contract.Assessment, error) {
				return &contract.Assessment{Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}}}, Escalation: tt.wanted, Digest: "d"}, nil
			}
			a := b.run(t, assessed, `{"cmd":"ls"}`)
			if a.Outcome != tt.outcome || !strings.Contains(text(a), tt.says) || b.asked.Reason != tt.asked {
				t.Errorf("outcome %v, text %q, asked %q; want %v, %q, %q", a.Outcome, text(a), b.asked.Reason, tt.outcome, tt.says, tt.asked)
			}
		})
	}
}

// A plugin may show its tool to hooks under another name, with arguments of its choice. Their refusals apply, their approvals don't.
func TestHookDoesNotApproveOtherNames(t *testing.T) {
	for name, tt := range map[string]struct {
		hooks      hook.Verdict
		permission hook.Permission
		foreign    bool
		asked      bool
	}{
		"before the call, of gantry's own": {hooks: hook.Verdict{Allow: true}},
		"before the call, of another":      {hooks: hook.Verdict{Allow: true}, foreign: true, asked: true},
		"for a person, of gantry's own":    {permission: hook.Permission{Allow: true}},
		"for a person, of another":         {permission: hook.Permission{Allow: true}, foreign: true, asked: true},
		"a no, of another":                 {permission: hook.Permission{Deny: true}, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{hooks: tt.hooks, permission: tt.permission, foreign: tt.foreign, approval: policy.OnRequest, answer: approval.Answer{Choice: approval.Approve}}
			b.policy = policy.Decision{Verdict: policy.Ask, Reason: "it may act beyond the sandbox"}
			b.run(t, assessed, `{"cmd":"ls"}`)
			if asked := b.asked.Reason != ""; asked != tt.asked {
				t.Errorf("a person is asked: %v, want %v", asked, tt.asked)
			}
		})
	}
}

func TestHookThatStopsEverything(t *testing.T) {
	b := &bench{hooks: hook.Verdict{Deny: true, Stop: true, Message: "enough"}}
	if a := b.run(t, assessed, `{"cmd":"ls"}`); a.Outcome != event.OutcomeDenied || !a.Abort || text(a) != "enough" {
		t.Errorf("answer = %+v", a)
	}
}
