package policy

import (
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// How often each of seven commands is asked about under each sandbox mode and policy, if every question is approved, and how it ends.
// Measured on codex 0.169.
func TestMeasuredMatrix(t *testing.T) {
	const (
		ok, stopped, rejected = "ok", "stopped", "rejected" // stopped: by the sandbox
	)
	commands := []struct {
		name, script string
		escalated    bool
		stoppedIn    []string // modes whose sandbox stops it
	}{
		{"ls", "ls a.txt", false, nil},
		{"tin", "touch t", false, []string{"read-only"}},
		{"tout", "touch /out/q", false, []string{"read-only", "workspace-write"}},
		{"net", "bash -c 'exec 3<>/dev/tcp/127.0.0.1/9'", false, []string{"read-only", "workspace-write"}},
		{"rmf", "rm -f t", false, nil},
		{"esc", "touch /out/q", true, []string{"read-only", "workspace-write"}},
		{"redir", "ls > /tmp/r", false, []string{"read-only"}},
	}
	all := Questions{true, true, true, true}
	for _, tc := range []struct {
		mode      string
		policy    Approval
		questions Questions
		want      string // per command: number of questions, and how it ends
	}{
		{"read-only", Untrusted, all, "1ok 1ok 1ok 1ok 1ok 1ok 1ok"},
		{"read-only", OnRequest, all, "0ok 0stopped 0stopped 0stopped 1ok 1ok 0stopped"},
		{"read-only", OnFailure, all, "0ok 0stopped 0stopped 0stopped 1ok 1ok 0stopped"},
		{"read-only", Never, all, "0ok 0stopped 0stopped 0stopped 0rejected 0rejected 0stopped"},
		{"read-only", Granular, all, "0ok 1ok 1ok 1ok 1ok 1ok 1ok"},
		{"read-only", Granular, Questions{Rules: true}, "0ok 0stopped 0stopped 0stopped 1ok 0rejected 0stopped"},
		{"workspace-write", Untrusted, all, "1ok 1ok 1ok 1ok 1ok 1ok 1ok"},
		{"workspace-write", OnRequest, all, "0ok 0ok 0stopped 0stopped 1ok 1ok 0ok"},
		{"workspace-write", Never, all, "0ok 0ok 0stopped 0stopped 0rejected 0rejected 0ok"},
		{"workspace-write", Granular, all, "0ok 0ok 1ok 1ok 1ok 1ok 0ok"},
		{"full-access", Untrusted, all, "1ok 1ok 1ok 1ok 1ok 1ok 1ok"},
		{"full-access", OnRequest, all, "0ok 0ok 0ok 0ok 1ok 0ok 0ok"},
		{"full-access", Never, all, "0ok 0ok 0ok 0ok 0rejected 0rejected 0ok"},
	} {
		got := ""
		for _, c := range commands {
			r := Request{
				Approval: tc.policy, Questions: tc.questions, Sandbox: tc.mode,
				Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"bash", "-lc", c.script}, Cwd: "/ws"}},
			}
			if c.escalated {
				r.Escalation = &contract.Escalation{Unsandboxed: true, Justification: "it lies outside"}
			}
			asked, end := 0, ok
			switch d := Decide(r); d.Verdict {
			case Forbid:
				end = rejected
			case Ask:
				asked, r.Approved = 1, true
			}
			for _, mode := range c.stoppedIn {
				if end != ok || mode != tc.mode || c.escalated {
					continue
				}
				again, ask := Retry(r, nil)
				if again == nil {
					end = stopped
				} else if ask {
					asked++
				}
			}
			got += fmt.Sprintf("%d%s ", asked, end)
		}
		if got != tc.want+" " {
			t.Errorf("%s, %s: %s, want %s", tc.mode, tc.policy, got, tc.want)
		}
	}
}
