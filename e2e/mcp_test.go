package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// mcpMode is the variable that makes the test binary an MCP server.
const mcpMode = "GANTRY_E2E_MCP"

// serveMCP is a server with tools of several kinds.
func serveMCP() int {
	switch os.Getenv(mcpMode) {
	case shifty:
		return serveShifty()
	case notes:
		return serveNotes()
	case needy:
		return serveNeedy()
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "odd", Version: "1"}, &mcp.ServerOptions{Instructions: "Use these tools."})
	dir := os.Args[1]
	if f, err := os.OpenFile(filepath.Join(dir, "started"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil { // it may be read-only
		_, _ = f.WriteString(os.Args[2] + " ")
		_ = f.Close()
	}
	object := map[string]any{"type": "object"}
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	add := func(name string, reads bool, f func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}}, f)
	}
	add("say-it", true, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(fmt.Sprintf("pid %d says %s", os.Getpid(), r.Params.Arguments)), nil
	})
	add("write", false, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(fmt.Sprint(os.WriteFile(filepath.Join(dir, "written"), nil, 0o600))), nil
	})
	add("hang", true, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("hidden", true, nil)
	add("die", true, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "last words")
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
	add("large", true, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("x", 20<<20)), nil
	})
	for _, name := range []string{"b", "a"} {
		s.AddResource(&mcp.Resource{URI: "note://" + name, Name: name}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://" + name, Text: "the note " + name}}}, nil
		})
	}
	if name := os.Args[2]; name == "asks" || name == "untold" {
		addAsking(s)
	}
	fmt.Println("starting, which is no message")
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	return 0
}

// addMCP configures the MCP plugin with blocks of servers.
func addMCP(t testing.TB, r *rig.Rig, servers string) {
	t.Helper()
	r.Config("plugin \"mcp\" {\n  source = \"builtin/mcp\"\n  config {\n" + servers + "  }\n}\n")
	if strings.Contains(servers, "command = ") {
		r.Gantry("plugin", "lock", "--yes", "mcp") // accepts the programs, unless the block is wrong
	}
}

// mcpServer is the block of a server that is this binary, and writes what happens into a folder if it may. It is required, so that a
// slow start does not change what a test sees.
func mcpServer(t testing.TB, name, dir, more string) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(dir), "mcp-server") // a server's sandbox has a /tmp of its own
	if _, err := os.Stat(program); err != nil {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(program, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("server %q {\n  required = true\n  command = %q\n  args = [%q, %q]\n  env = { %s = \"1\" }\n%s\n}\n", name, program, dir, name, mcpMode, more)
}

// mcpCall is a call of a tool of an MCP server, as a step of a script.
func mcpCall(id, namespace, tool, args string) string {
	return fmt.Sprintf("[[step]]\ndo = [{ call = %q, namespace = %q, id = %q, args = { %s } }]\n", tool, namespace, id, args)
}

// wantOutputs compares outputs of calls with what they must contain.
func wantOutputs(t *testing.T, got map[string]string, want map[string][]string) {
	t.Helper()
	for id, parts := range want {
		for _, w := range parts {
			if !strings.Contains(got[id], w) {
				t.Errorf("%s has no %q:\n%.2000s", id, w, got[id])
			}
		}
	}
}

// A server's tools are called by their names, in the server's sandbox; what it prints beside messages, and its death, end nothing else.
func TestMCPServer(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__odd_one", "say_it", `z = 1, a = "x"`)+mcpCall("c2", "mcp__odd_one", "write", "")+mcpCall("c3", "mcp__odd_one", "die", "")+
		mcpCall("c4", "mcp__odd_one", "say_it", "")+mcpCall("c5", "mcp__odd_one", "large", "")+mcpCall("c6", "mcp__odd_one", "hidden", "")+
		mcpCall("c7", "mcp__writes", "write", "")+finished)
	addMCP(t, r, mcpServer(t, "odd-one", r.Dir, "approval = \"approve\"\ndeny = [\"hidd*\"]")+
		mcpServer(t, "writes", r.Dir, fmt.Sprintf("approval = \"approve\"\nsandbox {\n  writable_roots = [%q]\n}", r.Dir)))
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{
		"c1": {"Wall time: ", "seconds\nOutput:", `says {"a":"x","z":1}`},
		"c2": {"read-only file system"},
		"c3": {`the server "odd-one" has ended during the call; its process was ended by the signal 9 (killed); its standard error ends with:`, "last words", "the next call starts it again"},
		"c4": {"says {}"},
		"c5": {"the server answered with error -32001: the server's answer is too large: the maximum is 16777216 bytes; ask for less at once"},
		"c6": {"hidden"},
		"c7": {"Output:<nil>"},
	})
	if !exists(r.Dir, "written") {
		t.Error("the server with a writable folder has not written")
	}
	r.NothingLeft()
}

// What a server's tools are is remembered: later runs offer them without starting it, until it is called.
func TestMCPToolsAreRemembered(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	more := fmt.Sprintf("defer = false\nsandbox {\n  writable_roots = [%q]\n}", r.Dir)
	addMCP(t, r, mcpServer(t, "srv", r.Dir, more)+mcpServer(t, "other", r.Dir, more))
	started := func(when, want string) {
		t.Helper()
		got := strings.Fields(r.Read("started"))
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s, these were started: %q, want %q", when, got, want)
		}
	}
	for run := range 2 {
		r.OK("exec", "go")
		started(fmt.Sprintf("after run %d", run+1), "other srv")
		var names []string
		for _, tool := range r.Last().Request.Tools {
			if tool.Namespace == "mcp__srv" {
				names = append(names, tool.Name)
			}
		}
		if got := strings.Join(names, " "); got != "die hang hidden large say_it write" {
			t.Errorf("run %d offers the tools %q", run+1, got)
		}
	}
	r.Write(filepath.Join(r.Home, "script.toml"), mcpCall("c1", "mcp__srv", "say_it", "")+finished)
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"says {}"}})
	started("after a call", "other srv srv")
	r.NothingLeft()
}

// If a required server does not start, the turn fails and says why; other servers are missing.
func TestMCPServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		block, want string
	}{
		"exits":   {`command = "sh"` + "\n" + `args = ["-c", "echo no config >&2; exit 7"]`, `the server "srv" does not start: `},
		"missing": {`command = "no-such-program"`, `the program "no-such-program" of process "server.srv" is not in PATH`},
		"hangs":   {`command = "sleep"` + "\n" + `args = ["1000"]` + "\n" + `startup_timeout = "300ms"`, "it was not ready within 300ms; next: raise startup_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, finished)
			addMCP(t, r, "server \"srv\" {\n"+tc.block+"\nrequired = true\n}\n")
			res := r.Gantry("exec", "go")
			if res.Code == 0 || !strings.Contains(res.Stderr, tc.want) {
				t.Errorf("required: exit %d:\n%s", res.Code, res.Stderr)
			}
			if name == "exits" && !strings.Contains(res.Stderr, "exited with code 7") {
				t.Errorf("no exit code:\n%s", res.Stderr)
			}
			optional := boxed(t, finished)
			addMCP(t, optional, "server \"srv\" {\n"+tc.block+"\n}\n")
			optional.OK("exec", "go")
			r.NothingLeft()
			optional.NothingLeft()
		})
	}
}

// Errors in a server's block are shown at their lines.
func TestMCPBlock(t *testing.T) {
	t.Parallel()
	r := rig.New(t, finished)
	addMCP(t, r, "server \"no spaces\" {\n  command = \"x\"\n}\nserver \"a\" {\n}\nserver \"b\" {\n  command = \"x\"\n  idle = \"-1s\"\n  headers = { A = \"b\" }\n}\n"+
		"server \"c\" {\n  url = \"https://a.test\"\n  bearer_token = \"x\"\n  oauth {\n  }\n}\nserver \"d\" {\n  url = \"http://a.test\"\n  oauth {\n    callback_port = 70000\n  }\n}\n"+
		"server \"e\" {\n  command = \"x\"\n  oauth {\n  }\n}\nserver \"f\" {\n  url = \"https://a.test\"\n  oauth {\n    registration = false\n  }\n}\n")
	res := r.Gantry("exec", "go")
	for _, want := range []string{`the name of server "no spaces" has other characters`, `the server "a" has neither a command nor a url`, "headers is not for a server that is a program", "idle must be positive",
		"a server has either oauth, or bearer_token", "must begin with https://, because tokens are sent there", "callback_port must be a port", "oauth is not for a server that is a program",
		"client_id is missing, and gantry may not register itself"} {
		if !strings.Contains(res.Stderr+res.Stdout, want) {
			t.Errorf("no %q:\n%s", want, res.Stderr)
		}
	}
}

// If the plugin is killed, the call says so, its servers end, and the next call starts both again.
func TestMCPPluginIsKilled(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__srv", "hang", "")+mcpCall("c2", "mcp__srv", "say_it", "")+finished)
	addMCP(t, r, mcpServer(t, "srv", r.Dir, fmt.Sprintf("sandbox {\n  writable_roots = [%q]\n}", r.Dir)))
	run := r.Start("exec", "go")
	r.Until("the call hangs", func() bool { return exists(r.Dir, "hangs") })
	rig.Kill(t, rig.Processes(t, r.Home, "gantry-tool-mcp")...)
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"crashed during the call"}, "c2": {"says {}"}})
	r.NothingLeft()
}

// Servers over HTTP are reached through the host, with the headers of their blocks, by either transport; each error says what to do.
func TestMCPServersOverHTTP(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "hi", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
	})
	get := func(*http.Request) *mcp.Server { return s }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(get, nil))
	mux.Handle("/sse", mcp.NewSSEHandler(get, nil))
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html><html></html>") })
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	var seen sync.Map // by path: team and authorization of the last request
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, r.Header.Get("X-Team")+" "+r.Header.Get("Authorization"))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	block := func(name, path, more string) string {
		return fmt.Sprintf("server %q {\n  required = true\n  url = %q\n  approval = \"approve\"\n%s\n}\n", name, web.URL+path, more)
	}
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		r := boxed(t, mcpCall("c1", "mcp__web", "hi", "")+mcpCall("c2", "mcp__old", "hi", "")+finished)
		r.Env = append(r.Env, "TEAM=blue", "TOKEN=token-123456")
		addMCP(t, r, block("web", "/mcp", "headers = { X-Team = env(\"TEAM\") }\nbearer_token = env(\"TOKEN\")")+block("old", "/sse", "transport = \"sse\"\nheaders = { X-Team = \"red\" }"))
		r.OK("exec", "go")
		wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"Output:hello"}, "c2": {"Output:hello"}})
		for path, want := range map[string]string{"/mcp": "blue Bearer token-123456", "/sse": "red "} {
			if got, _ := seen.Load(path); got != want {
				t.Errorf("the last request to %s has %q, want %q", path, got, want)
			}
		}
		r.NothingLeft()
	})
	for path, want := range map[string]string{
		"/html":    "/html is a web page, not a service: it answered with HTML instead of JSON; check its url in the configuration",
		"/login":   "the server \"web\" needs a login: it has none; run `gantry mcp login web`",
		"/missing": "/missing (HTTP 404); check its url in the configuration",
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			r := boxed(t, finished)
			addMCP(t, r, block("web", path, ""))
			if res := r.Gantry("exec", "go"); res.Code == 0 || !strings.Contains(res.Stderr, want) {
				t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
			}
			r.NothingLeft()
		})
	}
}

// The commands of the plugin show and change its servers, beside gantry's own commands of the same group.
func TestMCPCommands(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "say-hi", Description: "Greets.", InputSchema: map[string]any{"type": "object"}}, nil)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	r := boxed(t, finished)
	addMCP(t, r, fmt.Sprintf("server \"off\" {\n  url = %q\n  enabled = false\n}\n", web.URL))
	if out := r.OK("mcp", "list", "--json").Stdout; strings.Join(strings.Fields(out), "") != `{"servers":[{"kind":"http","login":"","message":"","name":"off","state":"disabled","tools":0}]}` {
		t.Errorf("without an enabled server:\n%s", out)
	}
	if out := r.OK("mcp", "add", "--yes", "web", "--url", web.URL, "--header", "X-Team=blue").Stdout; !strings.Contains(out, `the server "web" works; its tools: say-hi`) {
		t.Errorf("add tries the server:\n%s", out)
	}
	r.OK("mcp", "add", "--yes", "--no-try", "prog", "--env", "A=b", "--", "cat", "-x", "a b")
	for _, tc := range []struct {
		want []string
		args []string
	}{
		{[]string{"NAME  KIND     STATE     TOOLS  LOGIN", "\noff   http     disabled  0", "\nprog  program  failed    0", "\nweb   http     ready     1      -"}, []string{"list"}},
		{[]string{`"name": "web"`, `"login": "-"`, `"tools": 1`}, []string{"list", "--json"}},
		{[]string{"NAME    TOOL             READ_ONLY  APPROVAL  DESCRIPTION\nsay-hi  mcp__web.say_hi  false      auto      Greets."}, []string{"tools", "web"}},
		{[]string{"command          cat -x \"a b\"", "call_timeout     5m0s"}, []string{"get", "prog"}},
		{[]string{"url              " + web.URL}, []string{"get", "web"}},
		{[]string{"login [flags] NAME", "Logs in to an MCP server with a browser."}, []string{"login", "--help"}},
		{[]string{"mcp serves agents and tools", "\n  serve ", "\n  login "}, []string{"--help"}},
	} {
		out := r.OK(append([]string{"mcp"}, tc.args...)...).Stdout
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q prints no %q:\n%s", tc.args, want, out)
			}
		}
	}
	for want, args := range map[string][]string{
		`there is no server "wb"`: {"get", "wb"}, `there is a server "web" already`: {"add", "--yes", "web", "--url", web.URL}, "either an address or a program": {"add", "x"},
		`"prog" is a program, which gantry can't log in to`: {"login", "--yes", "prog"}, `"off" is disabled`: {"tools", "off"}, "has side effects: not confirmed": {"login", "web"},
		"does not ask for a login": {"login", "--yes", "web"}, "has not been accepted": {"tools", "prog"}, `unknown command "lst" in `: {"lst"},
	} {
		if res := r.Gantry(append([]string{"mcp"}, args...)...); res.Code == 0 || !strings.Contains(res.Stderr, want) {
			t.Errorf("%q: exit %d, no %q:\n%s", args, res.Code, want, res.Stderr)
		}
	}
	if out := r.OK("help", "mcp", "tools").Stdout; !strings.Contains(out, "tools [flags] NAME") {
		t.Errorf("help mcp tools:\n%s", out)
	}
	if out := r.OK("__complete", "mcp", "").Stdout; !strings.Contains(out, "serve\t") || !strings.Contains(out, "list\t") {
		t.Errorf("completes to:\n%s", out)
	}
	r.OK("mcp", "remove", "--yes", "prog")
	b, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
	if text := string(b); err != nil || strings.Contains(text, "prog") || !strings.Contains(text, `X-Team = "blue"`) {
		t.Errorf("the configuration after the removal:\n%s", text)
	}
	r.NothingLeft()
}

// Resources are listed for one server or all, and read.
func TestMCPResources(t *testing.T) {
	t.Parallel()
	call := func(id, tool, args string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = %q, id = %q, args = { %s } }]\n", tool, id, args)
	}
	r := boxed(t, call("c1", "list_mcp_resources", "")+call("c2", "list_mcp_resources", `server = "one"`)+call("c3", "list_mcp_resources", `cursor = "x"`)+
		call("c4", "list_mcp_resource_templates", "")+call("c5", "read_mcp_resource", `server = "two", uri = "note://a"`)+
		call("c6", "read_mcp_resource", `server = "nobody", uri = "note://a"`)+call("c7", "read_mcp_resource", `server = " ", uri = "note://a"`)+
		call("c8", "read_mcp_resource", `server = "two", uri = "note://z"`)+finished)
	addMCP(t, r, mcpServer(t, "two", r.Dir, "")+mcpServer(t, "one", r.Dir, ""))
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{
		"c1": {`{"resources":[{"server":"one","name":"a","uri":"note://a"},{"server":"one","name":"b","uri":"note://b"},{"server":"two","name":"a"`},
		"c2": {`{"server":"one","resources":[{"name":"a","uri":"note://a"},`},
		"c3": {"cursor can only be used when a server is specified"},
		"c4": {`{"resourceTemplates":[]}`},
		"c5": {`{"server":"two","uri":"note://a","contents":[{"uri":"note://a","text":"the note a"}]}`},
		"c6": {"unknown MCP server 'nobody'; there are: one, two"},
		"c7": {"server must be provided"},
		"c8": {"resources/read failed: the server answered with error", "note://z"},
	})
	r.NothingLeft()
}
