package e2e_test

import (
	"fmt"
	"net/http"
	"os"
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

// B4: while a script uses the browser, browser_recover says so and changes nothing; once it is cancelled, it can be used.
func TestBrowserRecoverDuringAScript(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c2", `{ input = { index = 1, text = "Ada" } }`)+
		execute("c3", `await page.js("location.href"); for (;;) await page.wait(60)`, ", yield_time_ms = 1000")+runOf("c3")+
		"do = [{ call = \"browser_recover\", id = \"c4\", args = { action = \"restart\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_cancel\", id = \"c5\", raw = '{\"run_id\": \"${run}\"}' }]\n"+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c6\", args = { mode = \"full\" } }]\n"+toolCall("c7", "browser_recover", `action = "reload"`)+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	has(t, r.Last().Outputs(), map[string][]string{
		"c4": {"busy: script bs-", "browser_observe", "browser_cancel"}, "c5": {"was cancelled"}, "c6": {"value=Ada"}, "c7": {"The page was loaded again."},
	})
	r.NothingLeft()
}

// B5: what a script prints and returns of a secret, or of the current one-time code, is its name.
func TestBrowserScriptPrintsNoSecret(t *testing.T) {
	t.Parallel()
	s := form(t)
	const script = `const v = await page.js("document.getElementById('n').value"); console.log("typed", v, "with", v.length, "characters"); return {v}`
	r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
		act("c2", `{ input = { index = 1, text = "<secret>login</secret>" } }`)+execute("c3", script, "")+
		act("c4", `{ input = { index = 1, text = "<secret>code</secret>" } }`)+execute("c5", script, "")+done, fmt.Sprintf(secrets, hunter, s.URL, otpKey, s.URL))
	res := r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "--events", "go")...)
	out := r.Last().Outputs()
	has(t, out, map[string][]string{
		"c3": {fmt.Sprintf("typed <secret>login</secret> with %d characters", len(hunter)), `"v": "<secret>login</secret>"`},
		"c5": {"typed <secret>code</secret> with 6 characters", `"v": "<secret>code</secret>"`},
	})
	for _, secret := range append(codes(t), hunter) {
		if strings.Contains(fmt.Sprint(out)+res.Stdout+res.Stderr, secret) {
			t.Error("a secret is in an output or an event")
		}
	}
	r.NothingLeft()
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

// In the dynamic mode, a script has a browser of its own that ends with it, unless it makes it that of the thread, which later scripts have.
func TestBrowserScriptMakesItsBrowserTheThreads(t *testing.T) {
	t.Parallel()
	s := form(t)
	state := func(id string) string {
		return "[[step]]\ndo = [{ call = \"browser_state\", id = \"" + id + "\", args = { } }]\n"
	}
	r := newBrowser(t, browsers[0], execute("c1", `await page.goto_url("`+s.URL+`/own"); return await cdp.sessionInfo()`, "")+state("c2")+
		execute("c3", `await page.goto_url("`+s.URL+`/kept"); await cdp.startSession(); await page.fill_input("#n", "Ada"); return (await page.page_info()).url`, "")+
		state("c4")+act("c5", `{ click = { index = 2 } }`)+execute("c6", `return (await page.page_info()).url`, "")+
		execute("c7", `await cdp.closeSession(); return "closed"`, "")+state("c8")+done, `    session { mode = "dynamic" }`)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	has(t, r.Last().Outputs(), map[string][]string{
		"c1": {"finished"}, "c2": {"There is no browser yet"}, "c3": {s.URL + "/kept"}, "c4": {s.URL + "/kept", "value=Ada"},
		"c5": {"Hello Ada"}, "c6": {s.URL + "/kept"}, "c7": {"Result: closed"}, "c8": {"There is no browser yet"},
	})
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A run ends with the plugin's process, also while its code keeps a processor busy; the browser and its tabs don't. The call that starts the
// browser yields soon, but not before the browser has started.
func TestBrowserOutlivesAScript(t *testing.T) {
	t.Parallel()
	for name, loop := range map[string]string{"waiting": "for (;;) await page.wait(60)", "busy": "for (;;);"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); killWithin(t, loop) })
	}
}

func killWithin(t *testing.T, loop string) {
	s := form(t)
	r := newBrowser(t, browsers[0], execute("c1", `await page.goto_url("`+s.URL+`/kept"); console.log("kept", (await page.list_tabs()).length); await page.wait(0.1); `+loop, ", yield_time_ms = 250")+runOf("c1")+
		"do = [{ call = \"browser_observe\", id = \"c12\", raw = '{\"run_id\": \"${run}\", \"wait_ms\": 60000}' }]\n"+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_observe\", id = \"c2\", raw = '{\"run_id\": \"${run}\"}' }]\n"+
		execute("c3", `console.log((await page.list_tabs()).length); return (await page.page_info()).url`, "")+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	processes := func() (plugin, scripts []int) {
		for _, pid := range rig.Processes(t, r.Home, "gantry-tool-browser") {
			switch line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); {
			case err != nil: // it has ended
			case strings.Contains(string(line), "codemode"):
				scripts = append(scripts, pid)
			default:
				plugin = append(plugin, pid)
			}
		}
		return plugin, scripts
	}
	r.Until("the barrier", func() bool { return exists(r.Dir, "one.waiting") })
	old, scripts := processes()
	if len(scripts) != 1 {
		t.Errorf("%d scripts run", len(scripts))
	}
	rig.Kill(t, old...)
	r.Until("the plugin is back, without its script", func() bool {
		now, left := processes()
		return len(left) == 0 && len(now) == 1 && len(old) == 1 && now[0] != old[0]
	})
	r.Write("one", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	has(t, r.Last().Outputs(), map[string][]string{"c12": {"kept 1"}, "c2": {"there is no run", "leaves the browser"}, "c3": {"Result: " + s.URL + "/kept"}})
	r.NothingLeft()
	noProfileLeft(t, r)
}

// A script reaches no host that no rule names, whichever command it sends; nor does the process in which its code runs.
func TestBrowserScriptReachesNoLocalHost(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	page, away := "http://127.0.0.1:"+c.port, "http://127.0.0.2:"+c.port
	r := newBrowser(t, browsers[0], execute("c1", `
await page.goto_url("`+page+`")
const out = {}
const attempt = async (name, f) => { try { out[name] = JSON.stringify(await f()) ?? "nothing" } catch (e) { out[name] = "error " + e.message } }
const {target_id} = await page.current_tab(), sessionId = await cdp.attachToTarget(target_id)
const to = way => "`+away+`/way/" + way
await attempt("navigate", () => cdp.send("Page.navigate", {url: to("navigate")}, {sessionId}))
await attempt("create", () => cdp.send("Target.createTarget", {url: to("create")}))
await attempt("context", async () => {
  const {browserContextId} = await cdp.send("Target.createBrowserContext")
  return cdp.send("Target.createTarget", {url: to("context"), browserContextId})
})
await attempt("proxied", () => cdp.send("Target.createBrowserContext", {proxyServer: "direct://"}))
await attempt("unjudged", () => cdp.send("Fetch.disable", {}, {sessionId}))
await attempt("resource", () => cdp.send("Network.loadNetworkResource", {url: to("resource"), options: {disableCache: true, includeCredentials: false}}, {sessionId}))
await attempt("helper", () => page.browser_fetch(to("helper")))
await attempt("document", () => page.js("const e = document.createElement('iframe'); e.src = '" + to("document") + "'; document.body.append(e); await new Promise(r => e.onload = r)"))
await attempt("code", () => fetch(to("code")))
await page.wait(1)
out.tabs = (await page.list_tabs()).length
return out
`, "")+done)
	r.OK("exec", "-c", "sandbox.mode=full-access", "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1"]`, "go")
	out := r.Last().Outputs()
	has(t, out, map[string][]string{"c1": {`"proxied": "error Target.createBrowserContext is refused`, `"unjudged": "error Fetch.disable is refused`, `"resource": "error Network.loadNetworkResource is refused`, `"code": "error `, `"tabs": `}})
	if got := c.ways(); len(got) > 0 {
		t.Errorf("the script has reached %q:\n%s", got, out["c1"])
	}
	r.NothingLeft()
}

// A person who interrupts a turn ends the script that it waits for. The browser stays.
func TestBrowserScriptIsInterrupted(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], execute("c1", `await page.goto_url("`+s.URL+`/kept"); await page.new_tab("`+s.URL+`/begun"); for (;;) await page.wait(60)`, ", yield_time_ms = 30000")+
		"[[step]]\ndo = [{ call = \"browser_execute\", id = \"c2\", args = { command = \"runs\" } }]\n"+execute("c3", `return (await page.list_tabs()).map(t => t.url)`, "")+done)
	begun := make(chan struct{}, 1)
	seen := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			select {
			case begun <- struct{}{}:
			default:
			}
		}
		seen.ServeHTTP(w, r)
	})
	c := r.AppServer(reaching("workspace-write")...)
	greet(t, c)
	thread := begin(t, c, map[string]any{})
	turn := submit(t, c, thread, "go")
	select {
	case <-begun:
	case <-t.Context().Done():
		t.Fatal("the script has not begun")
	}
	c.Call("turn/interrupt", map[string]any{"threadId": thread, "turnId": turn}, nil)
	c.Notified("turn/completed")
	submit(t, c, thread, "go on")
	c.Notified("turn/completed")
	has(t, r.Last().Outputs(), map[string][]string{"c2": {`"running":false`}, "c3": {s.URL + "/kept"}})
}
