package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/plugins/mcp/authtest"
)

// A server with an address can't send gantry, or the token that gantry has for it, to another place.
func TestMCPHostileAddress(t *testing.T) {
	t.Parallel()
	const metadata = "http://169.254.169.254/latest/meta-data/iam"
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
	}
	endpoint := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", to)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}
	for name, tc := range map[string]struct {
		answer func(evil string) http.HandlerFunc
		more   string
		want   string
	}{
		"another port":             {func(evil string) http.HandlerFunc { return redirect(evil + "/mcp") }, "", "it refers to http://127.0.0.1:"},
		"the metadata service":     {func(string) http.HandlerFunc { return redirect(metadata) }, "", "it refers to http://169.254.169.254"},
		"an event with an address": {func(evil string) http.HandlerFunc { return endpoint(evil + "/messages") }, "transport = \"sse\"", "it refers to http://127.0.0.1:"},
		"an event with metadata":   {func(string) http.HandlerFunc { return endpoint(metadata) }, "transport = \"sse\"", "it refers to http://169.254.169.254"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evil, count := countsConnections(t)
			web := httptest.NewServer(tc.answer("http://" + evil))
			t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
			r := boxed(t, finished)
			r.Env = append(r.Env, "TOKEN=token-123456")
			// Even where the user lets the plugin reach the other place.
			r.Config(fmt.Sprintf("plugin \"mcp\" {\n  source = \"builtin/mcp\"\n  permissions {\n    network = [%q, \"169.254.169.254\"]\n  }\n  config {\n    server \"web\" {\n      url = %q\n      required = true\n      bearer_token = env(\"TOKEN\")\n%s\n    }\n  }\n}\n", evil, web.URL+"/mcp", tc.more))
			res := r.Gantry("exec", "go")
			if res.Code == 0 || !strings.Contains(res.Stderr, tc.want) || count.Load() != 0 {
				t.Errorf("exit %d, %d connections:\n%s", res.Code, count.Load(), res.Stderr)
			}
			r.NothingLeft()
		})
	}
	t.Run("a name of a private address", func(t *testing.T) {
		t.Parallel()
		evil, count := countsConnections(t)
		r := boxed(t, finished)
		url := "http://" + machine + evil[strings.LastIndex(evil, ":"):] + "/mcp"
		addMCP(t, r, fmt.Sprintf("server \"web\" {\n  url = %q\n  required = true\n}\n", url))
		res := r.Gantry("exec", "go")
		if res.Code == 0 || !strings.Contains(res.Stderr, "is on this machine or in a private network") || count.Load() != 0 {
			t.Errorf("exit %d, %d connections:\n%s", res.Code, count.Load(), res.Stderr)
		}
	})
}

// What a server and its authorization server say about a login opens no address of this machine or of a private network.
func TestMCPHostileLogin(t *testing.T) {
	t.Parallel()
	meta := func(evil string) func(w *authtest.World) {
		return func(w *authtest.World) {
			w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/mcp" {
					rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+evil+`/meta"`)
					rw.WriteHeader(http.StatusUnauthorized)
				}
				return r.URL.Path == "/mcp"
			}
		}
	}
	for name, tc := range map[string]struct {
		change  func(evil string) func(w *authtest.World)
		browses bool
		control bool // the address is reached if the user has permitted it
	}{
		"metadata at a private address":    {meta, false, true},
		"metadata at the metadata service": {func(string) func(*authtest.World) { return meta("http://169.254.169.254") }, false, false},
		"an authorization server of its own": {func(evil string) func(w *authtest.World) {
			return func(w *authtest.World) {
				w.Intrude = func(rw http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == w.Place {
						authtest.AnswerJSON(rw, 200, map[string]any{"resource": w.Resource, "authorization_servers": []string{evil}})
					}
					return r.URL.Path == w.Place
				}
			}
		}, false, true},
		"registration elsewhere": {func(evil string) func(w *authtest.World) {
			return func(w *authtest.World) { w.Meta["registration_endpoint"] = evil + "/register" }
		}, false, true},
		"tokens from elsewhere": {func(evil string) func(w *authtest.World) {
			return func(w *authtest.World) { w.Meta["token_endpoint"] = evil + "/token" }
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, permitted := range []bool{false, true} {
				if permitted && !tc.control {
					continue
				}
				evil, count := countsConnections(t)
				w := authtest.New(t)
				w.Set(func() { tc.change("http://" + evil)(w) })
				r := boxed(t, finished)
				file := filepath.Join(r.Home, "gantry.hcl")
				b, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				network := fmt.Sprintf("%q", strings.TrimPrefix(w.Auth.URL, "http://"))
				if permitted {
					network += fmt.Sprintf(", %q", evil)
				}
				configureMCP(t, r, file, string(b), "permissions {\n    network = ["+network+"]\n  }", fmt.Sprintf("      url = %q\n", w.API.URL+"/mcp"))
				var res rig.Result
				if tc.browses {
					run := r.Terminal("mcp", "login", "--yes", "web")
					run.Sees("/authorize?")
					r.Until("the whole address is there", func() bool { return strings.Contains(run.Output()[strings.Index(run.Output(), "/authorize?"):], "\n") })
					resp, err := http.Get(loginPage.FindString(run.Output()))
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					res = run.Wait()
				} else {
					res = r.Gantry("mcp", "login", "--yes", "web")
				}
				if reached := count.Load() > 0; res.Code == 0 || reached != permitted {
					t.Errorf("permitted %v: exit %d, %d connections\n%s%s", permitted, res.Code, count.Load(), res.Stdout, res.Stderr)
				}
				if out := r.OK("mcp", "list").Stdout; !strings.Contains(out, "no  ") {
					t.Errorf("logged in:\n%s", out)
				}
				r.NothingLeft()
			}
		})
	}
}

// A project's servers are neither reached nor started before the project is trusted; files of other programs are not read, and after it has
// been trusted, its addresses are public ones.
func TestMCPServersOfAProject(t *testing.T) {
	t.Parallel()
	evil, count := countsConnections(t)
	r := boxed(t, finished)
	r.Env = append(r.Env, "TOKEN=token-123456")
	addMCP(t, r, "")
	started := filepath.Join(filepath.Dir(r.Dir), "out", "started")
	program := fmt.Sprintf("server \"program\" {\n  command = \"sh\"\n  args = [\"-c\", %q]\n  sandbox {\n    mode = \"full-access\"\n  }\n}\n", "echo >> "+started)
	r.Write(".gantry/gantry.hcl", fmt.Sprintf("plugin \"mcp\" {\n  config {\n%sserver \"web\" {\n  url = \"http://%s/mcp\"\n  bearer_token = env(\"TOKEN\")\n}\n  }\n}\n", program, evil))
	other := fmt.Sprintf(`{"mcpServers":{"program":{"command":"sh","args":["-c","echo >> %s"]},"web":{"type":"http","url":"http://%s/mcp"}}}`, started, evil)
	for _, name := range []string{".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"} {
		r.Write(name, other)
	}
	nothing := func(when string) {
		t.Helper()
		r.OK("exec", "go")
		r.OK("mcp", "list")
		if exists(filepath.Dir(started), "started") || count.Load() != 0 {
			t.Errorf("%s: started %v, %d connections", when, exists(filepath.Dir(started), "started"), count.Load())
		}
	}
	nothing("before trust")
	if out := r.OK("mcp", "list").Stdout; strings.Contains(out, "program") || strings.Contains(out, "web") {
		t.Errorf("before trust there are servers:\n%s", out)
	}
	r.OK("trust", "--yes")
	nothing("trusted, but not locked")
	if out := r.OK("mcp", "list").Stdout; !strings.Contains(out, "has not been accepted") || !strings.Contains(out, "is on this machine or in a private network") {
		t.Errorf("after trust:\n%s", out)
	}
	// Control: accepted, the program runs; in the user's own file, the address is reached.
	r.OK("plugin", "lock", "--yes", "mcp")
	r.OK("mcp", "list")
	if !exists(filepath.Dir(started), "started") {
		t.Error("what has been accepted does not start either")
	}
	if err := os.RemoveAll(filepath.Join(r.Dir, ".gantry")); err != nil {
		t.Fatal(err)
	}
	r.OK("mcp", "add", "--yes", "--no-try", "web", "--url", "http://"+evil+"/mcp")
	r.OK("mcp", "list")
	if count.Load() == 0 {
		t.Error("the user's own address is not reached either")
	}
}

// A program that another folder of PATH shadows, or that was replaced, is not what was accepted.
func TestMCPShadowedProgram(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	parent := filepath.Dir(r.Dir)
	first, second, ran := filepath.Join(parent, "first"), filepath.Join(parent, "second"), filepath.Join(parent, "out", "ran")
	put := func(dir, text string) {
		t.Helper()
		r.Write(filepath.Join(dir, "some-server"), "#!/bin/sh\necho "+text+" >> "+ran+"\n")
		if err := os.Chmod(filepath.Join(dir, "some-server"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(second, "good")
	if err := os.MkdirAll(first, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "PATH="+first+":"+second+":"+os.Getenv("PATH"))
	addMCP(t, r, fmt.Sprintf("server \"srv\" {\n  command = \"some-server\"\n  required = true\n  startup_timeout = \"5s\"\n  sandbox {\n    writable_roots = [%q]\n  }\n}\n", filepath.Join(parent, "out")))
	run := func(want string, evil bool) {
		t.Helper()
		res := r.Gantry("exec", "go")
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("no %q:\n%s", want, res.Stderr)
		}
		if b, _ := os.ReadFile(ran); strings.Contains(string(b), "evil") != evil || !strings.Contains(string(b), "good") {
			t.Errorf("these ran: %q", b)
		}
	}
	run("exited with code 0", false)
	const changed = "differs from what was accepted"
	put(first, "evil")
	run(changed, false)
	if err := os.RemoveAll(first); err != nil {
		t.Fatal(err)
	}
	put(second, "evil")
	run(changed, false)
	r.OK("plugin", "lock", "--yes", "mcp")
	run("exited with code 0", true)
}
