package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// goalReached is a model that makes a call in each of two turns and reports its goal as complete in the third.
const goalReached = `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo one >> ran", login = false } }]
[[step]]
do = [{ text = "one is done" }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "echo two >> ran", login = false } }]
[[step]]
do = [{ text = "two is done" }]
[[step]]
do = [{ call = "update_goal", id = "g1", args = { status = "complete" } }]
[[step]]
do = [{ text = "all is done" }]
`

// goalOf returns what gantry goal show prints as JSON.
func goalOf(t *testing.T, r *rig.Rig, thread string) (g struct {
	Objective, Status string
	TokensUsed        int64
	TokenBudget       *int64
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.OK("goal", "show", "--json", thread).Stdout), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// texts returns the texts of a request in which a word occurs.
func textsWith(q rig.Request, word string) (out []string) {
	for _, m := range q.Request.Messages {
		if text := m.Text(); strings.Contains(text, word) {
			out = append(out, text)
		}
	}
	return out
}

// A thread works on its goal in turn after turn until the model says that it is reached.
func TestGoalIsReached(t *testing.T) {
	t.Parallel()
	r := rig.New(t, goalReached)
	res := r.Gantry("exec", "--goal", "write <both> lines", "--goal-tokens", "100000")
	if res.Code != 0 || !strings.Contains(res.Stdout, "all is done") || !strings.Contains(res.Stderr, "goal: complete after") {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if got := r.Read("ran"); got != "one\ntwo\n" {
		t.Errorf("ran %q", got)
	}
	last := r.Last()
	if g := goalOf(t, r, last.Thread); g.Status != "complete" || g.Objective != "write <both> lines" || g.TokenBudget == nil || *g.TokenBudget != 100000 || g.TokensUsed == 0 {
		t.Errorf("goal %+v", g)
	}
	if got := textsWith(last, "<objective>"); len(got) != 1 || !strings.Contains(got[0], "write &lt;both&gt; lines") {
		t.Errorf("told of the objective as %q", got)
	}
	if got := textsWith(last, `<codex_internal_context source="goal">`); len(got) != 3 {
		t.Errorf("%d turns begun by the goal, want 3: %q", len(got), got)
	}
	if out := last.Outputs()["g1"]; !strings.Contains(out, `"status":"complete"`) || !strings.Contains(out, `"completionBudgetReport":"The goal is complete`) {
		t.Errorf("completion is answered with %s", out)
	}
	var turns []struct{ Status string }
	if err := json.Unmarshal([]byte(r.OK("threads", "turns", "--json", last.Thread).Stdout), &turns); err != nil || len(turns) != 3 {
		t.Errorf("%d turns, %v", len(turns), err)
	}
	r.NothingLeft()
}

// The budget of a goal ends the work on it, in the running turn or after it.
func TestGoalBudget(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"still thinking\" }]\n")
	res := r.Gantry("exec", "--goal", "think", "--goal-tokens", "1")
	if res.Code != 1 || !strings.Contains(res.Stderr, "goal: budgetLimited after") || len(r.Requests()) != 1 {
		t.Fatalf("exit %d, %d requests:\n%s", res.Code, len(r.Requests()), res.Stderr)
	}
}

// A turn that fails blocks the goal, and a person resumes it: a thread that is not loaded continues after its next turn.
func TestGoalIsBlocked(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "update_goal", args = { status = "blocked" } }]
[[step]]
do = [{ text = "I need a key" }]
[[step]]
do = [{ text = "hello" }]
`)
	res := r.Gantry("exec", "--goal", "deploy")
	if res.Code != 1 || !strings.Contains(res.Stderr, "goal: blocked after") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	id := r.Last().Thread
	if out := r.OK("goal", "pause", id).Stdout; !strings.Contains(out, "goal: paused") {
		t.Errorf("paused as %q", out)
	}
	if out := r.OK("goal", "set", id, "deploy later", "--tokens", "5").Stdout; !strings.Contains(out, "goal: budgetLimited") || !strings.Contains(out, "deploy later") {
		t.Errorf("set as %q", out)
	}
	r.OK("goal", "clear", id)
	if out := r.OK("goal", "show", "--json", id).Stdout; strings.TrimSpace(out) != "null" {
		t.Errorf("cleared, shown as %q", out)
	}
	if res := r.Gantry("goal", "pause", id); res.Code != 1 || !strings.Contains(res.Stderr, "the thread has no goal") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if res := r.Gantry("exec", "--goal", "x", "task"); res.Code != 2 {
		t.Errorf("a goal and a task: exit %d: %s", res.Code, res.Stderr)
	}
}

// A client sets a goal of an idle thread, follows the work on it, and the goal outlives a kill of the server, which begins nothing by
// itself.
func TestAppServerGoal(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch running; sleep 600", login = false, yield_time_ms = 300000 } }]
[[step]]
do = [{ text = "where was I?" }]
[[step]]
do = [{ call = "update_goal", args = { status = "complete" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	type goal struct {
		ThreadID, Objective, Status string
		TokenBudget                 *int64
		TokensUsed                  int64
	}
	var got struct{ Goal *goal }
	if c.Call("thread/goal/get", map[string]any{"threadId": thread}, &got); got.Goal != nil {
		t.Errorf("a new thread has the goal %+v", got.Goal)
	}
	if code, message := c.Refused("thread/goal/set", map[string]any{"threadId": thread, "status": "paused"}); code != -32600 || !strings.Contains(message, "no goal") {
		t.Errorf("nothing to pause: %d %s", code, message)
	}
	c.Call("thread/goal/set", map[string]any{"threadId": thread, "objective": "run it", "tokenBudget": 1000000}, &got)
	if g := got.Goal; g == nil || g.ThreadID != thread || g.Objective != "run it" || g.Status != "active" || g.TokenBudget == nil || *g.TokenBudget != 1000000 {
		t.Fatalf("set to %+v", g)
	}
	c.Notified("thread/goal/updated")
	c.Until(func(m rig.Message) bool {
		return m.Method == "item/started" && strings.Contains(string(m.Params), "sleep 600")
	})
	c.Kill()

	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", map[string]any{"threadId": thread}, nil)
	c.Notified("thread/goal/updated")
	if c.Call("thread/goal/get", map[string]any{"threadId": thread}, &got); got.Goal == nil || got.Goal.Status != "active" {
		t.Fatalf("after the kill, the goal is %+v", got.Goal)
	}
	if n := len(r.Requests()); n != 1 {
		t.Errorf("%d requests before anything was said, want 1", n)
	}
	submit(t, c, thread, "go on")
	for {
		var updated struct{ Goal goal }
		if err := json.Unmarshal(c.Notified("thread/goal/updated").Params, &updated); err != nil {
			t.Fatal(err)
		}
		if updated.Goal.Status == "complete" {
			break
		}
	}
	c.Notified("turn/completed")
	if got := textsWith(r.Last(), `<codex_internal_context source="goal">`); len(got) != 2 {
		t.Errorf("%d turns begun by the goal, want 2: %q", len(got), got)
	}
	var cleared struct{ Cleared bool }
	for _, want := range []bool{true, false} {
		if c.Call("thread/goal/clear", map[string]any{"threadId": thread}, &cleared); cleared.Cleared != want {
			t.Errorf("cleared: %v, want %v", cleared.Cleared, want)
		}
		if want {
			c.Notified("thread/goal/cleared")
		}
	}
}
