package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// execute is a call of browser_execute, as a line of a script. args are further arguments.
func execute(id, code, args string) string {
	return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_execute\", id = %q, args = { code = '''%s'''%s } }]\n", id, code, args)
}

// runOf makes ${run} the run that a call has answered with.
func runOf(call string) string {
	return fmt.Sprintf("[[step]]\ncapture = [{ call = %q, pattern = 'Run (?P<run>bs-[a-z0-9]+)' }]\n", call)
}

// observe is a call of browser_observe for ${run}.
func observe(id string) string {
	return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_observe\", id = %q, raw = '{\"run_id\": \"${run}\", \"wait_ms\": 60000}' }]\n", id)
}

func has(t *testing.T, out map[string]string, want map[string][]string) {
	t.Helper()
	for id, all := range want {
		for _, w := range all {
			if !strings.Contains(out[id], w) {
				t.Errorf("%s has no %q:\n%s", id, w, out[id])
			}
		}
	}
}

// A script drives the browser, which is the one that browser_act uses, and what it says comes as it is said.
func TestBrowserScript(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], execute("c1", `
await page.goto_url("`+s.URL+`")
console.log("opened", (await page.page_info()).title)
await page.fill_input("#n", "Ada")
page.emit_output({n: 1}, "numbers")
return await page.js("document.getElementById('n').value")
`, "")+"[[step]]\ndo = [{ call = \"browser_state\", id = \"s1\", args = { } }]\n"+act("c2", `{ click = { index = 2 } }`)+execute("c3", `
const [tab] = await page.list_tabs()
const sessionId = await cdp.attachToTarget(tab.target_id)
const {result} = await cdp.send("Runtime.evaluate", {expression: "document.getElementById('out').textContent"}, {sessionId})
const errors = []
for (const [method, params, o] of [["Browser.close"], ["Fetch.disable", {}, {sessionId}], ["Page.navigate", {url: "file:///etc/passwd"}, {sessionId}],
  ["Page.navigate", {url: "http://127.0.0.1"}], ["Page.loadEventFired"], ["Page.nothing"], ["Runtime.evaluate", {expression: "1"}, {sessionId: {}}]]) {
  try { await cdp.send(method, params, o); errors.push(method + " was sent") } catch (e) { errors.push(e.message) }
}
await page.screenshot()
return {text: result.value, errors, spec: (await cdp.spec("capture screenshot")).items[0].name, info: typeof (await cdp.sessionInfo()).sessionId}
`, "")+execute("c4", `
await page.goto_url("`+s.URL+`/again")
console.log("one")
await page.wait(1.5)
console.log("two")
await page.screenshot()
throw new Error("on purpose")
`, ", yield_time_ms = 250")+runOf("c4")+"do = [{ call = \"browser_state\", id = \"c5\", args = { } }]\n"+
		observe("c6")+observe("c61")+observe("c62")+observe("c63")+
		"[[step]]\ndo = [{ call = \"browser_observe\", id = \"c8\", args = { run_id = \"bs-unknown\" } }]\n"+
		execute("c9", `await page.js("location.href"); for (;;) await page.wait(60)`, ", yield_time_ms = 1000")+runOf("c9")+
		"do = [{ call = \"browser_cancel\", id = \"c10\", raw = '{\"run_id\": \"${run}\"}' }]\n"+
		execute("c11", `for (;;) await page.js("1")`, ", timeout_ms = 1500")+
		execute("c12", `return (await page.page_info()).url`, "")+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	out["c6"] += out["c61"] + out["c62"] + out["c63"] // what a script says at the same moment may come together or apart
	has(t, out, map[string][]string{
		"c1":  {"The script has finished", "opened Form", `numbers: {`, "Result: Ada"},
		"c2":  {"Hello Ada"},
		"c3":  {`"text": "Hello Ada"`, "Browser.close is refused", "Fetch.disable is refused", "only http and https are", "attachToTarget", "is an event", "no command Page.nothing", "sessionId", `"spec": "Page.captureScreenshot"`, `"info": "string"`},
		"c4":  {"has been running", "browser_observe"},
		"c5":  {"busy: script bs-"},
		"c6":  {"two", "has failed", "on purpose", "browser_state"},
		"c8":  {`there is no run "bs-unknown"`},
		"c9":  {"has been running"},
		"c10": {"was cancelled"},
		"c11": {"has failed", "timed out"},
		"c12": {"Result: " + s.URL + "/again"},
	})
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A script's own browser ends with it, and is not that of browser_act.
func TestBrowserScriptWithItsOwnBrowser(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
		execute("c2", `const before = (await page.list_tabs()).map(t => t.url); await page.goto_url("`+s.URL+`/alone"); return {before, after: (await page.page_info()).url}`, `, session = "one-shot"`)+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { } }]\n"+execute("c4", `await cdp.closeSession(); return "closed"`, "")+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c5\", args = { } }]\n"+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	has(t, out, map[string][]string{
		"c2": {s.URL + "/alone"}, "c3": {"Tab ", s.URL}, "c4": {"Result: closed"}, "c5": {"There is no browser yet"},
	})
	if strings.Contains(out["c3"], "/alone") || strings.Contains(out["c2"], `"`+s.URL+`"`) {
		t.Errorf("the browsers are the same:\n%s\n%s", out["c2"], out["c3"])
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A run ends with the plugin's process; the browser and its tabs don't.
func TestBrowserOutlivesAScript(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], execute("c1", `await page.goto_url("`+s.URL+`/kept"); console.log("kept", (await page.list_tabs()).length); for (;;) await page.wait(60)`, ", yield_time_ms = 250")+runOf("c1")+
		"do = [{ call = \"browser_observe\", id = \"c12\", raw = '{\"run_id\": \"${run}\", \"wait_ms\": 60000}' }]\n"+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_observe\", id = \"c2\", raw = '{\"run_id\": \"${run}\"}' }]\n"+
		execute("c3", `console.log((await page.list_tabs()).length); return (await page.page_info()).url`, "")+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	plugin := func() []int { return rig.Processes(t, r.Home, "gantry-tool-browser") }
	r.Until("the barrier", func() bool { return exists(r.Dir, "one.waiting") })
	old := slices.Min(plugin()) // the others are scripts that it has started
	rig.Kill(t, old)
	r.Until("the plugin is back", func() bool { now := plugin(); return len(now) == 1 && now[0] != old })
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	has(t, r.Last().Outputs(), map[string][]string{"c12": {"kept 1"}, "c2": {"there is no run", "leaves the browser"}, "c3": {"Result: " + s.URL + "/kept"}})
	r.NothingLeft()
	noProfileLeft(t, r)
}
