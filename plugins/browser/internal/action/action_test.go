//go:build unix

package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium/chromiumtest"
	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a browser, and a server of pages.
type rig struct {
	*action.Session
	t   testing.TB
	ctx context.Context
	url string

	mu   sync.Mutex
	html map[string]string
}

func newRig(t testing.TB) *rig {
	t.Helper()
	x := &rig{t: t, html: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.mu.Lock()
		defer x.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><meta charset=utf-8><link rel=icon href=data:,>"+x.html[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	x.url = s.URL
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	x.ctx = ctx
	r, w := chromiumtest.Start(t)
	var p policy.Policy
	b, err := target.Open(ctx, r, w, target.Options{Judge: func(r target.Request, answer func(error)) {
		var err error
		if r.Document {
			err = p.Check(r.URL)
		}
		answer(err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	x.Session = &action.Session{Browser: b, Allowed: func(_ context.Context, url string) error { return p.Check(url) }}
	return x
}

func (x *rig) serve(path, html string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.html[path] = html
}

// run runs actions, written as JSON, in the current tab. Its outcome is one text.
func (x *rig) run(actions string) (string, *action.Outcome) {
	x.t.Helper()
	var list []action.Action
	if err := json.Unmarshal([]byte("["+actions+"]"), &list); err != nil {
		x.t.Fatal(err)
	}
	named, err := action.Parse(list)
	if err != nil {
		x.t.Fatal(err)
	}
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		x.t.Fatal(err)
	}
	o := x.Run(x.ctx, tab, named)
	return strings.ReplaceAll(strings.Join(o.Lines, "\n"), x.url, "URL"), o
}

func (x *rig) open(html string) {
	x.t.Helper()
	x.serve("/", html)
	if text, o := x.run(fmt.Sprintf(`{"navigate":{"url":%q}}`, x.url+"/")); o.Failed {
		x.t.Fatal(text)
	}
	x.take()
}

func (x *rig) take() *state.State {
	x.t.Helper()
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		x.t.Fatal(err)
	}
	s, err := x.Take(x.ctx, tab)
	if err != nil {
		x.t.Fatal(err)
	}
	return s
}

func (x *rig) eval(code string) string {
	x.t.Helper()
	text, o := x.run(fmt.Sprintf(`{"evaluate":{"code":%q}}`, code))
	if o.Failed {
		x.t.Fatal(text)
	}
	_, text, _ = strings.Cut(text, "Evaluated: ")
	return text
}

// Each row is an action on a page, what its outcome says, and what a script finds afterwards.
func TestActions(t *testing.T) {
	x := newRig(t)
	x.serve("/other", "<title>Other</title><p>other")
	log := "<script>log = []; for (const k of ['keydown', 'input', 'change', 'click', 'dblclick', 'contextmenu']) addEventListener(k, e => e.isTrusted && log.push(k + (e.key ? ':' + e.key : '')), true)</script>"
	for _, row := range []struct{ name, html, actions, want, code, value string }{
		{"click", "<button onclick=\"this.textContent='Done'\">Go</button>", `{"click":{"index":1}}`,
			`1. Clicked [1] <button> "Go"`, "document.querySelector('button').textContent + log.join()", "Doneclick"},
		{"double click", "<button>Go</button>", `{"click":{"index":1,"count":2}}`, `1. Clicked [1] <button> "Go"`, "log.join()", "click,click,dblclick"},
		{"right click", "<button>Go</button>", `{"click":{"index":1,"button":"right"}}`, `1. Clicked [1] <button> "Go"`, "log.join()", "contextmenu"},
		{"click far away", "<div style='height:700px'></div><button>Go</button><div style='height:3000px'></div>", `{"click":{"index":1}}`, `1. Clicked [1] <button> "Go"`, "log.join()", "click"},
		{"click at a point", "<button style='position:fixed;left:0;top:0;width:99px;height:99px'>Go</button>", `{"click":{"coordinate_x":5,"coordinate_y":5}}`, `1. Clicked at 5, 5`, "log.join()", "click"},
		{"click at half a point", "", `{"click":{"coordinate_x":5}}`, `1. click failed: give either index or both coordinate_x and coordinate_y`, "1", "1"},
		{"unknown element", "<button>Go</button>", `{"click":{"index":99}}`, `1. click failed: there is no element 99: numbers are from 1 to 1; call browser_state`, "1", "1"},
		{"covered", "<button>Go</button><div id=c style='position:fixed;inset:0'></div>", `{"click":{"index":1}}`,
			`1. click failed: element 1, <button> "Go", is covered by <div id=c>; close or move that, or use force`, "log.join()", ""},
		{"checkbox", "<input type=checkbox>", `{"click":{"index":1}}`, `1. Clicked [1] <input>, which is now checked=true`, "document.querySelector('input').checked", "true"},
		{"click on a list", "<select><option>A</select>", `{"click":{"index":1}}`, `1. click failed: this is a list to select from; use select_dropdown, or dropdown_options to see what it offers`, "log.join()", ""},
		{"click on a file", "<input type=file>", `{"click":{"index":1}}`, `1. click failed: this is a field for files; use upload_file`, "log.join()", ""},
		{"click in a frame", `<iframe srcdoc="<button onclick='parent.clicked = event.isTrusted'>In</button>"></iframe>`, `{"click":{"index":2}}`, `1. Clicked [2] <button> "In"`, "clicked", "true"},
		{"type", "<input>", `{"input":{"index":1,"text":"Ab+"}}`, `1. Typed "Ab+" into [1]`, "document.querySelector('input').value + log.join()", "Ab+keydown:A,input,keydown:b,input,keydown:+,input"},
		{"replace", "<input value=old>", `{"input":{"index":1,"text":"new"}}`, `1. Typed "new" into [1]`, "document.querySelector('input').value", "new"},
		{"append", "<input value=old>", `{"input":{"index":1,"text":"new","clear":false}}`, `1. Typed "new" into [1]`, "document.querySelector('input').value", "oldnew"},
		{"clear", "<input value=old>", `{"input":{"index":1,"text":""}}`, `1. Typed "" into [1]`, "document.querySelector('input').value", ""},
		{"lines", "<textarea></textarea>", `{"input":{"index":1,"text":"Ab\nä"}}`, "1. Typed \"Ab\\nä\" into [1]", "JSON.stringify(document.querySelector('textarea').value)", `"Ab\nä"`},
		{"long", "<textarea></textarea>", `{"input":{"index":1,"text":"` + strings.Repeat("x", 400) + `"}}`, `1. Typed "` + strings.Repeat("x", 100) + `..." into [1]`, "document.querySelector('textarea').value.length", "400"},
		{"reformatted", "<input oninput=\"this.value = this.value.toUpperCase()\">", `{"input":{"index":1,"text":"abc"}}`, `1. Typed "abc" into [1]; but its value is now "ABC"`, "1", "1"},
		{"date", "<input type=date>", `{"input":{"index":1,"text":"2026-05-01"}}`, `1. Typed "2026-05-01" into [1]`, "document.querySelector('input').value", "2026-05-01"},
		{"editable", "<div contenteditable>old</div>", `{"input":{"index":1,"text":"new"}}`, `1. Typed "new" into [1]`, "document.querySelector('div').textContent", "new"},
		{"combobox", "<input list=l><datalist id=l><option>a</datalist>", `{"input":{"index":1,"text":"b"}}`, `1. Typed "b" into [1]; the field offers suggestions: look at the state before going on`, "1", "1"},
		{"password", "<input type=password>", `{"input":{"index":1,"text":"s3cret"}}`, `1. Typed "s3cret" into [1]`, "document.querySelector('input').value", "s3cret"},
		{"no field", "<button>Go</button>", `{"input":{"index":1,"text":"x"}}`, `1. input failed: element 1, <button> "Go", is no field to type into`, "1", "1"},
		{"form", "<input id=a><input id=b>", `{"fill_form":{"fields":[{"index":1,"text":"1"},{"index":2,"text":"2"}]}}`, `1. Filled [1], [2]`, "a.value + b.value", "12"},
		{"keys", "<input autofocus value=x>", `{"send_keys":{"keys":"Control+a"}},{"send_keys":{"keys":"a+b"}},{"send_keys":{"keys":"Enter"}}`, "1. Sent keys: Control+a\n2. Sent keys: a+b\n3. Sent keys: Enter", "document.querySelector('input').value", "a+b"},
		{"options", "<select><option value=1>A<option selected>B</select>", `{"dropdown_options":{"index":1}}`, "1. The options of [1]:\n0: text=\"A\", value=\"1\"\n1: text=\"B\", value=\"B\" (selected)", "1", "1"},
		{"select", "<select onchange=\"changed = this.value\"><option>A<option>B</select>", `{"select_dropdown":{"index":1,"text":"b"}}`, `1. Selected ["B"] in [1]`, "changed", "B"},
		{"select several", "<select multiple><option>A<option>B<option>C</select>", `{"select_dropdown":{"index":1,"texts":["A","C"]}}`, `1. Selected ["A" "C"] in [1]`, "document.querySelector('select').selectedOptions.length", "2"},
		{"select nothing", "<select><option>A</select>", `{"select_dropdown":{"index":1,"text":"Z"}}`, "1. select_dropdown failed: there is no option [\"Z\"] that can be selected; the options are:\n0: text=\"A\", value=\"A\" (selected)", "1", "1"},
		{"select in a page's list", "<div role=listbox tabindex=0><div role=option onclick='picked = 1'>One</div></div>", `{"select_dropdown":{"index":1,"text":"one"}}`, `1. Selected "One" in [1]`, "picked", "1"},
		{"scroll", "<div style='height:5000px'></div>", `{"scroll":{"pages":2.5}},{"scroll":{"down":false}}`, "1. Scrolled down 2000 px\n2. Scrolled up 800 px", "scrollY", "1200"},
		{"scroll to the end", "<p>x", `{"scroll":{}}`, "1. Did not scroll: this is the end", "1", "1"},
		{"scroll a box", "<div style='height:100px;overflow:auto'><p style='height:1000px'>x</div>", `{"scroll":{"index":1}}`, "1. Scrolled down 100 px", "document.querySelector('div').scrollTop", "100"},
		{"scroll nothing", "<p>x", `{"scroll":{"index":7}}`, "1. scroll failed: there is no element 7: numbers are from 1 to 0; call browser_state", "1", "1"},
		{"find a text", "<div style='height:3000px'></div><p>It's \"here\"", `{"find_text":{"text":"it's \"HERE\""}}`, `1. Scrolled to the text "it's \"HERE\""`, "scrollY > 1000", "true"},
		{"find no text", "<p>x", `{"find_text":{"text":"nothing"}}`, `1. The text "nothing" is not in the page, or not visible`, "1", "1"},
		{"search", "<div id=a><p class=k>one two one</div>", `{"search_page":{"pattern":"one","context_chars":4}}`, "1. Found 2 matches for \"one\" on page:\n[1] one two... (in div#a > p.k)\n[2] ...two one (in div#a > p.k)", "1", "1"},
		{"search badly", "", `{"search_page":{"pattern":"(","regex":true}}`, "1. search_page failed: Invalid regular expression: /(/gi: Unterminated group", "1", "1"},
		{"elements", "<a href=/x>Link</a>", `{"find_elements":{"selector":"a","attributes":["href"]}}`, "1. Found 1 elements matching \"a\".\n[1] <a> \"Link\" href=\"URL/x\" (0 children)", "1", "1"},
		{"evaluate", "", `{"evaluate":{"code":"({a: [1, 'b']})"}}`, `1. Evaluated: {"a":[1,"b"]}`, "1", "1"},
		{"evaluate exactly what is written", "", `{"evaluate":{"code":"['a\\\\nb'.length, /\\d+/.exec('x12')[0], 'a[href=\"x\"]']"}}`, `1. Evaluated: [4,"12","a[href=\"x\"]"]`, "1", "1"},
		{"evaluate a promise", "", `{"evaluate":{"code":"Promise.resolve({a: 1})"}}`, `1. Evaluated: {"a":1}`, "1", "1"},
		{"evaluate a refused promise", "", `{"evaluate":{"code":"Promise.reject(new Error('no'))"}}`, "1. evaluate failed: Error: no\n    at <anonymous>:1:16", "1", "1"},
		{"evaluate what is declared again", "", `{"evaluate":{"code":"let x = 1"}},{"evaluate":{"code":"let x = await 2; x"}}`, "1. Evaluated: undefined\nThe remaining 1 actions were not run, because of that. Look at the state, then continue.", "1", "1"},
		{"evaluate a function", "", `{"evaluate":{"code":"() => 1"}}`, "1. Evaluated: {}", "1", "1"},
		{"evaluate an element", "", `{"evaluate":{"code":"document.body"}}`, "1. Evaluated: {}", "1", "1"},
		{"evaluate with an error", "", `{"evaluate":{"code":"nothing.at.all"}}`, "1. evaluate failed: ReferenceError: nothing is not defined\n    at <anonymous>:1:1", "1", "1"},
		{"evaluate what looks repaired", "", `{"evaluate":{"code":"/\\\\d+/.test('\\\\d') && 'a\\\\nb'"}}`, `1. Evaluated: a\nb`, "1", "1"},
		{"hover", "<button onmouseover='over = event.isTrusted'>Go</button>", `{"hover":{"index":1}}`, `1. Moved the mouse over [1] <button> "Go"`, "over", "true"},
		{"drag", "<button>A</button><p style='height:50px'></p><button>B</button><script>onmouseup = e => dropped = e.target.textContent</script>", `{"drag":{"from":1,"to":2}}`, `1. Dragged [1] to [2]`, "dropped", "B"},
		// A31.
		{"alert", "<button onclick=\"alert('hi')\">Go</button>", `{"click":{"index":1}}`, `1. Clicked [1] <button> "Go"; [alert] hi`, "1", "1"},
		{"confirm", "<button onclick=\"sure = confirm('sure?')\">Go</button>", `{"click":{"index":1}},{"handle_dialog":{"accept":true}}`, "1. Clicked [1] <button> \"Go\"; a confirm dialog is open (\"sure?\"); answer it with handle_dialog\nThe remaining 1 actions were not run, because of that. Look at the state, then continue.", "", ""},
		{"answer", "", `{"handle_dialog":{"accept":true}}`, `1. Accepted the confirm dialog "sure?"`, "sure", "true"},
		{"no dialog", "<p>x", `{"handle_dialog":{"accept":true}}`, `1. handle_dialog failed: no dialog is open`, "1", "1"},
		{"link", "<a href=/other>Go</a>", `{"click":{"index":1}},{"click":{"index":2}}`, "1. Clicked [1] <a> \"Go\"; the address is now URL/other\nThe remaining 1 actions were not run, because of that. Look at the state, then continue.", "document.title", "Other"},
		{"back and forward", "", `{"go_back":{}}`, "1. Navigated to URL/", "document.title", ""},
		{"forward", "", `{"go_forward":{}}`, "1. Navigated to URL/other", "document.title", "Other"},
		{"late text", "<script>addEventListener('click', () => requestAnimationFrame(() => document.body.append('arrived')))</script><button>Go</button>", `{"click":{"index":1}},{"wait_for":{"text":"arrived"}}`, "1. Clicked [1] <button> \"Go\"\n2. Waited for the text \"arrived\"", "1", "1"},
		{"no text", "<p>x", `{"wait_for":{"text":"never","seconds":0.05}}`, "1. wait_for failed: waited for the text \"never\" in vain, for 50ms", "1", "1"},
		{"gone element", "<button onclick='this.remove()'>Go</button>", `{"click":{"index":1}},{"click":{"index":1}}`, "1. Clicked [1] <button> \"Go\"\n2. click failed: element 1 is no longer in the page; call browser_state", "1", "1"},
		{"forbidden", "", `{"navigate":{"url":"file:///etc/passwd"}}`, `1. navigate failed: addresses of the scheme "file" are not allowed; only http and https are`, "1", "1"},
		{"unreachable", "", `{"navigate":{"url":"http://127.0.0.1:1/"}}`, `1. navigate failed: http://127.0.0.1:1/ can't be reached: net::ERR_UNSAFE_PORT`, "1", "1"},
		{"unknown engine", "", `{"search":{"query":"x","engine":"yahoo"}}`, `1. search failed: unsupported search engine "yahoo": use duckduckgo, google or bing`, "1", "1"},
		// A26.
		{"unknown tab", "", `{"switch":{"tab_id":"zzzz"}}`, "", "1", "1"},
		{"stops", "<button>Go</button>", `{"click":{"index":9}},{"click":{"index":1}}`, "1. click failed: there is no element 9: numbers are from 1 to 1; call browser_state\nThe remaining 1 actions were not run, because of that. Look at the state, then continue.", "log.join()", ""},
	} {
		if row.html != "" {
			x.open(log + row.html)
		}
		got, _ := x.run(row.actions)
		if row.want != "" && got != row.want {
			t.Errorf("%s\n got %q\nwant %q", row.name, got, row.want)
		}
		if row.code == "" {
			continue
		}
		if v := x.eval(row.code); v != row.value {
			t.Errorf("%s: %s is %q, want %q", row.name, row.code, v, row.value)
		}
	}
}

// A history ends, and going further is an error.
func TestEndOfTheHistory(t *testing.T) {
	x := newRig(t)
	x.open("<p>first")
	if got, o := x.run(`{"go_forward":{}}`); !o.Failed || !strings.Contains(got, "no page in that direction") {
		t.Error(got)
	}
}

// A popup becomes the current tab; closing it leads back, and closing the last tab leaves an empty one.
func TestTabs(t *testing.T) {
	x := newRig(t)
	x.serve("/pop", "<title>Pop</title><p>pop")
	x.open("<a href=/pop target=_blank>Go</a>")
	for len(x.Browser.Tabs()) > 1 {
		if err := x.Browser.Tabs()[0].Close(x.ctx); err != nil {
			t.Fatal(err)
		}
	}
	first := x.Browser.Tabs()[0]
	got, _ := x.run(`{"click":{"index":1}},{"click":{"index":1}}`)
	if !strings.Contains(got, "; it has opened tab ") || !strings.Contains(got, "remaining 1 actions were not run") {
		t.Error(got)
	}
	if err := x.Browser.Tabs()[1].Wait(x.ctx, time.Time{}, func(i target.Info, n int) bool { return !i.Loading && strings.HasSuffix(i.URL, "/pop") }); err != nil {
		t.Fatal(err)
	}
	if v := x.eval("document.title"); v != "Pop" {
		t.Error(v)
	}
	second := x.Browser.Tabs()[1]
	if got, o := x.run(fmt.Sprintf(`{"close":{"tab_id":%q}}`, second.Name())); o.Failed || got != "1. Closed tab "+second.Name() {
		t.Error(got)
	}
	if tab, err := x.Tab(x.ctx, ""); err != nil || tab != first {
		t.Errorf("%v, %v", tab, err)
	}
	if got, o := x.run(fmt.Sprintf(`{"close":{"tab_id":%q}}`, first.Name())); o.Failed {
		t.Error(got)
	}
	if tabs := x.Browser.Tabs(); len(tabs) != 1 || tabs[0].Info().URL != "about:blank" {
		t.Errorf("%d tabs", len(tabs))
	}
}

// A frame of another site is clicked and typed into like the page around it.
func TestFrameOfAnotherSite(t *testing.T) {
	x := newRig(t)
	x.serve("/f", "<div style='height:500px'></div><input><button onclick=\"this.textContent = document.querySelector('input').value\">In</button>")
	x.open("<div style='height:900px'></div><iframe width=300 height=200 src=\"" + strings.Replace(x.url, "127.0.0.1", "localhost", 1) + "/f\"></iframe>")
	if got, o := x.run(`{"input":{"index":2,"text":"typed"}},{"click":{"index":3}}`); o.Failed {
		t.Fatal(got)
	}
	text, _ := x.take().Text(0, 10_000)
	if !strings.Contains(text, "[3]<button focused=true />\n\t\ttyped") {
		t.Error(text)
	}
}

// A page that draws itself anew replaces its elements. The one that has taken the place of an element is acted on, if there is no doubt.
func TestReplacedElements(t *testing.T) {
	x := newRig(t)
	const page = `<script>
		globalThis.log = [];
		globalThis.draw = (...names) => root.innerHTML = names.map(n => '<button onclick="log.push(this.textContent)">' + n + '</button>').join('') + '<input aria-label=Name>';
	</script><body><div id=root></div><script>draw('Save', 'Delete', 'Delete')</script>`
	for _, row := range []struct{ script, actions, want, code, value string }{
		{"draw('Save', 'Delete', 'Delete')", `{"click":{"index":1}}`, `1. Clicked [1] <button> "Save"`, "log.join()", "Save"},
		{"draw('Save')", `{"input":{"index":4,"text":"Ada"}}`, `1. Typed "Ada" into [4]`, "document.querySelector('input').value", "Ada"},
		{"draw('Save', 'Delete', 'Delete')", `{"hover":{"index":1}},{"click":{"index":1}}`, "1. Moved the mouse over [1] <button> \"Save\"\n2. Clicked [1] <button> \"Save\"", "log.join()", "Save"},
		// Either could have been meant.
		{"draw('Save', 'Delete', 'Delete')", `{"click":{"index":2}}`, "1. click failed: element 2 is no longer in the page; similar ones are [6]<button> Delete, [7]<button> Delete", "log.join()", ""},
		{"draw('Save', 'Delete')", `{"click":{"index":2}}`, "1. click failed: element 2 is no longer in the page; similar ones are [6]<button> Delete", "log.join()", ""},
		// It is another one.
		{"draw('Send')", `{"click":{"index":1}}`, "1. click failed: element 1 is no longer in the page; call browser_state", "log.join()", ""},
	} {
		x.open(page)
		x.eval(row.script)
		if got, _ := x.run(row.actions); got != row.want {
			t.Errorf("%s, %s\n got %q\nwant %q", row.script, row.actions, got, row.want)
		}
		if got := x.eval(row.code); got != row.value {
			t.Errorf("%s, %s: %q, want %q", row.script, row.actions, got, row.value)
		}
	}
	x.open(page)
	for range 2 { // what has been replaced before is not taken for another one that is gone
		x.eval("draw('Save', 'Delete', 'Delete')")
		if got, o := x.run(`{"click":{"index":1}}`); o.Failed {
			t.Error(got)
		}
		x.take()
	}
	if text, _ := x.take().Text(0, 1000); !strings.HasPrefix(text, "[1]<button focused=true />\n\tSave\n") {
		t.Errorf("it has another number now: %q", text)
	}
}

// The picture of an element shows the element alone, in whichever frame it is and wherever it is scrolled to.
func TestPictureOfAnElement(t *testing.T) {
	x := newRig(t)
	x.serve("/f", "<body style='margin:0;background:blue'><div style='height:700px'></div><button style='width:60px;height:40px;border:0;background:lime'></button>")
	x.open("<body style='margin:0;background:red'><div style='height:900px'></div><iframe width=300 height=200 style='border:5px solid red' src=\"" + strings.Replace(x.url, "127.0.0.1", "localhost", 1) + "/f\"></iframe>" +
		"<button style='display:block;width:50px;height:9000px;border:0;background:lime'></button>")
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[int]struct {
		size image.Point
		note string
	}{2: {image.Pt(60, 40), ""}, 3: {image.Pt(50, 8000), " (the first 8000 pixels of 50 x 9000)"}} {
		p, err := x.Picture(x.ctx, tab, number)
		if err != nil {
			t.Fatal(err)
		}
		img, err := jpeg.Decode(bytes.NewReader(p.Data))
		if err != nil {
			t.Fatal(err)
		}
		if got := img.Bounds().Size(); got != want.size || p.Note != want.note {
			t.Errorf("element %d: %v, %q", number, got, p.Note)
		}
		for _, at := range []image.Point{{2, 2}, {want.size.X - 3, 2}, {2, want.size.Y - 3}, {want.size.X - 3, want.size.Y - 3}} {
			if r, g, b, _ := img.At(at.X, at.Y).RGBA(); r > 0x5000 || g < 0xa000 || b > 0x5000 {
				t.Errorf("element %d: %v is not green: %x %x %x", number, at, r, g, b)
			}
		}
	}
	if _, err := x.Picture(x.ctx, tab, 99); err == nil {
		t.Error("there is a picture of nothing")
	}
}

// An element in a closed shadow root is clicked like any other.
func TestClosedShadowRoot(t *testing.T) {
	x := newRig(t)
	x.open("<x-box></x-box><script>customElements.define('x-box', class extends HTMLElement { constructor() { super(); this.attachShadow({mode: 'closed'}).innerHTML = '<button onclick=\"this.textContent = 1\">Go</button>' } })</script>")
	if got, o := x.run(`{"click":{"index":1}}`); o.Failed {
		t.Fatal(got)
	}
	if text, _ := x.take().Text(0, 1000); text != "Closed Shadow\n\t[1]<button focused=true />\n\t\t1\nShadow End\n" {
		t.Errorf("%q", text)
	}
}

// An endless loop in a page ends the action at its limit, and nothing else.
func TestScreenshot(t *testing.T) {
	x := newRig(t)
	x.open("<p style='height:3000px'>x")
	_, view := x.run(`{"screenshot":{}}`)
	_, full := x.run(`{"screenshot":{"full_page":true}}`)
	if len(view.Images) != 1 || len(full.Images) != 1 || len(view.Images[0].Data) == 0 || len(full.Images[0].Data) <= len(view.Images[0].Data) {
		t.Errorf("%d, %d images", len(view.Images), len(full.Images))
	}
}

// A click that is repeated without effect is noticed.
func TestCircles(t *testing.T) {
	x := newRig(t)
	x.open("<button>Go</button>")
	for i := 1; i <= 5; i++ {
		if _, o := x.run(`{"click":{"index":1}}`); (o.Note == "") != (i < 5) {
			t.Errorf("%d: %q", i, o.Note)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: "there are 0 actions; give 1 to 20", `[{}]`: "action 1 has 0 names", `[{"reload":{}},{"reload":{},"wait":{}}]`: "action 2 has 2 names",
	} {
		var list []action.Action
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		if _, err := action.Parse(list); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// BenchmarkClick is a click until the changed state of a page that is quiet otherwise.
func BenchmarkClick(b *testing.B) {
	x := newRig(b)
	x.open("<button onclick='this.nextSibling.textContent++'>Go</button><p>0</p>" + strings.Repeat("<p>A paragraph that stays as it is, with <a href=/>a link</a>", 100))
	before, size := x.take(), 0
	for b.Loop() {
		lines, _ := x.run(`{"click":{"index":1}}`)
		after := x.take()
		changes, _ := after.Delta(before)
		before, size = after, len(lines)+len(changes)
	}
	b.ReportMetric(float64(size), "answer-bytes")
}

// BenchmarkPicture is a screenshot of what is in view, and of an element.
func BenchmarkPicture(b *testing.B) {
	x := newRig(b)
	x.open(strings.Repeat("<p>Some words, and <button>a button</button>", 100))
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		b.Fatal(err)
	}
	for name, shoot := range map[string]func() (action.Image, error){
		"view":    func() (action.Image, error) { return action.Picture(x.ctx, tab, false) },
		"element": func() (action.Image, error) { return x.Picture(x.ctx, tab, 5) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := shoot(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNavigate is the navigation to a page until its state.
func BenchmarkNavigate(b *testing.B) {
	x := newRig(b)
	for b.Loop() {
		x.open("<button>Go</button>")
	}
}

// A page whose scripts never end is given up after a few seconds; other tabs go on, and it can be closed.
func TestBusyPage(t *testing.T) {
	x := newRig(t)
	x.open("<p>quiet")
	quiet, err := x.Tab(x.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	busy, err := x.Browser.NewTab(x.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Tab(x.ctx, busy.Name()); err != nil {
		t.Fatal(err)
	}
	x.open("<p>busy")
	if got, _ := x.run(`{"evaluate":{"code":"setTimeout(() => { for (;;); })"}}`); !strings.Contains(got, "still waiting for: the page does not answer") {
		t.Error(got)
	}
	begin := time.Now()
	if _, err := x.Take(x.ctx, busy); !errors.Is(err, action.ErrBusy) || time.Since(begin) > 20*time.Second {
		t.Errorf("%v, after %v", err, time.Since(begin))
	}
	if _, err := x.Take(x.ctx, quiet); err != nil {
		t.Error(err)
	}
	if got, o := x.run(fmt.Sprintf(`{"close":{"tab_id":%q}}`, busy.Name())); o.Failed {
		t.Error(got)
	}
}
