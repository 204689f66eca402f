package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// browsers are the programs that make test installs.
var browsers = []string{"chromium-headless-shell", "chromium"}

// newBrowser returns a rig with the browser plugin, which uses a program. settings are lines of its block.
func newBrowser(t *testing.T, program, script string, settings ...string) *rig.Rig {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed; `make test` installs it", program)
	}
	r := boxed(t, script)
	r.Config(fmt.Sprintf("plugin \"browser\" {\n  source = \"builtin/browser\"\n  config {\n    chromium = %q\n%s\n  }\n}\n", program, strings.Join(settings, "\n")))
	return r
}

// reaching are the settings with which a browser reaches pages of this machine in a sandbox mode.
func reaching(mode string) []string {
	return []string{"-c", "sandbox.mode=" + mode, "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1"]`}
}

// noProfileLeft checks that no browser has left its folder.
func noProfileLeft(t *testing.T, r *rig.Rig) {
	t.Helper()
	if left, err := filepath.Glob(filepath.Join(r.Home, "*", "*", "profiles", "*")); err != nil || len(left) > 0 {
		t.Errorf("folders of browsers are left: %q (%v)", left, err)
	}
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

// A model opens a page, reads it, types, clicks, and sees what has changed, in every sandbox mode. Nothing is left of the browser.
func TestBrowser(t *testing.T) {
	t.Parallel()
	for _, program := range browsers {
		for _, mode := range []string{"read-only", "workspace-write", "full-access"} {
			t.Run(program+"/"+mode, func(t *testing.T) {
				t.Parallel()
				fillForm(t, program, mode)
			})
		}
	}
}

func fillForm(t *testing.T, program, mode string) {
	s := form(t)
	r := newBrowser(t, program, "[[step]]\ndo = [{ call = \"browser_state\", id = \"c0\", args = { } }]\n"+
		act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
		act("c2", `{ input = { index = 1, text = "Ada" } }, { click = { index = 2 } }`)+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { mode = \"full\", screenshot = \"view\" } }]\n"+
		act("c4", `{ click = { index = 7 } }`)+
		act("c5", `{ navigate = { url = "file:///etc/passwd" } }`)+done)
	res := r.OK(append(append([]string{"exec"}, reaching(mode)...), "--events", "go")...)
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
	noProfileLeft(t, r)
}

// The browser, its tab and what is typed in it outlive the plugin; the death of the browser is told, and the next call has a new one.
func TestBrowserOutlivesItsPlugin(t *testing.T) {
	t.Parallel()
	s := form(t)
	r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }, { reload = {} }", s.URL))+act("c2", `{ input = { index = 1, text = "Ada" } }`)+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w1\", args = { file = \"one\" } }]\n"+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c3\", args = { } }]\n"+act("c4", `{ click = { index = 2 } }`)+
		"[[step]]\ndo = [{ call = \"wait_for\", id = \"w2\", args = { file = \"two\" } }]\n"+
		act("c5", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c6", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+done)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	plugin := func() []int { return rig.Processes(t, r.Home, "gantry-tool-browser") }
	r.Until("the first barrier", func() bool { return exists(r.Dir, "one.waiting") })
	old := plugin()
	rig.Kill(t, old...)
	r.Until("the plugin is back", func() bool { now := plugin(); return len(now) == 1 && len(old) == 1 && now[0] != old[0] })
	r.Write("one", "")
	r.Until("the second barrier", func() bool { return exists(r.Dir, "two.waiting") })
	for _, pid := range rig.Processes(t, r.Home, "chromium-headless-shell") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some end with the first one
	}
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
	noProfileLeft(t, r)
}

// The browser asks for the site of a document that no rule names, once, and what is denied is not loaded. Nothing else leads there.
func TestBrowserAsksForASite(t *testing.T) {
	t.Parallel()
	s := form(t)
	const away = "{ evaluate = { code = \"location.href = 'http://other.test/'\" } }"
	r := newBrowser(t, browsers[0], act("c1", `{ navigate = { url = "http://stranger.test/" } }`)+act("c2", `{ navigate = { url = "http://stranger.test/again" } }`)+
		act("c3", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c4", away)+act("c5", `{ navigate = { url = "http://127.0.0.2/" } }`)+done)
	run := r.Terminal(append(append([]string{"exec", "-c", "approval.policy=on-request"}, reaching("workspace-write")...), "go")...)
	run.SeesTimes("answer: ", 1)
	run.Type("y\n")
	run.SeesTimes("answer: ", 2)
	run.Type("n\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 2 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		// The name does not exist, which is found out only when it is allowed.
		"c1": "there is no host stranger.test", "c2": "there is no host stranger.test", "c3": "A form that stays", "c4": "http://other.test was not allowed", "c5": "127.0.0.2 is on this machine",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s has no %q:\n%s", id, want, out[id])
		}
	}
	r.NothingLeft()
}
