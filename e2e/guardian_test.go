package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// guarded is a rig whose model wants to leave the sandbox with a command, and whose reviewer gives an answer.
func guarded(t *testing.T, answer string) *rig.Rig {
	r := rig.New(t, fmt.Sprintf(`
[[step]]
when = { system = "You decide, in the place of a person" }
times = -1
do = [{ text = '''%s''' }]
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ran >> ran", login = false, sandbox_permissions = "require_escalated", justification = "it has to" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`, answer))
	r.Config("guardian {\n  enabled = true\n}\n")
	return r
}

var guardedRun = []string{"exec", "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "clean up"}

// A model answers where nobody is there, and its no, its nonsense and its absence are no yes.
func TestGuardian(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		ran    bool
		output string
		status string
	}{
		"allows":      {`Fine: {"outcome":"allow","risk_level":"low","rationale":"R"}`, true, "", "approved"},
		"denies":      {`{"outcome":"deny","risk_level":"high","rationale":"It loses data"}`, false, "rejected by the reviewer: It loses data.", "denied"},
		"makes noise": {`yes, let it run`, false, "not approved: the reviewer did not answer with JSON", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := guarded(t, tt.answer)
			r.OK(guardedRun...)
			if ran := r.Read("ran") != ""; ran != tt.ran {
				t.Errorf("ran: %v", ran)
			}
			if out := r.Last().Outputs()["c1"]; !strings.Contains(out, tt.output) {
				t.Errorf("the model reads %q", out)
			}
			all := threads(t, r)
			if len(all) != 1 {
				t.Fatalf("%d threads are listed", len(all))
			}
			log := strings.ReplaceAll(r.OK("threads", "show", "--events", all[0].ID).Stdout, " ", "")
			if !strings.Contains(log, `"approval.review.started"`) || !strings.Contains(log, `"status":"`+tt.status+`"`) {
				t.Errorf("the log says:\n%s", log)
			}
			for _, q := range r.Requests() {
				if len(q.Request.System) > 0 && strings.HasPrefix(q.Request.System[0], "You decide") {
					said := strings.Join(q.Texts(llm.RoleUser), "\n")
					if !strings.Contains(said, "user: clean up") || !strings.Contains(said, "echo ran >> ran") || !strings.Contains(said, "it has to") {
						t.Errorf("the reviewer reads:\n%s", said)
					}
					return
				}
			}
			t.Error("the reviewer was not asked")
		})
	}
}

// A reviewer whose model is not there leaves the question to a person; there is none, and the model is told of both.
func TestGuardianWithoutAModel(t *testing.T) {
	t.Parallel()
	r := guarded(t, "")
	r.Config("model \"gone\" {\n  provider = \"off\"\n  name = \"x\"\n}\nprovider \"off\" {\n  source = \"builtin/scripted\"\n  enabled = false\n  script = \"x\"\n}\n")
	r.OK(append([]string{guardedRun[0], "-c", "guardian.model=gone"}, guardedRun[1:]...)...)
	if out := r.Last().Outputs()["c1"]; r.Read("ran") != "" || !strings.Contains(out, "nobody to ask") || !strings.Contains(out, "reviewer could not be asked") {
		t.Errorf("the model reads %q", out)
	}
}

// Hooks come before the reviewer, and the reviewer can do no more than look.
func TestGuardianComesAfterHooks(t *testing.T) {
	t.Parallel()
	r := guarded(t, `{"outcome":"allow"}`)
	hookFile(t, r, map[string][]hookGroup{"PermissionRequest": on("", "echo not today >&2; exit 2")})
	r.OK(guardedRun...)
	if out := r.Last().Outputs()["c1"]; r.Read("ran") != "" || !strings.Contains(out, "not today") {
		t.Errorf("the model reads %q", out)
	}
	r = rig.New(t, `
[[step]]
when = { system = "You decide, in the place of a person", since_user = 0 }
do = [{ call = "exec_command", id = "r1", args = { cmd = "echo reviewer >> ran", login = false } }]
[[step]]
when = { system = "You decide, in the place of a person" }
times = -1
do = [{ text = '{"outcome":"deny"}' }]
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ran >> ran", login = false, sandbox_permissions = "require_escalated", justification = "it has to" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Config("guardian {\n  enabled = true\n}\n")
	r.OK(guardedRun...)
	if got := r.Read("ran"); got != "" {
		t.Errorf("something was written: %q", got)
	}
}

// The second review of a thread goes on in the reviewer's thread, and reads only what was said since; the conversation that it has read
// already stands before it, byte for byte, for its vendor to remember.
func TestReviewsShareAThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { system = "You decide, in the place of a person" }
times = -1
do = [{ text = '{"outcome":"allow"}' }]
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo one >> ran", login = false, sandbox_permissions = "require_escalated", justification = "first" } }]
[[step]]
do = [{ text = "between" }, { call = "exec_command", id = "c2", args = { cmd = "echo two >> ran", login = false, sandbox_permissions = "require_escalated", justification = "second" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Config("guardian {\n  enabled = true\n}\n")
	r.OK(guardedRun...)
	if got := r.Read("ran"); got != "one\ntwo\n" {
		t.Errorf("ran: %q", got)
	}
	var reviews []rig.Request
	for _, q := range r.Requests() {
		if len(q.Request.System) > 0 && strings.HasPrefix(q.Request.System[0], "You decide") {
			reviews = append(reviews, q)
		}
	}
	if len(reviews) != 2 {
		t.Fatalf("%d requests to the reviewer", len(reviews))
	}
	first, second := reviews[0].Request.Messages, reviews[1].Request.Messages
	if len(second) <= len(first) || reviews[0].Request.PromptCacheKey != reviews[1].Request.PromptCacheKey || !strings.HasPrefix(reviews[0].Request.PromptCacheKey, "guardian:") {
		t.Fatalf("%d and %d messages, remembered by %q and %q", len(first), len(second), reviews[0].Request.PromptCacheKey, reviews[1].Request.PromptCacheKey)
	}
	for i, m := range first {
		if fmt.Sprintf("%+v", m.Text()) != fmt.Sprintf("%+v", second[i].Text()) {
			t.Errorf("message %d has changed: %q, %q", i, m.Text(), second[i].Text())
		}
	}
	said := reviews[1].Texts(llm.RoleUser)
	if last := said[len(said)-1]; !strings.Contains(last, "agent: between") || strings.Contains(last, "user: clean up") || !strings.Contains(last, "echo two >> ran") {
		t.Errorf("the second question:\n%s", last)
	}
}
