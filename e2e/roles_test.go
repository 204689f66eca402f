package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// An agent has the instructions, the model, the tools and the bounds of its role, and no approval exceeds those.
func TestRoles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { absent = "You are the agent" }
do = [
  { call = "spawn_agent", namespace = "collaboration", id = "no", args = { task_name = "x", message = "look", agent_type = "nobody" } },
  { call = "spawn_agent", namespace = "collaboration", id = "broken", args = { task_name = "x", message = "look", agent_type = "broken" } },
  { call = "spawn_agent", namespace = "collaboration", id = "model", args = { task_name = "x", message = "look", model = "none" } },
  { call = "spawn_agent", namespace = "collaboration", id = "effort", args = { task_name = "x", message = "look", reasoning_effort = "enormous" } },
  { call = "spawn_agent", namespace = "collaboration", id = "a", args = { task_name = "a", message = "look", agent_type = "looker" } },
]
[[step]]
when = { absent = "You are the agent" }
do = [{ call = "wait_agent", namespace = "collaboration", args = { timeout_ms = 60000 } }]
[[step]]
when = { absent = "You are the agent" }
do = [{ text = "finished" }]
[[step]]
when = { not = { absent = "You are the agent" } }
do = [
  { call = "exec_command", id = "w", args = { cmd = "echo one > written", login = false } },
  { call = "exec_command", id = "e", args = { cmd = "echo two > written", login = false, sandbox_permissions = "require_escalated", justification = "it is needed" } },
  { call = "apply_patch", id = "p", freeform = "*** Begin Patch\n*** Add File: written\n+three\n*** End Patch\n" },
  { call = "spawn_agent", namespace = "collaboration", id = "deeper", args = { task_name = "b", message = "look", agent_type = "worker", fork_turns = "none" } },
]
[[step]]
when = { not = { absent = "You are the agent /root/a/b" } }
do = [{ call = "exec_command", id = "d", args = { cmd = "echo four > written", login = false } }]
[[step]]
times = -1
do = [{ text = "seen" }]
`)
	r.Write("agents.hcl", "approval {\n  policy = \"on-request\"\n}\nagents {\n  roles      = [\"./roles\"]\n  unfinished = \"wait\"\n}\n"+
		"agent \"looker\" {\n  description = \"Looks.\"\n  instructions = \"Look twice.\"\n  without = [\"apply_patch\"]\n  sandbox {\n    mode = \"read-only\"\n  }\n}\n")
	r.Write("roles/broken.md", "---\nname: [\n---\n")
	r.Write("roles/scribe.md", "---\nname: scribe\ndescription: Writes.\ntools: Bash\n---\nWrite.\n")
	res := r.Gantry("exec", "--config", "agents.hcl", "--json", "go")
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "written")); err == nil {
		t.Errorf("an agent that can only read has written %q", r.Read("written"))
	}
	root := r.Last()
	out := root.Outputs()
	for id, want := range map[string]string{
		"no": `unknown agent_type "nobody"; there are looker, scribe, default, explorer, worker`, "broken": `agent_type "broken" can't be used: `,
		"model": `model "none" can't be used`, "effort": `does not have the reasoning effort "enormous"`, "a": `{"task_name":"/root/a"}`,
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %s", id, out[id])
		}
	}
	first := requestsOf(r, "You are the agent /root/a")[0]
	text, _ := json.Marshal(first.Request.Messages)
	if !strings.Contains(string(text), "Look twice.") {
		t.Error("the agent does not have the instructions of its role")
	}
	described := 0
	for _, tool := range first.Request.Tools {
		if tool.Name == "apply_patch" {
			t.Error("the agent is offered apply_patch")
		}
		if tool.Name == "spawn_agent" && strings.Contains(tool.Description, "- looker: Looks. (sandbox read-only; without apply_patch)") && strings.Contains(tool.Description, "- scribe: Writes. (tools Bash)") {
			described++
		}
	}
	if described != 1 {
		t.Error("the roles are not described")
	}
	seen := map[string]bool{}
	for _, q := range r.Requests() {
		o := q.Outputs()
		for id, want := range map[string]string{"e": "bound to the sandbox mode read-only", "w": "Read-only file system", "d": "Read-only file system", "p": "unsupported custom tool call"} {
			got, ok := o[id]
			if ok && !strings.Contains(got, want) {
				t.Errorf("%s: %s", id, got)
			}
			seen[id] = seen[id] || ok
		}
	}
	if len(seen) != 4 || !seen["d"] {
		t.Errorf("the agents made the calls %v", seen)
	}
	if show := r.OK("threads", "show", "--events", root.Thread).Stdout; !strings.Contains(show, `"bounds":{"sandbox":"read-only","without":["apply_patch"]}`) {
		t.Error("the bounds of the agent are not in its item")
	}
	list := r.OK("agents", "roles", "--config", "agents.hcl").Stdout
	for _, want := range []string{"looker", "sandbox read-only; without apply_patch", "scribe", "broken", "can't be used", "explorer"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not listed:\n%s", want, list)
		}
	}
	r.NothingLeft()
}

// The role files of a project count once the project is trusted.
func TestProjectRoles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	r.Write(".gantry/agents/helper.md", "---\ndescription: Helps.\n---\nHelp.\n")
	if list := r.OK("agents", "roles").Stdout; strings.Contains(list, "helper") {
		t.Errorf("an untrusted project has a role:\n%s", list)
	}
	r.OK("trust", "--yes")
	if list := r.OK("agents", "roles").Stdout; !strings.Contains(list, "helper") || !strings.Contains(list, "Helps.") {
		t.Errorf("a trusted project has no role:\n%s", list)
	}
	r.Write(".gantry/agents/helper.md", "---\ndescription: Helps otherwise.\n---\nHelp.\n")
	if list := r.OK("agents", "roles").Stdout; strings.Contains(list, "helper") {
		t.Errorf("a changed role file is trusted:\n%s", list)
	}
}

// An agent whose budget is used up hands back what it has got, and one whose group has none left says so to the agent above.
func TestAgentBudgets(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { absent = "You are the agent" }
do = [{ call = "spawn_agent", namespace = "collaboration", id = "s", args = { task_name = "a", message = "look", agent_type = "small", fork_turns = "none" } }]
[[step]]
when = { absent = "You are the agent" }
do = [{ call = "wait_agent", namespace = "collaboration", args = { timeout_ms = 60000 } }]
[[step]]
when = { not = { absent = "Sender: /root/a" } }
do = [{ text = "finished" }]
[[step]]
when = { not = { absent = "Your budget is used up" } }
do = [{ text = "this is what there is" }]
[[step]]
times = 6
when = { not = { absent = "You are the agent /root/a" } }
do = [{ call = "exec_command", id = "c", args = { cmd = "echo looking", login = false } }]
usage = { input = 400, output = 10 }
`)
	r.Write("agents.hcl", "agent \"small\" {\n  description = \"Looks briefly.\"\n  budget {\n    tokens = 1000\n  }\n}\n")
	r.OK("exec", "--config", "agents.hcl", "go")
	asked := requestsOf(r, "You are the agent /root/a")
	if len(asked) != 4 || len(asked[3].Request.Tools) != 0 {
		t.Fatalf("the agent made %d requests", len(asked))
	}
	text, _ := json.Marshal(asked[2].Request.Messages)
	if !strings.Contains(string(text), "the agent /root/a has used 820 of 1000 tokens, which is more than 80 %") {
		t.Errorf("the agent was not told about its budget: %s", text)
	}
	if text, _ := json.Marshal(r.Last().Request.Messages); strings.Count(string(text), "this is what there is") != 1 {
		t.Error("what the agent had got is not handed back")
	}
	r.NothingLeft()
}
