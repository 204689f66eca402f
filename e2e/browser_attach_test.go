package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// browserOfTheUser starts a browser as its user does who wants others to control it, and returns the host and port at which it is controlled.
func browserOfTheUser(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(browsers[0])
	if err != nil {
		t.Skipf("%s is not installed; `make test` installs it", browsers[0])
	}
	dir, err := os.MkdirTemp("", "browser-*")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--remote-debugging-port=0", "--user-data-dir="+dir, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	printed, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir) // descendants may still be writing
	})
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "listening on ws://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			go func() { _, _ = io.Copy(io.Discard, printed) }() // owned by the browser: ends with it
			return host
		}
	}
	t.Fatal("the browser does not say where it is controlled")
	return ""
}

// tabsOf returns the sorted addresses of the tabs of a browser.
func tabsOf(t *testing.T, host string) []string {
	t.Helper()
	resp, err := http.Get("http://" + host + "/json/list")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list []struct{ Type, URL string }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range list {
		if x.Type == "page" {
			out = append(out, x.URL)
		}
	}
	slices.Sort(out)
	return out
}

// A browser that its user has started is used in tabs of its own: the user's are neither seen nor closed, and it goes on afterwards. What needs
// gantry's folders, or reaches past these tabs, is refused.
func TestBrowserOfTheUser(t *testing.T) {
	t.Parallel()
	s, host := form(t), browserOfTheUser(t)
	req, err := http.NewRequest(http.MethodPut, "http://"+host+"/json/new?"+s.URL+"/private", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	before := tabsOf(t, host)
	for _, mode := range []string{"workspace-write", "full-access"} {
		r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL+"/agent"))+
			act("c2", `{ input = { index = 1, text = "Ada" } }, { click = { index = 2 } }`)+
			act("c3", fmt.Sprintf("{ navigate = { url = \"http://%s/json/list\" } }", host))+
			act("c4", `{ drop_files = { index = 1, paths = ["a.txt"] } }`)+
			execute("c5", `await cdp.send("Target.getTargets")`, "")+
			execute("c6", `await cdp.send("Storage.clearCookies", {}, {sessionId: await cdp.attachToTarget((await page.list_tabs())[0].target_id)})`, "")+
			execute("c7", `return await page.list_tabs()`, "")+
			"[[step]]\ndo = [{ call = \"browser_status\", id = \"c8\", args = { } }]\n"+done, fmt.Sprintf("cdp_url = \"http://%s\"", host))
		r.Write("a.txt", "mine")
		r.OK(append(append([]string{"exec"}, reaching(mode)...), "go")...)
		out := r.Last().Outputs()
		for id, want := range map[string]string{
			"c1": " - Form", "c2": "+ Hello Ada", "c3": "127.0.0.1 is denied", "c4": "can't be uploaded to a browser that gantry did not start",
			"c5": "scripts reach only the tabs that were opened here", "c6": "scripts reach only the tabs that were opened here", "c7": s.URL + "/agent", "c8": s.URL + "/agent",
		} {
			if !strings.Contains(out[id], want) || strings.Contains(out[id], "/private") {
				t.Errorf("%s: %s has no %q, or a tab of the user:\n%s", mode, id, want, out[id])
			}
		}
		r.NothingLeft()
		if now := tabsOf(t, host); !slices.Equal(now, before) {
			t.Errorf("%s: the tabs are %q, and were %q", mode, now, before)
		}
	}
}

// The relay reaches what the network rules allow, and nothing else.
func TestBrowserOfTheUserNeedsTheNetworkRules(t *testing.T) {
	t.Parallel()
	host := browserOfTheUser(t)
	r := newBrowser(t, browsers[0], act("c1", `{ navigate = { url = "http://example.com" } }`)+done, fmt.Sprintf("cdp_url = \"http://%s\"", host))
	r.OK("exec", "-c", "sandbox.mode=workspace-write", "-c", "network.mode=proxy", "-c", `network.allow=["example.com"]`, "go")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "start the browser") || !strings.Contains(out, host) || !strings.Contains(out, "network rules") {
		t.Errorf("the relay was not refused:\n%s", out)
	}
	r.NothingLeft()
}

// The agents of a thread share the browser of the user: each sees its own tabs only, all have the user's cookies, and at the end the user's tabs
// are as they were.
func TestBrowserOfTheUserOfAgents(t *testing.T) {
	t.Parallel()
	s, host := form(t), browserOfTheUser(t)
	before := tabsOf(t, host)
	open := func(path string) string { return fmt.Sprintf("{ navigate = { url = %q } }", s.URL+path) }
	script := "[[step]]\nname = \"end\"\nwhen = { not = { absent = \"Sender: /root/a\" } }\n" +
		"do = [{ call = \"browser_state\", id = \"tabs\", args = { } }, { call = \"browser_act\", id = \"cookie\", args = { actions = [{ evaluate = { code = \"document.cookie\" } }] } }]\n" +
		"[[step]]\nwhen = { not = { absent = \"Sender: /root/a\" } }\ndo = [{ text = \"a is done\" }]\n" +
		agentAct("", "root", open("/root")) +
		agentStep("", `{ call = "spawn_agent", namespace = "collaboration", id = "s1", args = { task_name = "a", message = "go", fork_turns = "none" } }`) +
		"[[step]]\ntimes = -1\nwhen = { absent = \"You are the agent\" }\ndo = [{ call = \"wait_agent\", namespace = \"collaboration\", args = { timeout_ms = 60000 } }]\n" +
		agentAct("/root/a", "given", open("/given")) + agentAct("/root/a", "set", `{ evaluate = { code = "document.cookie = 'a=1'" } }`) +
		agentAct("/root/a", "give", `{ hand_over = { to = "/root" } }`) + agentAct("/root/a", "own", open("/own")) +
		agentStep("/root/a", `{ call = "browser_execute", id = "listed", args = { code = "return [await page.list_tabs(), await page.goto_url('`+s.URL+`/script')]" } }`) +
		agentWaits("/root/a", "a") + agentStep("/root/a", `{ text = "I am done" }`)
	r := newBrowser(t, browsers[0], script, fmt.Sprintf("cdp_url = \"http://%s\"", host))
	addOdd(t, r, "waits", "waits", "")
	withAgents(r, "")
	run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "--config", "agents.hcl", "go")...)
	r.Until("the agent has its tabs", func() bool { return exists(r.Dir, "a.waiting") })
	if now := tabsOf(t, host); len(now) < len(before)+3 {
		t.Errorf("the tabs are %q, and were %q", now, before)
	}
	r.Write("a", "")
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "a is done") {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	a, out := outputsOf(r, "/root/a"), r.Last().Outputs()
	if !strings.Contains(a["listed"], "/own") || strings.Contains(a["listed"], "/root") || strings.Contains(a["listed"], "/given") {
		t.Errorf("the agent sees\n%s", a["listed"])
	}
	if !strings.Contains(a["give"], "over to /root") || !strings.Contains(out["tabs"], "/given") || !strings.Contains(out["tabs"], "/root") || strings.Contains(out["tabs"], "/own") {
		t.Errorf("handed over: %s\nthe root sees\n%s", a["give"], out["tabs"])
	}
	if !strings.Contains(out["cookie"], "a=1") {
		t.Errorf("the root has the cookies\n%s", out["cookie"])
	}
	r.NothingLeft()
	if now := tabsOf(t, host); !slices.Equal(now, before) {
		t.Errorf("the tabs are %q, and were %q", now, before)
	}
}

// A script with a browser of its own has tabs of its own in that of the user, which end with it, unless it makes them those of the thread.
func TestBrowserOfTheUserForOneScript(t *testing.T) {
	t.Parallel()
	s, host := form(t), browserOfTheUser(t)
	before := tabsOf(t, host)
	look := func(id, then, args string) string {
		return execute(id, `const all = (await page.list_tabs()).map(t => t.url); await page.goto_url("`+s.URL+`/`+id+`"); `+then+`return [all, (await page.page_info()).url]`, args)
	}
	state := func(id string) string {
		return "[[step]]\ndo = [{ call = \"browser_state\", id = \"" + id + "\", args = { } }]\n"
	}
	r := newBrowser(t, browsers[0], look("c1", "", "")+state("c2")+look("c3", "await cdp.startSession(); ", "")+state("c4")+
		look("c5", "", `, session = "one-shot"`)+state("c6")+done, fmt.Sprintf("cdp_url = \"http://%s\"\nsession { mode = \"dynamic\" }", host))
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	has(t, out, map[string][]string{
		"c1": {s.URL + "/c1"}, "c2": {"There is no browser yet"}, "c3": {s.URL + "/c3"}, "c4": {s.URL + "/c3"}, "c5": {s.URL + "/c5"}, "c6": {s.URL + "/c3"},
	})
	if strings.Contains(out["c3"], "/c1") || strings.Contains(out["c5"], "/c3") || strings.Contains(out["c6"], "/c5") {
		t.Errorf("tabs of others are seen:\n%s\n%s\n%s", out["c3"], out["c5"], out["c6"])
	}
	r.NothingLeft()
	if now := tabsOf(t, host); !slices.Equal(now, before) {
		t.Errorf("the tabs are %q, and were %q", now, before)
	}
}
