package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// team is a model whose root spawns two agents and waits for both; one of them runs a command.
const team = `
[[step]]
name = "end"
times = -1
when = { not = { absent = "(?s)Sender: /root/a.*Sender: /root/b|Sender: /root/b.*Sender: /root/a" } }
do = [{ text = "both are done" }]
[[step]]
name = "spawn"
when = { absent = "You are the agent" }
do = [
  { call = "spawn_agent", namespace = "collaboration", id = "s1", args = { task_name = "a", message = "run the command", fork_turns = "none" } },
  { call = "spawn_agent", namespace = "collaboration", id = "s2", args = { task_name = "b", message = "say something", fork_turns = "none" } },
]
[[step]]
name = "wait"
times = -1
when = { absent = "You are the agent" }
do = [{ call = "wait_agent", namespace = "collaboration", args = { timeout_ms = 60000 } }]
[[step]]
name = "a works"
when = { not = { absent = "You are the agent /root/a" } }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo one >> ran", login = false } }]
[[step]]
name = "a answers"
when = { not = { absent = "You are the agent /root/a" } }
do = [{ text = "a is done" }]
[[step]]
name = "b answers"
when = { not = { absent = "You are the agent /root/b" } }
do = [{ text = "b is done" }]
`

// withAgents writes a configuration in which models may spawn agents.
func withAgents(r *rig.Rig, more string) {
	r.Write("agents.hcl", "agents {\n  tools = \"v2\"\n}\n"+more)
}

// requestsOf returns the requests in which a text occurs.
func requestsOf(r *rig.Rig, text string) (out []rig.Request) {
	for _, q := range r.Requests() {
		b, _ := json.Marshal(q.Request)
		if strings.Contains(string(b), text) {
			out = append(out, q)
		}
	}
	return out
}

// A root spawns two agents, one of them asks for approval at the root's terminal, both answer, and the root goes on with their answers.
func TestAgents(t *testing.T) {
	t.Parallel()
	r := rig.New(t, team)
	withAgents(r, "approval {\n  policy = \"untrusted\"\n}\n")
	run := r.Terminal("exec", "--config", "agents.hcl", "go")
	run.Sees("answer: ")
	run.Type("y\n")
	res := run.Wait()
	if res.Code != 0 || !strings.Contains(res.Stdout, "both are done") || !strings.Contains(res.Stdout, "/root/a") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if got := r.Read("ran"); got != "one\n" {
		t.Errorf("ran %q", got)
	}
	last := r.Last()
	out := last.Outputs()
	if out["s1"] != `{"task_name":"/root/a"}` || out["s2"] != `{"task_name":"/root/b"}` {
		t.Errorf("spawned %q and %q", out["s1"], out["s2"])
	}
	b, _ := json.Marshal(last.Request)
	for _, answer := range []string{"a is done", "b is done"} {
		if n := strings.Count(string(b), answer); n != 1 {
			t.Errorf("the root reads %q %d times", answer, n)
		}
	}
	if list := r.OK("threads", "list", "--all").Stdout; strings.Count(list, "\n") > 3 {
		t.Errorf("agents are listed among the user's threads:\n%s", list)
	}
	child := requestsOf(r, "You are the agent /root/b")[0].Request
	if child.PromptCacheKey != last.Thread {
		t.Errorf("the agent's cache key is %q, that of the root %q", child.PromptCacheKey, last.Thread)
	}
	r.NothingLeft()
}
