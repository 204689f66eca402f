//go:build unix

package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/gif"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/at-wat/ebml-go"
	"github.com/at-wat/ebml-go/webm"
	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/record"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what the test reads of an archive.
type log struct {
	Log struct {
		Version string
		Pages   []struct{ ID string }
		Entries []struct {
			Pageref string
			Started time.Time `json:"startedDateTime"`
			Time    float64
			Request struct {
				Method, URL string
				Headers     []struct{ Name, Value string }
				PostData    struct{ Text string }
			}
			Response struct {
				Status      int
				RedirectURL string
				Content     struct{ MimeType, Text, Encoding string }
				Error       string `json:"_error"`
			}
			Timings map[string]float64
		}
	}
}

// A recording has the requests over http with their bodies, redirects, failures and posts, without logins and secrets; a trace that has them
// too; and an animation.
func TestRecorder(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Set-Cookie", "sid=cookie-value")
			fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><title>T</title><p>the body, with hunter2")
		case "/to":
			http.Redirect(w, r, "/end?q=hunter2", http.StatusFound)
		case "/picture":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte{0x89, 'P', 'N', 'G', 0xff, 0xfe})
		case "/broken":
			panic(http.ErrAbortHandler)
		default:
			fmt.Fprint(w, "ok")
		}
	}))
	defer s.Close()
	in, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, in, w, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tab := b.Tabs()[0]
	r, err := record.Start(b, []string{record.HAR, record.Trace, record.GIF})
	if err != nil {
		t.Fatal(err)
	}
	n, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document == string(n.LoaderID) && !i.Loading }); err != nil {
		t.Fatal(err)
	}
	const code = `(async () => { await (await fetch('/to')).text(); await (await fetch('/picture')).arrayBuffer(); await fetch('/broken').catch(() => 0); await (await fetch('/post', {method: 'POST', body: 'pw=hunter2&x=1'})).text(); })()`
	if _, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, AwaitPromise: new(true)}); err != nil {
		t.Fatal(err)
	}
	shot, err := protocol.Call(ctx, tab.Session, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatJpeg})
	if err != nil {
		t.Fatal(err)
	}
	r.Picture(shot.Data, "Opened the page with hunter2")
	r.Picture(shot.Data, strings.Repeat("a long caption ", 50))
	r.Action("navigate", "typed hunter2", time.Now().Add(-time.Second), time.Now())
	list, err := r.Stop(ctx, func(s string) string { return strings.ReplaceAll(s, "hunter2", "MASKED") })
	if err != nil || len(list) != 3 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	for _, f := range list {
		if bytes.Contains(f.Data, []byte("hunter2")) || bytes.Contains(f.Data, []byte("cookie-value")) {
			t.Errorf("%s has a secret", f.Name)
		}
	}
	var h log
	if err := json.Unmarshal(list[0].Data, &h); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h.Log.Entries {
		total := 0.0
		for k, v := range e.Timings {
			if v > 0 && k != "ssl" {
				total += v
			}
		}
		if e.Time < 0 || total > e.Time+1 || total < e.Time-1 || time.Since(e.Started) > time.Minute || e.Pageref != h.Log.Pages[0].ID {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprintf("%s %s %d %s%s|%s%s", e.Request.Method, strings.TrimPrefix(e.Request.URL, s.URL), e.Response.Status, strings.TrimPrefix(e.Response.RedirectURL, s.URL), e.Response.Error, e.Response.Content.Text, e.Request.PostData.Text))
	}
	want := []string{
		"GET / 200 |<!doctype html><link rel=icon href=data:,><title>T</title><p>the body, with MASKED", "GET /to 302 /end?q=MASKED|", "GET /end?q=MASKED 200 |ok", "GET /picture 200 |iVBOR//+",
		"GET /broken 0 net::ERR_EMPTY_RESPONSE|", "POST /post 200 |okpw=MASKED&x=1",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w || h.Log.Version != "1.2" {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
	var trace struct {
		TraceEvents []struct{ Name, Ph string }
	}
	if err := json.Unmarshal(list[1].Data, &trace); err != nil {
		t.Fatal(err)
	}
	names := fmt.Sprint(trace.TraceEvents)
	for _, w := range []string{"{navigate X}", "{document i}", "{POST " + s.URL + "/post X}"} {
		if !strings.Contains(names, w) {
			t.Errorf("no %s in %s", w, names)
		}
	}
	g, err := gif.DecodeAll(bytes.NewReader(list[2].Data))
	if err != nil || len(g.Image) != 2 || g.Config.Width != 800 {
		t.Errorf("%v, %+v", err, g)
	}
}

// A tab is filmed, and the browser makes a video of it that has its pictures.
func TestVideo(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	in, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, in, w, target.Options{Judge: func(_ target.Request, answer func(error)) { answer(nil) }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tab := b.Tabs()[0]
	r, err := record.Start(b, []string{record.Video})
	if err != nil {
		t.Fatal(err)
	}
	pictures, stop := tab.Session.Subscribe("Page.screencastFrame")
	defer stop()
	if err := r.Film(ctx, tab); err != nil {
		t.Fatal(err)
	}
	// Somebody watches for a while.
	watched := make(chan struct{})
	seen := sync.OnceFunc(func() { close(watched) })
	leave, err := tab.Cast(ctx, target.CastOptions{Width: 100, Height: 100, Quality: 50}, func(target.Frame) { seen() })
	if err != nil {
		t.Fatal(err)
	}
	<-watched
	leave()
	const move = "let n = 0; document.body.innerHTML = '<h1>0</h1>'; setInterval(() => { document.querySelector('h1').textContent = n++; document.body.style.background = `hsl(${n * 20} 90% 50%)` }, 150)"
	if _, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: move}); err != nil {
		t.Fatal(err)
	}
	for first := (time.Time{}); first.IsZero() || time.Since(first) < time.Second; {
		select {
		case <-pictures:
			if first.IsZero() {
				first = time.Now()
			}
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	list, err := r.Stop(ctx, func(s string) string { return s })
	if err != nil || len(list) != 1 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	var film struct {
		Header  webm.EBMLHeader `ebml:"EBML"`
		Segment webm.Segment    `ebml:"Segment,size=unknown"`
	}
	if err := ebml.Unmarshal(bytes.NewReader(list[0].Data), &film); err != nil {
		t.Fatal(err)
	}
	blocks, keys := 0, 0
	for _, c := range film.Segment.Cluster {
		for _, x := range c.SimpleBlock {
			blocks++
			if x.Keyframe {
				keys++
			}
		}
	}
	if track := film.Segment.Tracks.TrackEntry; film.Header.DocType != "webm" || len(track) != 1 || track[0].CodecID != "V_VP8" || track[0].Video.PixelWidth == 0 || blocks < 2 || keys == 0 {
		t.Errorf("%d blocks, %d complete, %+v", blocks, keys, film.Segment.Tracks)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]string{nil, {"film"}, {record.HAR, ""}} {
		if _, err := record.Start(nil, kinds); err == nil {
			t.Errorf("%q is recorded", kinds)
		}
	}
}
