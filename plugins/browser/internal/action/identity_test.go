//go:build unix

package action_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// identities returns the elements of the page.
func (x *rig) identities() []history.Candidate {
	x.t.Helper()
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		x.t.Fatal(err)
	}
	out, err := x.Candidates(x.ctx, tab, x.take())
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

// The identity vectors: what is read from the page has the hashes that other programs have written for it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.open(`<body style="margin:0"><div class="box active"><button id=go class="btn btn-primary hover" data-testid=g>Go now</button><button>Two</button></div><ul><li><a href=/1>L1</a></li><li><a href=/2>L2</a></li></ul>`)
	got := x.identities()
	if len(got) != 4 {
		t.Fatalf("%d elements: %v", len(got), got)
	}
	for i, want := range []struct {
		xpath        string
		hash, stable history.Hash
	}{
		{"html/body/div/button[1]", 9150468308909514624, 9991513815630970699},
		{"html/body/div/button[2]", 4789846693955969315, 4789846693955969315},
		{"html/body/ul/li[1]/a", 1589411555935822563, 1589411555935822563},
		{"html/body/ul/li[2]/a", 878727737564425924, 12407942783632895679},
	} {
		if c := got[i]; c.XPath != want.xpath || c.Hash() != want.hash || c.StableHash() != want.stable || c.Number != i+1 {
			t.Errorf("%+v: %d and %d, want %+v", c, c.Hash(), c.StableHash(), want)
		}
	}
}

// Elements in frames and shadow roots have identities, too; a password is in none.
func TestIdentityInFramesAndShadows(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.serve("/inner", `<label>Field <input name=f></label>`)
	x.open(`<div id=h></div><input type=password value=hunter2 aria-label=Pass><iframe src=/inner width=300 height=150></iframe>
<script>h.attachShadow({mode:'open'}).innerHTML = '<section><button>In</button><button>Second</button></section>'</script>`)
	byName := map[string]history.Candidate{}
	for _, c := range x.identities() {
		byName[c.Name] = c
	}
	if c := byName["Second"]; strings.Join(c.Path, "/") != "html/body/div/section/button" || c.XPath != "html/body/div/section/button[2]" {
		t.Errorf("in a shadow root: %+v", c)
	}
	if c := byName["Field"]; strings.Join(c.Path, "/") != "html/body/iframe/html/body/label/input" || c.XPath != "html/body/label/input" || c.Frame == byName["Second"].Frame {
		t.Errorf("in a frame: %+v", c)
	}
	if c := byName["Pass"]; c.Attributes["type"] != "password" || c.Attributes["value"] != "" {
		t.Errorf("a password: %+v", c)
	}
}

// The content is what is seen, with its frames and shadow roots, and the live values of fields.
func TestContent(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.serve("/inner", `<p>Inside the frame</p>`)
	x.open(`<title>A title</title><h1>Head</h1><p style="display:none">never seen</p><p style="visibility:hidden">not seen <b style="visibility:visible">but this</b></p>
<p style="opacity:0">transparent</p><script>var code = 1</script><input id=n value=old><input type=password value=hunter2><a href="/x">Link &lt;1&gt;</a><img src=/i.png alt=Picture width=9 height=9>
<table><tr><th>Name<th>Age<tr><td>Ann<td>30</table><iframe src=/inner></iframe><div id=h>slotted</div><div style="height:5000px"></div><p>far below</p>
<script>n.value = 'typed'; h.attachShadow({mode:'open'}).innerHTML = '<p>shadow <slot></slot></p>'</script>`)
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := x.Content(x.ctx, tab, "token-1-", false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>Head</h1>", "but this", " typed ", "Link &lt;1&gt;</a>", "Picture", "<td>30</td>", "<p>Inside the frame</p>", "<p>shadow slotted</p>", "far below"} {
		if !strings.Contains(c.HTML, want) {
			t.Errorf("%q is missing in %s", want, c.HTML)
		}
	}
	for _, bad := range []string{"never seen", "not seen", "transparent", "code", "hunter2", "token", "href", "src="} {
		if strings.Contains(c.HTML, bad) {
			t.Errorf("%q is in %s", bad, c.HTML)
		}
	}
	if c.Title != "A title" || c.Cut {
		t.Errorf("%+v", c)
	}
	if c, err = x.Content(x.ctx, tab, "token-2-", true, true); err != nil || !strings.Contains(c.HTML, `<a href="`+x.url+`/x">`) || !strings.Contains(c.HTML, `src="`+x.url+`/i.png"`) {
		t.Errorf("with links and images: %s, %v", c.HTML, err)
	}
}

// The names of many elements are read at once, and are the same.
func TestIdentitiesOfManyElements(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, `<button aria-label="number %d">x</button>`, i)
	}
	x.open(b.String() + `<label>Last <input></label>`)
	got := x.identities()
	if len(got) < 151 {
		t.Fatalf("%d elements", len(got))
	}
	for i, c := range got[:150] {
		if c.Name != fmt.Sprintf("number %d", i) || c.XPath != fmt.Sprintf("html/body/button[%d]", i+1) {
			t.Fatalf("%+v", c)
		}
	}
	if last := got[len(got)-1]; last.Name != "Last" {
		t.Errorf("%+v", last)
	}
}

// Fields, and pictures, that are named like properties of what they are in hide nothing, and neither does a closed shadow root.
func TestNamesHideNothing(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.open(`<title>A title</title><img name=body alt=""><img name=title alt=""><form data-x=1><input name=attributes><input name=parentNode><input name=childNodes><input name=children><input name=localName><input name=tagName>
<input name=nodeType><input name=getAttribute><input name=checkVisibility><input name=getBoundingClientRect><input name=type value="in a field"><button>Go</button><button>Other</button></form>
<div id=c style="width:300px;height:60px"></div><script>c.attachShadow({mode:'closed'}).innerHTML = '<p>Closed <b>te</b>xt</p><button>Inside</button>'</script>`)
	byName := map[string]history.Candidate{}
	for _, c := range x.identities() {
		byName[c.Name] = c
	}
	if c := byName["Other"]; strings.Join(c.Path, "/") != "html/body/form/button" || c.XPath != "html/body/form/button[2]" {
		t.Errorf("in a form: %+v", c)
	}
	if c := byName["Inside"]; strings.Join(c.Path, "/") != "html/body/div/button" {
		t.Errorf("in a closed shadow root: %+v", c)
	}
	tab, err := x.Tab(x.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := x.Content(x.ctx, tab, "token-", false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in a field", "<button>Go</button>", "Closed <b>te</b>xt", "<button>Inside</button>"} {
		if !strings.Contains(c.HTML, want) {
			t.Errorf("%q is missing in %s", want, c.HTML)
		}
	}
	if c.Title != "A title" {
		t.Errorf("title: %q", c.Title)
	}
	for text, want := range map[string]bool{"Closed text": true, "in a field": true, "Other": true, "attachShadow": false} {
		got, err := x.Shows(x.ctx, tab, func(s string) bool { return strings.Contains(s, text) })
		if err != nil || got != want {
			t.Errorf("shows %q: %v, %v", text, got, err)
		}
	}
}
