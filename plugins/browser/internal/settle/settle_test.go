//go:build unix

package settle_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/settle"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a page in a new browser, and returns its tab once the document is the page's.
func open(t *testing.T, ctx context.Context, handler http.HandlerFunc) *target.Tab {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	tab, err := b.NewTab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document == string(n.LoaderID) }); err != nil {
		t.Fatal(err)
	}
	return tab
}

// A worker of a page is not waited for: the end of its requests is told to nobody.
func TestWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tab := open(t, ctx, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, "setInterval(() => postMessage(1))")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><p>text<script>new Worker('/w.js'); new Worker(URL.createObjectURL(new Blob(['1']))); new SharedWorker('/s.js')</script>")
	})
	if pending := settle.Wait(ctx, tab, time.Time{}, settle.Elsewhere); pending != nil {
		t.Errorf("still waiting for %q", pending)
	}
}

// A document of which a part is still to come is not quiet, even if nothing changes.
func TestIncompleteDocument(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rest := make(chan struct{})
	tab := open(t, ctx, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><p>first")
		w.(http.Flusher).Flush()
		select {
		case <-rest:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "<p>second")
	})
	f, err := capture.Main(ctx, tab)
	if err != nil {
		t.Fatal(err)
	}
	quiet := make(chan error, 1)
	go func() { // ends with the document, or with ctx
		var yes bool
		quiet <- f.Call(ctx, "quiet", &yes, 1)
	}()
	select {
	case err := <-quiet:
		t.Errorf("it is quiet before it is complete (%v)", err)
	case <-time.After(300 * time.Millisecond): // a hundred times what must be still
	}
	close(rest)
	if err := <-quiet; err != nil {
		t.Error(err)
	}
}
