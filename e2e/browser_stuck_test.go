package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Fifty windows that a page opens at once, and a page that asks before it is left, hold nothing up: the answers say what has happened.
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
		act("u1", tab("/stays"))+act("u2", "{ click = { index = 1 } }")+act("u3", open("/fine"))+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	wantOutputs(t, out, map[string][]string{
		"p2": {"it has opened tab"}, "p3": {"A popup", "/popups)", "/popup?48)"}, "u3": {"Navigated to", "[beforeunload]", "All is fine"},
	})
	r.NothingLeft()
	noProfileLeft(t, r)
}
