//go:build unix

package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/session"
	"github.com/gantry-agent/gantry/plugins/browser/internal/spec"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/child"
)

func TestMain(m *testing.M) {
	if codemode.Wanted(os.Args) {
		os.Exit(child.Main(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// one is the browser of a test, as sessions see it. Without a browser, connecting fails.
type one struct {
	browser *target.Browser
	policy  policy.Policy
	held    chan struct{} // what Await waits for; nil: nothing
}

func (o *one) Create(context.Context, session.Mode) (string, error) { return "b", nil }

func (o *one) Targets(context.Context, string) ([]session.Target, error) { return nil, nil }

func (o *one) Delete(context.Context, string) error { return nil }

func (o *one) Connect(context.Context, string) (*Conn, error) {
	if o.browser == nil {
		return nil, errors.New("there is no browser")
	}
	return &Conn{
		Session: &action.Session{Browser: o.browser, Allowed: func(_ context.Context, url string) error { return o.policy.Check(url) }},
		Await: func(ctx context.Context) error {
			if o.held == nil {
				return nil
			}
			select {
			case <-o.held:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Attended: func(context.Context) error { return nil }, Explain: func(err error) error { return err }, Release: func() {},
	}, nil
}

// stored is a store for one test.
type stored struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s *stored) Get(_ context.Context, key string) ([]byte, uint64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return v, uint64(len(v)), ok, nil
}

func (s *stored) PutIf(_ context.Context, key string, value []byte, _ uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	return uint64(len(value)), nil
}

func (s *stored) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	return nil
}

func (s *stored) List(context.Context, string) ([]string, error) { return nil, nil }

// rig starts scripts.
type rig struct {
	t    *testing.T
	runs Runs
	one  *one
	url  string
}

// newRig returns a rig whose scripts have a browser, or none.
func newRig(t *testing.T, html string) *rig {
	t.Helper()
	g := &rig{t: t, one: &one{}}
	t.Cleanup(func() { g.runs.End(context.Background(), "") })
	if html == "" {
		return g
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,>"+html)
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	var err error
	if g.one.policy, err = policy.New([]string{s.URL, "example.com"}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, io.ReadCloser(r), w, target.Options{Judge: func(r target.Request, answer func(error)) {
		if r.Document {
			answer(g.one.policy.Check(r.URL))
			return
		}
		answer(nil)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	g.one.browser = b
	return g
}

func (g *rig) start(code string, timeout time.Duration) *Run {
	g.t.Helper()
	never := make(chan struct{})
	m := session.New(session.Options[*Conn]{
		Browsers: g.one, Store: &stored{values: map[string][]byte{}}, Mode: session.Reuse,
		Lease: func(context.Context, string, time.Duration) (*session.Held, error) {
			return &session.Held{Token: 1, Lost: never, Release: func() {}}, nil
		},
	})
	id := NewID()
	r, err := g.runs.Start(Options{Thread: "t", ID: id, Code: code, Timeout: timeout, Browser: m.Execution(id)})
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// run runs a script to its end.
func (g *rig) run(code string) Report {
	g.t.Helper()
	return g.start(code, time.Minute).First(g.t.Context(), time.Minute)
}

func TestClamps(t *testing.T) {
	t.Parallel()
	for got, want := range map[time.Duration]time.Duration{
		Wait(10): time.Second, Wait(999_999): 120 * time.Second, Wait(0) + 1: time.Second + 1, Yield(1): 250 * time.Millisecond, Yield(0): 7 * time.Second,
		Yield(1 << 40): 30 * time.Second, Timeout(0): 300 * time.Second, Timeout(1<<40) + 1: 300*time.Second + 1, Timeout(20): 20 * time.Millisecond,
	} {
		if got != want {
			t.Errorf("%v, not %v", got, want)
		}
	}
}

// B1: a script that ends soon is one answer; of another one, each observation has what is new, once.
func TestObservation(t *testing.T) {
	t.Parallel()
	g := newRig(t, "")
	if r := g.run(`console.log("a"); page.emit_output([1], "x"); return 7`); r.Status != Finished || r.Text != "a\n" || string(r.Data) != "7" || len(r.Outputs) != 1 ||
		r.Outputs[0].Label != "x" || r.NextObserveMS != 0 {
		t.Errorf("%+v", r)
	}
	r := g.start(`console.log("first"); await page.wait(0.3); console.log("second"); await page.wait(60)`, time.Minute)
	if x := r.Observe(t.Context(), time.Minute); x.Status != Running || x.Text != "first\n" || x.NextObserveMS == 0 {
		t.Errorf("%+v", x)
	}
	if x := r.Observe(t.Context(), time.Minute); x.Text != "second\n" {
		t.Errorf("%+v", x)
	}
	if x := r.Observe(t.Context(), time.Millisecond); x.Text != "" || x.Status != Running {
		t.Errorf("%+v", x)
	}
	r.Cancel(t.Context())
	if x := r.Observe(t.Context(), time.Minute); x.Status != Cancelled || x.Diagnosis == nil || x.Diagnosis.Kind != "cancelled" || !x.Diagnosis.BrowserUsable {
		t.Errorf("%+v", x)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	g := newRig(t, "")
	for code, want := range map[string][2]string{
		`throw new Error("boom")`:      {"boom", "thrown"},
		`throw "x"`:                    {"x", "thrown"},
		`await page.js("1")`:           {"there is no browser", "thrown"},
		`return nothing`:               {"the only globals available in the sandbox are: cdp, page", "thrown"},
		`await cdp.send()`:             {"method: it is missing", "thrown"},
		`await page.page_info.nothing`: {"", ""},
	} {
		r := g.run(`console.log("before"); ` + code)
		if want[0] == "" {
			if r.Status != Finished {
				t.Errorf("%s: %+v", code, r)
			}
			continue
		}
		if r.Status != Failed || !strings.Contains(r.Error, want[0]) || r.Diagnosis == nil || r.Diagnosis.Kind != want[1] || r.Text != "before\n" {
			t.Errorf("%s: %+v", code, r)
		}
	}
	r := g.start(`console.log("before"); for (;;) {}`, 200*time.Millisecond).First(t.Context(), time.Minute)
	if r.Status != Failed || r.Diagnosis.Kind != "timeout" || r.Text != "before\n" {
		t.Errorf("%+v", r)
	}
}

// B2: an observation waits for 1 to 120 seconds, whatever is asked for.
func TestWaitIsClamped(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 10: time.Second, 5000: 5 * time.Second, 999_999: 2 * time.Minute, math.MaxInt: 2 * time.Minute} {
		if got := Wait(ms); got != want {
			t.Errorf("%d: %v, not %v", ms, got, want)
		}
	}
}

// B4: whose run it is is checked before anything else.
func TestFind(t *testing.T) {
	t.Parallel()
	g := newRig(t, "")
	r := g.start(`return 1`, time.Minute)
	if x, err := g.runs.Find("t", r.ID); x != r || err != nil {
		t.Errorf("%v, %v", x, err)
	}
	if _, err := g.runs.Find("other", r.ID); err == nil || !strings.Contains(err.Error(), "belongs to a different session") {
		t.Error(err)
	}
	if _, err := g.runs.Find("t", "bs-nothing"); err == nil || !strings.Contains(err.Error(), "there is no run") {
		t.Error(err)
	}
}

// What waits to be observed is bounded, and so is the number of runs.
func TestBounds(t *testing.T) {
	t.Parallel()
	g := newRig(t, "")
	r := g.run(`for (let i = 0; i < 3000; i++) console.log("x".repeat(100))`)
	if len(r.Text) > maxText+100 || !strings.HasSuffix(r.Text, "more lines omitted: print less]\n") {
		t.Errorf("%d bytes", len(r.Text))
	}
	var last *Run
	for range maxActive {
		last = g.start(`await page.wait(60)`, time.Minute)
	}
	if _, err := g.runs.Start(Options{Thread: "t", ID: NewID()}); err == nil || !strings.Contains(err.Error(), "the maximum") {
		t.Error(err)
	}
	last.Cancel(t.Context())
	for range maxEnded + 5 {
		g.run(`return 1`)
	}
	if n := len(g.runs.Of("t")); n > maxEnded+maxActive+1 {
		t.Errorf("%d runs are kept", n)
	}
}

// Commands that reach past the session are refused, whatever case or order their parameters have.
func TestRefused(t *testing.T) {
	t.Parallel()
	var s spec.Spec
	for _, c := range []struct{ method, params, want string }{
		{"Browser.close", `{}`, "past the session"},
		{"Browser.setDownloadBehavior", `{}`, "past the session"},
		{"Browser.grantPermissions", `{}`, "past the session"},
		{"Browser.getVersion", `{}`, ""},
		{"Page.setDownloadBehavior", `{}`, "reaches files"},
		{"DOM.setFileInputFiles", `{}`, "reaches files"},
		{"Security.setIgnoreCertificateErrors", `{}`, "the domain Security"},
		{"Tracing.start", `{}`, "the domain Tracing"},
		{"Fetch.continueRequest", `{}`, "the domain Fetch"},
		{"SystemInfo.getInfo", `{}`, "the domain SystemInfo"},
		{"Target.exposeDevToolsProtocol", `{}`, "past the session"},
		{"Target.sendMessageToTarget", `{}`, "past the session"},
		{"Target.setAutoAttach", `{}`, "follows or confines"},
		{"Target.attachToTarget", `{}`, "cdp.attachToTarget"},
		{"Target.createBrowserContext", `{"proxyServer":"http://evil.test"}`, "another proxy"},
		{"Target.createBrowserContext", `{"proxyServer":"http://evil.test","PROXYSERVER":null}`, "another proxy"},
		{"Target.createBrowserContext", `{"proxyBypassList":"*"}`, "another proxy"},
		{"Target.createTarget", `{"url":"about:blank","hidden":true}`, "hidden or forTab"},
		{"Target.createTarget", `{"url":"about:blank","forTab":true}`, "hidden or forTab"},
		{"Target.createBrowserContext", `{}`, ""},
		{"Target.disposeBrowserContext", `{"browserContextId":"theirs"}`, "has not created"},
		{"Target.disposeBrowserContext", `{"browserContextId":"mine"}`, ""},
		{"IO.read", `{"handle":"theirs"}`, "has returned the handle"},
		{"IO.read", `{"handle":"s1"}`, ""},
		{"Input.dispatchDragEvent", `{"data":{"items":[],"files":["/etc/passwd"]}}`, "with files"},
		{"Network.loadNetworkResource", `{}`, "past the session"},
		{"Page.disable", `{}`, "follows or confines"},
		{"Page.reload", `{}`, ""},
		{"Page.loadEventFired", `{}`, "is an event"},
		{"Page.Viewport", `{}`, "is a type"},
		{"Page.nothing", `{}`, "no command"},
		{"reload", `{}`, "not a method"},
	} {
		var params map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.params), &params); err != nil {
			t.Fatal(err)
		}
		err := check(&s, c.method, params, []string{"s1"}, []string{"mine"})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", c.method, err, c.want)
		}
	}
}

// S21: arguments are checked before anything is connected.
func TestArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`["Page.reload"]`: "", `["Page.reload", null, {"sessionId":"target:1","timeoutMs":5}]`: "", `[{"method":"Page.reload","params":{},"sessionId":"x"}]`: "",
		`[]`: "at method", `[1]`: "at method", `["A.b", []]`: "at params", `["A.b", {}, {"sessionId":{}}]`: "at sessionId", `["A.b", {}, {"timeoutMs":"x"}]`: "at timeoutMs",
		`["A.b", {}, {"other":1}]`: "at other", `[{"params":{}}]`: "at method", `["A.b", {}, 5]`: "at options",
	} {
		var a []json.RawMessage
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		_, err := arguments(a)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", text, err, want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`["Page.reload", {}, {"sessionId":"x"}]`, `[{"method":"A.b"}]`, `[1,2,3]`, `[{"method":null,"timeoutMs":1e300}]`} {
		f.Add(s)
	}
	var s spec.Spec
	f.Fuzz(func(t *testing.T, text string) {
		var a []json.RawMessage
		if json.Unmarshal([]byte(text), &a) != nil {
			return
		}
		c, err := arguments(a)
		if err != nil {
			return
		}
		if c.timeout <= 0 || c.timeout > maxCommand || c.method == "" {
			t.Errorf("%+v", c)
		}
		if err := check(&s, c.method, c.params, nil, nil); err == nil && strings.HasPrefix(c.method, "Fetch.") {
			t.Error(c.method)
		}
	})
}

// The helpers work on a real page. What fails leaves its images.
func TestPage(t *testing.T) {
	t.Parallel()
	g := newRig(t, `<title>P</title><input id=n oninput="document.title = this.value"><p id=later></p><button id=b onclick="confirm('sure?')">Ask</button>
<script>setTimeout(() => document.getElementById('later').textContent = 'here', 300)</script>`)
	r := g.run(`await page.goto_url("` + g.url + `")
const found = await page.wait_for_element("#later:not(:empty)", 5000)
const missing = await page.wait_for_element("#never", 0.2)
await page.fill_input("#n", "typed")
const {title, w} = await page.page_info()
const sum = await page.js("(a, b) => a + b", 2, 3)
const body = await page.js("const x = 4; return x * 2")
const thrown = await page.js("throw new Error('in page')").catch(e => e.message)
const lines = await page.act({search_page: {pattern: "here"}})
const loaded = await page.wait_for_load(), idle = await page.wait_for_network_idle(5)
const fetched = (await page.browser_fetch("` + g.url + `")).status
await page.new_tab("` + g.url + `?second")
const tabs = (await page.list_tabs()).length
await page.switch_tab((await page.list_tabs())[0].target_id)
await page.js("document.getElementById('b').click()").catch(() => 0)
const named = (await page.list_tabs())[0].title
const dialog = (await page.page_info()).dialog.message
const sessionId = await cdp.attachToTarget((await page.current_tab()).target_id)
await cdp.send("Page.handleJavaScriptDialog", {accept: true}, {sessionId})
const slow = await cdp.send("Runtime.evaluate", {expression: "new Promise(() => 0)", awaitPromise: true}, {sessionId, timeoutMs: 50}).catch(e => e.message)
const evil = await cdp.send("Page.navigate", {url: "http://evil.test/"}, {sessionId}).catch(e => e.message)
const state = await page.state()
await page.screenshot()
await cdp.send("Page.captureScreenshot", {format: "png"}, {sessionId})
page.emit_output({found, missing, title, wide: w > 100, named, sum, body, thrown, lines: lines.includes("here"), loaded, idle, fetched, tabs, dialog, slow, evil, state: state.includes("typed")})
const log = await cdp.getDebugLog(2)
page.emit_output(log.map(e => e.type), "log")
throw new Error("at the end")`)
	if r.Status != Failed || !strings.Contains(r.Error, "at the end") || len(r.Outputs) != 2 {
		t.Fatalf("%+v", r)
	}
	if len(r.Images) != 2 || r.Images[0].MediaType != "image/jpeg" || r.Images[1].MediaType != "image/png" || len(r.Images[1].Data) < 100 {
		t.Errorf("%d images", len(r.Images))
	}
	var got map[string]any
	if err := json.Unmarshal(r.Outputs[0].Value, &got); err != nil {
		t.Fatal(err)
	}
	for k, want := range map[string]any{
		"found": true, "missing": false, "title": "typed", "wide": true, "named": "typed", "sum": 5.0, "body": 8.0, "lines": true, "loaded": true, "idle": true, "fetched": 200.0, "tabs": 2.0,
		"dialog": "sure?", "slow": "CDP command timed out after 50ms: Runtime.evaluate", "state": true,
	} {
		if got[k] != want {
			t.Errorf("%s is %v, not %v", k, got[k], want)
		}
	}
	for k, want := range map[string]string{"thrown": "in page", "evil": "evil.test"} {
		if s, _ := got[k].(string); !strings.Contains(s, want) {
			t.Errorf("%s is %v", k, got[k])
		}
	}
	if string(r.Outputs[1].Value) != `["send","receive"]` {
		t.Errorf("log %s", r.Outputs[1].Value)
	}
	var steps []string
	for _, e := range r.BrowserEvents {
		steps = append(steps, e.Action)
	}
	if s := strings.Join(steps, " "); !strings.HasPrefix(s, "navigate ") || !strings.Contains(s, "Page.navigate") {
		t.Errorf("events %s", s)
	}
}

// B6: documents of sites that the policy does not allow are not loaded, by whichever command.
func TestPolicy(t *testing.T) {
	t.Parallel()
	g := newRig(t, `<title>Allowed</title>`)
	r := g.run(`const out = []
await page.goto_url("` + g.url + `")
const {target_id} = await page.current_tab(), sessionId = await cdp.attachToTarget({targetId: target_id}).then(a => a.sessionId)
for (const url of ["http://evil.test/", "file:///etc/passwd", "chrome://version", "` + g.url + `/?to=http://evil.test/"]) {
  await cdp.send("Page.navigate", {url}, {sessionId}).catch(e => 0)
  await page.goto_url(url).catch(e => 0)
  await cdp.send("Target.createTarget", {url}).catch(e => 0)
  await cdp.send("Runtime.evaluate", {expression: "location.href = " + JSON.stringify(url)}, {sessionId}).catch(e => 0)
  await page.wait(0.2)
}
return (await page.list_tabs()).map(t => t.url + " " + t.title)`)
	if r.Status != Finished {
		t.Fatalf("%+v", r)
	}
	var tabs []string
	if err := json.Unmarshal(r.Data, &tabs); err != nil {
		t.Fatal(err)
	}
	for _, x := range tabs {
		if strings.Contains(x, "passwd") && !strings.HasPrefix(x, "chrome-error:") || strings.HasPrefix(x, "chrome://version") || strings.Contains(x, "root:") {
			t.Errorf("opened %s", x)
		}
	}
}

// B3: a cancelled script leaves its images and the browser.
func TestCancel(t *testing.T) {
	t.Parallel()
	g := newRig(t, `<title>Here</title>`)
	r := g.start(`await page.goto_url("`+g.url+`"); await page.screenshot(); console.log("shown"); await page.js("new Promise(() => 0)")`, time.Minute)
	x := r.Observe(t.Context(), time.Minute)
	for x.Status == Running && x.Text == "" {
		more := r.Observe(t.Context(), time.Minute)
		x.Text, x.Status, x.Images = more.Text, more.Status, append(x.Images, more.Images...)
	}
	r.Cancel(t.Context())
	end := r.Observe(t.Context(), 0)
	if end.Status != Cancelled || len(x.Images)+len(end.Images) != 1 {
		t.Errorf("%+v, %d images", end, len(x.Images))
	}
	if r := g.run(`return (await page.page_info()).title`); string(r.Data) != `"Here"` {
		t.Errorf("%+v", r)
	}
}

// While a person has control, a script does nothing in the browser.
func TestControl(t *testing.T) {
	t.Parallel()
	g := newRig(t, `<title>Here</title>`)
	g.one.held = make(chan struct{})
	r := g.start(`console.log("waits"); await page.goto_url("`+g.url+`"); console.log("goes on")`, time.Minute)
	if x := r.Observe(t.Context(), time.Minute); x.Text != "waits\n" {
		t.Errorf("%+v", x)
	}
	if tabs := g.one.browser.Tabs(); len(tabs) > 0 && tabs[0].Info().URL != "about:blank" {
		t.Errorf("it has opened %s", tabs[0].Info().URL)
	}
	close(g.one.held)
	if x := r.Observe(t.Context(), time.Minute); !strings.Contains(x.Text, "goes on") && x.Error != "" {
		t.Errorf("%+v", x)
	}
}
