//go:build unix

package tools

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Pages get mocked answers in all tabs, also in those to come, instead of those of sites, which are asked for nothing. What the plugin's block
// forbids is not mocked either.
func TestMocks(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<link rel=icon href=data:,>real ", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p, err := policy.New(nil, []string{"forbidden.example"})
	if err != nil {
		t.Fatal(err)
	}
	in, out := chromiumtest.Start(t)
	b, err := target.Open(ctx, in, out, target.Options{Judge: (&sites{policy: p}).judge})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	x := &viewer{t: t, ctx: ctx, p: &browserPlugin{config: &Config{}}, r: &running{Session: action.Session{Browser: b}}}
	if x.tab, err = x.r.Tab(ctx, ""); err != nil {
		t.Fatal(err)
	}
	open := func(url string) string {
		t.Helper()
		list, err := action.Parse(must(action.Read([]map[string]any{{"navigate": map[string]any{"url": url}}}))(t))
		if err != nil {
			t.Fatal(err)
		}
		x.r.Run(ctx, x.tab, list)
		return x.eval("document.body.innerText")
	}
	mock := func(list ...action.Mock) {
		t.Helper()
		if err := b.Mock(ctx, must(action.Mocks(list))(t)); err != nil {
			t.Fatal(err)
		}
	}
	host := strings.TrimPrefix(s.URL, "http://")
	if got := open(s.URL + "/a"); !strings.Contains(got, "real /a") {
		t.Fatal(got)
	}
	before := asked.Load()
	mock(
		action.Mock{URL: host + "/a", Body: "<p>mocked page"},
		action.Mock{URL: "http://" + host + "/api/*", Status: 418, Headers: map[string]string{"X-Mine": "yes"}, Body: `{"a":1}`},
		action.Mock{URL: host + "/away", Status: 302, Headers: map[string]string{"Location": "https://forbidden.example/"}},
		action.Mock{URL: "forbidden.example", Body: "must not be seen", Headers: map[string]string{"Access-Control-Allow-Origin": "*"}},
		action.Mock{URL: "other.example", Body: "<p>a site that there is not"},
	)
	if got := open(s.URL + "/a"); !strings.Contains(got, "mocked page") {
		t.Error(got)
	}
	const api = "fetch('/api/x').then(async r => [r.status, r.headers.get('x-mine'), r.headers.get('content-type'), await r.text()].join())"
	if got := x.eval(api); !strings.Contains(got, `418,yes,application/json,{"a":1}`) {
		t.Error(got)
	}
	for _, url := range []string{"https://forbidden.example/", s.URL + "/away"} {
		if got := open(url); strings.Contains(got, "must not") {
			t.Errorf("%s: %s", url, got)
		}
	}
	open(s.URL + "/a")
	if got := x.eval("fetch('https://forbidden.example/x').then(r => r.text(), e => 'failed')"); !strings.Contains(got, "failed") {
		t.Error(got)
	}
	if x.tab, err = b.NewTab(ctx); err != nil {
		t.Fatal(err)
	}
	if got := open("https://other.example/deep/path"); !strings.Contains(got, "a site that there is not") {
		t.Error(got)
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("the site was asked %d times", n)
	}
	mock()
	if got := open(s.URL + "/a"); !strings.Contains(got, "real /a") {
		t.Error(got)
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestMocksAreBounded(t *testing.T) {
	t.Parallel()
	for want, list := range map[string][]action.Mock{
		"more than 50 mocks":         make([]action.Mock, 51),
		"url must be a pattern":      {{}},
		"url has no host":            {{URL: "https:///x"}},
		"between 200 and 599":        {{URL: "a.example", Status: 101}},
		`"X\nY" is no header`:        {{URL: "a.example", Headers: map[string]string{"X\nY": "z"}}},
		`"X" is no header`:           {{URL: "a.example", Headers: map[string]string{"X": "a\r\nSet-Cookie: b"}}},
		"a body may have 262144":     {{URL: "a.example", Body: strings.Repeat("x", 256<<10+1)}},
		"mock 2 (b): status must be": {{URL: "a"}, {URL: "b", Status: 1000}},
	} {
		if _, err := action.Mocks(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
