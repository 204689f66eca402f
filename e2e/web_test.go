package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// webAsks are the flags of a server that asks before commands leave the sandbox.
var webAsks = []string{"-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write"}

// cleanPage checks that no script of a page has failed, and that it has asked nobody but its server.
func cleanPage(t *testing.T, p *rig.Page, w *rig.Web) {
	t.Helper()
	for _, problem := range p.Problems() {
		t.Errorf("the page reports: %s", problem)
	}
	own, _, _ := strings.Cut(w.Link, "/#")
	for _, url := range p.Requests() {
		if !strings.HasPrefix(url, own+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:"+own) && url != "about:blank" {
			t.Errorf("the page has asked for %s", url)
		}
	}
}

// accessible saves a picture of the page, and checks it with axe-core, where web/node_modules has it.
func accessible(t *testing.T, p *rig.Page, name string) {
	t.Helper()
	p.Shot(name + ".png")
	axe, err := os.ReadFile("../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		return
	}
	p.Eval(string(axe) + "; 0")
	found := p.Eval(`axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join(" | ")))`)
	if found != "[]" {
		t.Errorf("%s: %s", name, found)
	}
}

// Somebody types a task into the page, approves a command, and sees the diff. The code is gone from the address and works once.
func TestWeb(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	w := r.Web(webAsks...)
	p := rig.OpenPage(t, w.Link, 1280, 800)
	p.Shows("What shall be done?")
	p.Until(`location.hash === ""`)
	accessible(t, p, "new")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Type("translate it")
	p.Key("Enter")
	p.Shows("translate it", "I look first.", "May this command run?", "to see")
	p.Until(`document.querySelector(".question button:enabled")`)
	accessible(t, p, "question")
	p.Prefers("prefers-color-scheme", "dark")
	accessible(t, p, "question-dark")
	p.Until(`document.activeElement?.className === "question"`) // nothing is being written, so its keys work
	p.Key("y")
	p.Shows("echo looked", "hello.txt", "uno", "All done.", "1 file changed")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Click("1 file changed")
	p.Click("Side by side")
	accessible(t, p, "done-dark")
	p.Prefers("prefers-color-scheme", "light")
	accessible(t, p, "done")
	p.Size(390, 844)
	p.Shot("done-phone.png")
	p.Click("Threads")
	accessible(t, p, "threads-phone")
	if b, err := os.ReadFile(filepath.Join(r.Dir, "hello.txt")); err != nil || string(b) != "uno\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	cleanPage(t, p, w)
	again := rig.OpenPage(t, w.Link, 800, 600)
	again.Shows("This page opens with a link that works once.")
}

// hostilePage is a model whose every text would do something if the page let it.
const hostilePage = `
[[step]]
do = [{ text = """
<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">

![leak](https://evil.test/leak.png) ![data](data:text/html,<script>window.hacked=3</script>)

[a link](javascript:window.hacked=4) [another](https://evil.test/?q=secret) <https://evil.test/auto>

<iframe src="https://evil.test/frame"></iframe> <style>* { display: none }</style> <svg onload="window.hacked=5"></svg>

| <b onclick="window.hacked=6">a</b> | \u202egnp.exe |
| --- | --- |
| ![x](https://evil.test/cell.png) | <a href="https://evil.test/a" onmouseover="window.hacked=7">x</a> |

` + "```html\n<script>window.hacked = 8</script>\n```" + `
""" }, { call = "exec_command", id = "c1", args = { cmd = "echo '<img src=https://evil.test/out.png onerror=window.hacked=9>'; printf '\\\\033]8;;https://evil.test/osc\\\\007link\\\\033]8;;\\\\007'; head -c 300000 /dev/zero | tr '\\\\0' x", sandbox_permissions = "require_escalated", justification = "<img src=https://evil.test/why.png onerror=window.hacked=10>\u202e" , login = false } }]
[[step]]
do = [{ call = "apply_patch", id = "c2", args = { input = "*** Begin Patch\n*** Add File: <img src=x onerror=window.hacked=11>.html\n+<script>window.hacked = 12</script><img src=https://evil.test/diff.png>\n*** End Patch\n" } }]
[[step]]
times = -1
do = [{ text = "Finished." }]
`

// What others wrote is text: no script runs, nothing is asked of another server, and what would hide or reorder text is visible.
func TestWebHostileContent(t *testing.T) {
	t.Parallel()
	r := rig.New(t, hostilePage)
	w := r.Web(webAsks...)
	p := rig.OpenPage(t, w.Link, 1000, 900)
	p.Shows("What shall be done?")
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Type("<img src=https://evil.test/user.png onerror=window.hacked=13> go")
	p.Key("Enter")
	p.Shows("May this command run?", "<img src=https://evil.test/why.png", "<script>window.hacked = 1</script>", "picture: leak", "a link (javascript:window.hacked=4)",
		"another (evil.test)", "\ufffdgnp.exe")
	p.Shot("question.png")
	p.Click("Yes, this time")
	p.Shows("Finished.", "<img src=https://evil.test/out.png", "window.hacked=11", "<script>window.hacked = 12</script>", "more characters")
	p.Shot("done.png")
	if got := p.Eval("String(window.hacked)"); got != `"undefined"` {
		t.Errorf("script %s of a model has run", got)
	}
	if got := p.Eval(`document.querySelectorAll(".transcript img, .transcript iframe, .transcript style, .transcript svg, .transcript script, .question img, .threads img").length`); got != "0" {
		t.Errorf("%s elements come from a model", got)
	}
	if got := p.Eval(`[...document.querySelectorAll(".transcript a")].filter((a) => !/^https?:$/.test(a.protocol) || a.target !== "_blank" || !a.rel.includes("noopener")).length`); got != "0" {
		t.Errorf("%s links do more than to lead elsewhere", got)
	}
	if got := p.Eval("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"); got != "false" {
		t.Error("the order of text can be changed")
	}
	cleanPage(t, p, w)
	// The browser itself refuses what a mistake of the page would do.
	for _, attempt := range []string{
		`document.body.insertAdjacentHTML("beforeend", "<b>x</b>")`, `document.body.innerHTML = "x"`, `eval("1")`, `new Function("1")`,
		`trustedTypes.createPolicy("x", {})`, `Object.assign(document.createElement("script"), { src: "https://evil.test/x.js" })`,
	} {
		if got := p.Eval(fmt.Sprintf(`(() => { try { %s; return "done" } catch { return "refused" } })()`, attempt)); got != `"refused"` {
			t.Errorf("%s: %s", attempt, got)
		}
	}
	for _, attempt := range []string{`fetch("https://evil.test/")`, `fetch("http://127.0.0.1:1/")`} {
		if got := p.Eval(attempt + `.then(() => "done", () => "refused")`); got != `"refused"` {
			t.Errorf("%s: %s", attempt, got)
		}
	}
}

// sockets lets a test end the connections of a page.
const sockets = `window.sockets = []; window.WebSocket = class extends WebSocket { constructor(...a) { super(...a); window.sockets.push(this) } }`

// The connection ends while a turn runs: the page continues without a gap, and shows nothing twice. The server ends: what is being typed stays.
func TestWebReconnects(t *testing.T) {
	t.Parallel()
	r := rig.New(t, waiting)
	addOdd(t, r, "waits", "waits", "")
	w := r.Web()
	p := rig.OpenPage(t, "about:blank", 1000, 800)
	p.Before(sockets)
	p.Go(w.Link)
	p.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	p.Type("go")
	p.Key("Enter")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	p.Shows("Working")
	for n := 2; n <= 4; n++ {
		p.Eval("sockets.at(-1).close()")
		p.Eval(fmt.Sprintf(`new Promise((done) => { const look = () => sockets.length >= %d ? done() : requestAnimationFrame(look); look() })`, n))
	}
	r.Write(filepath.Join(r.Dir, "go"), "")
	p.Shows("answer 2")
	p.Until(`!document.querySelector(".working")`)
	if got := p.Eval(`[".userMessage", ".agentMessage", ".dynamicToolCall, .mcpToolCall"].map((s) => document.querySelectorAll(s).length).join()`); got != `"1,1,1"` {
		t.Errorf("messages, answers and calls: %s\n%s", got, p.Text())
	}
	p.Eval(`document.querySelector("textarea").focus()`)
	p.Type("a thought that must stay")
	for _, pid := range rig.Processes(t, r.Home, "web") {
		rig.Kill(t, pid)
	}
	p.Shows("The server can't be reached")
	if got := p.Eval(`document.querySelector("textarea").value`); got != `"a thought that must stay"` {
		t.Errorf("the draft is %s", got)
	}
}

// Two pages show one thread: a question that one answers is gone in the other, both show the end, and each can queue, steer and interrupt.
func TestWebTwoPages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	w := r.Web(webAsks...)
	one := rig.OpenPage(t, w.Link, 1000, 800)
	one.Until(`document.activeElement?.tagName === "TEXTAREA"`)
	one.Type("translate it")
	one.Key("Enter")
	one.Shows("May this command run?")
	base, _, _ := strings.Cut(w.Link, "#")
	code := one.Eval(`fetch("/code", { method: "POST", headers: { Authorization: "Bearer " + sessionStorage.getItem("gantry-token") } }).then((r) => r.json()).then((r) => r.Code)`)
	two := rig.OpenPage(t, base+"#code="+strings.Trim(code, `"`), 1000, 800)
	two.Shows("needs you")
	two.Click("translate it")
	two.Shows("May this command run?", "I look first.")
	one.Eval(`document.querySelector("textarea").focus()`)
	one.Type("afterwards")
	one.Click("Queue")
	for _, p := range []*rig.Page{one, two} {
		p.Until(`document.querySelector(".queue")?.innerText.includes("afterwards")`)
	}
	two.Click("Remove: afterwards")
	one.Until(`!document.querySelector(".queue")`)
	two.Click("No")
	one.Until(`!document.querySelector(".question")`)
	for _, p := range []*rig.Page{one, two} {
		p.Shows("refused", "All done.")
		cleanPage(t, p, w)
	}
}

// Other pages reach nothing: neither one of another port in the same browser, nor one whose name was pointed at this machine.
func TestWebOtherPages(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	w := r.Web()
	base, code, _ := strings.Cut(w.Link, "#code=")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>other</title><link rel=icon href=data:,><p>other page")
	}))
	t.Cleanup(other.Close)
	p := rig.OpenPage(t, other.URL, 800, 600)
	p.Shows("other page")
	for name, attempt := range map[string]string{
		"exchange of the code": `fetch(%q + "session", { method: "POST", body: JSON.stringify({ code: %q }) }).then((r) => r.json())`,
		"page":                 `fetch(%q, {}, %q).then((r) => r.text())`,
		"websocket":            `new Promise((ok, no) => { const s = new WebSocket(%q.replace("http", "ws") + "rpc", ["gantry", "token." + %q]); s.onopen = ok; s.onerror = no })`,
	} {
		if got := p.Eval(fmt.Sprintf(attempt, base, code) + `.then(() => "reached", () => "refused")`); got != `"refused"` {
			t.Errorf("%s: %s", name, got)
		}
	}
	p.Eval(fmt.Sprintf(`new Promise((done) => { const f = document.createElement("iframe"); f.onload = done; f.src = %q; document.body.append(f) })`, w.Link))
	if !slices.ContainsFunc(p.Problems(), func(problem string) bool {
		return strings.Contains(problem, "frame-ancestors") || strings.Contains(problem, "X-Frame-Options")
	}) {
		t.Errorf("the page is shown in a frame of another one: %q", p.Problems())
	}
	_, port, _ := strings.Cut(strings.TrimSuffix(base, "/"), "127.0.0.1:")
	rebound, err := http.NewRequest(http.MethodPost, base+"session", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "evil.test:" + port
	rebound.Header.Set("Origin", "http://evil.test:"+port)
	resp, err := http.DefaultClient.Do(rebound)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a name that was rebound: %s", resp.Status)
	}
	mine := rig.OpenPage(t, w.Link, 800, 600) // none of that has used the code up
	mine.Shows("What shall be done?")
}
