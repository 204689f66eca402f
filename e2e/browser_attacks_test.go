package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hostile is a page that tries to reach hosts other than its own. Each of its ways names itself in the address.
const hostile = `<!doctype html><title>Hostile</title><link rel=icon href=data:,><p>Hostile<script>
const at = (host, way) => 'http://' + host + ':' + location.port + '/way/' + way
const ways = {
  fetch: host => fetch(at(host, 'fetch'), {mode: 'no-cors'}),
  redirect: host => fetch('/to?' + at(host, 'redirect'), {mode: 'no-cors'}),
  image: host => new Promise(done => { const e = new Image(); e.onload = e.onerror = done; e.src = at(host, 'image') }),
  frame: host => new Promise(done => { const e = document.createElement('iframe'); e.onload = done; e.src = at(host, 'frame'); document.body.append(e) }),
  socket: host => new Promise(done => { const s = new WebSocket(at(host, 'socket').replace('http', 'ws')); s.onopen = s.onclose = done }),
  script: host => element('script', {src: at(host, 'script')}),
  style: host => element('link', {rel: 'stylesheet', href: at(host, 'style')}),
  preload: host => element('link', {rel: 'preload', as: 'fetch', href: at(host, 'preload')}),
  video: host => element('video', {src: at(host, 'video')}),
  font: host => new FontFace('x', 'url(' + at(host, 'font') + ')').load(),
  module: host => import(at(host, 'module')),
  events: host => new Promise(done => { const e = new EventSource(at(host, 'events')); e.onopen = e.onerror = () => { e.close(); done() } }),
  xhr: host => new Promise(done => { const x = new XMLHttpRequest(); x.onloadend = done; x.open('GET', at(host, 'xhr')); x.send() }),
  form: async host => {
    const frame = document.createElement('iframe')
    frame.name = 'form' + host
    document.body.append(frame)
    const form = document.createElement('form')
    Object.assign(form, {action: at(host, 'form'), method: 'POST', target: frame.name})
    document.body.append(form)
    await new Promise(done => { frame.onload = done; form.submit() })
  },
  data: host => new Promise(done => {
    const id = Math.random()
    addEventListener('message', e => { if (e.data == id) done() })
    element('iframe', {sandbox: 'allow-scripts', src: 'data:text/html,' + encodeURIComponent('<script>fetch("' + at(host, 'data') + '", {mode: "no-cors"}).catch(() => 0).then(() => parent.postMessage(' + id + ', "*"))</' + 'script>')})
  }),
  worker: host => new Promise(done => { const w = new Worker('/worker.js?' + at(host, 'worker')); w.onmessage = w.onerror = done }),
  nested: host => new Promise(done => { const w = new Worker('/nested.js?' + at(host, 'nested')); w.onmessage = w.onerror = done }),
  imported: host => new Promise(done => { const w = new Worker('/imports.js?' + at(host, 'imported')); w.onmessage = w.onerror = done }),
  shared: host => new Promise(done => { const w = new SharedWorker('/worker.js?' + at(host, 'shared')); w.port.onmessage = w.onerror = done }),
  inner: host => new Promise(done => { const w = new Worker('/inner.js?' + at(host, 'inner').replace('http', 'ws')); w.onmessage = w.onerror = done }),
  service: async host => { await navigator.serviceWorker.register('/service.js?' + at(host, 'service'), {scope: '/' + host + '/'}).then(r => new Promise(done => {
    const w = r.installing || r.waiting || r.active
    const check = () => w.state == 'activated' || w.state == 'redundant' ? done() : 0
    w.onstatechange = check
    check()
  }), () => 0) },
}
function element(tag, attributes) {
  return new Promise(done => {
    const e = Object.assign(document.createElement(tag), attributes)
    e.onload = e.onerror = e.onloadedmetadata = done
    document.body.append(e)
  })
}
async function attempt(hosts, names) {
  await Promise.all(hosts.flatMap(h => names.map(n => ways[n](h).catch(() => 0))))
  say('tried ' + hosts.length)
}
function say(text) {
  const p = document.createElement('p')
  p.textContent = text
  document.body.prepend(p)
}
</script>`

// scripts are those of the hostile page's workers. The address that they try is their own query.
var scripts = map[string]string{
	"/worker.js":  `const done = new Promise(d => { onconnect = e => d(e.ports[0]); if (!self.SharedWorkerGlobalScope) d(self) }); fetch(location.search.slice(1), {mode: 'no-cors'}).catch(() => 0).then(async () => (await done).postMessage(0))`,
	"/nested.js":  `const w = new Worker('/worker.js' + location.search); w.onmessage = w.onerror = () => postMessage(0)`,
	"/imports.js": `try { importScripts(location.search.slice(1)) } catch {} postMessage(0)`,
	"/inner.js":   `const s = new WebSocket(location.search.slice(1)); s.onopen = s.onclose = () => postMessage(0)`,
}

// canary is a server for the page, on all addresses of this machine. It notes what it is asked at any other than 127.0.0.1.
type canary struct {
	port string

	mu      sync.Mutex
	reached []string // ways
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch way, ok := strings.CutPrefix(r.URL.Path, "/way/"); {
		case ok:
			c.note(way)
		case r.URL.Path == "/to":
			http.Redirect(w, r, r.URL.RawQuery, http.StatusFound)
		case scripts[r.URL.Path] != "":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, scripts[r.URL.Path])
		case r.URL.Path == "/service.js":
			w.Header().Set("Content-Type", "text/javascript")
			w.Header().Set("Service-Worker-Allowed", "/")
			fmt.Fprintf(w, "oninstall = e => e.waitUntil(fetch(%q, {mode: 'no-cors'}).catch(() => 0))", r.URL.RawQuery)
		case r.URL.Path == "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		default:
			fmt.Fprint(w, hostile)
		}
	}))
	_ = s.Listener.Close()
	var err error
	if s.Listener, err = net.Listen("tcp", ":0"); err != nil {
		t.Fatal(err)
	}
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if host, _, _ := net.SplitHostPort(conn.LocalAddr().String()); state == http.StateNew && host != "127.0.0.1" {
			c.note("connection to " + host)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	_, c.port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return c
}

func (c *canary) note(way string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.reached, way) {
		c.reached = append(c.reached, way)
	}
}

func (c *canary) ways() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.reached))
}

// ways are those of the hostile page.
var ways = []string{
	"data", "events", "fetch", "font", "form", "frame", "image", "imported", "inner", "module", "nested", "preload", "redirect", "script", "service", "shared", "socket", "style", "video",
	"worker", "xhr",
}

// A page reaches no host of this machine that no rule names, and no metadata service, in whatever way it asks and however it spells it; with a
// rule, all of these ways lead there.
func TestBrowserReachesNoLocalHost(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string]string{"with a rule": `["127.0.0.1", "127.0.0.2"]`, "without": `["127.0.0.1"]`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanary(t)
			attempt := func(id, hosts, names string) string {
				return act(id, fmt.Sprintf("{ evaluate = { code = %q } }", "attempt(["+hosts+"], "+names+"); 0")) + act(id+"w", fmt.Sprintf("{ wait_for = { text = \"tried %d\", seconds = 60 } }", 1+strings.Count(hosts, ",")))
			}
			script := act("c1", fmt.Sprintf("{ navigate = { url = \"http://127.0.0.1:%s/\" } }", c.port)) + attempt("c2", "'127.0.0.2'", "Object.keys(ways)")
			var at []string
			if name == "without" {
				script += attempt("c3", "'127.2', '0x7f000002', '017700000002', 'localhost', '[::1]', '[::ffff:127.0.0.2]', '0.0.0.0', '169.254.169.254', 'metadata.google.internal'", "Object.keys(ways)")
				for i, host := range []string{"127.0.0.2", "localhost", "[::1]", "169.254.169.254"} {
					at = append(at, fmt.Sprintf("n%d", i))
					script += act(at[i], fmt.Sprintf("{ navigate = { url = \"http://%s:%s/way/navigate\" } }", host, c.port))
				}
			}
			r := newBrowser(t, browsers[0], script+done)
			r.OK("exec", "-c", "sandbox.mode=full-access", "-c", "network.mode=proxy", "-c", "network.allow="+allow, "go")
			out := r.Last().Outputs()
			if out["c2w"] == "" || strings.Contains(out["c2w"]+out["c3w"], "failed") {
				t.Fatalf("%s\n%s\n%s\n%s", out["c1"], out["c2"], out["c2w"], out["c3w"])
			}
			if got := c.ways(); name == "without" && len(got) > 0 || name != "without" && !slices.Equal(got, append([]string{"connection to 127.0.0.2"}, ways...)) {
				t.Errorf("the page has reached %q", got)
			}
			for _, id := range at {
				if !strings.Contains(out[id], "on this machine or in a private network") {
					t.Errorf("%s: %s", id, out[id])
				}
			}
			r.NothingLeft()
		})
	}
}

// No file of the machine is seen, by whatever address it is opened, nor is a page of the browser's own.
func TestBrowserOpensNoFile(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	page := "http://127.0.0.1:" + c.port
	go2 := func(id, url string) string { return act(id, fmt.Sprintf("{ navigate = { url = %q } }", url)) }
	eval := func(id, code string) string { return act(id, fmt.Sprintf("{ evaluate = { code = %q } }", code)) }
	script := go2("c1", page)
	refused := map[string]string{}
	for i, url := range []string{"file:///SECRETS/key", "view-source:file:///SECRETS/key", "FILE:///SECRETS/key", "chrome://version", "chrome-untrusted://print", "devtools://devtools/bundled/inspector.html", "data:text/html,x", "javascript:1"} {
		id := fmt.Sprintf("u%d", i)
		refused[id] = url
		script += go2(id, url)
	}
	script += go2("r1", page+"/file") + go2("c2", page)
	for i, code := range []string{
		"location.href = 'file:///SECRETS/key'; 0", "!!window.open('file:///SECRETS/key')",
		"fetch('file:///SECRETS/key').then(r => r.text(), e => 'no')",
		"const e = document.createElement('iframe'); e.src = 'file:///SECRETS/key'; document.body.append(e); 0",
		"location.href = 'chrome://version'; 0",
	} {
		script += eval(fmt.Sprintf("e%d", i), code)
	}
	script += "[[step]]\ndo = [{ call = \"browser_state\", id = \"last\", args = { mode = \"full\" } }]\n"
	dir, err := os.MkdirTemp("/var/tmp", "gantry-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("KEY OF THE USER"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newBrowser(t, browsers[0], strings.ReplaceAll(script, "/SECRETS", dir)+done)
	r.OK(append(append([]string{"exec"}, reaching("full-access")...), "go")...)
	out := r.Last().Outputs()
	for id, text := range out {
		if strings.Contains(text, "KEY OF THE USER") || strings.Contains(text, "root:") || strings.Contains(text, "Command Line") {
			t.Errorf("%s: %s", id, text)
		}
	}
	for id, url := range refused {
		if !strings.Contains(out[id], "only http and https are") {
			t.Errorf("%s: %s", url, out[id])
		}
	}
	if !strings.Contains(out["c1"], "Hostile") || !strings.Contains(out["last"], "Hostile") {
		t.Errorf("the page was not there: %s\n%s", out["c1"], out["last"])
	}
	r.NothingLeft()
}
