package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Fifty windows that a page opens at once, a page in native code that does not end, a server that does not answer, and a page that asks before
// it is left hold nothing up: the answers say what has happened, once, and other tabs go on.
func TestBrowserIsNotHeldUp(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		const head = "<!doctype html><link rel=icon href=data:,>"
		switch r.URL.Path {
		case "/popups":
			fmt.Fprint(w, head+`<title>Popups</title><button onclick="for (let i = 0; i < 50; i++) window.open('/popup?' + i)">Open</button>`)
		case "/popup":
			fmt.Fprint(w, head+"<title>Popup</title>A popup")
		case "/hangs":
			<-r.Context().Done()
		case "/native":
			fmt.Fprint(w, head+`<title>Native</title><button onclick="setTimeout(() => /^(a+)+$/.test('a'.repeat(60) + 'b'))">Match</button>`)
		case "/stays":
			fmt.Fprint(w, head+`<title>Stays</title><script>addEventListener('beforeunload', e => { e.preventDefault(); e.returnValue = 'no' })</script><button>Touch</button>`)
		default:
			fmt.Fprint(w, head+"<title>Fine</title>All is fine")
		}
	}))
	t.Cleanup(s.Close)
	open := func(path string) string { return fmt.Sprintf("{ navigate = { url = %q } }", s.URL+path) }
	tab := func(path string) string {
		return fmt.Sprintf("{ navigate = { url = %q, new_tab = true } }", s.URL+path)
	}
	r := newBrowser(t, browsers[0], act("p1", open("/popups"))+act("p2", "{ click = { index = 1 } }")+toolCall("p3", "browser_state", `mode = "full"`)+
		act("p4", "{ wait = { seconds = 0 } }")+act("n1", tab("/native"))+act("n2", "{ click = { index = 1 } }")+toolCall("n3", "browser_status", "")+
		act("n4", tab("/fine"))+toolCall("n5", "browser_state", `mode = "full"`)+act("h1", open("/hangs"))+act("h2", open("/fine"))+
		act("u1", tab("/stays"))+act("u2", "{ click = { index = 1 } }")+act("u3", open("/fine"))+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	wantOutputs(t, out, map[string][]string{
		"p2": {"it has opened tab"}, "p3": {"A popup", "/popups)", "/popup?48)"}, "u3": {"Navigated to", "[beforeunload]", "All is fine"},
		"n2": {"does not answer, because its scripts are busy"}, "n3": {"/native"}, "n4": {"All is fine"}, "n5": {"All is fine"},
		"h1": {"/hangs has not answered within"}, "h2": {"All is fine"},
	})
	if n := strings.Count(out["p2"], "it has opened tab"); n < 1 || n > 50 || strings.Contains(out["p3"]+out["p4"], "it has opened tab") {
		t.Errorf("the windows are reported %d times, or again later:\n%s\n%s", n, out["p2"], out["p4"])
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}
