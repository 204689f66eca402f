package policy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestPermissionsCover(t *testing.T) {
	for _, tc := range []struct {
		name   string
		has, o Permissions
		want   bool
	}{
		{"nothing is covered by nothing", Permissions{}, Permissions{}, true},
		{"the same", Permissions{Write: []string{"/a"}, Network: true}, Permissions{Write: []string{"/a"}, Network: true}, true},
		{"what lies in it", Permissions{Write: []string{"/a"}}, Permissions{Write: []string{"/a/b/c"}}, true},
		{"what lies above it", Permissions{Write: []string{"/a/b"}}, Permissions{Write: []string{"/a"}}, false},
		{"a name that begins alike", Permissions{Write: []string{"/a"}}, Permissions{Write: []string{"/ab"}}, false},
		{"who writes reads", Permissions{Write: []string{"/a"}}, Permissions{Read: []string{"/a/x"}}, true},
		{"who reads does not write", Permissions{Read: []string{"/a"}}, Permissions{Write: []string{"/a"}}, false},
		{"the network", Permissions{Write: []string{"/"}}, Permissions{Network: true}, false},
	} {
		if got := tc.has.Covers(tc.o); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// An answer never grants more than was requested.
func TestPermissionsOfAnAnswer(t *testing.T) {
	asked := Permissions{Read: []string{"/r"}, Write: []string{"/a", "/b/c"}, Network: true}
	for _, tc := range []struct {
		name         string
		answer, want Permissions
	}{
		{"nothing", Permissions{}, Permissions{}},
		{"everything", Permissions{Read: []string{"/"}, Write: []string{"/"}, Network: true}, asked},
		{"narrower", Permissions{Write: []string{"/a/sub"}}, Permissions{Write: []string{"/a/sub"}}},
		{"one of two", Permissions{Write: []string{"/b/c"}}, Permissions{Write: []string{"/b/c"}}},
		{"another one", Permissions{Write: []string{"/z"}, Read: []string{"/z"}}, Permissions{}},
		{"reading does not give writing", Permissions{Read: []string{"/a", "/r"}}, Permissions{Read: []string{"/r"}}},
	} {
		if got := asked.Of(tc.answer); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestPermissionsAreEffects(t *testing.T) {
	p := Permissions{Read: []string{"/r"}, Write: []string{"/w", "/x"}, Network: true}
	if got, ok := PermissionsOf(p.Effects()); !ok || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, e := range []contract.Effect{contract.NetworkEffect{Host: "a.test"}, contract.ExecEffect{}, contract.OtherEffect{}} {
		if got, ok := PermissionsOf([]contract.Effect{e}); ok {
			t.Errorf("%T is %+v", e, got)
		}
	}
}

// A request for permissions is answered without a question if the policy determines the answer.
func TestPermissionRequests(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request Request
		want    Verdict
		says    string
	}{
		{"never", Request{Approval: Never, Additional: true}, Forbid, refusedNever},
		{"on-request", Request{Approval: OnRequest, Additional: true}, Ask, ""},
		{"on-failure", Request{Approval: OnFailure, Additional: true}, Ask, ""},
		{"untrusted", Request{Approval: Untrusted, Additional: true}, Ask, ""},
		{"granular on", Request{Approval: Granular, Additional: true, Questions: Questions{Permissions: true}}, Ask, ""},
		{"granular off", Request{Approval: Granular, Additional: true, Questions: Questions{Sandbox: true, Rules: true}}, Forbid, refusedPermissions},
		{"switched off", Request{Approval: OnRequest}, Forbid, additionalOff},
		{"without a sandbox", Request{Approval: OnRequest, Additional: true, Sandbox: FullAccess}, Run, "full-access"},
	} {
		tc.request.PermissionRequest = true
		if d := Decide(tc.request); d.Verdict != tc.want || !strings.Contains(d.Reason, tc.says) {
			t.Errorf("%s: %s %q", tc.name, d.Verdict, d.Reason)
		}
	}
}

// A command may request permissions under on-request. No rule is offered, as it would turn off the sandbox.
func TestAdditionalPermissions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request Request
		want    Verdict
		says    string
	}{
		{"on-request", Request{Approval: OnRequest, Additional: true}, Ask, "why"},
		{"without a sandbox", Request{Approval: OnRequest, Additional: true, Sandbox: FullAccess}, Run, ""},
		{"switched off", Request{Approval: OnRequest}, Forbid, additionalOff},
		{"never", Request{Approval: Never, Additional: true}, Forbid, "cannot request additional permissions"},
		{"untrusted", Request{Approval: Untrusted, Additional: true}, Forbid, "approval policy is untrusted; reject command"},
		{"granular", Request{Approval: Granular, Additional: true, Questions: Questions{Sandbox: true, Permissions: true}}, Forbid, "cannot request additional"},
	} {
		tc.request.Effects = []contract.Effect{contract.ExecEffect{Argv: []string{"make"}, Cwd: "/w"}}
		tc.request.Escalation = &contract.Escalation{Justification: "why", Additional: Permissions{Network: true}.Effects()}
		if d := Decide(tc.request); d.Verdict != tc.want || !strings.Contains(d.Reason, tc.says) || d.Offer != nil {
			t.Errorf("%s: %s %q, offers %v", tc.name, d.Verdict, d.Reason, d.Offer)
		}
	}
}

// A question that a rule for a host requires is a question of rules, not of the sandbox.
func TestPromptsOfOtherRules(t *testing.T) {
	for _, tc := range []struct {
		approval  Approval
		questions Questions
		want      Verdict
		says      string
	}{
		{OnRequest, Questions{}, Ask, "my.rules:3"},
		{Untrusted, Questions{}, Ask, ""},
		{Never, Questions{}, Forbid, refusedNever},
		{Granular, Questions{Rules: true}, Ask, ""},
		{Granular, Questions{Sandbox: true}, Forbid, refusedRules},
	} {
		d := Decide(Request{
			Approval: tc.approval, Questions: tc.questions, Prompted: "my.rules:3", Effects: []contract.Effect{contract.NetworkEffect{Host: "a.test"}},
			Escalation: &contract.Escalation{Additional: []contract.Effect{contract.NetworkEffect{Host: "a.test"}}},
		})
		if d.Verdict != tc.want || !strings.Contains(d.Reason, tc.says) {
			t.Errorf("%s %+v: %s %q", tc.approval, tc.questions, d.Verdict, d.Reason)
		}
	}
}
