package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page that shows a secret shows it to no tool: to none that reads the page, carries out a task, replays one or runs a script, in no question to the
// model that a tool asks, and in no file.
func TestBrowserMasksSecretsInAllTools(t *testing.T) {
	t.Parallel()
	a := newVault(t)
	const seen = `You typed <secret>login</secret>`
	r := newBrowserWith(t, browsers[0], fmt.Sprintf(secrets, hunter, a.URL, otpKey, a.URL),
		modelSays("extract information", `(?s)Query: What was typed.*`+seen, "It was "+hunter+".")+
			operates(`(?s)Say what it shows.*`+seen+`.*Step 1 of`, `{"click":{"index":1}},{"evaluate":{"code":"document.title"}}`)+
			operates(`(?s)Say what it shows.*evaluate: Evaluated: <secret>login</secret>`, `{"screenshot":{}}`)+
			operates(`(?s)screenshot is withheld`, `{"done":{"text":"It shows `+hunter+`.","success":true}}`)+
			"[[step]]\nwhen = { user = \"go\" }\n"+strings.TrimPrefix(act("c1", fmt.Sprintf("{ navigate = { url = %q } }", a.URL+"/mirror")), "[[step]]\n")+
			toolCall("r1", "browser_record", `do = "start"`)+
			act("c2", `{ input = { index = 1, text = "<secret>login</secret>" } }`)+
			act("c3", `{ console_messages = {} }, { network_requests = {} }`)+
			toolCall("extract", "browser_extract", `query = "What was typed?"`)+
			toolCall("task", "browser_task", `task = "Say what it shows", vision = true, judge = false`)+
			"[[step]]\ncapture = [{ pattern = 'for browser_replay: (?P<sha>[0-9a-f]{64})' }]\n"+
			strings.TrimPrefix(toolCall("replay", "browser_replay", `history = "${sha}"`), "[[step]]\n")+
			execute("script", `
const v = await page.js("document.title")
console.log("said", v, encodeURIComponent(v))
page.emit_output({[v]: v}, "title")
const refused = []
try { await page.screenshot() } catch (e) { refused.push(e.message) }
const [tab] = await page.list_tabs()
const sessionId = await cdp.attachToTarget(tab.target_id)
for (const method of ["Page.captureScreenshot", "Page.printToPDF"]) try { await cdp.send(method, {}, {sessionId}) } catch (e) { refused.push(e.message) }
return {refused, info: await page.page_info(), state: await page.state()}
`, "")+
			execute("thrown", `throw new Error(await page.js("document.title"))`, "")+
			execute("slow", `const v = await page.js("document.title"); await page.wait(1); console.log("later", v)`, ", yield_time_ms = 250")+
			runOf("slow")+strings.TrimPrefix(observe("observe"), "[[step]]\n")+
			toolCall("status", "browser_status", "")+
			act("pdf", `{ save_as_pdf = {} }`)+
			toolCall("r2", "browser_record", `do = "stop"`)+done)
	res := r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "--events", "go")...)
	out := r.Last().Outputs()
	has(t, out, map[string][]string{
		"extract": {"It was <secret>login</secret>."}, "task": {"It shows <secret>login</secret>.", "for browser_replay: "}, "replay": {"Evaluated: <secret>login</secret>"},
		"script": {"said <secret>login</secret>", "picture is withheld, because the page shows a secret", seen}, "thrown": {"<secret>login</secret>"},
		"observe": {"later <secret>login</secret>"}, "status": {"?q=<secret>login</secret>"}, "pdf": {"the file is withheld, because the page shows a secret"},
		"c3": {"<secret>login</secret>"}, "r2": {"Recorded requests.har"},
	})
	if n := strings.Count(out["script"], "picture is withheld"); n != 3 {
		t.Errorf("%d of 3 pictures are withheld from a script:\n%s", n, out["script"])
	}
	all := map[string]string{"outputs": fmt.Sprint(out), "events": res.Stdout + res.Stderr}
	for i, q := range r.Requests() {
		all[fmt.Sprint("request ", i)] = fmt.Sprintf("%v", q)
		for _, m := range q.Request.Messages {
			all[fmt.Sprint("request ", i)] += m.Text()
		}
	}
	for _, dir := range []string{r.Home, r.Dir} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			all[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for where, text := range all {
		if strings.Contains(text, hunter) && filepath.Base(where) != "script.toml" && !strings.Contains(text, "value   = \""+hunter) { // the model's own script, and the configuration
			i := strings.Index(text, hunter)
			t.Errorf("%s has the secret: %.300q", where, text[max(0, i-150):])
		}
	}
	r.NothingLeft()
}
