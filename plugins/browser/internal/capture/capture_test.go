//go:build unix

package capture_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pages is a server and a tab.
type pages struct {
	t    testing.TB
	ctx  context.Context
	tab  *target.Tab
	url  string
	mu   sync.Mutex
	html map[string]string
}

func newPages(t testing.TB) *pages {
	t.Helper()
	p := &pages{t: t, html: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><meta charset=utf-8><link rel=icon href=data:,><body style=\"margin:0\">"+p.html[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	p.ctx = ctx
	r, w := chromiumtest.Start(t)
	b, err := target.Open(ctx, r, w, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if p.tab, err = b.NewTab(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pages) serve(path, html string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.html[path] = html
}

func (p *pages) open(html string) {
	p.t.Helper()
	p.serve("/", html)
	before := p.tab.Info().Document
	if _, err := protocol.Call(p.ctx, p.tab.Session, page.Navigate, page.NavigateParams{URL: p.url}); err != nil {
		p.t.Fatal(err)
	}
	err := p.tab.Wait(p.ctx, time.Time{}, func(i target.Info, n int) bool { return i.Document != before && !i.Loading && n == 0 })
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pages) eval(code string) {
	p.t.Helper()
	r, err := protocol.Call(p.ctx, p.tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: code, AwaitPromise: new(true)})
	if err != nil || r.ExceptionDetails != nil {
		p.t.Fatal(err, r.ExceptionDetails)
	}
}

func (p *pages) take(b *state.Book) *state.State {
	p.t.Helper()
	x, err := capture.Read(p.ctx, p.tab)
	if err != nil {
		p.t.Fatal(err)
	}
	return b.Take(x.Tree)
}

func text(s *state.State) string {
	t, _ := s.Text(0, 1<<20)
	return strings.TrimRight(t, "\n")
}

// The rows of the reference, with what ours shows. Where that differs from the reference, the row says why.
func TestVectors(t *testing.T) {
	p := newPages(t)
	for _, row := range []struct{ name, html, script, want string }{
		{"V01", `<a href=/a title="Home page">Home</a><button type=button>Go</button><button type=submit id=s>Send</button><p>Plain paragraph</p><span>x</span>`, "",
			"[1]<a title=Home page />\n\tHome\n[2]<button />\n\tGo\n[3]<button type=submit id=s />\n\tSend\nPlain paragraph\nx"}, // a single character is text
		{"V02", `<button disabled>No</button><button aria-disabled=true>Aria</button><div aria-hidden=true><button>Hid</button></div>`, "",
			"No\nAria\n[1]<button />\n\tHid"},
		{"V03", `<label for=q>Query</label><input id=q><label><span><input type=radio name=r> One</span></label>`, "",
			"Query\n[1]<input id=q />\n[2]<label />\n\t[3]<span />\n\t\t[4]<input type=radio name=r checked=false />\n\t\tOne"},
		{"V04", `<input type=file style="display:none" id=f accept=".pdf" multiple><input type=file style="opacity:0" id=g>`, "",
			"[1]<input type=file id=f accept=.pdf />\n[2]<input type=file id=g />"}, // no parts of a control that is acted on as a whole
		{"V09", `<div onclick="1">Oc</div><div tabindex=0>Tab</div><div role=button>Role</div><div style="cursor:pointer">Ptr</div><div id=lis>Lis</div><div>none</div>`,
			"lis.addEventListener('click', () => {})",
			"[1]<div />\n\tOc\n[2]<div />\n\tTab\n[3]<div role=button />\n\tRole\n[4]<div />\n\tPtr\n[5]<div id=lis />\n\tLis\nnone"},
		{"V10", `<button style="padding:10px"><span>Inner</span><span role=button>RB</span><span onclick=1>OC</span><span aria-label=lbl>AL</span><b tabindex=0>Tab</b></button><a href=/z style="display:block;width:300px;padding:5px"><div tabindex=0>Card</div></a>`, "",
			"[1]<button />\n\tInner\n\t[2]<span role=button />\n\t\tRB\n\t[3]<span />\n\t\tOC\n\t[4]<span aria-label=lbl />\n\t\tAL\n\tTab\n[5]<a />\n\tCard"},
		{"V11", `<button style="display:none">a</button><button style="visibility:hidden">b</button><button style="opacity:0">c</button><button style="opacity:.01">op01</button><button style="position:absolute;left:-500px">d</button><div style="height:1500px"></div><button>at1500</button><div style="height:500px"></div><button>at2000</button>`, "",
			"[1]<button />\n\top01\n[2]<button />\n\tat1500"},
		{"V12", `<button style="position:absolute;left:10px;top:10px;width:80px;height:30px">Under</button><p style="position:absolute;left:10px;top:60px;margin:0">Under text</p><div style="position:absolute;left:0;top:0;width:400px;height:300px;background:#fff"><button>Over</button></div>`, "",
			"[1]<button />\n\tOver"}, // as the later version: what is covered is not shown
		{"V13", `<button style="position:absolute;left:10px;top:10px;width:80px;height:30px">Under</button><div style="position:absolute;left:0;top:0;width:400px;height:300px"><button>Over</button></div>`, "",
			"[1]<button />\n\tUnder\n[2]<button />\n\tOver"},
		{"V14", `<button style="position:absolute;left:10px;top:10px;width:80px;height:30px">Under</button><div style="position:absolute;left:0;top:0;width:400px;height:300px;background:#fff;opacity:.79"><button>Over</button></div>`, "",
			"[1]<button />\n\tUnder\n[2]<button />\n\tOver"},
		{"V16", `<div style="height:100px;width:200px;overflow:auto"><div style="height:350px">Long text inside</div></div>`, "",
			"|scroll element[1]<div /> (0.0 pages above, 2.5 pages below)\n\tLong text inside"},
		{"V17", `<div style="height:100px;width:200px;overflow:auto"><div style="height:350px"><button>In</button></div></div>`, "",
			"|scroll element|<div /> (0.0 pages above, 2.5 pages below)\n\t[1]<button />\n\t\tIn"},
		{"V18", `<div role=listbox style="height:100px;width:200px;overflow:auto"><div role=option>One item</div><div style="height:350px" role=option>Two item</div></div>`, "",
			"|scroll element[1]<div role=listbox /> (0.0 pages above, 2.7 pages below)\n\t[2]<div role=option />\n\t\tOne item\n\t[3]<div role=option />\n\t\tTwo item"}, // states only if the page has them
		{"V20", `<iframe width=300 height=200 id=fr srcdoc="<p>Inside frame</p><button>FrameBtn</button><div style='height:300px'></div><button>LowBtn</button>"></iframe>`, "",
			"[1]<iframe id=fr /> (scroll)\n\tInside frame\n\t[2]<button />\n\t\tFrameBtn\n\t[3]<button />\n\t\tLowBtn"},
		{"V21", `<iframe width=300 height=200 srcdoc="<button>Top</button><div style='height:2000px'></div><button>Deep button</button><input placeholder='Deep field'>"></iframe>`, "",
			"[1]<iframe /> (scroll)\n\t[2]<button />\n\t\tTop\n\t... (2 more elements below - scroll to reveal)"},
		{"V22", `<iframe width=90 height=200 srcdoc="<button>Small</button>"></iframe>`, "", "|IFRAME|<iframe />\n\t[1]<button />\n\t\tSmall"},
		{"V26", `<div id=h></div>`, "h.attachShadow({mode: 'open'}).innerHTML = '<button>SBtn</button><input placeholder=Sin>'",
			"Open Shadow\n\t[1]<button />\n\t\tSBtn\n\t[2]<input placeholder=Sin />\nShadow End"},
		{"V28", `<div aria-label=ghost style="display:none"><button>InGhost</button></div><div style="display:none"><button>InNone</button></div>`, "", ""},
		{"V32", `<input type=password value=hunter2 id=pw><input type=text value=shown id=tx><input id=jsv><textarea id=ta>Area text</textarea><input type=email id=em>`, "jsv.value = 'by script'; em.value = 'a@b'",
			"[1]<input type=password id=pw value-state=filled />\n[2]<input type=text id=tx value=shown />\n[3]<input id=jsv value=by script />\n[4]<textarea id=ta value=Area text />\n[5]<input type=email id=em value=a@b />"}, // live values
		{"V33", `<input placeholder="` + strings.Repeat("p", 120) + `"><input id=samevalue1 name=samevalue1 aria-label=samevalue1><input id=abc name=abc>`, "",
			"[1]<input placeholder=" + strings.Repeat("p", 100) + "... />\n[2]<input id=samevalue1 aria-label=samevalue1 />\n[3]<input id=abc name=abc />"},
		{"V35", `<div role=checkbox aria-checked=mixed tabindex=0>Mix</div><div role=tab aria-selected=true>Tab1</div><button aria-expanded=false aria-haspopup=menu>Menu</button><button aria-pressed=true>Prs</button>`, "",
			"[1]<div role=checkbox aria-checked=mixed checked=mixed />\n\tMix\n[2]<div role=tab selected=true />\n\tTab1\n[3]<button expanded=false haspopup=menu />\n\tMenu\n[4]<button pressed=true />\n\tPrs"},
		{"V37", `<div>a</div><div>ab</div><div>  spaced   text  </div><p>Hello <b>bold</b> world</p>`, "", "a\nab\nspaced   text\nHello\nbold\nworld"},
		{"V39", `<div contenteditable=true>Edit me</div><div contenteditable=false>Not me</div><div role=textbox contenteditable>RT</div><div role=combobox aria-controls=lb aria-expanded=false>CB</div>`, "",
			"[1]<div contenteditable=true />\n\tEdit me\nNot me\n[2]<div role=textbox />\n\tRT\n[3]<div role=combobox expanded=false />\n\tCB"},
		{"V40", `<input type=checkbox checked><input type=checkbox><input type=radio name=r checked><input type=radio name=r>`, "",
			"[1]<input type=checkbox checked=true />\n[2]<input type=checkbox checked=false />\n[3]<input type=radio name=r checked=true />\n[4]<input type=radio name=r checked=false />"},
		{"V42", `<table><tr><th>Name<th>Age<tr><td>Ann<td>30<tr><td>Bob<td>31</table>`, "", "Name\nAge\nAnn\n30\nBob\n31"}, // rows and cells only with listeners
		{"V43", ``, "", ""},
		{"V44", `<ul role=menu><li role=menuitem>File menu</li><li>Plain li</li></ul><nav><a href=#a>Sec A</a></nav>`, "",
			"[1]<li role=menuitem />\n\tFile menu\nPlain li\n[2]<a />\n\tSec A"},
		{"V45", `<p>Background text here</p><button>Bg</button><dialog id=d><p>Dialog text</p><button>OK</button></dialog>`, "d.showModal(); document.activeElement.blur()",
			"Background text here\nBg\nDialog text\n[1]<button />\n\tOK"}, // what is behind a modal dialog has no numbers
	} {
		p.open(row.html)
		if row.script != "" {
			p.eval(row.script)
		}
		if got := text(p.take(&state.Book{})); got != row.want {
			t.Errorf("%s\n got %q\nwant %q", row.name, got, row.want)
		}
	}
}

func TestFrameOfAnotherSite(t *testing.T) {
	p := newPages(t)
	p.serve("/f", "<p>Cross text</p><button>CrossBtn</button>")
	p.open(`<iframe width=300 height=200 src="` + strings.Replace(p.url, "127.0.0.1", "localhost", 1) + `/f"></iframe>`)
	if len(p.tab.Parts()) != 1 {
		t.Fatal("the frame is in the process of the page")
	}
	if got, want := text(p.take(&state.Book{})), "[1]<iframe />\n\tCross text\n\t[2]<button />\n\t\tCrossBtn"; got != want {
		t.Errorf("%q", got)
	}
}

// An element keeps its number, whatever comes before it; another document begins with 1.
func TestNumbersAndChanges(t *testing.T) {
	p := newPages(t)
	p.open(`<div id=top></div><button id=a>A</button><input id=i><p>one<p>two<p>three<p>four<p>a longer paragraph that stays as it is`)
	b := &state.Book{}
	first := p.take(b)
	p.eval("document.getElementById('top').innerHTML = '<button id=n>New</button>'; document.getElementById('i').value = 'typed'; document.querySelector('p').remove()")
	second := p.take(b)
	if got, want := text(second), "*[3]<button id=n />\n\tNew\n[1]<button id=a />\n\tA\n[2]<input id=i value=typed />\ntwo\nthree\nfour\na longer paragraph that stays as it is"; got != want {
		t.Errorf("%q", got)
	}
	if d, ok := second.Delta(first); !ok || d != "+ [3]<button id=n />\n+ \tNew\n~ [2]<input id=i value=typed />\n- one\n" {
		t.Errorf("%v %q", ok, d)
	}
	if d, ok := second.Delta(second); !ok || d != "" {
		t.Errorf("%v %q", ok, d)
	}
	p.open("<button>Other</button>")
	third := p.take(b)
	if got := text(third); got != "[1]<button />\n\tOther" {
		t.Errorf("%q", got)
	}
	if _, ok := third.Delta(second); ok {
		t.Error("there are changes between two documents")
	}
}

// The page sees nothing of being read.
func TestNothingIsWritten(t *testing.T) {
	p := newPages(t)
	p.open("<button>A</button><iframe srcdoc=x></iframe>")
	p.eval(`globalThis.seen = 0; new MutationObserver(l => seen += l.length).observe(document, {subtree: true, childList: true, attributes: true, characterData: true})`)
	p.take(&state.Book{})
	p.eval(`(async () => { await new Promise(r => setTimeout(r)); if (seen || globalThis.gantry) throw 'the page was changed' })()`)
}

func table(cells int) string {
	kinds := []string{"<a href=#>link</a>", "<button>button</button>", "<input value=text>", "<input type=checkbox>", "<select><option>one<option>two</select>"}
	var b strings.Builder
	b.WriteString("<table>")
	for i := range cells {
		if i%5 == 0 {
			b.WriteString("<tr>")
		}
		b.WriteString("<td>" + kinds[i%5])
	}
	return b.String()
}

func BenchmarkState(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPages(b)
			p.open(table(n))
			book := &state.Book{}
			p.take(book)
			size := 0
			for b.Loop() {
				t, _ := p.take(book).Text(0, 40_000)
				size = len(t)
			}
			b.ReportMetric(float64(size), "text-bytes")
		})
	}
}
