package e2e_test

import (
	"fmt"
	"os"
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

// After the plugin was killed, each agent has its tab, and what was set and recorded in its part of the browser applies again.
func TestBrowserOfAgentsOutlivesItsPlugin(t *testing.T) {
	t.Parallel()
	s := form(t)
	open := fmt.Sprintf("{ navigate = { url = %q } }", s.URL)
	configure := func(path, id, body string) string {
		return agentStep(path, fmt.Sprintf(`{ call = "browser_configure", id = %q, args = { emulate = { width = 500, height = 400 }, dialogs = "accept", mock = [{ url = "127.0.0.1*/mocked", body = %q }] } }`, id, body))
	}
	read := func(path, id string) string {
		return agentAct(path, id, `{ evaluate = { code = "fetch('/mocked').then(r => r.text()).then(t => [t, innerWidth, confirm('?')].join())" } }`)
	}
	ended := "[[step]]\nwhen = { not = { absent = \"Sender: /root/a\" } }\ndo = ["
	script := ended + `{ call = "browser_act", id = "read", args = { actions = [{ evaluate = { code = "fetch('/mocked').then(r => r.text()).then(t => [t, innerWidth, confirm('?')].join())" } }] } }, ` +
		"{ call = \"browser_record\", id = \"stop\", args = { do = \"stop\" } }]\n" +
		ended + "{ text = \"a is done\" }]\n" +
		agentAct("", "root", open) + configure("", "set", "for the root") + agentStep("", `{ call = "browser_record", id = "start", args = { do = "start", kinds = ["har"] } }`) +
		agentStep("", `{ call = "spawn_agent", namespace = "collaboration", id = "s1", args = { task_name = "a", message = "go", fork_turns = "none" } }`) +
		"[[step]]\ntimes = -1\nwhen = { absent = \"You are the agent\" }\ndo = [{ call = \"wait_agent\", namespace = \"collaboration\", args = { timeout_ms = 60000 } }]\n" +
		agentAct("/root/a", "open", open) + agentAct("/root/a", "fill", `{ input = { index = 1, text = "Ada" } }, { evaluate = { code = "document.cookie = 'x=1'" } }`) + configure("/root/a", "set-a", "for a") +
		agentWaits("/root/a", "one") + agentStep("/root/a", `{ call = "browser_state", id = "state", args = { mode = "full" } }`) + read("/root/a", "read-a") +
		agentAct("/root/a", "cookie", `{ evaluate = { code = "document.cookie" } }`) + agentStep("/root/a", `{ text = "I am done" }`)
	r := newBrowser(t, browsers[0], script)
	addOdd(t, r, "waits", "waits", "")
	withAgents(r, "")
	run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "--config", "agents.hcl", "go")...)
	plugin := func() []int { return rig.Processes(t, r.Home, "gantry-tool-browser") }
	r.Until("the agent waits", func() bool { return exists(r.Dir, "one.waiting") })
	old := plugin()
	rig.Kill(t, old...)
	r.Until("the plugin is back", func() bool { now := plugin(); return len(now) == 1 && len(old) == 1 && now[0] != old[0] })
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "a is done") {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	a, out := outputsOf(r, "/root/a"), r.Last().Outputs()
	for got, want := range map[string]string{
		a["state"]: "[1]<input id=n value=Ada", a["read-a"]: "for a,500,true", a["cookie"]: "x=1",
		out["read"]: "for the root,500,true", out["stop"]: "what was recorded before is lost",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(a["state"], "Other tabs") || strings.Contains(out["read"], "Other tabs") {
		t.Errorf("an agent sees the tab of the other:\n%s\n%s", a["state"], out["read"])
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}

// What is left of a browser whose host was killed is removed as soon as the plugin starts again, also if nobody uses a browser.
func TestBrowserFoldersAreSweptByThePlugin(t *testing.T) {
	t.Parallel()
	r := newBrowser(t, browsers[0], act("c1", `{ navigate = { url = "about:blank" } }`)+"[[step]]\ndo = [{ call = \"wait_for\", id = \"w\", args = { file = \"one\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_status\", id = \"none\", args = { } }]\n"+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "go")
	r.Until("the browser runs", func() bool { return exists(r.Dir, "one.waiting") })
	started := rig.Descendants(t, run.Cmd.Process.Pid)
	run.Signal(os.Kill)
	run.Wait()
	r.Until("all that the host had started has ended", func() bool { return len(rig.Alive(started)) == 0 })
	if left, err := filepath.Glob(filepath.Join(r.Home, "*", "*", "profiles", "*")); err != nil || len(left) != 1 {
		t.Fatalf("the killed host has left %q (%v)", left, err)
	}
	r.OK("resume", "--last", "go on")
	if got := r.Last().Outputs()["none"]; !strings.Contains(got, "No browser runs") {
		t.Errorf("the status is\n%s", got)
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}
