package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// office is a site on which everything is needed that a browser can be asked for: a login with a one-time code, a file that is handed in and one
// that is fetched, a frame of another site, a window that opens, and a question. Its second version has other classes and another order.
type office struct {
	*httptest.Server

	mu      sync.Mutex
	changed bool
	did     []string // what has been done since the last look
}

func (s *office) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what)
}

// take returns what has been done since the last look.
func (s *office) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	did := strings.Join(s.did, ", ")
	s.did = nil
	return did
}

// change gives the pages their second version.
func (s *office) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
}

// page puts parts of a page together, in the second version the other way around and with other classes.
func (s *office) page(title string, parts ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed {
		slices.Reverse(parts)
		for i, p := range parts {
			parts[i] = "<section><div class=new>" + strings.ReplaceAll(p, "class=old", "class=new-"+fmt.Sprint(i)) + "</div></section>"
		}
	}
	return fmt.Sprintf("<!doctype html><title>%s</title><link rel=icon href=data:,>%s", title, strings.Join(parts, "\n"))
}

func newOffice(t *testing.T) *office {
	t.Helper()
	s := &office{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, inside := r.Cookie("inside")
		switch at := r.URL.Path; {
		case at == "/":
			http.SetCookie(w, &http.Cookie{Name: "inside", MaxAge: -1})
			fmt.Fprint(w, s.page("Login", "<form action=/code method=post>"+s.fields(`<p><input class=old name=user aria-label=User>`, `<p><input class=old type=password name=pw aria-label=Password>`)+"<button class=old>Next</button></form>"))
		case at == "/code" && r.FormValue("user") == "ada" && r.FormValue("pw") == hunter:
			fmt.Fprint(w, s.page("Code", "<p>We have sent nothing", "<form action=/in method=post><input class=old name=code aria-label=Code><button class=old>Log in</button></form>"))
		case at == "/in" && slices.Contains(codes(t), r.FormValue("code")):
			s.note("login")
			http.SetCookie(w, &http.Cookie{Name: "inside", Value: "yes"})
			http.Redirect(w, r, "/desk", http.StatusSeeOther)
		case at == "/terms": // on another site, which has no cookie
			fmt.Fprint(w, s.page("Terms", "<p>These are the terms.", `<button class=old onclick="fetch('/agree', {method: 'POST'}).then(() => this.replaceWith('Agreed'))">I agree</button>`))
		case at == "/agree" && r.Host != strings.TrimPrefix(s.URL, "http://"):
			s.note("agree")
		case inside != nil:
			fmt.Fprint(w, "Nothing for you here")
		case at == "/desk":
			fmt.Fprint(w, s.page("Desk", "<h1>Your desk</h1>", fmt.Sprintf(`<iframe width=400 height=120 src="%s/terms"></iframe>`, strings.Replace(s.URL, "127.0.0.1", "localhost", 1)),
				`<form action=/upload method=post enctype=multipart/form-data><input class=old type=file name=f aria-label=Paper><button class=old>Hand in</button></form>`,
				`<p><a class=old href=/report>Report</a>`, `<p><button class=old onclick="window.open('/consent')">Ask for consent</button>`,
				`<p><button class=old onclick="if (confirm('Send all?')) location.href = '/finish'">Finish</button>`))
		case at == "/upload":
			f, h, err := r.FormFile("f")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			b, _ := io.ReadAll(f)
			s.note("upload " + h.Filename + " " + string(b))
			http.Redirect(w, r, "/desk", http.StatusSeeOther)
		case at == "/report":
			s.note("download")
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", `attachment; filename="report.txt"`)
			fmt.Fprint(w, "the report")
		case at == "/consent":
			fmt.Fprint(w, s.page("Consent", "<p>May they?", `<button class=old onclick="fetch('/approve', {method: 'POST'}).then(() => window.close())">Approve</button>`))
		case at == "/approve":
			s.note("approve")
		case at == "/finish":
			s.note("finish")
			fmt.Fprint(w, s.page("Finished", "<h1>All has been sent</h1>"))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// fields are parts within a form, which keeps its own end.
func (s *office) fields(parts ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed {
		slices.Reverse(parts)
	}
	return strings.Join(parts, "")
}

// Everything that belongs to such a visit is done by the model of the conversation, then by a task, whose history is then replayed without a
// model, after the pages have got other classes and another order. What the site is sent is the same each time.
func TestBrowserCombined(t *testing.T) {
	t.Parallel()
	s := newOffice(t)
	const all = "login, agree, upload paper.txt my paper, download, approve, finish"
	r := newBrowserWith(t, browsers[0], fmt.Sprintf(secrets, hunter, s.URL, otpKey, s.URL)+"\n    downloads = \"./got\"",
		operates(`(?s)Visit the office.*name=user`, `{"input":{"index":1,"text":"ada"}},{"input":{"index":2,"text":"<secret>login</secret>"}},{"click":{"index":3}}`)+
			operates(`(?s)name=code`, `{"input":{"index":1,"text":"<secret>code</secret>"}},{"click":{"index":2}}`)+
			operates(`(?s)I agree.*Step 4 of`, `{"click":{"index":2}}`)+
			operates(`(?s)Agreed.*Step 5 of`, `{"upload_file":{"index":3,"paths":["paper.txt"]}},{"click":{"index":4}}`)+
			operates(`Step 6 of`, `{"click":{"index":5}},{"click":{"index":6}}`)+
			operates(`(?s)May they.*Step 7 of`, `{"click":{"index":1}},{"wait":{"seconds":1}}`)+
			operates(`(?s)Your desk.*Step 8 of`, `{"click":{"index":7}}`)+
			operates(`(?s)confirm dialog.*Step 9 of`, `{"handle_dialog":{"accept":true}}`)+
			operates(`(?s)All has been sent`, `{"done":{"text":"All sent.","success":true}}`)+
			act("a1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
			act("a2", `{ fill_form = { fields = [{ index = 1, text = "ada" }, { index = 2, text = "<secret>login</secret>" }] } }, { click = { index = 3 } }`)+
			act("a3", `{ input = { index = 1, text = "<secret>code</secret>\n" } }`)+
			act("a4", `{ click = { index = 2 } }`)+
			act("a5", `{ upload_file = { index = 3, paths = ["paper.txt"] } }, { click = { index = 4 } }`)+
			act("a6", `{ click = { index = 5 } }`)+act("a7", `{ click = { index = 6 } }`)+
			act("a8", `{ click = { index = 1 } }`)+act("a9", `{ click = { index = 7 } }`)+
			act("a10", `{ handle_dialog = { accept = true } }`)+
			toolCall("w1", "wait_for", `file = "one"`)+
			toolCall("t1", "browser_task", fmt.Sprintf(`task = "Visit the office", start_url = %q, secrets = ["login", "code"], judge = false`, s.URL))+
			"[[step]]\ncapture = [{ pattern = 'for browser_replay: (?P<sha>[0-9a-f]{64})' }]\ndo = [{ call = \"wait_for\", id = \"w2\", args = { file = \"two\" } }]\n"+
			toolCall("t2", "browser_replay", `history = "${sha}"`)+
			toolCall("w3", "wait_for", `file = "three"`)+
			toolCall("t3", "browser_replay", `history = "${sha}"`)+done)
	r.Write("paper.txt", "my paper")
	addOdd(t, r, "waits", "waits", "")
	run := r.Start(append(append([]string{"exec"}, bothAddresses("workspace-write")...), "--events", "go")...)
	for _, phase := range []struct{ file, who string }{{"one", "the model"}, {"two", "the task"}, {"three", "the replay"}} {
		r.Until(phase.who+" is done", func() bool { return exists(r.Dir, phase.file+".waiting") })
		if got := s.take(); got != all {
			t.Errorf("%s has done: %s", phase.who, got)
		}
		if phase.file == "three" {
			s.change()
		}
		r.Write(phase.file, "")
	}
	res := run.Wait()
	if got := s.take(); got != all {
		t.Errorf("the replay on the changed pages has done: %s", got)
	}
	out := r.Last().Outputs()
	wantOutputs(t, out, map[string][]string{
		"a6": {"Downloaded " + r.Dir + "/got/report.txt"}, "a7": {"May they?"}, "a9": {"a confirm dialog is open (\"Send all?\")"}, "a10": {"All has been sent"},
		"t1": {"All sent."}, "t2": {"All steps were replayed."}, "t3": {"found by AX_NAME", "All steps were replayed.", "ended with: All sent."},
	})
	if have := entries(t, r.Dir+"/got"); strings.Count(have, "report") != 4 {
		t.Errorf("the folder has %q", have)
	}
	for _, x := range append(codes(t), hunter, otpKey) {
		if strings.Contains(fmt.Sprint(out)+res.Stdout+res.Stderr, x) {
			t.Errorf("%q is told", x)
		}
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}
