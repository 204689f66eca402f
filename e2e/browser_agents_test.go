package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// agentStep is a step of the agent with a path; an empty path is the root's.
func agentStep(path, do string) string {
	when := `{ absent = "You are the agent" }`
	if path != "" {
		when = fmt.Sprintf("{ not = { absent = %q } }", "You are the agent "+path)
	}
	return fmt.Sprintf("[[step]]\nwhen = %s\ndo = [%s]\n", when, do)
}

func agentAct(path, id, actions string) string {
	return agentStep(path, fmt.Sprintf(`{ call = "browser_act", id = %q, args = { actions = [%s] } }`, id, actions))
}

func agentWaits(path, file string) string {
	return agentStep(path, fmt.Sprintf(`{ call = "wait_for", id = %q, args = { file = %q } }`, "w-"+file, file))
}

// outputsOf returns the results of the calls of the agent with a path.
func outputsOf(r *rig.Rig, path string) map[string]string {
	all := requestsOf(r, "You are the agent "+path)
	return all[len(all)-1].Outputs()
}

// Two agents fill in forms in one browser at once, each in a tab of its own with cookies of its own. One hands its tab over to the root, which
// goes on in it.
func TestBrowserOfAgents(t *testing.T) {
	t.Parallel()
	for _, contexts := range []string{"agent", "shared"} {
		t.Run(contexts, func(t *testing.T) {
			t.Parallel()
			s := form(t)
			open := fmt.Sprintf("{ navigate = { url = %q } }", s.URL)
			script := "[[step]]\nname = \"end\"\nwhen = { not = { absent = \"(?s)Sender: /root/a.*Sender: /root/b|Sender: /root/b.*Sender: /root/a\" } }\n" +
				"do = [{ call = \"browser_state\", id = \"tabs\", args = { } }, { call = \"browser_status\", id = \"status\", args = { } }]\n" +
				"[[step]]\nwhen = { not = { absent = \"(?s)Sender: /root/a.*Sender: /root/b|Sender: /root/b.*Sender: /root/a\" } }\ndo = [{ text = \"both are done\" }]\n" +
				agentAct("", "root", open) +
				agentStep("", `{ call = "spawn_agent", namespace = "collaboration", id = "s1", args = { task_name = "a", message = "go", fork_turns = "none" } },
  { call = "spawn_agent", namespace = "collaboration", id = "s2", args = { task_name = "b", message = "go", fork_turns = "none" } },`) +
				"[[step]]\ntimes = -1\nwhen = { absent = \"You are the agent\" }\ndo = [{ call = \"wait_agent\", namespace = \"collaboration\", args = { timeout_ms = 60000 } }]\n"
			for _, a := range []string{"a", "b"} {
				path := "/root/" + a
				script += agentAct(path, "open-"+a, open) + agentAct(path, "cookie-"+a, fmt.Sprintf("{ evaluate = { code = \"document.cookie = '%s=1'\" } }", a)) +
					agentWaits(path, a) + agentAct(path, "fill-"+a, fmt.Sprintf(`{ input = { index = 1, text = "Agent %s" } }, { click = { index = 2 } }`, a)) +
					agentAct(path, "read-"+a, `{ evaluate = { code = "document.cookie" } }`)
			}
			script += agentAct("/root/a", "wrong", `{ hand_over = { to = "/root/c" } }`) + agentAct("/root/a", "give", `{ hand_over = { to = "/root" } }`) +
				agentStep("/root/a", `{ text = "a is done" }`) + agentStep("/root/b", `{ text = "b is done" }`)
			r := newBrowser(t, browsers[0], script, fmt.Sprintf("contexts = %q", contexts))
			addOdd(t, r, "waits", "waits", "")
			withAgents(r, "")
			run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "--config", "agents.hcl", "go")...)
			r.Until("both agents have their pages", func() bool { return exists(r.Dir, "a.waiting") && exists(r.Dir, "b.waiting") })
			if folders, err := filepath.Glob(filepath.Join(r.Home, "*", "*", "profiles", "*")); err != nil || len(folders) != 1 {
				t.Errorf("the folders of browsers are %q (%v)", folders, err)
			}
			r.Write("a", "")
			r.Write("b", "")
			if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "both are done") {
				t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
			}
			for _, a := range []string{"a", "b"} {
				out := outputsOf(r, "/root/"+a)
				if !strings.Contains(out["open-"+a], " - Form") || strings.Contains(out["open-"+a], "Other tabs") {
					t.Errorf("%s begins with\n%s", a, out["open-"+a])
				}
				if !strings.Contains(out["fill-"+a], "Hello Agent "+a) {
					t.Errorf("%s has filled in\n%s", a, out["fill-"+a])
				}
				own := fmt.Sprintf("%q", a+"=1")
				if got := out["read-"+a]; contexts == "agent" && !strings.Contains(got, strings.Trim(own, `"`)) ||
					strings.Contains(got, "a=1") && strings.Contains(got, "b=1") != (contexts == "shared") {
					t.Errorf("the cookies of %s are\n%s", a, got)
				}
			}
			a := outputsOf(r, "/root/a")
			if !strings.Contains(a["wrong"], `no agent "/root/c" uses the browser; those that do are`) || !strings.Contains(a["give"], "over to /root, which sees it") {
				t.Errorf("handed over:\n%s\n%s", a["wrong"], a["give"])
			}
			out := r.Last().Outputs()
			if n := strings.Count(out["tabs"], s.URL); n != 2 { // its own, and that of a
				t.Errorf("the root sees\n%s", out["tabs"])
			}
			if !strings.Contains(out["status"], "The agent /root/b has 1 tabs") {
				t.Errorf("the status is\n%s", out["status"])
			}
			r.NothingLeft()
			noProfileLeft(t, r)
		})
	}
}
