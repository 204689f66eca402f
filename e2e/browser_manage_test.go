package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A browser tells how it is, pages see what was configured, a tab that is stuck is helped, and after an end there is a new browser.
func TestBrowserIsManaged(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/slow":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/blocked":
			fmt.Fprint(w, "loaded")
		default:
			fmt.Fprint(w, "<!doctype html><title>Page</title><link rel=icon href=data:,><p>Page")
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	call := func(tool, id, args string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = %q, id = %q, args = { %s } }]\n", tool, id, args)
	}
	eval := func(id, code string) string { return act(id, fmt.Sprintf("{ evaluate = { code = %q } }", code)) }
	open := fmt.Sprintf("{ navigate = { url = %q } }", s.URL)
	r := newBrowser(t, browsers[0], call("browser_status", "none", "")+call("browser_configure", "early", `dialogs = "accept"`)+act("c1", open)+
		call("browser_configure", "set", `emulate = { width = 500, height = 400, color_scheme = "dark" }, block = ["127.0.0.1/blocked", "*://127.0.0.1:*/blocked"], dialogs = "accept"`)+
		call("browser_configure", "bad", `emulate = { width = 500 }`)+
		eval("seen", "[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches, confirm('?')].join()")+eval("blocked", "fetch('/blocked').then(() => 'yes', () => 'no')")+
		call("browser_status", "status", "")+
		eval("slow", "const f = document.createElement('iframe'); f.src = '/slow'; document.body.append(f); 0")+call("browser_status", "loading", "")+
		call("browser_recover", "stop", `action = "stop_loading"`)+eval("crash", "confirm('again')")+call("browser_recover", "reload", `action = "reload"`)+
		call("browser_recover", "close", `action = "close"`)+call("browser_recover", "restart", `action = "restart"`)+call("browser_status", "ended", "")+call("browser_help", "help", `topic = "drag and drop"`)+act("c2", open)+done)
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"none": "No browser runs", "early": "there is no browser", "set": "The browser now has a screen of 500x400, the media dark, 2 blocked patterns, dialogs: accept.",
		"bad": "give both width and height", "seen": "Evaluated: 500,true,true", "blocked": "Evaluated: no", "status": ": " + s.URL + "/", "loading": "1 requests are not answered",
		"stop": "The tab no longer loads.", "reload": "The page was loaded again.", "close": "The tab is closed.", "restart": "The browser has ended", "ended": "No browser runs", "help": "drag takes the numbers of two elements", "c2": " - Page",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	if !strings.Contains(out["status"], "processes, ") || !strings.Contains(out["status"], "MiB") {
		t.Errorf("no figures: %s", out["status"])
	}
	r.NothingLeft()
	noProfileLeft(t, r)
}
