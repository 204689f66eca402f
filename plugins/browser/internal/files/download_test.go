//go:build unix

package files_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched returns a browser's tab, and its downloads in a folder.
func watched(t *testing.T) (ctx context.Context, b *target.Browser, tab *target.Tab, d *files.Downloads, folder string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	folder = t.TempDir()
	if d, err = files.Watch(ctx, b, folder); err != nil {
		t.Fatal(err)
	}
	return ctx, b, b.Tabs()[0], d, folder
}

// began waits until a download has begun.
func began(ctx context.Context, t *testing.T, b *target.Browser, f func()) {
	t.Helper()
	events, stop := b.Root().Subscribe("Browser.downloadWillBegin")
	defer stop()
	f()
	select {
	case <-events:
	case <-ctx.Done():
		t.Fatal(context.Cause(ctx))
	}
}

func eval(ctx context.Context, t *testing.T, tab *target.Tab, code string) {
	t.Helper()
	if _, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, UserGesture: new(true)}); err != nil {
		t.Fatal(err)
	}
}

// A download has the page's name, made safe, its address, and the bytes; its file has a name that the page does not choose, and can be removed.
func TestDownload(t *testing.T) {
	ctx, b, tab, d, folder := watched(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/file" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<title>Page</title>")
			return
		}
		w.Header().Set("Content-Disposition", `attachment; filename="../../evil/.re port.txt"`)
		_, _ = io.WriteString(w, "the bytes")
	}))
	t.Cleanup(s.Close)
	if _, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: s.URL}); err != nil {
		t.Fatal(err)
	}
	began(ctx, t, b, func() { eval(ctx, t, tab, "location.href = '/file'") })
	d.Wait(ctx)
	ended, running, dropped := d.Take()
	if len(ended) != 1 || len(running) != 0 || dropped != 0 {
		t.Fatalf("%+v, %+v, %d", ended, running, dropped)
	}
	x := ended[0]
	if strings.ContainsAny(x.Name, `/\`) || !strings.HasSuffix(x.Name, "re port.txt") || x.URL != s.URL+"/file" || !strings.HasPrefix(x.Page, s.URL) || x.Failure != "" || x.Received != 9 {
		t.Errorf("%+v", x)
	}
	f, err := d.Open(x)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); string(got) != "the bytes" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_ = f.Close()
	if err := d.Remove(x); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "downloads")); len(left) > 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
	if ended, _, _ := d.Take(); len(ended) > 0 {
		t.Error("it is reported twice")
	}
}

// What a page makes itself is a download too.
func TestDownloadOfABlob(t *testing.T) {
	ctx, b, tab, d, _ := watched(t)
	began(ctx, t, b, func() {
		eval(ctx, t, tab, `const a = document.createElement('a'); a.href = URL.createObjectURL(new Blob(['x'])); a.download = 'f'; a.click()`)
	})
	d.Wait(ctx)
	if ended, _, _ := d.Take(); len(ended) != 1 || ended[0].Name != "f.txt" || !strings.HasPrefix(ended[0].URL, "blob:") || ended[0].Received != 1 {
		t.Errorf("%+v", ended)
	}
}

// A browser that a page has taken over may put anything where a download should be: nothing but a plain file of the folder is read.
func TestOpenedDownload(t *testing.T) {
	_, _, _, d, folder := watched(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(folder, "downloads", name) }
	for name, make := range map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink(secret, path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"relative": func(path string) error {
			return os.Symlink("../../"+filepath.Base(filepath.Dir(secret))+"/secret", path)
		},
	} {
		if err := make(at(name)); err != nil {
			t.Fatal(err)
		}
		if f, err := d.Open(files.Download{ID: name}); err == nil {
			_ = f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if f, err := d.Open(files.Download{ID: "missing"}); err == nil {
		_ = f.Close()
		t.Error("what is missing was opened")
	}
	// The folder itself leads elsewhere.
	if err := os.Rename(filepath.Join(folder, "downloads"), filepath.Join(folder, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(folder, "downloads")); err != nil {
		t.Fatal(err)
	}
	if f, err := d.Open(files.Download{ID: "secret"}); err == nil {
		_ = f.Close()
		t.Error("a file elsewhere was opened")
	}
	if err := d.Remove(files.Download{ID: "secret"}); err == nil {
		t.Error("a file elsewhere was removed")
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}
