package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Hooks that are models: one that judges by what it is told, and one that looks at a file first, in a sandbox. Their no is read by the
// agent, what they were asked is a thread of its own, and nobody runs them without consent unless that is bypassed.
func TestHooksThatAreModels(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { system = "You judge, for the person", user = "Forbidden words", since_user = 0 }
times = -1
do = [{ text = '{"ok": false, "reason": "it says ran"}' }]
[[step]]
when = { system = "You judge, for the person", user = "Compare with the file", since_user = 0 }
times = -1
do = [{ call = "exec_command", id = "look", args = { cmd = "cat rule.txt; touch never", login = false } }]
[[step]]
when = { system = "You judge, for the person", output = "nobody leaves" }
times = -1
do = [{ text = 'I have looked. {"ok": false, "reason": "rule.txt forbids it"}' }]
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ran >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Write("rule.txt", "nobody leaves\n")
	hook := func(more string) {
		r.Write("hook.hcl", "hook \"judge\" {\n  event = \"PreToolUse\"\n  matcher = \"Bash\"\n"+more+"\n}\n")
	}
	run := func(more ...string) string {
		t.Helper()
		r.OK(append([]string{"exec", "--config", "hook.hcl"}, append(more, "go")...)...)
		return r.Last().Outputs()["c1"]
	}
	hook(`  prompt = "Forbidden words: ran. $ARGUMENTS"`)
	if out := run(); !strings.Contains(r.Read("ran"), "ran") || strings.Contains(out, "blocked") {
		t.Errorf("without consent: %q", out)
	}
	ran := r.Read("ran")
	for name, tt := range map[string]struct{ hook, output string }{
		"by what it is told": {`  prompt = "Forbidden words: ran. $ARGUMENTS"`, "Command blocked by PreToolUse hook: it says ran. Command: echo ran >> ran"},
		"by what it sees":    {"  prompt = \"Compare with the file rule.txt.\"\n  agent = true", "rule.txt forbids it"},
	} {
		hook(tt.hook)
		if out := run("--dangerously-bypass-hook-trust"); !strings.Contains(out, tt.output) {
			t.Errorf("%s: %q, want %q", name, out, tt.output)
		}
	}
	if r.Read("ran") != ran || r.Read("never") != "" {
		t.Error("a command ran that was judged, or a judge wrote")
	}
	var judged int
	for _, q := range r.Requests() {
		if len(q.Request.System) == 0 || !strings.HasPrefix(q.Request.System[0], "You judge") {
			continue
		}
		judged++
		said := strings.Join(q.Texts(llm.RoleUser), "\n")
		if prompt := strings.Contains(said, "Forbidden words"); prompt != (len(q.Request.Tools) == 0) {
			t.Errorf("a judge of %q has %d tools", said, len(q.Request.Tools))
		}
		if !strings.Contains(said, `"command":"echo ran \u003e\u003e ran"`) && !strings.Contains(said, `"command":"echo ran >> ran"`) {
			t.Errorf("the judge reads:\n%s", said)
		}
	}
	if judged != 3 {
		t.Errorf("%d requests to judges, want 3", judged)
	}
	listed := r.OK("hooks", "list", "--config", "hook.hcl").Stdout
	if !strings.Contains(listed, "untrusted") || !strings.Contains(listed, "agent: Compare with the file") && !strings.Contains(listed, "prompt: Forbidden words") {
		t.Errorf("listed:\n%s", listed)
	}
	r.NothingLeft()
}

// Consent is not bypassed for what a project brings along to which nobody has agreed.
func TestBypassedTrustIsTheUsers(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	writeHooks(t, r, ".gantry/hooks.json", map[string][]hookGroup{"PreToolUse": on("Bash", "echo theirs >> hooked")})
	writeHooks(t, r, r.Home+"/hooks.json", map[string][]hookGroup{"PreToolUse": on("Bash", "echo mine >> hooked")})
	r.OK("exec", "--dangerously-bypass-hook-trust", "go")
	if got := r.Read("hooked"); got != "mine\n" {
		t.Errorf("ran: %q", got)
	}
	if r.OK("exec", "go"); r.Read("hooked") != "mine\n" {
		t.Errorf("ran without the flag: %q", r.Read("hooked"))
	}
}
