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
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o target.Options) (context.Context, *target.Browser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return ctx, b
}

func tab(ctx context.Context, t *testing.T, b *target.Browser, url string) *target.Tab {
	t.Helper()
	x, err := b.NewTab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	navigate(ctx, t, x, url)
	return x
}

func navigate(ctx context.Context, t *testing.T, x *target.Tab, url string) {
	t.Helper()
	if _, err := protocol.Call(ctx, x.Session, page.Navigate, page.NavigateParams{URL: url}); err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(ctx, time.Time{}, func(i target.Info, n int) bool { return i.URL == url && !i.Loading && n == 0 && i.Document != "" }); err != nil {
		t.Fatalf("%v: %+v %q", err, x.Info(), x.Pending(time.Time{}))
	}
}

func eval(ctx context.Context, x *target.Tab, code string) error {
	return x.Do(ctx, func(ctx context.Context) error {
		r, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code})
		if err == nil && r.ExceptionDetails != nil {
			err = errors.New(r.ExceptionDetails.Text)
		}
		return err
	})
}

func serve(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s</title><p>%s", r.URL.Path, r.Host)
		if other := r.URL.Query().Get("frame"); other != "" {
			fmt.Fprintf(w, "<iframe src=%q></iframe>", other)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestTabs(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{})
	x := tab(ctx, t, b, s.URL+"/a")
	before := x.Info().Document
	if err := eval(ctx, x, "location.hash = 'h'; window.open('/popup')"); err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return strings.HasSuffix(i.URL, "/a#h") }); err != nil {
		t.Fatal(err)
	}
	if x.Info().Document != before {
		t.Error("a change of the hash is a new document")
	}
	tabs := b.Tabs()
	popup := tabs[len(tabs)-1]
	if popup.Info().Opener != x.ID {
		t.Errorf("%+v", popup.Info())
	}
	if err := popup.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if len(b.Tabs()) != len(tabs)-1 || !popup.Info().Closed {
		t.Errorf("%d tabs", len(b.Tabs()))
	}
	if err := eval(ctx, popup, "1"); !errors.Is(err, target.ErrClosed) {
		t.Error(err)
	}
}

// A frame of another site has a process, and a session, of its own.
func TestFrameOfAnotherSite(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{})
	x := tab(ctx, t, b, s.URL+"/a?frame="+strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/f")
	if err := x.Wait(ctx, time.Time{}, func(i target.Info, n int) bool { return !i.Loading && n == 0 }); err != nil {
		t.Fatal(err)
	}
	if p := x.Parts(); len(p) != 1 || p[0].Parent != x.ID {
		t.Errorf("%+v", p)
	}
	navigate(ctx, t, x, s.URL+"/b")
	if p := x.Parts(); len(p) != 0 {
		t.Errorf("%+v", p)
	}
}

func TestDialogs(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{})
	x := tab(ctx, t, b, s.URL+"/a")
	if err := eval(ctx, x, "alert('hello')"); err != nil {
		t.Fatal(err)
	}
	if n := x.TakeNotes(); len(n) != 1 || n[0] != "[alert] hello" || x.TakeNotes() != nil {
		t.Errorf("%q", n)
	}
	err := eval(ctx, x, "globalThis.answer = prompt('name?')")
	if e, ok := errors.AsType[*target.DialogError](err); !ok || e.Message != "name?" || e.Kind != "prompt" {
		t.Fatal(err)
	}
	if err := x.Answer(ctx, true, "gantry"); err != nil {
		t.Fatal(err)
	}
	if err := eval(ctx, x, "location.hash = answer"); err != nil {
		t.Fatal(err)
	}
	if err := x.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return strings.HasSuffix(i.URL, "#gantry") }); err != nil {
		t.Fatal(err)
	}
	if err := x.Answer(ctx, true, ""); err == nil {
		t.Error("a dialog that is not open was answered")
	}
}

// A crash of a tab ends what it was asked, and nothing else; it continues after a navigation.
func TestCrash(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{})
	other, x := tab(ctx, t, b, s.URL+"/other"), tab(ctx, t, b, s.URL+"/a")
	err := x.Do(ctx, func(ctx context.Context) error {
		_, err := protocol.Call(ctx, x.Session, page.Crash, protocol.Empty{})
		return err
	})
	if !errors.Is(err, target.ErrCrashed) {
		t.Fatal(err)
	}
	if err := eval(ctx, other, "1"); err != nil {
		t.Error(err)
	}
	navigate(ctx, t, x, s.URL+"/b")
	if err := eval(ctx, x, "1"); err != nil {
		t.Error(err)
	}
}

// Documents, also those of frames and redirects, are loaded only if their addresses are allowed.
func TestForbiddenDocuments(t *testing.T) {
	s := serve(t)
	ctx, b := open(t, target.Options{Judge: func(r target.Request, answer func(error)) {
		if strings.HasPrefix(r.URL, s.URL+"/no") {
			answer(errors.New("forbidden: " + r.URL))
			return
		}
		answer(nil)
	}})
	x := tab(ctx, t, b, s.URL+"/a?frame=/no")
	if n := x.TakeNotes(); len(n) != 1 || n[0] != "forbidden: "+s.URL+"/no" {
		t.Errorf("%q", n)
	}
	r, err := protocol.Call(ctx, x.Session, page.Navigate, page.NavigateParams{URL: s.URL + "/no2"})
	if err != nil || r.ErrorText != "net::ERR_BLOCKED_BY_CLIENT" {
		t.Errorf("%+v, %v", r, err)
	}
	if n := x.TakeNotes(); len(n) != 1 || n[0] != "forbidden: "+s.URL+"/no2" {
		t.Errorf("%q", n)
	}
}
