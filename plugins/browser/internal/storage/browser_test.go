//go:build unix

package storage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/storage"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func browser(ctx context.Context, t *testing.T) *target.Browser {
	t.Helper()
	return judged(ctx, t, func(_ target.Request, answer func(error)) { answer(nil) })
}

func judged(ctx context.Context, t *testing.T, judge func(target.Request, func(error))) *target.Browser {
	t.Helper()
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, target.Options{Judge: judge})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func visit(ctx context.Context, t *testing.T, tab *target.Tab, url, code string) string {
	t.Helper()
	n, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document == string(n.LoaderID) }); err != nil {
		t.Fatal(err)
	}
	v, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, ReturnByValue: new(true)})
	if err != nil {
		t.Fatal(err)
	}
	var s string
	if err := json.Unmarshal(v.Result.Value, &s); err != nil {
		t.Fatalf("%s: %v", v.Result.Value, err)
	}
	return s
}

// What several sites have stored, also those that are no longer open, is there in another browser, for each of them. Nobody is asked for
// the documents in which it is read and written, not even a service worker.
func TestStorageOfAllOrigins(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var own atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/gantry-storage-") {
			own.Add(1)
		}
		if r.URL.Path == "/worker.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "onfetch = e => e.respondWith(new Response('mine'))")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "only", Value: "server", HttpOnly: true, MaxAge: 1000})
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,>")
	}))
	defer s.Close()
	here, there := s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	first := browser(ctx, t)
	seen := storage.Watch(first)
	visit(ctx, t, first.Tabs()[0], here, `localStorage.a = 'of here: "\u2028'; document.cookie = 'c=here'; navigator.serviceWorker.register('/worker.js'); ''`)
	visit(ctx, t, first.Tabs()[0], there, `localStorage.a = 'of there'; document.cookie = 'c=there; max-age=1000; samesite=strict'; ''`)
	visit(ctx, t, first.Tabs()[0], "about:blank", "''")
	saved, err := storage.Save(ctx, first, seen.All())
	if err != nil {
		t.Fatal(err)
	}
	if len(saved.Cookies) != 4 || len(saved.Origins) != 2 || len(first.Tabs()) != 1 {
		t.Errorf("%+v, %d tabs", saved, len(first.Tabs()))
	}
	second := browser(ctx, t)
	saved.Cookies = append(saved.Cookies, storage.Cookie{Name: "old", Value: "x", Domain: "localhost", Path: "/", Expires: 1})
	if err := storage.Load(ctx, second, saved, time.Now()); err != nil {
		t.Fatal(err)
	}
	tab := second.Tabs()[0]
	const read = "localStorage.a + ' ' + document.cookie"
	if got := visit(ctx, t, tab, here, read); got != "of here: \"\u2028 c=here" {
		t.Errorf("%q", got)
	}
	if got := visit(ctx, t, tab, there, read); got != "of there c=there" {
		t.Errorf("%q", got)
	}
	again, err := storage.Cookies(ctx, second)
	if err != nil || len(again) != 4 {
		t.Errorf("%+v, %v", again, err)
	}
	if n := own.Load(); n != 0 {
		t.Errorf("%d requests for documents of our own", n)
	}
}

// The documents of our own are made in their own tab only: a page that has learned their path, as the site's service worker can, is judged like
// any other, also while they are there.
func TestPathOfOwnDocumentsOpensNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asked := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,>")
	}))
	defer s.Close()
	b := judged(ctx, t, func(r target.Request, answer func(error)) {
		asked <- r.URL
		answer(nil)
	})
	visit(ctx, t, b.Tabs()[0], s.URL, "localStorage.a = 'x'; ''")
	if first := <-asked; first != s.URL+"/" {
		t.Fatal(first)
	}
	learned := ""
	err := storage.Secure(ctx, b, func(_ context.Context, own *target.Tab) error {
		learned = strings.TrimPrefix(own.Info().URL, "https://gantry.invalid")
		visit(ctx, t, b.Tabs()[0], s.URL+learned, "''")
		return nil
	})
	if err != nil || !strings.HasPrefix(learned, "/gantry-storage-") {
		t.Fatalf("%q, %v", learned, err)
	}
	select {
	case got := <-asked:
		if got != s.URL+learned {
			t.Errorf("asked about %s", got)
		}
	default:
		t.Error("nobody was asked about a page with the path")
	}
}
