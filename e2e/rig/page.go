package rig

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Web is a running gantry web.
type Web struct {
	*Run
	// Link opens the page once.
	Link string
}

// Web starts gantry web.
func (r *Rig) Web(args ...string) *Web {
	r.t.Helper()
	run := r.Start(append([]string{"web", "--no-open"}, args...)...)
	run.Sees("#code=")
	w := &Web{Run: run}
	for line := range strings.Lines(run.Output()) {
		if link := strings.TrimSpace(line); strings.HasPrefix(link, "http://") {
			w.Link = link
		}
	}
	r.t.Cleanup(func() {
		run.Signal(syscall.SIGTERM)
		run.Signal(syscall.SIGTERM)
		run.Wait()
	})
	return w
}

// Page is a page in a real browser.
type Page struct {
	t       testing.TB
	conn    *websocket.Conn
	session string // of the page

	mu       sync.Mutex
	next     int
	waiting  map[int]chan reply
	problems []string // errors of scripts, and what a policy has refused
	requests []string // addresses
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// OpenPage opens an address in a browser of its own.
func OpenPage(t testing.TB, address string, width, height int) *Page {
	t.Helper()
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("chromium is not installed; `make test` installs it")
		}
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
		"--remote-allow-origins=*", "--user-data-dir="+t.TempDir(), "--no-first-run", fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stderr)
	devtools := ""
	for devtools == "" && lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
			devtools = url
		}
	}
	if devtools == "" {
		t.Fatal("the browser did not start: ", lines.Err())
	}
	go func() { // ends with the browser
		for lines.Scan() {
		}
	}()
	p := &Page{t: t, waiting: map[int]chan reply{}}
	if p.conn, _, err = websocket.DefaultDialer.Dial(devtools, nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the connection
		defer close(ended)
		p.read()
	}()
	t.Cleanup(func() {
		_ = p.conn.Close()
		<-ended
	})
	var target struct{ TargetID string }
	p.call("", "Target.createTarget", map[string]any{"url": "about:blank", "width": width, "height": height}, &target)
	var attached struct{ SessionID string }
	p.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Call(domain+".enable", nil, nil)
	}
	p.Size(width, height)
	p.Go(address)
	return p
}

// read reads messages until the connection ends.
func (p *Page) read() {
	for {
		var m struct {
			ID     int
			Method string
			Params struct {
				ExceptionDetails struct {
					Text      string
					Exception struct{ Description string }
				}
				Entry   struct{ Level, Text string }
				Request struct{ URL string }
			}
			reply
		}
		if err := p.conn.ReadJSON(&m); err != nil {
			p.mu.Lock()
			for _, c := range p.waiting {
				close(c)
			}
			clear(p.waiting)
			p.mu.Unlock()
			return
		}
		p.mu.Lock()
		switch m.Method {
		case "Runtime.exceptionThrown":
			p.problems = append(p.problems, m.Params.ExceptionDetails.Text+" "+m.Params.ExceptionDetails.Exception.Description)
		case "Log.entryAdded":
			if m.Params.Entry.Level == "error" {
				p.problems = append(p.problems, m.Params.Entry.Text)
			}
		case "Network.requestWillBeSent":
			p.requests = append(p.requests, m.Params.Request.URL)
		}
		c := p.waiting[m.ID]
		delete(p.waiting, m.ID)
		p.mu.Unlock()
		if c != nil {
			c <- m.reply
		}
	}
}

func (p *Page) call(session, method string, params, result any) {
	p.t.Helper()
	c := make(chan reply, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = c
	message := map[string]any{"id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	if session != "" {
		message["sessionId"] = session
	}
	err := p.conn.WriteJSON(message)
	p.mu.Unlock()
	if err != nil {
		p.t.Fatal(err)
	}
	select {
	case r, ok := <-c:
		if !ok || r.Error != nil {
			p.t.Fatalf("%s: %v", method, r.Error)
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				p.t.Fatal(err)
			}
		}
	case <-time.After(bound):
		p.Shot("hung.png")
		p.t.Fatalf("%s has no answer", method)
	}
}

// Call calls a method of the browser's protocol for the page.
func (p *Page) Call(method string, params, result any) {
	p.t.Helper()
	p.call(p.session, method, params, result)
}

// Go opens an address.
func (p *Page) Go(address string) {
	p.t.Helper()
	p.Call("Page.navigate", map[string]any{"url": address}, nil)
}

// Size changes the size of the window.
func (p *Page) Size(width, height int) {
	p.t.Helper()
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Prefers sets a media feature, such as prefers-color-scheme.
func (p *Page) Prefers(name, value string) {
	p.t.Helper()
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": name, "value": value}}}, nil)
}

// Eval returns the value of an expression, as JSON. Promises are awaited.
func (p *Page) Eval(expression string) string {
	p.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	p.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "allowUnsafeEvalBlockedByCSP": false}, &r)
	if r.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	return string(r.Result.Value)
}

// Until waits until an expression is true, which is looked at whenever the document changes.
func (p *Page) Until(expression string) {
	p.t.Helper()
	got := p.Eval(fmt.Sprintf(`new Promise((done) => {
		const ok = () => { try { return Boolean(%[1]s) } catch { return false } };
		if (ok()) return done(true);
		const see = new MutationObserver(() => ok() && end(true));
		const late = setTimeout(() => end(false), %[2]d);
		const end = (v) => { see.disconnect(); clearTimeout(late); done(v) };
		see.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
	})`, expression, patience.Milliseconds()))
	if got != "true" {
		p.Shot("late.png")
		p.t.Fatalf("%s did not become true; the page shows:\n%s\n%s", expression, p.Text(), strings.Join(p.Problems(), "\n"))
	}
}

// Shows waits until the page shows texts.
func (p *Page) Shows(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		b, _ := json.Marshal(text)
		p.Until("document.body.innerText.includes(" + string(b) + ")")
	}
}

// Text returns what the page shows.
func (p *Page) Text() string {
	p.t.Helper()
	var s string
	_ = json.Unmarshal([]byte(p.Eval("document.body.innerText")), &s)
	return s
}

// Type types text into what has the focus.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// Key presses a key, such as Enter or y.
func (p *Page) Key(key string) {
	p.t.Helper()
	k := map[string]any{"key": key}
	switch {
	case key == "Enter":
		k["text"], k["code"], k["windowsVirtualKeyCode"] = "\r", "Enter", 13
	case key == "Escape":
		k["code"], k["windowsVirtualKeyCode"] = "Escape", 27
	case len(key) == 1:
		k["text"] = key
	}
	k["type"] = "keyDown"
	p.Call("Input.dispatchKeyEvent", k, nil)
	delete(k, "text")
	k["type"] = "keyUp"
	p.Call("Input.dispatchKeyEvent", k, nil)
}

// Click clicks the first enabled button or link that contains a text, once it is there.
func (p *Page) Click(text string) {
	p.t.Helper()
	b, _ := json.Marshal(text)
	find := fmt.Sprintf(`[...document.querySelectorAll("button, a, summary")].find((e) => !e.disabled && (e.innerText.includes(%[1]s) || e.ariaLabel === %[1]s))`, b)
	p.Until(find)
	p.Eval(find + ".click()")
}

// Shot saves a picture of the page in the test's artifacts.
func (p *Page) Shot(name string) {
	p.t.Helper()
	var r struct{ Data string }
	p.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), b, 0o644)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// Problems returns the errors of the page's scripts, and what the browser has refused.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Requests returns the addresses that the page has asked for.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Before runs a script in each document before its own scripts.
func (p *Page) Before(script string) {
	p.t.Helper()
	p.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script}, nil)
}
