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

// A hook rewrites arguments under the names that it knows; those that it does not see stay.
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
		{"no object", d, `{"cmd":"ls"}`, `[]`, "", "no object"},
		{"raw text", freeform, `{"input":"old"}`, `{"command":"new"}`, "new", ""},
		{"raw text that is none", freeform, `{"input":"old"}`, `{"command":5}`, "", `no text "command"`},
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

// A hook answers in the person's place, and is told what the person would be.
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
