//go:build unix

package target_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func value(ctx context.Context, t *testing.T, x *target.Tab, code string) string {
	t.Helper()
	r, err := protocol.Call(ctx, x.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, ReturnByValue: new(true)})
	if err != nil || r.ExceptionDetails != nil {
		t.Fatal(err, r.ExceptionDetails)
	}
	return string(r.Result.Value)
}

func part(ctx context.Context, t *testing.T, b *target.Browser, own bool, o target.Options) *target.Browser {
	t.Helper()
	p, err := b.Part(ctx, own, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// popup opens a window from a page, in one of the ways in which pages do, and returns its tab in a part of the browser.
func popup(ctx context.Context, t *testing.T, from *target.Tab, of *target.Browser, code string) *target.Tab {
	t.Helper()
	before := of.Tabs()
	if err := eval(ctx, from, code); err != nil {
		t.Fatal(err)
	}
	for {
		changed := of.Changed()
		for _, x := range of.Tabs() {
			if !slices.Contains(before, x) {
				return x
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: no tab has become that of the part", code)
		}
	}
}

// Each part has its own tabs with what they open, and its own judge, settings and events. Parts with contexts of their own share no cookies.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		t.Run(map[bool]string{true: "own contexts", false: "one context"}[own], func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			var judged [2]atomic.Int32
			judge := func(i int) func(target.Request, func(error)) {
				return func(r target.Request, answer func(error)) { judged[i].Add(1); answer(nil) }
			}
			ctx, first := open(t, target.Options{Judge: judge(0), Name: "first"})
			second := part(ctx, t, first, own, target.Options{Judge: judge(1), Name: "second"})
			var events atomic.Int32
			defer second.Observe(func(_ cdp.Event, x *target.Tab) {
				if x != nil {
					events.Add(1)
				}
			})()
			a := tab(ctx, t, first, s.URL+"/a")
			if n := judged[1].Load() + events.Load(); n != 0 || judged[0].Load() == 0 {
				t.Errorf("the second part saw %d events of the first; its own judge saw %d", n, judged[0].Load())
			}
			if len(second.Tabs()) != 0 {
				t.Errorf("%d tabs of a part that has opened none", len(second.Tabs()))
			}
			b := tab(ctx, t, second, s.URL+"/b")
			if judged[1].Load() == 0 || events.Load() == 0 {
				t.Error("the second part sees nothing of its own tab")
			}
			if l := second.Tabs(); len(l) != 1 || l[0] != b || slices.Contains(first.Tabs(), b) {
				t.Errorf("tabs %v and %v", first.Tabs(), l)
			}
			if name, ok := first.Owner(strings.ToUpper(b.Name())); !ok || name != "second" {
				t.Errorf("the owner is %q, %v", name, ok)
			}
			if _, s := first.Find(b.ID); s != nil {
				t.Error("a part finds the tab of another")
			}
			if err := eval(ctx, a, `document.cookie = "x=1"`); err != nil {
				t.Fatal(err)
			}
			if got := value(ctx, t, b, `document.cookie`); (got == `""`) != own {
				t.Errorf("the cookies in the other part are %s", got)
			}
			opened := popup(ctx, t, b, second, `void window.open("/c")`)
			popup(ctx, t, b, second, `{ const l = document.createElement("a"); l.href = "/d"; l.target = "_blank"; document.body.append(l); l.click() }`)
			popup(ctx, t, opened, second, `void window.open("/e", "", "noopener")`)

			if err := second.Give(opened, first); err != nil {
				t.Fatal(err)
			}
			if err := second.Give(opened, first); err == nil {
				t.Error("a tab of another part is given away")
			}
			if !slices.Contains(first.Tabs(), opened) || slices.Contains(second.Tabs(), opened) {
				t.Error("the tab is not handed over")
			}
			popup(ctx, t, opened, first, `void window.open("/f", "", "noopener")`)
			if err := second.End(ctx); err != nil {
				t.Fatal(err)
			}
			if !b.Info().Closed || a.Info().Closed || opened.Info().Closed {
				t.Errorf("closed are: second's %v, first's %v, what was handed over %v", b.Info().Closed, a.Info().Closed, opened.Info().Closed)
			}
			for _, x := range first.Tabs()[1:] {
				if err := x.Close(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What an agent waits for when it begins to use a browser that runs: its context. Its first tab takes as long as one of anybody else.
func BenchmarkBrowserContext(b *testing.B) {
	r, w := chromiumtest.Start(b)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	first, err := target.Open(ctx, r, w, target.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer first.Close()
	var own, other time.Duration
	tab := func(p *target.Browser, took *time.Duration) {
		begin := time.Now()
		x, err := p.NewTab(ctx)
		if *took += time.Since(begin); err == nil && p == first {
			err = x.Close(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		p, err := first.Part(ctx, true, target.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		tab(p, &own)
		tab(first, &other)
		if err := p.End(ctx); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(own.Seconds()*1000/float64(b.N), "ms/first-tab")
	b.ReportMetric(other.Seconds()*1000/float64(b.N), "ms/other-tab")
}
