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
	"github.com/chromedp/cdproto/performance"
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
	return p.read(b, capture.Options{})
}

func (p *pages) read(b *state.Book, o capture.Options) *state.State {
	p.t.Helper()
	x, err := capture.Read(p.ctx, p.tab, o)
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
		// What a field wants is shown once, in its attributes, without the shadow roots that browsers build fields of.
		{"V05", `<input type=date id=d><input type=time><input type=datetime-local><input type=month><input type=week><input type=tel name=p>`, "",
			"[1]<input type=date id=d format=YYYY-MM-DD placeholder=YYYY-MM-DD />\n[2]<input type=time format=HH:MM placeholder=HH:MM />\n[3]<input type=datetime-local format=YYYY-MM-DDTHH:MM placeholder=YYYY-MM-DDTHH:MM />\n" +
				"[4]<input type=month format=YYYY-MM placeholder=YYYY-MM />\n[5]<input type=week format=YYYY-W## placeholder=YYYY-W## />\n[6]<input type=tel name=p placeholder=123-456-7890 />"},
		// No parts of a control that is acted on as a whole (they are always new there), and no bounds twice.
		{"V06", `<input type=range min=1 max=5 value=3><input type=number min=0><input type=color value="#ff0000">`, "",
			"[1]<input type=range min=1 max=5 value=3 />\n[2]<input type=number min=0 />\n[3]<input type=color value=#ff0000 />"},
		// The selected option, and more than four options instead of their count.
		{"V07", `<select id=a><option>1<option>2<option>3<option>4<option>5</select><select id=b><option value=US>United States<option value=DE>Germany</select><select id=c><optgroup label=G><option value=x>This option text is much longer than thirty chars</select>`, "",
			"[1]<select id=a selected=1 options=1|2|3|4|5 />\n[2]<select id=b selected=United States options=United States|Germany />\n" +
				"[3]<select id=c selected=This option text is much longe... options=This option text is much longe... />"},
		// Controls of media can be reached. What is acted on as a whole has no parts.
		{"V08", `<details><summary>More</summary>Hidden body</details><audio controls></audio><video controls width=300 height=150></video>`, "",
			"[1]<details />\n\t[2]<summary expanded=false />\n\t\tMore\n[3]<audio state=paused />\n[4]<video state=paused />"},
		{"V15", `<button style="position:absolute;left:10px;top:10px;width:80px;height:30px">Under</button><div style="position:absolute;left:0;top:0;width:400px;height:300px;background:#fff;opacity:.8"><button>Over</button></div>`, "",
			"[1]<button />\n\tOver"}, // as the later version: what is covered is not shown
		{"V19", `<div id=s style="height:100px;width:200px;overflow:scroll"><div style="height:400px;width:600px">Wide and tall</div></div>`, "s.scrollTo(200, 150)",
			"|scroll element[1]<div id=s /> (1.5 pages above, 1.5 pages below horizontal 50%)"}, // without scrollbars, which take 15 pixels there
		{"V23", `<iframe srcdoc="<button>SD</button>" width=300 height=120></iframe>`, "", "[1]<iframe />\n\t[2]<button />\n\t\tSD"}, // scrolls only if there is something to scroll
		{"V27", `<div id=h>Light</div>`, "h.attachShadow({mode: 'closed'}).innerHTML = '<button>CBtn</button><slot></slot>'",
			"Light\nClosed Shadow\n\t[1]<button />\n\t\tCBtn\nShadow End"},
		{"V29", `<button aria-label=Close><svg width=24 height=24 class=ic><path d="M0 0h9"/></svg></button><svg width=24 height=24 class=ic><path d="M0 0h9"/></svg><svg width=200 height=100><path d="M0 0h9"/></svg>`, "",
			"[1]<button aria-label=Close />\n[2]<svg /> <!-- SVG content collapsed -->\n<svg /> <!-- SVG content collapsed -->"},
		// No page can hide from the model what a person sees.
		{"V30", `<div data-browser-use-exclude=true><button>A</button></div><div data-browser-use-exclude-main=true><button>B</button></div><div data-browser-use-exclude-other=true><button>Keep</button></div>`, "",
			"[1]<button />\n\tA\n[2]<button />\n\tB\n[3]<button />\n\tKeep"},
		{"V31", `<style>i{display:inline-block}</style><div class="my-SEARCHBAR">S</div><div id=findme>F it</div><div data-x="lookup-a">D it</div><i class=ic style="width:20px;height:20px"></i><i class=ic style="width:51px;height:20px"></i><i style="width:20px;height:20px"></i>`, "",
			"[1]<div />\n\tS\n[2]<div id=findme />\n\tF it\n[3]<div />\n\tD it\n[4]<i />"}, // a single character is text
		{"V34", `<input name=n id=i type=text title=T aria-label=L required placeholder=P maxlength=5 pattern="[a-z]+" autocomplete=off inputmode=numeric value=V data-state=open min=1>`, "",
			"[1]<input name=n id=i type=text title=T aria-label=L placeholder=P maxlength=5 pattern=[a-z]+ autocomplete=off inputmode=numeric value=V data-state=open min=1 invalid=true required=true />"},
		{"V38", `<input class="form Datepicker"><input class=x data-datepicker data-date-format=dd.mm.yyyy><input uib-datepicker-popup="MM/dd/yyyy"><input type=text class=daterangepicker placeholder=own>`, "",
			"[1]<input placeholder=mm/dd/yyyy format=mm/dd/yyyy />\n[2]<input placeholder=dd.mm.yyyy format=dd.mm.yyyy />\n[3]<input expected_format=MM/dd/yyyy format=MM/dd/yyyy />\n[4]<input type=text placeholder=own />"},
		{"V41", `<button>1</button><button>2</button><button aria-label="Next page">x</button><button>«</button><button class="last-page disabled">ll</button><button>First</button><button>100</button>`,
			"for (const b of document.querySelectorAll('button')) b.onclick = () => {}",
			"[1]<button />\n\t1\n[2]<button />\n\t2\n[3]<button aria-label=Next page />\n\tx\n[4]<button />\n\t«\n[5]<button />\n\tll\n[6]<button />\n\tFirst\n[7]<button />\n\t100\n" +
				"Pagination: first [6], prev [4], 1 [1], 2 [2], next [3], last (disabled) [5]"}, // shown, and single characters are text
		// A picture is a part of its link, which has its name.
		{"V46", `<a href=/p><img alt="Logo picture" width=40 height=40></a><img alt=Deco width=60 height=60><img class=k alt=Icon width=40 height=40>`, "",
			"[1]<a ax_name=Logo picture />\n[2]<img alt=Icon />"},
		// There is no second form of a state for evaluations: it would be one more to keep true.
		{"V47", `<div class="box active"><button id=go class="btn btn-primary hover" data-testid=g>Go now</button><button>Two</button></div><ul><li><a href=/1>L1</a></li><li><a href=/2>L2</a></li></ul>`, "",
			"[1]<button id=go />\n\tGo now\n[2]<button />\n\tTwo\n[3]<a />\n\tL1\n[4]<a />\n\tL2"},
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
			"[1]<iframe /> (scroll)\n\t[2]<button />\n\t\tTop\n\t... (2 more elements below - scroll to reveal):\n\t    <button> \"Deep button\" ~10.1 pages down\n\t    <input> \"Deep field\" ~10.1 pages down"},
		{"V22", `<iframe width=90 height=200 srcdoc="<button>Small</button>"></iframe>`, "", "|IFRAME|<iframe />\n\t[1]<button />\n\t\tSmall"},
		{"V26", `<div id=h></div>`, "h.attachShadow({mode: 'open'}).innerHTML = '<button>SBtn</button><input placeholder=Sin>'",
			"Open Shadow\n\t[1]<button />\n\t\tSBtn\n\t[2]<input placeholder=Sin />\nShadow End"},
		{"V28", `<div aria-label=ghost style="display:none"><button>InGhost</button></div><div style="display:none"><button>InNone</button></div>`, "", ""},
		{"V32", `<input type=password value=hunter2 id=pw><input type=text value=shown id=tx><input id=jsv><textarea id=ta>Area text</textarea><input type=email id=em>`, "jsv.value = 'by script'; em.value = 'a@b'",
			"[1]<input type=password id=pw value-state=filled />\n[2]<input type=text value=shown id=tx />\n[3]<input id=jsv value=by script />\n[4]<textarea id=ta value=Area text />\n[5]<input type=email id=em value=a@b />"}, // live values
		{"V33", `<input placeholder="` + strings.Repeat("p", 120) + `"><input id=samevalue1 name=samevalue1 aria-label=samevalue1><input id=abc name=abc>`, "",
			"[1]<input placeholder=" + strings.Repeat("p", 100) + "... />\n[2]<input id=samevalue1 aria-label=samevalue1 />\n[3]<input id=abc name=abc />"},
		{"V35", `<input id=e required aria-invalid=true><input type=email value=bad id=e2><div role=checkbox aria-checked=mixed tabindex=0>Mix</div><div role=tab aria-selected=true>Tab1</div><button aria-expanded=false aria-haspopup=menu>Menu</button><button aria-pressed=true>Prs</button>`, "",
			"[1]<input id=e invalid=true required=true />\n[2]<input type=email value=bad id=e2 invalid=true />\n[3]<div role=checkbox aria-checked=mixed checked=mixed />\n\tMix\n[4]<div role=tab selected=true />\n\tTab1\n" +
				"[5]<button expanded=false haspopup=menu />\n\tMenu\n[6]<button pressed=true />\n\tPrs"}, // what a button opens is shown
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
		s := p.take(&state.Book{})
		got := text(s)
		if _, list, ok := strings.Cut(s.Header(), "\n"); ok {
			got += "\n" + list
		}
		if got != row.want {
			t.Errorf("%s\n got %q\nwant %q", row.name, got, row.want)
		}
	}
}

// V36: what was not in the state before is marked, and nothing else.
func TestNewElements(t *testing.T) {
	p := newPages(t)
	p.open("<button>Old</button>")
	b := &state.Book{}
	if got := text(p.take(b)); got != "[1]<button />\n\tOld" {
		t.Errorf("%q", got)
	}
	p.eval("document.body.insertAdjacentHTML('beforeend', '<button>New</button><select><option>A1</select>')")
	const old = "[1]<button />\n\tOld\n"
	if got := text(p.take(b)); got != old+"*[2]<button />\n\tNew\n*[3]<select selected=A1 options=A1 />" {
		t.Errorf("%q", got)
	}
	if got := text(p.take(b)); got != old+"[2]<button />\n\tNew\n[3]<select selected=A1 options=A1 />" {
		t.Errorf("%q", got)
	}
}

// As many elements have numbers as are in view.
func TestManyElements(t *testing.T) {
	p := newPages(t)
	p.open(`<div style="font-size:0">` + strings.Repeat(`<button style="width:20px;height:20px;padding:0">x</button>`, 1000) + "</div>")
	if s := p.take(&state.Book{}); s.Numbers != 1000 || strings.Count(text(s), "<button />") != 1000 {
		t.Errorf("%d numbers", s.Numbers)
	}
}

// V25: a frame may be tiny.
func TestTinyFrameOfAnotherSite(t *testing.T) {
	p := newPages(t)
	p.serve("/f", "<button>Tiny</button>")
	p.open(`<iframe width=60 height=40 src="` + strings.Replace(p.url, "127.0.0.1", "localhost", 1) + `/f"></iframe>`)
	if got, want := text(p.take(&state.Book{})), "|IFRAME|<iframe />\n\t[1]<button />\n\t\tTiny"; got != want {
		t.Errorf("%q", got)
	}
}

// Of a frame that is larger than the window, what is near the window is read, in whatever frame it is.
func TestTallFrame(t *testing.T) {
	p := newPages(t)
	p.serve("/outer", `<button>O1</button><iframe style="display:block;border:0" width=300 height=9000 src="/inner"></iframe>`)
	p.serve("/inner", `<button>I1</button><div style="height:4000px"></div><button>I2</button><div style="height:4000px"></div><button>I3</button>`)
	p.open(`<iframe style="display:block;border:0" width=400 height=10000 src="` + strings.Replace(p.url, "127.0.0.1", "localhost", 1) + `/outer"></iframe>`)
	b := &state.Book{}
	if got := text(p.take(b)); !strings.Contains(got, "O1") || !strings.Contains(got, "I1") || strings.Contains(got, "\tI2") || !strings.Contains(got, "<button> \"I2\" ~5.1 pages down") || strings.Contains(got, "\tI3") {
		t.Errorf("%q", got)
	}
	p.eval("scrollTo(0, 4000)")
	if got := text(p.take(b)); strings.Contains(got, "O1") || strings.Contains(got, "\tI1") || !strings.Contains(got, "\tI2") || strings.Contains(got, "\tI3") {
		t.Errorf("%q", got)
	}
	if got := text(p.read(b, capture.Options{Selector: "html"})); !strings.Contains(got, "\tI1") || !strings.Contains(got, "\tI3") {
		t.Errorf("%q", got)
	}
}

// V24: what is in a frame of another site has numbers as well.
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

// Closed shadow roots are found wherever they are likely, also within each other, and when they come later.
func TestClosedShadowRoots(t *testing.T) {
	p := newPages(t)
	p.open(`<x-outer>light</x-outer><div id=late></div><div id=plain style="width:50px;height:50px"></div>`)
	p.eval(`customElements.define('x-inner', class extends HTMLElement {
		constructor() { super(); const s = this.attachShadow({mode: 'closed'}); s.innerHTML = '<a href=#>Inner</a>'; s.firstChild.onclick = () => s.firstChild.textContent = 'Clicked' }
	});
	customElements.define('x-outer', class extends HTMLElement {
		constructor() { super(); this.attachShadow({mode: 'closed'}).innerHTML = '<button>Outer</button><x-inner></x-inner>' }
	})`)
	const first = "Closed Shadow\n\t[1]<button />\n\t\tOuter\n\tClosed Shadow\n\t\t[2]<a />\n\t\t\tInner\n\tShadow End\nShadow End"
	b := &state.Book{}
	for range 2 { // what is known is not asked for again
		if got := text(p.take(b)); got != first {
			t.Errorf("%q", got)
		}
	}
	p.eval(`late.attachShadow({mode: 'closed'}).innerHTML = '<input placeholder=Late>'`)
	if got := text(p.take(b)); got != first+"\nClosed Shadow\n\t*[3]<input placeholder=Late />\nShadow End" {
		t.Errorf("%q", got)
	}
}

// An element of the page's own kind may tell its role and its name to the accessibility tree alone.
func TestNamesOfCustomElements(t *testing.T) {
	p := newPages(t)
	p.open(`<x-toggle tabindex=0></x-toggle><x-toggle tabindex=0>text</x-toggle>`)
	p.eval(`customElements.define('x-toggle', class extends HTMLElement {
		constructor() { super(); this.i = this.attachInternals(); this.i.role = 'switch'; this.i.ariaLabel = 'Dark mode' }
	})
	for (const e of document.querySelectorAll('x-toggle')) e.style.cssText = 'display:block;width:40px;height:20px'`)
	if got, want := text(p.take(&state.Book{})), "[1]<x-toggle role=switch ax_name=Dark mode />\n[2]<x-toggle />\n\ttext"; got != want {
		t.Errorf("%q", got)
	}
}

// A field is named by its label if that can't be seen; otherwise the label is a line of its own.
func TestHiddenLabels(t *testing.T) {
	p := newPages(t)
	p.open(`<label for=a hidden>Street</label><input id=a><label for=b>Town</label><input id=b>`)
	if got, want := text(p.take(&state.Book{})), "[1]<input id=a ax_name=Street />\nTown\n[2]<input id=b />"; got != want {
		t.Errorf("%q", got)
	}
}

func TestLinks(t *testing.T) {
	p := newPages(t)
	p.open(`<a href="/x?a=1#b">Here</a><a href="http://other.example/` + strings.Repeat("p", 200) + `">There</a><a>None</a>`)
	b := &state.Book{}
	s := p.read(b, capture.Options{Links: true})
	if got, want := text(s), "[1]<a href=/x?a=1#b />\n\tHere\n[2]<a href=http://other.example/"+strings.Repeat("p", 79)+"... />\n\tThere\n[3]<a />\n\tNone"; got != want {
		t.Errorf("%q", got)
	}
	if d, ok := p.take(b).Delta(s); !ok || d != "" {
		t.Errorf("addresses that are not asked for are a change: %q", d)
	}
}

// A part of a page is read as a whole, wherever the page is scrolled to. It is given by a selector, or by its number, in whichever frame it is.
func TestScope(t *testing.T) {
	p := newPages(t)
	p.serve("/f", "<p>Frame<section tabindex=0><button>In</button></section>")
	p.open(`<p>Top</p><iframe src="` + strings.Replace(p.url, "127.0.0.1", "localhost", 1) + `/f"></iframe><main><button>First</button><div style="height:5000px"></div><button>Last</button></main>`)
	b := &state.Book{}
	if got, want := text(p.take(b)), "Top\n[1]<iframe />\n\tFrame\n\t[2]<section />\n\t\t[3]<button />\n\t\t\tIn\n[4]<button />\n\tFirst"; got != want {
		t.Fatalf("%q", got)
	}
	if got, want := text(p.read(b, capture.Options{Selector: "main"})), "[4]<button />\n\tFirst\n*[5]<button />\n\tLast"; got != want {
		t.Errorf("%q", got)
	}
	inner, _ := b.Ref(2)
	if got, want := text(p.read(b, capture.Options{Element: inner})), "[2]<section />\n\t[3]<button />\n\t\tIn"; got != want {
		t.Errorf("%q", got)
	}
	if got, want := text(p.take(b)), "Top\n[1]<iframe />"; !strings.HasPrefix(got, want) {
		t.Errorf("%q", got)
	}
	for selector, want := range map[string]string{"#none": "nothing in the page matches #none", "a[": "not a valid selector"} {
		if _, err := capture.Read(p.ctx, p.tab, capture.Options{Selector: selector}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", selector, err)
		}
	}
	p.eval("document.querySelector('main').remove()")
	gone, _ := b.Ref(4)
	if _, err := capture.Read(p.ctx, p.tab, capture.Options{Element: gone}); err == nil || !strings.Contains(err.Error(), "no longer in the page") {
		t.Errorf("%v", err)
	}
}

// What can't be used has no number, and what can't be seen is not there, for whatever reason.
func TestWhatCannotBeUsed(t *testing.T) {
	p := newPages(t)
	for name, row := range map[string]struct{ html, script, want string }{
		"inert":             {`<div inert><button>A</button></div><button>B</button>`, "", "A\n[1]<button />\n\tB"},
		"no pointer events": {`<button style="pointer-events:none">A</button>`, "", "A"},
		"disabled group":    {`<fieldset disabled><input value=x><button>A</button></fieldset>`, "", "A"},
		"clipped":           {`<div style="height:20px;overflow:hidden"><div style="height:40px"></div><button>A</button>text</div>`, "", ""},
		"popover": {`<button style="position:absolute;left:10px;top:10px">Under</button><div popover id=p style="margin:0;left:0;top:0;width:400px;height:300px;background:#fff"><button>Over</button></div>`,
			"p.showPopover()", "[1]<button />\n\tOver"},
		"covered frame": {`<iframe srcdoc="<button>In</button>" width=300 height=200></iframe><div style="position:absolute;left:0;top:0;width:500px;height:400px;background:#fff"><button>Over</button></div>`,
			"", "[1]<button />\n\tOver"},
		"fixed within what is far away": {`<div style="height:50px"><div style="position:fixed;top:0"><button>Menu</button></div></div><div style="height:9000px"></div>`, "scrollTo(0, 5000)", "[1]<button />\n\tMenu"},
	} {
		p.open(row.html)
		if row.script != "" {
			p.eval(row.script)
		}
		if got := text(p.take(&state.Book{})); got != row.want {
			t.Errorf("%s\n got %q\nwant %q", name, got, row.want)
		}
	}
}

// A page can neither hide from the script nor break it, by names that stand for properties, or by endless nesting and text.
func TestHostilePage(t *testing.T) {
	p := newPages(t)
	names := "tagName nodeType nodeName firstChild nextSibling parentNode parentElement firstElementChild children childElementCount attributes getAttribute hasAttribute getBoundingClientRect " +
		"getClientRects closest matches querySelector querySelectorAll shadowRoot id className dataset tabIndex inert innerText textContent checkVisibility scrollHeight clientHeight scrollWidth clientWidth " +
		"isContentEditable getRootNode ownerDocument isConnected contains host elementFromPoint documentElement body title scrollingElement createRange activeElement getElementById addEventListener readyState createTreeWalker"
	fields := ""
	for _, n := range strings.Fields(names) {
		fields += "<input type=hidden name=" + n + "><img name=" + n + " hidden>"
	}
	p.open("<form style='padding:40px'>" + fields + "<button>Go</button>text</form><form name=forms><button>Other</button></form>")
	b := &state.Book{}
	if got, want := text(p.take(b)), "[1]<button />\n\tGo\ntext\n[2]<button />\n\tOther"; got != want {
		t.Errorf("%q", got)
	}
	f, err := capture.Main(p.ctx, p.tab)
	if err != nil {
		t.Fatal(err)
	}
	go1, _ := b.Ref(1)
	for name, args := range map[string][]any{
		"locate": {go1.ID, false}, "inspect": {go1.ID}, "focus": {go1.ID, true}, "scroll": {0, 0, 1}, "quiet": {1}, "search": {"text", false, false, 10, "", 5},
		"find": {"button", []string{}, 5, true}, "findText": {"text"}, "awaits": {"text", false},
	} {
		var v any
		if err := f.Call(p.ctx, name, &v, args...); err != nil || strings.Contains(fmt.Sprint(v), "cover:<") {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}

	p.open("<button>Go</button><div id=d></div><p id=long>")
	p.eval(`let n = d; for (let i = 0; i < 1500; i++) { const c = document.createElement('div'); n.append(c); n = c } n.textContent = 'deep'; long.textContent = 'word '.repeat(60000)`)
	if s := p.take(&state.Book{}); !strings.HasPrefix(text(s), "[1]<button />\n\tGo\n") || len(text(s)) > 210_000 {
		t.Errorf("%d bytes", len(text(s)))
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

// used is the processor time of the page's thread, in seconds. Unlike the time that passes, it hardly depends on what else the machine does.
func (p *pages) used() float64 {
	p.t.Helper()
	if _, err := protocol.Call(p.ctx, p.tab.Session, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		p.t.Fatal(err)
	}
	m, err := protocol.Call(p.ctx, p.tab.Session, performance.GetMetrics, protocol.Empty{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, x := range m.Metrics {
		if x.Name == "ThreadTime" {
			return x.Value
		}
	}
	p.t.Fatal("the browser does not tell the time that was used")
	return 0
}

func BenchmarkState(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPages(b)
			p.open(table(n))
			book := &state.Book{}
			p.take(book)
			size, used, runs := 0, p.used(), 0
			for b.Loop() {
				t, _ := p.take(book).Text(0, 40_000)
				size = len(t)
				runs++
			}
			b.ReportMetric((p.used()-used)*1000/float64(runs), "page-cpu-ms/op")
			b.ReportMetric(float64(size), "text-bytes")
		})
	}
}
