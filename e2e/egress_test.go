package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type outConfig struct {
	URL     string       `json:"url" doc:"A service." endpoint:"true"`
	Mirrors []string     `json:"mirrors" doc:"More of them." endpoint:"true"`
	Servers []outService `json:"server"`
	Note    string       `json:"note" doc:"Not a service."`
}

type outService struct {
	Name string `label:"name"`
	URL  string `json:"url" doc:"A service." endpoint:"true"`
}

type fetchArgs struct {
	URL       string `json:"url"`
	Authorize bool   `json:"authorize,omitempty"`
	Direct    bool   `json:"direct,omitempty"`
}

// callsOut is a plugin that reaches services through the host, or tries to reach them by itself.
func callsOut(capabilities ...string) tool.Plugin {
	cfg := &outConfig{}
	fetch := func(ctx context.Context, e *tool.Env, authorize func(context.Context, ...contract.Effect) error, in fetchArgs) string {
		u, err := url.Parse(in.URL)
		if err != nil {
			return err.Error()
		}
		client := e.HTTPClient()
		defer client.CloseIdleConnections()
		transport := client.Transport.(*http.Transport)
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the certificate of a test
		if in.Direct {
			transport.DialContext = (&net.Dialer{}).DialContext
		}
		said := ""
		if in.Authorize {
			if err := authorize(ctx, contract.NetworkEffect{Host: u.Hostname()}); err != nil {
				return "not authorized: " + err.Error()
			}
			said = "authorized; "
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, nil)
		if err != nil {
			return err.Error()
		}
		resp, err := client.Do(r)
		if err != nil {
			return said + err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return fmt.Sprintf("%s%s %s %v", said, resp.Status, b, err)
	}
	return tool.Plugin{
		Name: "calls", Version: "1.0.0", Description: "Calls out.", Config: cfg, Capabilities: capabilities,
		Commands: []tool.Command{tool.NewCommand("login", "Logs in.", func(ctx context.Context, c *tool.CommandCall, _ struct{}) (any, error) {
			to, err := c.Redirect(ctx, tool.RedirectAddress{Path: "/callback/calls"})
			if err != nil {
				return nil, err
			}
			if err := c.Authorize(ctx, "to log in", contract.NetworkEffect{Host: "auth.test", Port: 443}); err != nil {
				return nil, err
			}
			a, err := c.Ask(ctx, tool.Question{
				Title: "Open this page", URL: "https://auth.test/authorize?state=s3&redirect_uri=" + url.QueryEscape(to.URI), RedirectID: to.ID,
			})
			if err != nil {
				return nil, err
			}
			if err := c.Env().StoreSecret(ctx, "token", a.Query["code"]); err != nil {
				return nil, err
			}
			token, _, err := c.Env().StoredSecret(ctx, "token")
			if err != nil {
				return nil, err
			}
			if err := c.Env().DeleteSecret(ctx, "token"); err != nil {
				return nil, err
			}
			return map[string]any{
				"same": a.RedirectURI == to.URI, "stored": token == "the-code",
				"authorized": fetch(ctx, c.Env(), nil, fetchArgs{URL: "https://auth.test/"}), "other": fetch(ctx, c.Env(), nil, fetchArgs{URL: "https://other.test/"}),
			}, nil
		}, tool.SideEffects())},
		Tools: []tool.Tool{
			tool.New("fetch", "Fetches a URL.", func(ctx context.Context, c *tool.Call, in fetchArgs) (*tool.Result, error) {
				return tool.Text(fetch(ctx, c.Env(), c.Authorize, in)), nil
			}, tool.ReadOnly()),
			tool.New("look", "Looks at a service.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
				return tool.Text("looked"), nil
			}, tool.Effects(contract.NetworkEffect{Host: "api.test", Port: 443})),
		},
	}
}

// services are two servers on loopback. The first one redirects as it is told.
func services(t *testing.T) (first, second *httptest.Server) {
	t.Helper()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprint(w, "hello")
	})
	first, second = httptest.NewServer(answer), httptest.NewTLSServer(answer)
	t.Cleanup(func() { first.Close(); second.Close() })
	return first, second
}

// callOut makes a rig with the plugin in a mode and the settings of its block, in the user's own file.
func callOut(t *testing.T, mode, permissions, block, script string) *rig.Rig {
	t.Helper()
	r := boxed(t, script+finished)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program("calls", fmt.Sprintf("#!/bin/sh\n%s=%q exec %q \"$@\"\n", oddMode, mode, self))
	r.Config(fmt.Sprintf("plugin \"calls\" {\n  source = %q\n  approval = \"approve\"\n  permissions {\n    read = [%q]\n    %s\n  }\n  config {\n%s\n  }\n}\n", program, self, permissions, block))
	r.OK("plugin", "lock", "--yes", "calls")
	return r
}

// fetches are calls of fetch, one step each.
func fetches(args map[string]fetchArgs) string {
	var out strings.Builder
	for id, a := range args {
		fmt.Fprintf(&out, "[[step]]\ndo = [{ call = \"fetch\", id = %q, args = { url = %q, authorize = %v, direct = %v } }]\n", id, a.URL, a.Authorize, a.Direct)
	}
	return out.String()
}

// A plugin's process reaches what its block names, through the host and in no other way. A redirect leads no further, and a name that
// leads to this machine is not the same as its address.
func TestPluginReachesItsServices(t *testing.T) {
	t.Parallel()
	first, second := services(t)
	other, _ := services(t)
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	port := other.URL[strings.LastIndex(other.URL, ":"):] // its address is not in the block
	const beyond, private = `plugin "calls" may not reach`, "is on this machine or in a private network"
	args := map[string]fetchArgs{
		"allowed": {URL: first.URL + "/mcp"}, "tls": {URL: second.URL}, "other": {URL: other.URL}, "stranger": {URL: "https://stranger.test/"},
		"redirect": {URL: first.URL + "/?to=" + url.QueryEscape(other.URL)}, "metadata": {URL: first.URL + "/?to=" + url.QueryEscape("http://169.254.169.254/")},
		"within": {URL: first.URL + "/?to=/again"}, "rebound": {URL: "http://" + machine + port}, "localhost": {URL: "http://localhost" + port},
		"direct": {URL: first.URL, Direct: true}, "note": {URL: "https://note.test/"},
	}
	r := callOut(t, "calls out", "", fmt.Sprintf("url = %q\nmirrors = [%q]\nserver \"a\" {\n url = %q\n}\nnote = \"https://note.test\"\n", first.URL+"/mcp", "http://"+machine+port, second.URL), fetches(args))
	res := r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		"allowed": "200 OK hello", "tls": "200 OK hello", "within": "200 OK hello", "other": private, "redirect": private, "metadata": private,
		"stranger": beyond + " stranger.test:443: it is neither the host of a URL in its block, ", "rebound": private, "localhost": private,
		"direct": "operation not permitted", "note": beyond + " note.test:443",
	} {
		if !strings.Contains(out[id], want) {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	if !strings.Contains(res.Stderr, "network access to stranger.test:443 was refused (not_allowed)") || !strings.Contains(res.Stderr, "network access to 169.254.169.254:80 was refused (not_allowed_local)") {
		t.Errorf("shown:\n%s", res.Stderr)
	}
	r.NothingLeft()
}

// What opens an address of this machine, and what does not.
func TestWhatOpensALocalAddress(t *testing.T) {
	t.Parallel()
	first, _ := services(t)
	address := strings.TrimPrefix(first.URL, "http://")
	const private, beyond, offline = "is on this machine or in a private network", "it is neither the host of a URL", "the host gives this plugin no way to the network"
	for name, tc := range map[string]struct{ mode, permissions, block, project, more, want string }{
		"a permission":                      {permissions: fmt.Sprintf("network = [%q]", address), want: "200 OK"},
		"a permission for another one":      {permissions: `network = ["127.0.0.1:1"]`, want: private},
		"nothing":                           {want: private},
		"a pattern of all":                  {permissions: `network = ["**.test", "*:443"]`, want: private},
		"a project's endpoint":              {project: fmt.Sprintf("config {\n url = %q\n}", first.URL), want: private},
		"a project's permission":            {project: fmt.Sprintf("permissions {\n network = [%q]\n}", address), want: private},
		"an endpoint, and a rule":           {block: fmt.Sprintf("url = %q", first.URL), more: "network {\n mode = \"proxy\"\n deny = [\"127.0.0.1\"]\n}\n", want: "is denied by the network rules"},
		"an allowed host of commands":       {more: "network {\n mode = \"proxy\"\n allow = [\"127.0.0.1\"]\n}\n", want: private},
		"a plugin that does not declare it": {mode: "calls out undeclared", block: fmt.Sprintf("url = %q", first.URL), want: offline},
		"a withheld capability":             {permissions: "capabilities = []", block: fmt.Sprintf("url = %q", first.URL), want: `is not granted the capability "network"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.mode == "" {
				tc.mode = "calls out"
			}
			r := callOut(t, tc.mode, tc.permissions, tc.block, fetches(map[string]fetchArgs{"c1": {URL: first.URL}}))
			r.Config(tc.more)
			if tc.project != "" {
				r.Write(filepath.Join(r.Dir, ".gantry", "gantry.hcl"), "plugin \"calls\" {\n"+tc.project+"\n}\n")
				r.OK("trust", "--yes")
				r.OK("plugin", "lock", "--yes", "calls")
			}
			r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
			if got := r.Last().Outputs()["c1"]; !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A plugin that asks for a host during a call is answered by the policy or by the user, and reaches it until the call has ended, but
// never at an address of this machine.
func TestPluginIsAuthorizedForAHost(t *testing.T) {
	t.Parallel()
	const target = "http://127.0.0.1:9/"
	script := fetches(map[string]fetchArgs{"c1": {URL: "http://stranger.test/", Authorize: true}}) + fetches(map[string]fetchArgs{"c2": {URL: target, Authorize: true}}) +
		fetches(map[string]fetchArgs{"c3": {URL: "http://stranger.test/"}})
	r := callOut(t, "calls out", "", "", script)
	r.OK("exec", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
	if got := r.Last().Outputs()["c1"]; !strings.Contains(got, "not authorized: ") {
		t.Errorf("without questions: %q", got)
	}
	r = callOut(t, "calls out", "", "", script)
	run := r.Terminal("exec", "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "go")
	run.SeesTimes("answer: ", 1)
	run.Type("y\n")
	run.SeesTimes("answer: ", 2)
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 2 || !strings.Contains(res.Stdout, "stranger.test") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	out := r.Last().Outputs()
	for id, want := range map[string]string{
		// The name does not exist, which is found out only when it is allowed.
		"c1": "there is no host stranger.test", "c2": "in a private network", "c3": "it is neither the host of a URL in its block",
	} {
		if !strings.Contains(out[id], want) || id != "c3" && !strings.Contains(out[id], "authorized; ") {
			t.Errorf("%s: %q, want %q", id, out[id], want)
		}
	}
	r.NothingLeft()
}

// A command of a plugin logs in: the address for the browser is known before the page, the person is asked about the host, and only an
// answer with the state of the page counts.
func TestPluginCommandLogsIn(t *testing.T) {
	t.Parallel()
	r := callOut(t, "calls out", "", "", "")
	if res := r.Gantry("plugin", "run", "--yes", "calls", "login"); res.Code != 1 || !strings.Contains(res.Stderr, "auth.test:443 can't be reached: there is nobody to ask") {
		t.Errorf("without a terminal: exit %d\n%s", res.Code, res.Stderr)
	}
	run := r.Terminal("plugin", "run", "--yes", "calls", "login")
	run.Sees("answer: ")
	if shown := run.Output(); !strings.Contains(shown, `Let plugin "calls" reach auth.test:443 until this command has ended?`) || !strings.Contains(shown, "The plugin says: to log in") {
		t.Errorf("asked:\n%s", shown)
	}
	run.Type("allow\n")
	run.Sees("/authorize?")
	page := regexp.MustCompile(`https://auth\.test/authorize\?\S+`)
	r.Until("the whole address is there", func() bool { return strings.Contains(page.FindString(run.Output()), "callback%2Fcalls") })
	shown, err := url.Parse(page.FindString(run.Output()))
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"?code=stolen&state=guessed": http.StatusBadRequest, "?code=the-code": http.StatusBadRequest} {
		resp, err := http.Get(shown.Query().Get("redirect_uri") + query)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", query, resp.Status)
		}
	}
	resp, err := http.Get(shown.Query().Get("redirect_uri") + "?code=the-code&state=s3")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	res := run.Wait()
	for _, want := range []string{`"same": true`, `"stored": true`, `connect to auth.test:443: `, `may not reach other.test:443: it is neither the host of a URL`} {
		if res.Code != 0 || !strings.Contains(res.Stdout, want) {
			t.Errorf("exit %d, no %q in\n%s", res.Code, want, res.Stdout)
		}
	}
	r.NothingLeft()
}

// A tool that reaches hosts of its block needs no approval, even if its plugin has not been started yet.
func TestAToolThatReachesItsServices(t *testing.T) {
	t.Parallel()
	for permission, want := range map[string]string{`network = ["api.test"]`: "looked", `network = ["other.test"]`: "it reaches api.test", "": "it reaches api.test"} {
		r := callOut(t, "calls out", permission, "", "[[step]]\ndo = [{ call = \"look\", id = \"c1\" }]\n")
		for range 2 { // the second time, the tools are known without the plugin
			r.OK("exec", "-c", "plugin.calls.approval=auto", "-c", "approval.policy=never", "-c", "sandbox.mode=workspace-write", "go")
			if got := r.Last().Outputs()["c1"]; !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q", permission, got, want)
			}
		}
	}
}

// forwardProxy is a proxy on loopback that leads all tunnels to one server, and notes what was asked of it.
func forwardProxy(t *testing.T, to string) (address string, asked func() string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		mu.Lock()
		list = append(list, r.Method+" "+r.Host+" "+user+":"+password)
		mu.Unlock()
		server, err := net.Dial("tcp", to)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, in, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n")
		ended := make(chan struct{})
		go func() { // ends when the client closes its side
			defer close(ended)
			_, _ = io.Copy(server, in)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		_ = client.Close()
		<-ended
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.Listener.Addr().String(), func() string {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ", ")
	}
}

// An MCP server is reached through the proxy of the user's network, with an authority of the user's own; the rules apply as without one,
// and the proxy's password is shown nowhere.
func TestMCPThroughAProxy(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "hi", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
	})
	web := httptest.NewUnstartedServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true, DisableLocalhostProtection: true}))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS() // its certificate is for example.com
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	for name, tc := range map[string]struct{ url, trust, no, want, asked string }{
		"through it":           {"https://example.com/mcp", "yes", "", "", "CONNECT example.com:443 me:pass-word-99"},
		"an unknown authority": {"https://example.com/mcp", "", "", "signed by an unknown authority; if you trust it, set ca_file", "CONNECT example.com:443 me:pass-word-99"},
		"not a certificate":    {"https://example.com/mcp", "no", "", "contains no certificate", ""},
		"an exception":         {"https://name.invalid/mcp", "yes", "name.invalid", `there is no host "name.invalid"`, ""},
		"a private address":    {"https://localhost:1/mcp", "yes", "", "localhost:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, asked := forwardProxy(t, web.Listener.Addr().String())
			r := boxed(t, mcpCall("c1", "mcp__web", "hi", "")+finished)
			ca := filepath.Join(filepath.Dir(r.Dir), "ca.pem")
			r.Write(ca, map[string]string{"yes": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))}[tc.trust])
			trust := ""
			if tc.trust != "" {
				trust = fmt.Sprintf("ca_file = %q", ca)
			}
			r.Env = append(r.Env, "HTTPS_PROXY=http://me:pass-word-99@"+proxy, "NO_PROXY="+tc.no)
			addMCP(t, r, fmt.Sprintf("server \"web\" {\n  url = %q\n  required = true\n  approval = \"approve\"\n  startup_timeout = \"10s\"\n%s\n}\n", tc.url, trust))
			res := r.Gantry("exec", "go")
			if (res.Code == 0) != (tc.want == "") || !strings.Contains(res.Stderr, tc.want) || strings.Contains(res.Stdout+res.Stderr, "pass-word-99") {
				t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
			}
			if tc.want == "" {
				wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"Output:hello"}})
			}
			if got := asked(); got != tc.asked {
				t.Errorf("the proxy was asked for %q, want %q", got, tc.asked)
			}
			r.NothingLeft()
		})
	}
}
