package policy

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestDecide(t *testing.T) {
	exec := []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}}}
	escalation := &contract.Escalation{Unsandboxed: true, Justification: "needs the network"}
	for _, tc := range []struct {
		name string
		r    Request
		want Verdict
		why  string // part of the reason
	}{
		{"never runs what its grant allows", Request{Approval: Never, Sandbox: "full-access", Effects: exec}, Run, ""},
		{"never refuses an escalation", Request{Approval: Never, Effects: exec, Escalation: escalation}, Forbid, "approval policy is never; reject command"},
		{"on request runs", Request{Approval: OnRequest, Effects: exec}, Run, ""},
		{"on request asks about an escalation", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: exec, Escalation: escalation}, Ask, "needs the network"},
		{"nothing to escape from", Request{Approval: OnRequest, Sandbox: "full-access", Effects: exec, Escalation: escalation}, Run, ""},
		{"untrusted asks about every effect", Request{Approval: Untrusted, Effects: exec}, Ask, "untrusted"},
		{"untrusted asks where nothing is known", Request{Approval: Untrusted}, Ask, "untrusted"},
		{"untrusted lets reading pass", Request{Approval: Untrusted, ReadOnly: true}, Run, ""},
		{"untrusted asks when reading has effects", Request{Approval: Untrusted, ReadOnly: true, Effects: []contract.Effect{contract.ReadEffect{Paths: []string{"/etc"}}}}, Ask, "untrusted"},
		{"untrusted refuses an escalation", Request{Approval: Untrusted, Escalation: escalation}, Forbid, "approval policy is untrusted"},
		{"unknown policy", Request{Approval: "sometimes"}, Forbid, `"sometimes" is not known`},
		{"no policy", Request{}, Forbid, "not known"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Decide(tc.r)
			if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.why) {
				t.Errorf("Decide = %+v, want %v with %q", got, tc.want, tc.why)
			}
		})
	}
}
