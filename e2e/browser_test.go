package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// newBrowser returns a rig with the browser plugin.
func newBrowser(t *testing.T, script string) *rig.Rig {
	t.Helper()
	if _, err := exec.LookPath("chromium-headless-shell"); err != nil {
		t.Skip("there is no Chromium on this machine")
	}
	r := rig.New(t, script)
	r.Config("plugin \"browser\" {\n  source = \"builtin/browser\"\n  config {\n    sandbox = false\n  }\n}\n")
	return r
}

// act is a call of browser_act, as a line of a script.
func act(id, actions string) string {
	return fmt.Sprintf("[[step]]\ndo = [{ call = \"browser_act\", id = %q, args = { actions = [%s] } }]\n", id, actions)
}

// form is a page with a form whose answer it counts.
func form(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>Form</title><link rel=icon href=data:,><h1>A form that stays as it is while it is filled in</h1>
<label for=n>Name</label><input id=n><button onclick="document.getElementById('out').textContent = 'Hello ' + document.getElementById('n').value">Greet</button><p id=out></p>`)
	}))
	t.Cleanup(s.Close)
	return s
}

// A model opens a page, reads it, types, clicks, and sees what has changed.
func TestBrowser(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, "[[step]]\ndo = [{ call = \"browser_state\", id = \"c0\", args = { } }]\n"+
		act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
		act("c2", `{ input = { index = 1, text = "Ada" } }, { click = { index = 2 } }`)+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { mode = \"full\", screenshot = \"view\" } }]\n"+
		act("c4", `{ click = { index = 7 } }`)+
		act("c5", `{ navigate = { url = "file:///etc/passwd" } }`)+done)
	res := r.OK("exec", "-c", `sandbox.mode="full-access"`, "--events", "go")
	out := r.Last().Outputs()
	for id, want := range map[string][]string{
		"c0": {"There is no browser yet"},
		"c1": {"1. Navigated to " + s.URL, " - Form", "Name\n[1]<input id=n />\n[2]<button />\n\tGreet"},
		"c2": {"1. Typed \"Ada\" into [1]\n2. Clicked [2] <button> \"Greet\"", "~ [1]<input id=n value=Ada />", "+ Hello Ada"},
		"c3": {"A form that stays as it is", "Hello Ada"},
		"c4": {"1. click failed: there is no element 7: numbers are from 1 to 2"},
		"c5": {"only http and https are"},
	} {
		for _, w := range want {
			if !strings.Contains(out[id], w) {
				t.Errorf("%s has no %q:\n%s", id, w, out[id])
			}
		}
	}
	if strings.Contains(out["c2"], "stays as it is") {
		t.Errorf("what has not changed is repeated:\n%s", out["c2"])
	}
	if !strings.Contains(res.Stdout, "browser_act") {
		t.Error("the calls are in no event")
	}
	r.NothingLeft()
}

// The browser, its tab and what is typed in it outlive the plugin; the death of the browser is told, and the next call has a new one.
func TestBrowserOutlivesItsPlugin(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, act("c1", fmt.Sprintf("{ navigate = { url = %q } }, { reload = {} }", s.URL))+act("c2", `{ input = { index = 1, text = "Ada" } }`)+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { } }]\n"+act("c4", `{ click = { index = 2 } }`)+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w2\", args = { file = \"two\" } }]\n"+
		act("c5", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c6", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "-c", `sandbox.mode="full-access"`, "go")
	plugin := func() []int { return rig.Processes(t, r.Home, "gantry-tool-browser") }
	r.Until("the first barrier", func() bool { return exists(r.Dir, "one.waiting") })
	old := plugin()
	rig.Kill(t, old...)
	r.Until("the plugin is back", func() bool { now := plugin(); return len(now) == 1 && len(old) == 1 && now[0] != old[0] })
	r.Write("one", "")
	r.Until("the second barrier", func() bool { return exists(r.Dir, "two.waiting") })
	rig.Kill(t, rig.Processes(t, r.Home, "chromium-headless-shell")...)
	r.Write("two", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Last().Outputs()
	out["c5"] += out["c6"] // the call that finds the browser gone may only say so
	for id, want := range map[string]string{
		"c1": "The remaining 1 actions were not run", "c3": "[1]<input id=n value=Ada", "c4": "Hello Ada", "c5": "This is a new browser, without earlier tabs", "c6": " - Form",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	r.NothingLeft()
}
