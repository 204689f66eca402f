package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A page that asks for a login for which there is no secret goes to the person who runs gantry, and the model continues where that person has
// left the page. If nobody can be asked, or the person does not do it, the model is told.
func TestBrowserLoginWall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, answer, want string }{
		{"done", "1\n", "1. The user says that it is done"},
		{"not possible", "2\n", "1. ask_user failed: the user does not do it"},
		{"nobody", "", "1. ask_user failed: nobody can be asked: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			finished := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.Path {
				case "/inside":
					fmt.Fprint(w, "<!doctype html><title>Inside</title><link rel=icon href=data:,><p>Welcome back")
				case "/login": // the login that the person finishes
					select {
					case <-finished:
					case <-r.Context().Done():
					}
				default:
					fmt.Fprint(w, `<!doctype html><title>Login</title><link rel=icon href=data:,><label for=p>Password</label><input id=p type=password>
<script>addEventListener('load', () => { const w = new Worker(URL.createObjectURL(new Blob(['fetch("' + location.origin + '/login", {mode: "no-cors"}).then(() => postMessage(1))']))); w.onmessage = () => location = '/inside' })</script>`)
				}
			}))
			t.Cleanup(s.Close)
			r := newBrowser(t, browsers[0], act("c1", fmt.Sprintf("{ navigate = { url = %q } }", s.URL))+
				act("c2", `{ ask_user = { reason = "Log in to the shop." } }`)+act("c3", `{ wait_for = { url = "/", seconds = 1 } }`)+done)
			args := append(append([]string{"exec", "-c", "approval.policy=on-request"}, reaching("workspace-write")...), "go")
			if tc.answer == "" {
				r.OK(args...)
			} else {
				run := r.Terminal(args...)
				run.Sees("Log in to the shop.")
				run.SeesTimes("answer: ", 1)
				if tc.name == "done" {
					close(finished)
				}
				run.Type(tc.answer)
				if res := run.Wait(); res.Code != 0 {
					t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
				}
			}
			out := r.Last().Outputs()
			if !strings.Contains(out["c1"], "you have no secret for it") || !strings.Contains(out["c2"], tc.want) || strings.Contains(out["c3"], "no secret") {
				t.Errorf("c1: %s\nc2: %s\nc3: %s", out["c1"], out["c2"], out["c3"])
			}
			if tc.name == "done" && !strings.Contains(out["c2"]+out["c3"], "Welcome back") {
				t.Errorf("the model does not see where the person has left the page:\n%s\n%s", out["c2"], out["c3"])
			}
			r.NothingLeft()
		})
	}
}
