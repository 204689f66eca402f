package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// serving is a server of this machine whose page is a text. It returns its address and its host with the port.
func serving(t *testing.T, text string) (address, target string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><title>%s</title><link rel=icon href=data:,><p>%s", text, text)
	}))
	t.Cleanup(s.Close)
	return s.URL, strings.TrimPrefix(s.URL, "http://")
}

// What the block says of the network of the browser holds for it alone, in every mode: it opens a host that a command may not, and not one
// that a command may.
func TestBrowserHasANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	for _, mode := range []string{"read-only", "workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			browsers1, target1 := serving(t, "For browsers")
			commands1, target2 := serving(t, "For commands")
			curl := func(id, address string) string {
				return fmt.Sprintf("[[step]]\ndo = [{ call = \"exec_command\", id = %q, args = { cmd = \"curl -sS %s\", yield_time_ms = 10000 } }]\n", id, address)
			}
			r := newBrowser(t, browsers[0], curl("c1", commands1)+curl("c2", browsers1)+
				act("c3", fmt.Sprintf("{ navigate = { url = %q } }", browsers1))+act("c4", fmt.Sprintf("{ navigate = { url = %q } }", commands1))+
				act("c5", `{ navigate = { url = "http://8.8.8.8/" } }`)+done)
			r.Config(fmt.Sprintf("network {\n  mode  = \"proxy\"\n  allow = [%q]\n}\n", target2))
			r.OK("exec", "-c", "sandbox.mode="+mode, "-c", "approval.policy=never",
				"-c", "plugin.browser.processes.network.mode=proxy", "-c", fmt.Sprintf("plugin.browser.processes.network.allow=[%q]", target1),
				"-c", "plugin.browser.processes.network.unknown=deny", "go")
			out := r.Last().Outputs()
			for id, want := range map[string]string{"c1": "For commands", "c2": "127.0.0.1 is on this machine", "c3": "For browsers", "c4": "127.0.0.1 is on this machine", "c5": "8.8.8.8 is denied"} {
				if mode == "full-access" && id == "c2" {
					want = "For browsers" // commands have no sandbox
				}
				if !strings.Contains(out[id], want) {
					t.Errorf("%s has no %q:\n%s", id, want, out[id])
				}
			}
			r.NothingLeft()
		})
	}
}

// A page that eats memory loses its tab before the browser reaches the limit of its block. The model is told, and other tabs go on.
func TestBrowserClosesTheLargestTab(t *testing.T) {
	t.Parallel()
	s := form(t)
	const eat = "{ evaluate = { code = \"const all = []; for (;;) { const b = new Uint8Array(8 << 20); b.fill(all.length + 1); all.push(b); const until = performance.now() + 20; while (performance.now() < until); }\" } }"
	r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+act("c2", `{ input = { index = 1, text = "Ada" } }`)+
		act("c0", fmt.Sprintf("{ navigate = { url = %q, new_tab = true } }", s.URL+"/eater"))+act("c3", eat)+
		"[[step]]\ndo = [{ call = \"browser_state\", id = \"c4\", args = { mode = \"full\" } }]\n"+done)
	res := r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "--events", "-c", "plugin.browser.processes.memory=1500MiB", "go")...)
	out := r.Last().Outputs()
	for id, want := range map[string][]string{"c3": {"was closed, because the browser had almost reached its memory limit", "/eater"}, "c4": {"[1]<input id=n value=Ada"}} {
		for _, w := range want {
			if !strings.Contains(out[id], w) {
				t.Errorf("%s has no %q:\n%s", id, w, out[id])
			}
		}
	}
	if strings.Contains(res.Stdout, "reached its limit") {
		t.Error("the limit has ended the browser")
	}
	r.NothingLeft()
}
