package policy

import (
	"reflect"
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
		{"untrusted asks about an escalation", Request{Approval: Untrusted, Sandbox: "workspace-write", Effects: exec, Escalation: escalation}, Ask, "needs the network"},
		{"a change inside", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: writes("/ws/a"), Writable: inside}, Run, ""},
		{"a change inside, nobody is asked", Request{Approval: Never, Sandbox: "workspace-write", Effects: writes("/ws/a"), Writable: inside}, Run, ""},
		{"a change inside, untrusted", Request{Approval: Untrusted, Sandbox: "workspace-write", Effects: writes("/ws/a"), Writable: inside}, Ask, "untrusted"},
		{"a change outside", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: writes("/ws/a", "/etc/b", "/etc/c"), Writable: inside}, Ask, "/etc/b and 1 more"},
		{"a change outside, untrusted", Request{Approval: Untrusted, Sandbox: "workspace-write", Effects: writes("/etc/b"), Writable: inside}, Ask, "/etc/b"},
		{"a change outside, nobody is asked", Request{Approval: Never, Sandbox: "workspace-write", Effects: writes("/etc/b"), Writable: inside}, Forbid, "patch rejected: writing outside of the project; rejected by user approval settings"},
		{"a change where nothing may be, nobody is asked", Request{Approval: Never, Sandbox: "read-only", Effects: writes("/ws/a"), Writable: func(string) bool { return false }}, Forbid, "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"},
		{"a change outside of nothing", Request{Approval: Never, Sandbox: "full-access", Effects: writes("/etc/b"), Writable: inside}, Run, ""},
		{"a change outside, granular", Request{Approval: Granular, Questions: Questions{Sandbox: true}, Sandbox: "workspace-write", Effects: writes("/etc/b"), Writable: inside}, Ask, "/etc/b"},
		{"a change outside, granular without the sandbox", Request{Approval: Granular, Sandbox: "workspace-write", Effects: writes("/etc/b"), Writable: inside}, Forbid, "patch rejected: writing outside of the project"},
		{"granular refuses an escalation", Request{Approval: Granular, Sandbox: "read-only", Effects: exec, Escalation: escalation}, Forbid, "approval policy is granular; reject command"},
		{"on failure is on request", Request{Approval: OnFailure, Sandbox: "workspace-write", Effects: exec, Escalation: escalation}, Ask, "needs the network"},
		{"a command and something else", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: append(writes("/etc/b"), exec...), Writable: inside}, Ask, "/etc/b"},
		{"no command at all", Request{Approval: Never, Effects: []contract.Effect{contract.ExecEffect{}}}, Forbid, "no command"},
		{"a call that a client runs", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: []contract.Effect{contract.OtherEffect{}}, ByClient: true}, Run, "a client of the thread runs it"},
		{"a call that a client runs, untrusted", Request{Approval: Untrusted, Effects: []contract.Effect{contract.OtherEffect{}}, ByClient: true}, Ask, "untrusted"},
		{"unknown policy", Request{Approval: "sometimes"}, Forbid, `unknown approval policy "sometimes"`},
		{"no policy", Request{}, Forbid, "unknown approval policy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Decide(tc.r)
			if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.why) {
				t.Errorf("Decide = %+v, want %v with %q", got, tc.want, tc.why)
			}
		})
	}
}

func writes(paths ...string) []contract.Effect {
	return []contract.Effect{contract.WriteEffect{Paths: paths}}
}

func inside(path string) bool { return strings.HasPrefix(path, "/ws/") }

// An approval to write outside of the sandbox grants only these files.
func TestApprovedWritesOutside(t *testing.T) {
	d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: writes("/ws/a", "/etc/b"), Writable: inside})
	if d.Wider == nil || d.Wider.Unsandboxed || len(d.Wider.Additional) != 1 || !reflect.DeepEqual(d.Wider.Additional, writes("/etc/b")) {
		t.Errorf("wider by %+v", d.Wider)
	}
}

func TestRetry(t *testing.T) {
	exec := []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}}}
	for _, tc := range []struct {
		name       string
		r          Request
		again, ask bool
	}{
		{"never", Request{Approval: Never, Sandbox: "workspace-write", Effects: exec}, false, false},
		{"never, a change of files", Request{Approval: Never, Sandbox: "workspace-write", Effects: writes("/ws/a")}, false, false},
		{"on request, a command", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: exec}, false, false},
		{"on request, a change of files", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: writes("/ws/a")}, true, true},
		{"on request, both", Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: append(writes("/ws/a"), exec...)}, false, false},
		{"on request, nothing said", Request{Approval: OnRequest, Sandbox: "workspace-write"}, false, false},
		{"untrusted", Request{Approval: Untrusted, Sandbox: "read-only", Effects: exec, Approved: true}, true, false},
		{"untrusted, what was not asked about", Request{Approval: Untrusted, Sandbox: "read-only", Effects: exec}, true, true},
		{"granular", Request{Approval: Granular, Questions: Questions{Sandbox: true}, Sandbox: "read-only", Effects: exec}, true, true},
		{"granular, approved", Request{Approval: Granular, Questions: Questions{Sandbox: true}, Sandbox: "read-only", Effects: exec, Approved: true}, true, false},
		{"granular, not to be asked", Request{Approval: Granular, Questions: Questions{Rules: true}, Sandbox: "read-only", Effects: exec}, false, false},
		{"on failure, a change of files", Request{Approval: OnFailure, Sandbox: "workspace-write", Effects: writes("/ws/a")}, true, true},
		{"untrusted, outside already", Request{Approval: Untrusted, Sandbox: "read-only", Effects: exec, Escalation: &contract.Escalation{Unsandboxed: true}}, false, false},
		{"full access", Request{Approval: Untrusted, Sandbox: "full-access", Effects: exec}, false, false},
	} {
		again, ask := Retry(tc.r, nil)
		if (again != nil) != tc.again || ask != tc.ask || again != nil && !again.Unsandboxed {
			t.Errorf("%s: %+v, ask %v", tc.name, again, ask)
		}
	}
}
