package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/plugins/mcp/authtest"
)

// loginPage is the address of the page that a login shows.
var loginPage = regexp.MustCompile(`http://127\.0\.0\.1:\d+/authorize\?\S+`)

// configureMCP writes the block of a server that wants a login.
func configureMCP(t *testing.T, r *rig.Rig, file, before, permissions, server string) {
	t.Helper()
	text := fmt.Sprintf("%s\nplugin \"mcp\" {\n  source = \"builtin/mcp\"\n  %s\n  config {\n    server \"web\" {\n%s    }\n  }\n}\n", before, permissions, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// browse logs in to a server on a terminal, as a person with a browser does. It returns what the terminal has shown.
func browse(t *testing.T, r *rig.Rig, server string) string {
	t.Helper()
	run := r.Terminal("mcp", "login", "--yes", server)
	run.Sees("/authorize?")
	r.Until("the whole address is there", func() bool { return strings.Contains(run.Output()[strings.Index(run.Output(), "/authorize?"):], "\n") })
	resp, err := http.Get(loginPage.FindString(run.Output())) // which is redirected to gantry
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	res := run.Wait()
	if res.Code != 0 || resp.StatusCode != http.StatusOK {
		t.Fatalf("exit %d, %s\n%s", res.Code, resp.Status, res.Stdout)
	}
	return res.Stdout
}

// A person logs in to a server with `gantry mcp login`, which mends a session that is running; the token is renewed at the host that login
// has put into the block, and nowhere else; logout ends it.
func TestMCPLogin(t *testing.T) {
	t.Parallel()
	w := authtest.New(t)
	list := func(id string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"list_mcp_resources\", id = %q, args = { server = \"web\" } }]\n", id)
	}
	r := boxed(t, list("c1")+"[[step]]\ndo = [{ call = \"exec_command\", id = \"c2\", args = { cmd = \"touch waits; until [ -e go-on ]; do sleep 0.05; done\", yield_time_ms = 30000 } }]\n"+list("c3")+finished)
	file := filepath.Join(r.Home, "gantry.hcl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := string(b)
	address := strings.TrimPrefix(w.Auth.URL, "http://")
	url := fmt.Sprintf("      url = %q\n      approval = \"approve\"\n", w.API.URL+"/mcp")
	configureMCP(t, r, file, before, fmt.Sprintf("permissions {\n    network = [%q]\n  }", address), url)

	session := r.Start("exec", "go")
	r.Until("the session waits", func() bool { return exists(r.Dir, "waits") })
	if out := r.OK("mcp", "list").Stdout; !strings.Contains(out, "web   http  needs login  0      no     the server \"web\" needs a login: it has none; run `gantry mcp login web`") {
		t.Errorf("before the login:\n%s", out)
	}
	shown := browse(t, r, "web")
	for _, want := range []string{`server "web" of plugin "mcp" asks:`, `+      oauth {`, fmt.Sprintf(`+        token_url = "%s/token"`, w.Auth.URL), `logged in to the server "web"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the login shows no %q:\n%s", want, shown)
		}
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := session.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	wantOutputs(t, r.Last().Outputs(), map[string][]string{
		"c1": {"the server \"web\" needs a login: it has none; run `gantry mcp login web`"}, "c3": {"note://a"},
	})
	if out := r.OK("mcp", "list").Stdout; !strings.Contains(out, "web   http  ready  2      yes") {
		t.Errorf("after the login:\n%s", out)
	}

	// A token that the server refuses is renewed.
	r.Write(filepath.Join(r.Home, "script.toml"), mcpCall("c1", "mcp__web", "read", "")+finished)
	call := func(want string, renewals int) {
		t.Helper()
		w.Set(func() { clear(w.Access) })
		r.OK("exec", "go")
		wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {want}})
		if n := w.Count("refresh_token"); n != renewals {
			t.Errorf("%d renewals, want %d", n, renewals)
		}
	}
	configureMCP(t, r, file, before, "", url)
	call(`its login can't be renewed: `, 0)
	configureMCP(t, r, file, before, "", url+fmt.Sprintf("      oauth {\n        token_url = \"%s/token\"\n      }\n", w.Auth.URL))
	call("hi", 1)

	w.Set(func() { w.Meta["revocation_endpoint"] = w.Auth.URL + "/revoke" })
	if out := r.OK("mcp", "logout", "--yes", "web").Stdout; !strings.Contains(out, "deleted and revoked the login") || w.Count("revoke refresh_token") != 1 {
		t.Errorf("revoked %d times: %s", w.Count("revoke refresh_token"), out)
	}
	call("the server \"web\" needs a login: it has none", 1)
	if out := r.OK("mcp", "list").Stdout; !strings.HasSuffix(out, " no\n") {
		t.Errorf("after the logout:\n%s", out)
	}
	if w.Complaints() != "" || len(w.Seen) != 1 {
		t.Errorf("%d logins, %s", len(w.Seen), w.Complaints())
	}
	r.NothingLeft()
}

// A client with a secret of its own logs in without a person.
func TestMCPClientCredentials(t *testing.T) {
	t.Parallel()
	w := authtest.New(t)
	r := boxed(t, mcpCall("c1", "mcp__web", "read", "")+finished)
	r.Env = append(r.Env, "CLIENT_SECRET=s3cret")
	file := filepath.Join(r.Home, "gantry.hcl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := func(id string) {
		configureMCP(t, r, file, string(b), "", fmt.Sprintf("      url = %q\n      required = true\n      approval = \"approve\"\n      oauth {\n        client_id = %q\n        client_secret = env(\"CLIENT_SECRET\")\n"+
			"        grant = \"client_credentials\"\n        scopes = [\"read\"]\n        token_url = \"%s/token\"\n      }\n", w.API.URL+"/mcp", id, w.Auth.URL))
	}
	block("stranger")
	if res := r.Gantry("exec", "go"); res.Code == 0 || !strings.Contains(res.Stderr, "check client_id, client_secret and scopes in its oauth block") {
		t.Errorf("an unknown client: exit %d\n%s", res.Code, res.Stderr)
	}
	block("machine")
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"Output:hi"}})
	if w.Complaints() != "wrong client or resource" || w.Count("client_credentials") != 2 {
		t.Errorf("%d requests for tokens, %s", w.Count("client_credentials"), w.Complaints())
	}
	r.NothingLeft()
}

// A registered client has the same redirect address each time; if its port is taken, the command says so.
func TestMCPRegisteredClient(t *testing.T) {
	t.Parallel()
	w := authtest.New(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := taken.Addr().(*net.TCPAddr).Port
	w.Clients["mine"] = map[string]any{"redirect_uris": []any{fmt.Sprintf("http://127.0.0.1:%d/callback", port)}}
	r := boxed(t, finished)
	file := filepath.Join(r.Home, "gantry.hcl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	configureMCP(t, r, file, string(b), "", fmt.Sprintf("      url = %q\n      oauth {\n        client_id = \"mine\"\n        callback_port = %d\n        token_url = \"%s/token\"\n      }\n", w.API.URL+"/mcp", port, w.Auth.URL))
	if res := r.Gantry("mcp", "login", "--yes", "web"); res.Code != 1 || !strings.Contains(res.Stderr, "address already in use") || !strings.Contains(res.Stderr, "choose another port") {
		t.Errorf("a port that is taken: exit %d\n%s", res.Code, res.Stderr)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if shown := browse(t, r, "web"); strings.Contains(shown, "proposes to change") {
		t.Errorf("a change is proposed although the block has the address:\n%s", shown)
	}
	if out := r.OK("mcp", "list").Stdout; !strings.Contains(out, "ready  2      yes") || w.Complaints() != "" {
		t.Errorf("%s\n%s", w.Complaints(), out)
	}
	r.NothingLeft()
}
