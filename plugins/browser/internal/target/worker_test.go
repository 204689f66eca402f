//go:build unix

package target_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Workers of every kind run, and what they ask for is judged like what their page asks for.
func TestWorkers(t *testing.T) {
	scripts := map[string]string{
		"/dedicated.js": "onmessage = async e => postMessage(e.data + await (await fetch('/data?dedicated')).text())",
		"/nested.js":    "const w = new Worker('/dedicated.js'); onmessage = e => w.postMessage(e.data); w.onmessage = e => postMessage(e.data)",
		"/shared.js":    "onconnect = e => e.ports[0].onmessage = async m => e.ports[0].postMessage(m.data + await (await fetch('/data?shared')).text())",
		"/service.js": "oninstall = e => skipWaiting(); onactivate = e => e.waitUntil(clients.claim());" +
			"onfetch = e => { if (e.request.url.endsWith('/served')) e.respondWith(fetch('/data?service').then(async r => new Response('service' + await r.text()))) }",
		"/worklet.js": "registerPaint('x', class { paint() {} })",
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text, ok := scripts[r.URL.Path]; {
		case ok:
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, text)
		case r.URL.Path == "/data":
			fmt.Fprint(w, "+data")
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>x")
		}
	}))
	t.Cleanup(s.Close)
	var mu sync.Mutex
	var judged []string
	ctx, b := open(t, target.Options{Parts: true, Judge: func(r target.Request, answer func(error)) {
		mu.Lock()
		defer mu.Unlock()
		judged = append(judged, r.URL+" of "+r.Page)
		answer(nil)
	}})
	x := tab(ctx, t, b, s.URL+"/")
	dedicated := func(name, path string) string {
		return fmt.Sprintf("new Promise((ok, no) => { const w = new Worker(%q); w.onmessage = e => ok(e.data); w.onerror = e => no(e.message); w.postMessage(%q) })", path, name)
	}
	for _, row := range []struct{ code, want, page string }{
		{dedicated("dedicated", "/dedicated.js"), "dedicated+data", "/"},
		{dedicated("nested", "/nested.js"), "nested+data", "/"},
		{"new Promise(ok => { const w = new SharedWorker('/shared.js'); w.port.onmessage = e => ok(e.data); w.port.postMessage('shared') })", "shared+data", "/shared.js"},
		{"navigator.serviceWorker.register('/service.js').then(() => navigator.serviceWorker.controller || new Promise(ok => navigator.serviceWorker.oncontrollerchange = ok)).then(() => fetch('/served')).then(r => r.text())", "service+data", "/service.js"},
		{"CSS.paintWorklet ? CSS.paintWorklet.addModule('/worklet.js').then(() => 'worklet') : 'worklet'", "worklet", ""},
	} {
		r, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: row.code, AwaitPromise: new(true), ReturnByValue: new(true)})
		if err != nil {
			t.Fatalf("%s: %v", row.want, err)
		}
		if string(r.Result.Value) != fmt.Sprintf("%q", row.want) {
			t.Errorf("%s: %s %+v", row.want, r.Result.Value, r.ExceptionDetails)
		}
		mu.Lock()
		if name, _, ok := strings.Cut(row.want, "+"); ok {
			if name == "nested" {
				name = "dedicated"
			}
			if want := s.URL + "/data?" + name + " of " + s.URL + row.page; !slices.Contains(judged, want) {
				t.Errorf("%q was not judged, but %q", want, judged)
			}
		}
		mu.Unlock()
	}
}

// The process that adopts a browser follows its tabs, workers and frames alone: nothing waits for the earlier one.
func TestAdoption(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "onmessage = async e => postMessage(e.data + await (await fetch('/data')).text())")
		case "/data":
			fmt.Fprint(w, "+data")
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>x")
		}
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w := chromiumtest.Start(t)
	o := target.Options{Judge: func(_ target.Request, answer func(error)) { answer(nil) }}
	again := func(f any) *os.File {
		conn, err := f.(*os.File).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		fd := -1
		if err := conn.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) }); err != nil || fd < 0 {
			t.Fatal(err)
		}
		if err := syscall.SetNonblock(fd, true); err != nil { // reading can be interrupted then
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), "pipe")
	}
	first, err := target.Open(ctx, again(r), again(w), o)
	if err != nil {
		t.Fatal(err)
	}
	tab(ctx, t, first, s.URL+"/")
	first.Close()
	o.Adopted = true
	b, err := target.Open(ctx, r, w, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tabs := b.Tabs()
	i := slices.IndexFunc(tabs, func(x *target.Tab) bool { return x.Info().URL == s.URL+"/" }) // the browser lists them in any order
	if i < 0 {
		t.Fatalf("%d tabs, and none has the page: %+v", len(tabs), tabs[0].Info())
	}
	x := tabs[i]
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	v, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{AwaitPromise: new(true), ReturnByValue: new(true), Expression: fmt.Sprintf(
		`Promise.all([new Promise(ok => { const f = document.createElement('iframe'); f.onload = ok; f.src = %q; document.body.append(f) }),
			new Promise(ok => { const w = new Worker('/worker.js'); w.onmessage = e => ok(e.data); w.postMessage('worker') })]).then(l => l[1])`, other)})
	if err != nil || string(v.Result.Value) != `"worker+data"` {
		t.Fatalf("%s %+v %v", v.Result.Value, v.ExceptionDetails, err)
	}
	if p := x.Parts(); len(p) != 1 {
		t.Errorf("%+v", p)
	}
}
