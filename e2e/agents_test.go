package e2e_test

import (
	"encoding/json"
	"strings"
	"syscall"
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

// calls is a model whose root makes one call after the other and whose agents answer at once.
func agentCalls(calls ...string) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString("[[step]]\nwhen = { absent = \"You are the agent\" }\ndo = [" + c + "]\n")
	}
	b.WriteString("[[step]]\nwhen = { absent = \"You are the agent\" }\ndo = [{ text = \"finished\" }]\n" +
		"[[step]]\ntimes = -1\nwhen = { not = { absent = \"Payload:.nhang\" } }\nbreak = { how = \"hang\" }\n" +
		"[[step]]\ntimes = -1\ndo = [{ text = \"the answer\" }]\n")
	return strings.ReplaceAll(b.String(), ".n", `\\n`)
}

func collab(tool, id, args string) string {
	return `{ call = "` + tool + `", namespace = "collaboration", id = "` + id + `", args = { ` + args + ` } },`
}

func TestAgentTools(t *testing.T) {
	t.Parallel()
	r := rig.New(t, agentCalls(
		collab("spawn_agent", "hang", `task_name = "hang", message = "hang", fork_turns = "none"`)+
			collab("spawn_agent", "again", `task_name = "hang", message = "hang"`)+
			collab("spawn_agent", "bad", `task_name = "Bad Name", message = "x"`)+
			collab("spawn_agent", "field", `task_name = "x", message = "x", extra = 1`)+
			collab("spawn_agent", "context", `task_name = "x", message = "x", fork_context = true`)+
			collab("spawn_agent", "zero", `task_name = "x", message = "x", fork_turns = "0"`)+
			collab("spawn_agent", "abc", `task_name = "x", message = "x", fork_turns = "abc"`)+
			collab("spawn_agent", "role", `task_name = "x", message = "x", agent_type = "wizard"`)+
			collab("spawn_agent", "model", `task_name = "x", message = "x", model = "nosuch"`)+
			collab("spawn_agent", "empty", `task_name = "x", message = " "`)+
			collab("list_agents", "list", ``)+
			collab("send_message", "nobody", `target = "nobody", message = "x"`)+
			collab("followup_task", "root", `target = "/root", message = "x"`)+
			collab("wait_agent", "long", `timeout_ms = 9999999`)+
			collab("interrupt_agent", "itself", `target = "/root"`)+
			collab("interrupt_agent", "stop", `target = "hang"`)+
			collab("wait_agent", "quiet", `timeout_ms = 600000`),
		collab("spawn_agent", "b", `task_name = "b", message = "answer", fork_turns = " ALL "`),
		collab("wait_agent", "short", `timeout_ms = 5`),
		collab("interrupt_agent", "idle", `target = "b"`)+collab("close_agent", "close", `target = "b"`),
		collab("followup_task", "more", `target = "b", message = "furthermore"`)+collab("wait_agent", "second", ``),
		collab("list_agents", "all", ``),
	))
	withAgents(r, "")
	r.OK("exec", "--config", "agents.hcl", "go")
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"hang": `{"task_name":"/root/hang"}`, "again": "/root/hang already exists", "bad": "lowercase letters, digits and underscores",
		"field": "unknown field \"extra\", expected one of `task_name`, `message`", "context": "use fork_turns", "zero": "\"all\", \"none\"", "abc": "\"all\", \"none\"",
		"role": `unknown agent_type "wizard"`, "model": "nosuch", "empty": "message must not be empty",
		"list":   `{"agents":[{"agent_name":"/root","agent_status":"running"},{"agent_name":"/root/hang","agent_status":"running"}]}`,
		"nobody": "/root/nobody", "root": "not a spawned agent", "long": "at most 3600000", "itself": "not a spawned agent",
		"stop": `{"previous_status":"running"}`, "quiet": `{"message":"No agent is at work: nothing can arrive.","timed_out":false}`,
		"b": `{"task_name":"/root/b"}`, "short": `{"message":"Wait completed.\n\nThe timeout of 5 ms is below the minimum; 10000 ms were used.","timed_out":false}`,
		"idle": `{"previous_status":{"completed":"the answer"}}`, "close": `{"previous_status":{"completed":"the answer"}}`, "more": "", "second": "Wait completed.",
		"all": `{"agents":[{"agent_name":"/root","agent_status":"running"},{"agent_name":"/root/b","agent_status":{"completed":"the answer"}},{"agent_name":"/root/hang","agent_status":"interrupted"}]}`,
	} {
		got, ok := out[id]
		if !ok || !strings.Contains(got, want) || strings.HasPrefix(want, "{") && got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	b, _ := json.Marshal(r.Last().Request)
	if n := strings.Count(string(b), "Type: FINAL_ANSWER"); n != 2 {
		t.Errorf("%d answers arrived, want one for each of b's turns and none of the interrupted one", n)
	}
	// The second turn of b has the task, its own answer and the new task; it goes on from what the root knew.
	again := requestsOf(r, "furthermore")
	for _, q := range again {
		if b, _ := json.Marshal(q.Request); strings.Contains(string(b), "You are the agent /root/b") {
			for _, part := range []string{`"go"`, "aborted", "Payload:\\nanswer", "the answer", "Payload:\\nfurthermore"} {
				if !strings.Contains(string(b), part) {
					t.Errorf("b does not read %q: %s", part, b)
				}
			}
		}
	}
	r.NothingLeft()
}

// The host dies while an agent works and another one has answered. A resumed root starts nobody, gets each answer once, and its model is
// told once who was stopped.
func TestAgentsAreFoundAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
name = "root"
when = { user = "go" }
do = [
  { call = "spawn_agent", namespace = "collaboration", id = "s1", args = { task_name = "a", message = "hang", fork_turns = "none" } },
  { call = "spawn_agent", namespace = "collaboration", id = "s2", args = { task_name = "b", message = "answer", fork_turns = "all" } },
]
[[step]]
name = "more"
when = { user = "what now" }
do = [{ call = "followup_task", namespace = "collaboration", id = "f1", args = { target = "b", message = "more work" } }, { call = "list_agents", namespace = "collaboration", id = "l1", args = {} }, { call = "wait_agent", namespace = "collaboration", id = "w1", args = {} }]
[[step]]
times = -1
when = { not = { absent = "Payload:\\nhang" } }
break = { how = "hang" }
[[step]]
times = 2
when = { not = { absent = "You are the agent" } }
do = [{ text = "the answer" }]
[[step]]
when = { absent = "l1" }
break = { how = "hang" }
[[step]]
times = -1
do = [{ text = "finished" }]
`)
	withAgents(r, "")
	run := r.Start("exec", "--config", "agents.hcl", "--events", "go")
	run.Sees("subagent-completed-")
	r.Until("the root's second request", func() bool { return len(r.Requests()) >= 4 })
	run.Signal(syscall.SIGKILL)
	run.Wait()
	r.OK("resume", "--last", "--config", "agents.hcl", "what now")
	b, _ := json.Marshal(r.Last().Request)
	if n := strings.Count(string(b), "Type: FINAL_ANSWER"); n != 2 {
		t.Errorf("%d answers, want one before the end of the host and one after it: %s", n, b)
	}
	if n := strings.Count(string(b), "at work: /root/a."); n != 1 {
		t.Errorf("the model is told %d times who was stopped: %s", n, b)
	}
	out := r.Last().Outputs()
	if want := `{"agent_name":"/root/a","agent_status":"interrupted"}`; !strings.Contains(out["l1"], want) {
		t.Errorf("the list is %s", out["l1"])
	}
	if n := len(requestsOf(r, `Payload:\nhang`)); n != 1 {
		t.Errorf("the stopped agent has made %d requests", n)
	}
	r.OK("resume", "--last", "--config", "agents.hcl", "again")
	b, _ = json.Marshal(r.Last().Request)
	if n := strings.Count(string(b), "at work: /root/a."); n != 1 {
		t.Errorf("later, the model is told %d times who was stopped", n)
	}
	r.NothingLeft()
}

// Programs see what agents do: as JSON lines in codex's form, and as items of the app server's protocol in the history of a thread.
func TestAgentsInJSONLines(t *testing.T) {
	t.Parallel()
	r := rig.New(t, agentCalls(
		collab("spawn_agent", "s1", `task_name = "a", message = "answer", fork_turns = "none"`)+collab("wait_agent", "w1", ``),
	))
	withAgents(r, "")
	var calls []string
	for line := range strings.Lines(r.OK("exec", "--config", "agents.hcl", "--json", "go").Stdout) {
		var l struct {
			Type string
			Item struct {
				Type, Tool, Prompt, Status string
				Sender                     string   `json:"sender_thread_id"`
				Receivers                  []string `json:"receiver_thread_ids"`
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err, line)
		}
		if l.Item.Type == "collab_tool_call" {
			calls = append(calls, strings.Join([]string{l.Type, l.Item.Tool, l.Item.Prompt, l.Item.Status}, " "))
			if l.Type == "item.completed" && l.Item.Tool == "spawn_agent" && (len(l.Item.Receivers) != 1 || l.Item.Sender != r.Last().Thread) {
				t.Errorf("the call is between %s and %v", l.Item.Sender, l.Item.Receivers)
			}
		}
	}
	want := "item.started spawn_agent answer in_progress|item.completed spawn_agent answer completed|item.started wait  in_progress|item.completed wait  completed"
	if got := strings.Join(calls, "|"); got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
}

// A command whose turn is to end while agents are at work tells the model once, or stops them at once; it says so in both cases.
func TestAgentsAtTheEnd(t *testing.T) {
	t.Parallel()
	for mode, requests := range map[string]int{"remind": 3, "leave": 2} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, agentCalls(collab("spawn_agent", "s1", `task_name = "a", message = "hang", fork_turns = "none"`)))
			r.Write("agents.hcl", "agents {\n  tools = \"v2\"\n  unfinished = \""+mode+"\"\n}\n")
			res := r.OK("exec", "--config", "agents.hcl", "go")
			var roots []string
			for _, q := range r.Requests() {
				if b, _ := json.Marshal(q.Request); !strings.Contains(string(b), "You are the agent") {
					roots = append(roots, string(b))
				}
			}
			last := roots[len(roots)-1]
			if len(roots) != requests || strings.Contains(last, "are still at work: /root/a.") != (mode == "remind") {
				t.Errorf("%d requests, the last is %s", len(roots), last)
			}
			if !strings.Contains(res.Stderr+res.Stdout, "stopped while at work: agents /root/a") {
				t.Errorf("it does not say that an agent was stopped:\n%s\n%s", res.Stdout, res.Stderr)
			}
			r.OK("resume", "--last", "--config", "agents.hcl", "what now")
			if n := len(requestsOf(r, "They were interrupted and have not gone on")); n == 0 {
				t.Error("the model of the resumed thread does not learn who was stopped")
			}
			r.NothingLeft()
		})
	}
}

// A person lists the agents of a thread that another process runs, says something to one of them and stops it.
func TestAgentsCommand(t *testing.T) {
	t.Parallel()
	r := rig.New(t, agentCalls(collab("spawn_agent", "s1", `task_name = "a", message = "hang", fork_turns = "none"`), collab("wait_agent", "w1", `timeout_ms = 600000`)))
	withAgents(r, "")
	run := r.Start("exec", "--config", "agents.hcl", "--events", "go")
	run.Sees(`"id":"w1"`)
	r.Until("the agent works", func() bool { return len(requestsOf(r, "Payload:\\nhang")) == 1 })
	var root string
	for _, q := range r.Requests() {
		if b, _ := json.Marshal(q.Request); !strings.Contains(string(b), "You are the agent") {
			root = q.Thread
		}
	}
	var list []struct{ Path, Status string }
	if err := json.Unmarshal([]byte(r.OK("agents", "list", "--json", root).Stdout), &list); err != nil || len(list) != 1 || list[0].Path != "/root/a" || list[0].Status != "running" {
		t.Fatalf("%+v: %v", list, err)
	}
	r.OK("agents", "tell", root, "a", "look at the other folder")
	if res := r.Gantry("agents", "stop", root, "b"); res.Code == 0 || !strings.Contains(res.Stderr, "no agent /root/b") {
		t.Errorf("an agent that is not there: %d %s", res.Code, res.Stderr)
	}
	if out := r.OK("agents", "stop", root, "--all").Stderr; !strings.Contains(out, "stopped /root/a") {
		t.Errorf("stop says %q", out)
	}
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "nothing can arrive") {
		t.Errorf("the root waited on: %d\n%s", res.Code, res.Stdout)
	}
	if out := r.OK("agents", "show", root, "a").Stdout; !strings.Contains(out, "hang") || !strings.Contains(out, "look at the other folder") {
		t.Errorf("show:\n%s", out)
	}
	if out := r.OK("agents", "list", root).Stdout; !strings.Contains(out, "/root/a") || !strings.Contains(out, "interrupted") {
		t.Errorf("list:\n%s", out)
	}
	r.NothingLeft()
}

// Hooks run for an agent's calls, and for its beginning and the end of its turn instead of the session's; they are told which agent it is.
func TestHooksOfAgents(t *testing.T) {
	t.Parallel()
	r := rig.New(t, team)
	withAgents(r, "")
	each := on("", "cat >> \"$GANTRY_PROJECT_DIR/seen\"")
	hookFile(t, r, map[string][]hookGroup{"SessionStart": each, "SessionEnd": each, "PreToolUse": each, "Stop": each, "SubagentStart": each, "SubagentStop": each})
	r.OK("exec", "--config", "agents.hcl", "go")
	seen := map[string]int{}
	for line := range strings.Lines(r.Read("seen")) {
		var in struct {
			Event string `json:"hook_event_name"`
			Tool  string `json:"tool_name"`
			Agent string `json:"agent_id"`
			Type  string `json:"agent_type"`
			ID    string `json:"session_id"`
		}
		if err := json.Unmarshal([]byte(line), &in); err != nil {
			t.Fatal(err, line)
		}
		if in.ID != r.Last().Thread {
			t.Errorf("%s is of another session", line)
		}
		if in.Tool != "wait_agent" { // as often as there is mail
			seen[strings.TrimSpace(strings.Join([]string{in.Event, in.Agent, in.Type}, " "))]++
		}
	}
	for what, n := range map[string]int{
		"SessionStart": 1, "SessionEnd": 1, "Stop": 1, "PreToolUse": 2, "PreToolUse /root/a default": 1,
		"SubagentStart /root/a default": 1, "SubagentStart /root/b default": 1, "SubagentStop /root/a default": 1, "SubagentStop /root/b default": 1,
	} {
		if seen[what] != n {
			t.Errorf("%s: %d times, want %d", what, seen[what], n)
		}
		delete(seen, what)
	}
	if len(seen) > 0 {
		t.Errorf("also seen: %v", seen)
	}
	r.NothingLeft()
}

// A revert behind a spawn takes the agent with it, and a fork has no agents.
func TestAgentsAreReverted(t *testing.T) {
	t.Parallel()
	spawn := collab("spawn_agent", "s1", `task_name = "a", message = "answer", fork_turns = "none"`)
	// The model of a resumed thread begins its script anew.
	r := rig.New(t, agentCalls(collab("list_agents", "l1", ``)+spawn+collab("wait_agent", "w1", ``)))
	withAgents(r, "")
	r.OK("exec", "--config", "agents.hcl", "go")
	id := r.Last().Thread
	r.OK("threads", "rollback", id)
	r.OK("resume", id, "--config", "agents.hcl", "again")
	out := r.Last().Outputs()
	if want := `{"agents":[{"agent_name":"/root","agent_status":"running"}]}`; out["l1"] != want || out["s1"] != `{"task_name":"/root/a"}` {
		t.Errorf("the list is %s, and spawning again says %s", out["l1"], out["s1"])
	}
	r.NothingLeft()
}
