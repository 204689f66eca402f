//go:build unix

package target_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// A page that opens a web socket that is not allowed is left, also if one of its workers does.
func TestForbiddenSockets(t *testing.T) {
	const forbidden = "new WebSocket(location.origin.replace('http', 'ws') + '/no')"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, forbidden+"; postMessage(0)")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>x")
	}))
	t.Cleanup(s.Close)
	ctx, b := open(t, target.Options{Judge: func(r target.Request, answer func(error)) {
		if r.Socket && strings.HasSuffix(r.URL, "/no") {
			answer(fmt.Errorf("%s of %s", r.URL, r.Page))
			return
		}
		answer(nil)
	}})
	for _, code := range []string{forbidden, "new Worker('/worker.js')"} {
		x := tab(ctx, t, b, s.URL+"/")
		if err := eval(ctx, x, "new WebSocket(location.origin.replace('http', 'ws') + '/yes')"); err != nil {
			t.Fatal(err)
		}
		_ = eval(ctx, x, code) // it fails if the page is left before its answer
		if err := x.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.URL == "about:blank" && !i.Loading }); err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		want := "the page was left because it has opened a web socket: ws" + strings.TrimPrefix(s.URL, "http") + "/no of " + s.URL + "/"
		if n := x.TakeNotes(); len(n) != 1 || n[0] != want {
			t.Errorf("%q", n)
		}
	}
}

// Only what is judged is held up.
func TestPartsArePausedOnRequest(t *testing.T) {
	s := httptest.NewServer(parts(3))
	t.Cleanup(s.Close)
	for _, all := range []bool{false, true} {
		documents, others := make(chan string, 100), make(chan string, 100)
		ctx, b := open(t, target.Options{Parts: all, Judge: func(r target.Request, answer func(error)) {
			if r.Document {
				documents <- r.URL
			} else {
				others <- r.URL
			}
			answer(nil)
		}})
		tab(ctx, t, b, s.URL+"/")
		if want := map[bool]int{true: 3}[all]; len(documents) != 1 || len(others) != want {
			t.Errorf("%d documents, %d others; want 1, %d", len(documents), len(others), want)
		}
	}
}

// parts serves a page with images.
func parts(n int) http.Handler {
	const pixel = "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.Header().Set("Content-Type", "image/gif")
			fmt.Fprint(w, pixel)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<link rel=icon href=data:,>")
		for i := range n {
			fmt.Fprintf(w, "<img src=/%d.gif>", i)
		}
	})
}

// BenchmarkParts loads a page with 200 images: without judging, judging documents, and judging everything.
func BenchmarkParts(b *testing.B) {
	s := httptest.NewServer(parts(200))
	b.Cleanup(s.Close)
	judge := func(_ target.Request, answer func(error)) { answer(nil) }
	for name, o := range map[string]target.Options{"nothing": {}, "documents": {Judge: judge}, "everything": {Judge: judge, Parts: true}} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r, w := chromiumtest.Start(b)
			browser, err := target.Open(ctx, r, w, o)
			if err != nil {
				b.Fatal(err)
			}
			defer browser.Close()
			x, err := browser.NewTab(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				url := fmt.Sprintf("%s/?%d", s.URL, i)
				_, err := protocol.Call(ctx, x.Session, page.Navigate, page.NavigateParams{URL: url})
				if err == nil {
					err = x.Wait(ctx, time.Time{}, func(i target.Info, n int) bool { return i.URL == url && !i.Loading && n == 0 })
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A frame is judged wherever it is: in a page, or in a frame of another site.
func TestFramesAreJudged(t *testing.T) {
	s := serve(t)
	other := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	judged := make(chan target.Request, 100)
	ctx, b := open(t, target.Options{Judge: func(r target.Request, answer func(error)) {
		judged <- r
		if r.URL == s.URL+"/no" {
			answer(errors.New("no"))
			return
		}
		answer(nil)
	}})
	tab(ctx, t, b, s.URL+"/a?frame="+other+"/f?frame="+s.URL+"/no")
	var got []string
	for range 3 {
		select {
		case r := <-judged:
			got = append(got, fmt.Sprintf("%s %v %v", r.URL, r.Main, r.Document))
		case <-ctx.Done():
			t.Fatalf("only %q", got)
		}
	}
	want := []string{s.URL + "/a?frame=" + other + "/f?frame=" + s.URL + "/no true true", other + "/f?frame=" + s.URL + "/no false true", s.URL + "/no false true"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}

// What a page chooses freely, such as addresses, headers and texts, is kept in part only.
func TestTextsOfPagesAreBounded(t *testing.T) {
	s := httptest.NewServer(parts(0))
	t.Cleanup(s.Close)
	ctx, b := open(t, target.Options{})
	x := tab(ctx, t, b, s.URL+"/")
	const most = 5000
	const code = `(async () => { const long = 'x'.repeat(1e6); console.log(long, long); alert(long);
await fetch('/?' + long, {headers: {'X-Long': long.slice(0, 1e5)}}).catch(() => 0) })()`
	if _, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, AwaitPromise: new(true)}); err != nil {
		t.Fatal(err)
	}
	list := x.Requests()
	last := list[len(list)-1]
	if len(last.URL) < 1000 || len(last.URL) > most || len(last.Sent["X-Long"]) > most {
		t.Errorf("an address of %d bytes, a header of %d", len(last.URL), len(last.Sent["X-Long"]))
	}
	messages, err := x.Console(ctx)
	if err != nil || len(messages) == 0 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for _, m := range messages {
		if len(m.Text) > most {
			t.Errorf("a message of %d bytes", len(m.Text))
		}
	}
	if n := x.TakeNotes(); len(n) != 1 || len(n[0]) < 1000 || len(n[0]) > most {
		t.Errorf("%d notes", len(n))
	}
}
