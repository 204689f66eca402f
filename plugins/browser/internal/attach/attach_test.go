//go:build unix

package attach_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/attach"
	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:9222":               "127.0.0.1:9222",
		"https://browsers.example/x?token=s3": "browsers.example:443",
		"ws://[::1]:9222/devtools/browser/a":  "[::1]:9222",
		"wss://browsers.example":              "browsers.example:443",
	} {
		e, err := attach.Parse(text)
		if err != nil || e.String() != want {
			t.Errorf("%s: %v, %v", text, e, err)
		}
	}
	for _, text := range []string{"", "127.0.0.1:9222", "file:///etc", "http://", "http://h:0", "http://h:70000", "ftp://h", "ws://:9222"} {
		if e, err := attach.Parse(text); err == nil {
			t.Errorf("%q is %v", text, e)
		}
	}
	e, err := attach.Parse("ws://localhost:9222")
	if err != nil || !slices.Contains(e.Origins(), "http://127.0.0.1:9222") || !slices.Contains(e.Origins(), "https://[::1]:9222") {
		t.Errorf("%q, %v", e.Origins(), err)
	}
}

// relay starts one in this process, and returns its pipes, and its exit code when it has ended.
func relay(t *testing.T, address, proxy string) (io.ReadCloser, io.WriteCloser, func() (int, string)) {
	t.Helper()
	e, err := attach.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	greeting, err := e.Greeting(proxy)
	if err != nil {
		t.Fatal(err)
	}
	in, w := io.Pipe()
	r, out := io.Pipe()
	var printed strings.Builder
	code := make(chan int, 1)
	go func() { // owned by the test: ends when its pipes are closed
		c := attach.Main(in, out, &printed)
		_ = out.Close()
		_ = in.Close()
		code <- c
	}()
	if _, err := w.Write(greeting); err != nil {
		t.Fatal(err)
	}
	return r, w, func() (int, string) { return <-code, printed.String() }
}

// attached connects to a browser as the plugin does.
func attached(t *testing.T, address string) (context.Context, *target.Browser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, w, wait := relay(t, address, "")
	b, err := target.Open(ctx, r, w, target.Options{Attached: true, Judge: func(r target.Request, answer func(error)) {
		if strings.Contains(r.URL, "forbidden") {
			answer(fmt.Errorf("%s is forbidden", r.URL))
			return
		}
		answer(nil)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); wait() })
	return ctx, b
}

func eval(ctx context.Context, t *testing.T, x *target.Tab, code string) {
	t.Helper()
	r, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, UserGesture: new(true)})
	if err != nil || r.ExceptionDetails != nil {
		t.Fatalf("%v %+v", err, r.ExceptionDetails)
	}
}

// The user's tabs are neither known nor closed nor held up, and what was opened here is closed; popups of it are judged before they load.
func TestTabsOfTheUserAreLeftAlone(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/forbidden" {
			t.Error("a popup was not judged")
		}
		fmt.Fprintf(w, "<title>%s</title>page", r.URL.Path)
	}))
	defer s.Close()
	address := "http://" + chromiumtest.Listen(t)
	ctx, agent := attached(t, address)
	if tabs := agent.Tabs(); len(tabs) != 0 {
		t.Fatalf("a tab of the user is known: %v", tabs[0].Info())
	}
	// Another program opens a tab as the user would, which then opens a popup.
	_, user := attached(t, address)
	mine, err := user.NewTab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.Call(ctx, mine.Session, page.Navigate, page.NavigateParams{URL: s.URL + "/mine"}); err != nil {
		t.Fatal(err)
	}
	eval(ctx, t, mine, "open('/popup'); 1")
	loaded := func(b *target.Browser, path string) {
		t.Helper()
		for {
			changed := b.Changed()
			if slices.ContainsFunc(b.Tabs(), func(x *target.Tab) bool { i := x.Info(); return i.URL == s.URL+path && !i.Loading }) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("%s is not loaded", path)
			}
		}
	}
	loaded(user, "/popup")
	own, err := agent.NewTab(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.Call(ctx, own.Session, page.Navigate, page.NavigateParams{URL: s.URL + "/own"}); err != nil {
		t.Fatal(err)
	}
	eval(ctx, t, own, "open('/more', '_blank', 'noopener'); 1")
	loaded(agent, "/more")
	eval(ctx, t, own, "open('/forbidden'); 1")
	for len(agent.Tabs()) < 3 {
		select {
		case <-agent.Changed():
		case <-ctx.Done():
			t.Fatal("the popup is not a tab")
		}
	}
	if err := agent.CloseTabs(ctx); err != nil {
		t.Fatal(err)
	}
	titles, err := user.Titles(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, title := range titles {
		left = append(left, title)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"/mine", "/popup", "about:blank"}) {
		t.Errorf("left are %q", left)
	}
}

// A download of a tab of ours is cancelled and reported, and one of the user's is not.
func TestDownloadsAreRefused(t *testing.T) {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		w.Header().Set("Content-Disposition", `attachment; filename="a.txt"`)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
		if w.(http.Flusher).Flush(); r.URL.Path == "/ours" {
			<-over
		}
	}))
	defer s.Close()
	defer close(over)
	address := "http://" + chromiumtest.Listen(t)
	ctx, ours := attached(t, address)
	d, err := files.Refuse(ctx, ours)
	if err != nil {
		t.Fatal(err)
	}
	_, user := attached(t, address)
	_, err = protocol.Call(ctx, user.Root(), browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: t.TempDir(), EventsEnabled: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan string, 10)
	user.Observe(func(e cdp.Event, _ *target.Tab) {
		var p browser.EventDownloadProgress
		if e.Method == "Browser.downloadProgress" && e.Decode(&p) == nil && p.State != browser.DownloadProgressStateInProgress {
			states <- string(p.State)
		}
	})
	for _, x := range []struct {
		b          *target.Browser
		path, want string
	}{{ours, "/ours", "canceled"}, {user, "/user", "completed"}} {
		tab, err := x.b.NewTab(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: s.URL}); err != nil {
			t.Fatal(err)
		}
		eval(ctx, t, tab, fmt.Sprintf("location.href = %q; 1", x.path))
		select {
		case got := <-states:
			if got != x.want {
				t.Errorf("the download of %s is %s", x.path, got)
			}
		case <-ctx.Done():
			t.Fatalf("the download of %s does not end", x.path)
		}
	}
	ended, _, _ := d.Take()
	if len(ended) != 1 || ended[0].Name != "a.txt" || !strings.Contains(ended[0].Failure, "gantry did not start") || d.Remove(ended[0]) != nil {
		t.Errorf("%+v", ended)
	}
}

// Everything goes through the proxy, and its refusal is what the relay says, without what may be secret in the address.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	go func() { // owned by the test: ends with the listener
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			asked <- req.Method + " " + req.Host
		}
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied")
	}()
	defer l.Close()
	r, w, wait := relay(t, "https://browsers.example/k?token=hidden", l.Addr().String())
	defer r.Close()
	defer w.Close()
	code, printed := wait()
	if code != 1 || !strings.Contains(printed, "refuses browsers.example:443") || !strings.Contains(printed, "denied") || strings.Contains(printed, "hidden") {
		t.Errorf("%d %s", code, printed)
	}
	if got := <-asked; got != "CONNECT browsers.example:443" {
		t.Error(got)
	}
	if !attach.Wanted(attach.Argv(os.Args[0])) || attach.Wanted(os.Args[:1]) {
		t.Error("the mode of the binary is not recognized")
	}
}
