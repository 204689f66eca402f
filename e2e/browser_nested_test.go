package e2e_test

import (
	"fmt"
	"os/exec"
	"testing"
)

// Every tool of the browser can be called from a script of code mode and from a cell of Python, which reports the steps in the browser.
func TestBrowserNested(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no Python on this machine")
	}
	s := form(t)
	r := newBrowser(t, browsers[0], fmt.Sprintf("[[step]]\ndo = [%s]\n[[step]]\ndo = [%s]\n", execCall("e1", `
const r = await tools.python({code: `+"`"+`
a = gantry.tools.browser_act(actions=[{'navigate': {'url': '`+s.URL+`'}}])
print('act', 'Form' in a['text'], a['url'])
x = gantry.tools.browser_execute(code='await page.goto_url("`+s.URL+`/from-python"); return (await page.page_info()).url')
print('script', x['status'], x['data'])
try:
    gantry.tools.browser_act(actions=[{'click': {'index': 99}}])
except gantry.ToolError as e:
    print('error', 'no element 99' in str(e))
`+"`"+`})
text(r.text)
text(r.browser_events.map(e => e.action + (e.error ? " failed" : "") + " " + e.url).join("; "))
`), execCall("e2", `
const s = await tools.browser_state({mode: "full"})
text("state " + s.text.includes("A form that stays"))
const e = await tools.browser_execute({code: "console.log('begun'); for (;;) await page.wait(1)", yield_time_ms: 250})
text("execute " + e.status)
const o = await tools.browser_observe({run_id: e.run_id, wait_ms: 1000})
text("observe " + o.status + " " + (e.text + o.text).trim())
text("cancel " + (await tools.browser_cancel({run_id: e.run_id})).status)
`))+done)
	r.Config("plugin \"python\" {\n  source = \"builtin/python\"\n}\n" + codemodeOn)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	has(t, map[string]string{"e1": toolText(t, r, "e1"), "e2": toolText(t, r, "e2")}, map[string][]string{
		"e1": {"act True " + s.URL, "script finished " + s.URL + "/from-python", "error True", "navigate " + s.URL, "navigate " + s.URL + "/from-python", "click failed "},
		"e2": {"state true", "execute running", "observe running begun", "cancel cancelled"},
	})
	r.NothingLeft()
	noProfileLeft(t, r)
}
