package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Each way in which a server can't be used has a text of its own, with the place of the server's block and what to do.
func TestMCPErrors(t *testing.T) {
	t.Parallel()
	status := func(code int, header, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set(header, value)
			}
			w.WriteHeader(code)
		}
	}
	web := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL + "/mcp"
	}
	ca := newAuthority(t)
	secure := func(parent *authority, c x509.Certificate) string {
		cert, key := certificate(t, parent, &c)
		s := httptest.NewUnstartedServer(status(500, "", ""))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL + "/mcp"
	}
	gone := httptest.NewServer(nil)
	nobody := gone.URL
	gone.Close()
	old := time.Now().Add(-48 * time.Hour)
	authority, err := os.ReadFile(ca.file)
	if err != nil {
		t.Fatal(err)
	}
	const trust = `ca_file = "CA"`
	const token = `bearer_token = "a-token-123456"`
	for name, tc := range map[string]struct{ url, more, want, next string }{
		"wrong URL":         {web(status(404, "", "")), "", "there is nothing at http://127.0.0.1:", "check its url in the configuration"},
		"nobody there":      {nobody, "", "connection refused", "is it running?"},
		"DNS":               {"https://no-such-host.invalid/mcp", "", `there is no host "no-such-host.invalid"`, "check its url in the configuration"},
		"self-signed":       {secure(nil, x509.Certificate{IPAddresses: loopback()}), "", "is signed by an unknown authority", "set ca_file"},
		"expired":           {secure(ca, x509.Certificate{IPAddresses: loopback(), NotBefore: old, NotAfter: old.Add(time.Hour)}), trust, "is not valid now", "check the clock"},
		"of another host":   {secure(ca, x509.Certificate{DNSNames: []string{"other.test"}}), trust, "is for another host", "check its url in the configuration"},
		"no TLS":            {strings.Replace(web(status(200, "", "")), "http://", "https://", 1), "", "does not use TLS", "should begin with http://"},
		"401 without login": {web(status(401, "WWW-Authenticate", "Bearer")), "", "needs a login", "run `gantry mcp login web`"},
		"401 with a token":  {web(status(401, "WWW-Authenticate", "Bearer")), token, "refuses the credentials (HTTP 401)", "check bearer_token and headers"},
		"403":               {web(status(403, "", "")), token, "refuses the request (HTTP 403)", "lack the permission"},
		"429":               {web(status(429, "Retry-After", "30")), "", "gets too many requests (HTTP 429)", "try again after 30 s"},
		"429 without time":  {web(status(429, "", "")), "", "gets too many requests (HTTP 429)", "try again in a few minutes"},
		"500":               {web(status(503, "", "")), "", "has a problem of its own (HTTP 503 Service Unavailable)", "try again later"},
		"HTML":              {web(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html><html></html>") }), "", "HTML instead of JSON", "check its url in the configuration"},
		"not JSON":          {web(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }), "", `"text/plain" instead of JSON`, "check its url in the configuration"},
		"missing program":   {"", `command = "no-such-program-here"`, `the program "no-such-program-here" of process "server.web" is not in PATH`, "or write its path in `command`"},
		"missing variable":  {"", "command = \"cat\"\nenv = { A = env(\"NO_SUCH_VARIABLE\") }", `variable "NO_SUCH_VARIABLE" is not set`, "set NO_SUCH_VARIABLE where"},
		"missing token":     {"https://a.invalid/mcp", `bearer_token = env("NO_SUCH_VARIABLE")`, `variable "NO_SUCH_VARIABLE" is not set`, "set NO_SUCH_VARIABLE where"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, finished)
			file := filepath.Join(filepath.Dir(r.Dir), "ca.pem") // plugins have a /tmp of their own
			r.Write(file, string(authority))
			url := ""
			if tc.url != "" {
				url = fmt.Sprintf("url = %q\n", tc.url)
			}
			addMCP(t, r, "server \"web\" {\n  required = true\n  startup_timeout = \"20s\"\n"+url+strings.Replace(tc.more, "CA", file, 1)+"\n}\n")
			res := r.Gantry("exec", "go")
			place := regexp.MustCompile(regexp.QuoteMeta(filepath.Base(r.Home)+"/gantry.hcl") + `:\d+`)
			if res.Code == 0 || !strings.Contains(res.Stderr, tc.want) || !strings.Contains(res.Stderr, tc.next) || !place.MatchString(res.Stderr) {
				t.Errorf("exit %d, want %q, %q and %v:\n%s", res.Code, tc.want, tc.next, place, res.Stderr)
			}
			r.NothingLeft()
		})
	}
}

// Tokens and headers from secrets are neither shown nor kept in threads, even if the server repeats them in its errors and results.
func TestMCPSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const token, key = "bearer-5f1e88a1", "header-90cc41d7"
	says := "you sent " + token + " and " + key
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, &mcp.ServerOptions{Instructions: says})
	s.AddTool(&mcp.Tool{Name: "say", Description: "Says.", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: says}}}, nil
	})
	works := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	for name, answer := range map[string]http.HandlerFunc{
		"works": works.ServeHTTP,
		"an error of the protocol": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":%q}}`, says)
		},
		"a status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, says, http.StatusForbidden) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/"+token+"?"+key, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var right atomic.Bool
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "Bearer "+token && r.Header.Get("X-Key") == key {
					right.Store(true)
				}
				answer(w, r)
			}))
			t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
			r := boxed(t, mcpCall("c1", "mcp__web", "say", "")+finished)
			r.Env = append(r.Env, "TOKEN="+token, "KEY="+key)
			addMCP(t, r, fmt.Sprintf("server \"web\" {\n  url = %q\n  required = true\n  defer = false\n  approval = \"approve\"\n  bearer_token = env(\"TOKEN\")\n  headers = { X-Key = env(\"KEY\") }\n}\n", web.URL+"/mcp"))
			shown := ""
			for _, args := range [][]string{{"exec", "--json", "go"}, {"exec", "go"}} {
				res := r.Gantry(args...)
				shown += res.Stdout + res.Stderr
			}
			for _, name := range []string{"threads.db", "threads.db-wal"} {
				if b, err := os.ReadFile(filepath.Join(r.Home, name)); err == nil && (strings.Contains(string(b), token) || strings.Contains(string(b), key)) {
					t.Errorf("%s has a secret", name)
				}
			}
			if strings.Contains(shown, token) || strings.Contains(shown, key) || !right.Load() {
				t.Errorf("the server got them: %v; shown:\n%s", right.Load(), shown)
			}
		})
	}
}
