package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient is a client of gantry mcp serve.
type mcpClient struct {
	*mcp.ClientSession
	t testing.TB

	mu       sync.Mutex
	asked    []string // messages of elicitations
	progress []string
}

// connectMCP connects a client to a server. answer answers elicitations; nil: the client doesn't support them.
func connectMCP(t testing.TB, transport mcp.Transport, answer func(ctx context.Context, p *mcp.ElicitParams) *mcp.ElicitResult) *mcpClient {
	t.Helper()
	c := &mcpClient{t: t}
	o := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.progress = append(c.progress, r.Params.Message)
		},
	}
	if answer != nil {
		o.Capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			c.mu.Lock()
			c.asked = append(c.asked, r.Params.Message)
			c.mu.Unlock()
			return answer(ctx, r.Params), nil
		}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSession = s
	t.Cleanup(func() { s.Close() })
	return c
}

// mcpStdio starts gantry mcp serve, for a client at its standard input and output.
func mcpStdio(r *rig.Rig, args ...string) mcp.Transport {
	cmd := exec.Command(filepath.Join(r.Bin, r.Host), append([]string{"mcp", "serve"}, args...)...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Minute}
}

// mcpResult is the structured result of an agent.
type mcpResult struct {
	ThreadID, Content string
	Refused           []string
}

// run calls a tool that runs an agent. A result that is an error is returned as text.
func (c *mcpClient) run(ctx context.Context, tool string, args map[string]any) (out mcpResult, failed string) {
	c.t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken("p")
	r, err := c.CallTool(ctx, params)
	if err != nil {
		c.t.Errorf("%s: %v", tool, err)
		return out, err.Error()
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		c.t.Error(err)
	}
	if r.IsError {
		return out, texts(r)
	}
	return out, ""
}

// texts returns the text of a result.
func texts(r *mcp.CallToolResult) string {
	var all []string
	for _, part := range r.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// reply answers every elicitation in the same way.
func reply(action string, content map[string]any) func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
	return func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: action, Content: content}
	}
}

const mcpScript = `
[[step]]
when  = { user = "^run", since_user = 0 }
times = -1
do    = [{ call = "exec_command", args = { cmd = "echo made >> made", login = false } }]
[[step]]
when  = { user = "^wait", since_user = 0 }
times = -1
do    = [{ call = "exec_command", args = { cmd = "echo begun > begun; sleep 1000", login = false, yield_time_ms = 30000 } }]
[[step]]
times = -1
do    = [{ text = "done with ${user}" }]
`

// mcpTransports are the ways in which a client connects: connect returns a transport for another client of
// gantry mcp serve with these arguments.
func mcpTransports(t *testing.T, f func(t *testing.T, r *rig.Rig, connect func() mcp.Transport), args ...string) {
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, mcpScript)
		f(t, r, func() mcp.Transport { return mcpStdio(r, args...) })
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, mcpScript)
		s := r.ServeMCP(args...)
		f(t, r, func() mcp.Transport { return mcpHTTP(s) })
	})
}

// mcpHTTP connects to a server over HTTP.
func mcpHTTP(s *rig.Server) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: bearer{s.Token, http.DefaultTransport}}}
}

// bearer sends a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// An agent asks for approval, which the user of the client declines, then accepts, and its conversation goes on in another connection.
func TestMCPAgent(t *testing.T) {
	t.Parallel()
	mcpTransports(t, func(t *testing.T, r *rig.Rig, connect func() mcp.Transport) {
		action := "decline"
		c := connectMCP(t, connect(), func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
			return &mcp.ElicitResult{Action: action}
		})
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, []string{"gantry", "gantry-reply"}) {
			t.Errorf("%q", names)
		}
		args := map[string]any{"prompt": "run it", "approval-policy": "untrusted", "developer-instructions": "say it in verse"}
		first, failed := c.run(t.Context(), "gantry", args)
		if failed != "" || first.Content != "done with run it" || len(first.Refused) > 0 || exists(r.Dir, "made") {
			t.Errorf("%+v %s", first, failed)
		}
		if outputs := r.Last().Outputs(); !strings.Contains(strings.Join(slices.Collect(maps.Values(outputs)), ""), "rejected by user") {
			t.Errorf("the model got %q", outputs)
		}
		if !strings.Contains(strings.Join(r.Last().Texts(llm.RoleSystem), "\n"), "say it in verse") {
			t.Errorf("the developer instructions are missing: %q", r.Last().Texts(llm.RoleSystem))
		}
		action = "accept"
		second, failed := c.run(t.Context(), "gantry-reply", map[string]any{"threadId": first.ThreadID, "prompt": "run it again"})
		if failed != "" || second.ThreadID != first.ThreadID || second.Content != "done with run it again" || r.Read("made") != "made\n" {
			t.Errorf("%+v %s", second, failed)
		}
		c.mu.Lock()
		asked, progress := slices.Clone(c.asked), slices.Clone(c.progress)
		c.mu.Unlock()
		if len(asked) != 2 || !strings.Contains(asked[0], "echo made >> made") {
			t.Errorf("asked %q", asked)
		}
		if !slices.ContainsFunc(progress, func(s string) bool { return strings.Contains(s, "echo made >> made") }) || !slices.Contains(progress, "done with run it") {
			t.Errorf("progress %q", progress)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		again := connectMCP(t, connect(), nil)
		third, failed := again.run(t.Context(), "gantry-reply", map[string]any{"threadId": first.ThreadID, "prompt": "hello"})
		if failed != "" || third.Content != "done with hello" {
			t.Errorf("%+v %s", third, failed)
		}
		if users := r.Last().Texts(llm.RoleUser); !slices.Contains(users, "run it again") {
			t.Errorf("the conversation was lost: %q", users)
		}
	})
}

// A client that can't put questions gets refusals that say so, and every wrong call gets an answer that says what is wrong.
func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	mcpTransports(t, func(t *testing.T, r *rig.Rig, connect func() mcp.Transport) {
		c := connectMCP(t, connect(), nil)
		got, failed := c.run(t.Context(), "gantry", map[string]any{"prompt": "run it", "approval-policy": "untrusted"})
		if failed != "" || got.Content != "done with run it" || exists(r.Dir, "made") {
			t.Errorf("%+v %s", got, failed)
		}
		if len(got.Refused) != 1 || !strings.Contains(got.Refused[0], "the approval policy asks") || !strings.Contains(got.Refused[0], "does not support elicitation") {
			t.Errorf("refused %q", got.Refused)
		}
		for _, tt := range []struct {
			tool string
			args map[string]any
			want string
		}{
			{"gantry", map[string]any{"prompt": " "}, "the prompt is empty"},
			{"gantry", map[string]any{}, "prompt"},
			{"gantry", map[string]any{"prompt": "x", "sandbox": "none"}, "sandbox"},
			{"gantry", map[string]any{"prompt": "x", "include-plan-tool": true}, "include-plan-tool"},
			{"gantry", map[string]any{"prompt": "x", "cwd": "nowhere"}, filepath.Join(r.Dir, "nowhere")},
			{"gantry", map[string]any{"prompt": "x", "model": "nothing"}, "nothing"},
			{"gantry", map[string]any{"prompt": "x", "config": map[string]any{"approval": map[string]any{"polcy": "never"}}}, "polcy"},
			{"gantry-reply", map[string]any{"prompt": "x", "threadId": "nonsense"}, "is not the ID of a thread"},
			{"gantry-reply", map[string]any{"prompt": "x", "threadId": "01a20e55-eea7-7bf0-b27f-480cea2baedf"}, "01a20e55"},
		} {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
			text := ""
			switch {
			case err != nil:
				text = err.Error()
			case !res.IsError:
				t.Errorf("%s %v: accepted: %s", tt.tool, tt.args, texts(res))
				continue
			default:
				text = texts(res)
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("%s %v: %s", tt.tool, tt.args, text)
			}
		}
		settings, failed := c.run(t.Context(), "gantry", map[string]any{
			"prompt": "run it", "approval-policy": "never", "base-instructions": "be ${brief}",
			"config": map[string]any{"sandbox": map[string]any{"mode": "read-only"}}, "compact-prompt": "shorter, ${please}",
		})
		if failed != "" || exists(r.Dir, "made") || !slices.Contains(r.Last().Request.System, "be ${brief}") {
			t.Errorf("%+v %s", settings, failed)
		}
	})
}

// A call that the client cancels is an interrupted turn: its command ends, and the thread can go on.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	mcpTransports(t, func(t *testing.T, r *rig.Rig, connect func() mcp.Transport) {
		c := connectMCP(t, connect(), reply("accept", nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { // ends with the call
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "gantry", Arguments: map[string]any{"prompt": "wait"}})
			done <- err
		}()
		r.Until("the command runs", func() bool { return exists(r.Dir, "begun") })
		cancel()
		if err := <-done; err == nil {
			t.Error("the call was not cancelled")
		}
		got, failed := c.run(t.Context(), "gantry-reply", map[string]any{"threadId": string(threads(t, r)[0].ID), "prompt": "hello"})
		if outputs := strings.Join(slices.Collect(maps.Values(r.Last().Outputs())), ""); failed != "" || got.Content != "done with hello" || !strings.Contains(outputs, "aborted by user") {
			t.Errorf("%+v %s, after a call that said %q", got, failed, outputs)
		}
	})
}

// A client over HTTP whose connections break during a call connects again and gets the result, and its answer to a question arrives.
func TestMCPBrokenConnections(t *testing.T) {
	t.Parallel()
	r := rig.New(t, mcpScript)
	s := r.ServeMCP()
	var mu sync.Mutex
	var conns []net.Conn
	broken := 0
	web := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
		}
		return c, err
	}}
	t.Cleanup(web.CloseIdleConnections)
	transport := &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: bearer{s.Token, web}}}
	c := connectMCP(t, transport, func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			broken++
			_ = c.Close() // the client may have closed it already
		}
		conns = nil
		return &mcp.ElicitResult{Action: "accept"}
	})
	got, failed := c.run(t.Context(), "gantry", map[string]any{"prompt": "run it", "approval-policy": "untrusted"})
	if failed != "" || got.Content != "done with run it" || r.Read("made") != "made\n" {
		t.Errorf("%+v %s", got, failed)
	}
	mu.Lock()
	defer mu.Unlock()
	if broken == 0 || len(conns) == 0 {
		t.Errorf("%d connections were broken, and %d made after that", broken, len(conns))
	}
}

// The client leaves while an agent asks and another one works: everything ends, and with it the process.
func TestMCPClientLeaves(t *testing.T) {
	t.Parallel()
	r := rig.New(t, mcpScript)
	c := r.MCP()
	c.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"raw","version":"1"}}}`)
	c.Reply("1")
	c.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"gantry","arguments":{"prompt":"wait"}}}`)
	c.Send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"gantry","arguments":{"prompt":"run it","approval-policy":"untrusted"}}}`)
	c.Notified("elicitation/create")
	r.Until("the command runs", func() bool { return exists(r.Dir, "begun") })
	c.Close() // the test fails if the process does not end without an error
	if exists(r.Dir, "made") {
		t.Error("the command ran without approval")
	}
	r.NothingLeft()
}

// Lines that are no messages, unknown methods, and methods that gantry does not offer are answered, and nothing else is disturbed.
func TestMCPAnswersEverything(t *testing.T) {
	t.Parallel()
	r := rig.New(t, mcpScript)
	c := r.MCP()
	id := 0
	answer := func(method, params string) rig.Message {
		t.Helper()
		id++
		c.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		return c.Reply(strconv.Itoa(id))
	}
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`
	if m := answer("initialize", hello); m.Error != nil {
		t.Fatalf("%s", m.Raw)
	}
	c.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for _, line := range []string{"nonsense", "[]", `{"jsonrpc":"2.0"`, "7"} {
		c.Send(line)
		if m := c.Next(); m.Error == nil || m.Error.Code != -32700 {
			t.Errorf("%s: %s", line, m.Raw)
		}
	}
	for method, params := range map[string]string{
		"prompts/get": `{"name":"x"}`, "codex/event": "{}", "initialize": hello, "tools/call": `{"name":"nothing"}`, "tools/list": `{"cursor":"x"}`,
		"resources/read": `{"uri":"gantry-artifact://x/y"}`, "resources/subscribe": `{"uri":"x://y"}`, "resources/unsubscribe": `{"uri":"x://y"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"x","value":""}}`, "logging/setLevel": `{"level":7}`,
		"server/discover": "{}", "tasks/list": "{}", "sampling/createMessage": "{}", "elicitation/create": "{}", "roots/list": "{}",
	} {
		if m := answer(method, params); m.Error == nil || m.Error.Message == "" {
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
	for _, method := range []string{"ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		if m := answer(method, "{}"); m.Error != nil {
			t.Errorf("%s: %s", method, m.Raw)
		}
	}
}

// A server over HTTP refuses pages, names that are pointed at it, clients without its token, and commands of its own agents.
func TestMCPHTTPRefuses(t *testing.T) {
	t.Parallel()
	r := rig.New(t, mcpScript)
	s := r.ServeMCP()
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	post := func(url, host string, header map[string]string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+s.Token)
		for name, v := range header {
			req.Header.Set(name, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for _, tt := range []struct {
		name, url, host string
		header          map[string]string
		status          int
		body            string
	}{
		{name: "the token", status: 200, body: "protocolVersion"},
		{name: "wrong token", header: map[string]string{"Authorization": "Bearer another"}, status: 401, body: "invalid bearer token"},
		{name: "no token", header: map[string]string{"Authorization": ""}, status: 401},
		{name: "a page", header: map[string]string{"Origin": "http://evil.example"}, status: 403, body: "web pages"},
		{name: "a page of the server's own address", header: map[string]string{"Origin": strings.TrimSuffix(s.URL, "/mcp")}, status: 403, body: "web pages"},
		{name: "a name that points here", host: "evil.example:" + strings.TrimSuffix(port, "/mcp"), status: 403, body: "unknown host"},
		{name: "another path", url: s.URL + "/other", status: 404, body: "/mcp"},
	} {
		if status, body := post(cmp.Or(tt.url, s.URL), tt.host, tt.header); status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s: %d %s", tt.name, status, body)
		}
	}
	if r := r.Gantry("mcp", "serve", "--http", "0"); r.Code != 2 || !strings.Contains(r.Stderr, "--token-file") {
		t.Errorf("without a token: %+v", r)
	}
	if r := r.Gantry("mcp", "serve", "--http", "0.0.0.0:0", "--no-auth"); r.Code != 2 {
		t.Errorf("open to the network: %+v", r)
	}
}

// A command of an agent that knows the token can't use the server that has started it.
func TestMCPHTTPLaunchedClient(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	r := rig.New(t, `
[[step]]
when = { user = "^call", since_user = 0 }
do   = [{ call = "exec_command", args = { cmd = "python3 call.py", login = false, yield_time_ms = 20000 } }]
[[step]]
times = -1
do    = [{ text = "done" }]
`)
	s := r.ServeMCP()
	r.Write("call.py", fmt.Sprintf(`
import urllib.request, urllib.error
r = urllib.request.Request(%q, data=b"{}", headers={"Authorization": "Bearer %s", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"})
try:
    urllib.request.urlopen(r)
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
`, s.URL, s.Token))
	c := connectMCP(t, mcpHTTP(s), nil)
	if got, failed := c.run(t.Context(), "gantry", map[string]any{"prompt": "call it"}); failed != "" || got.Content != "done" {
		t.Errorf("%+v %s", got, failed)
	}
	if out := strings.Join(slices.Collect(maps.Values(r.Last().Outputs())), ""); !strings.Contains(out, "403 processes that gantry has started") {
		t.Errorf("%s", out)
	}
}

// The configuration in the guide is that of a client's file: its command and arguments start a server.
func TestMCPServerOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guides/mcp-server.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile("(?ms)^```json\n(\\{\n  \"mcpServers.*?)^```$").FindSubmatch(guide)
	if source == nil {
		t.Fatal("the guide has no configuration of a client")
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(source[1], &file); err != nil {
		t.Fatal(err)
	}
	r := rig.New(t, mcpScript)
	server := file.Servers["gantry"]
	// The call's sandbox and approvals are those of the default configuration.
	cmd := exec.Command(filepath.Join(r.Bin, server.Command), append(server.Args, "-c", "approval.policy=on-request")...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	c := connectMCP(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, nil)
	call := regexp.MustCompile("(?ms)^```json\n(\\{\"prompt\".*?)^```$").FindSubmatch(guide)
	if call == nil {
		t.Fatal("the guide has no arguments of a call")
	}
	var args map[string]any
	if err := json.Unmarshal(call[1], &args); err != nil {
		t.Fatal(err)
	}
	args["cwd"] = r.Dir
	if got, failed := c.run(t.Context(), "gantry", args); failed != "" || !strings.HasPrefix(got.Content, "done with ") {
		t.Errorf("%+v %s", got, failed)
	}
}

// A client gets at most what the server's configuration permits, whichever argument asks for it, unless the server was told otherwise.
func TestMCPBounds(t *testing.T) {
	t.Parallel()
	configured := []string{"-c", "sandbox.mode=workspace-write", "-c", "approval.policy=untrusted"}
	wide := []map[string]any{
		{"sandbox": "danger-full-access"},
		{"approval-policy": "never"},
		{"config": map[string]any{"sandbox": map[string]any{"mode": "full-access"}}},
		{"config": map[string]any{"sandbox.mode": "full-access"}, "sandbox": "read-only"},
		{"config": map[string]any{"sandbox": map[string]any{"writable_roots": []any{"/"}}}},
		{"config": map[string]any{"approval.policy": "on-request"}},
		{"config": map[string]any{"hook": map[string]any{"mine": map[string]any{"event": "SessionStart", "command": "touch made"}}}},
	}
	const why = "this is more than the configuration of the server permits: "
	mcpTransports(t, func(t *testing.T, r *rig.Rig, connect func() mcp.Transport) {
		c := connectMCP(t, connect(), nil)
		for _, args := range wide {
			args = maps.Clone(args)
			args["prompt"] = "hello"
			if got, failed := c.run(t.Context(), "gantry", args); !strings.HasPrefix(failed, why) || !strings.Contains(failed, "--allow-wider") {
				t.Errorf("%v: %+v %s", args, got, failed)
			}
		}
		if all := threads(t, r); len(all) != 0 {
			t.Errorf("%d threads", len(all))
		}
		for _, args := range []map[string]any{
			{"sandbox": "read-only", "approval-policy": "untrusted"},
			{"sandbox": "workspace-write", "config": map[string]any{"history": map[string]any{"compact_at_tokens": 5000}}, "compact-prompt": "short"},
		} {
			args["prompt"] = "hello"
			if got, failed := c.run(t.Context(), "gantry", args); failed != "" || got.Content != "done with hello" {
				t.Errorf("%v: %+v %s", args, got, failed)
			}
		}
	}, configured...)
	t.Run("a thread of another front end", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, mcpScript)
		app := r.AppServer(configured...)
		app.Call("initialize", map[string]any{"clientInfo": map[string]any{"name": "e2e", "version": "1"}}, nil)
		app.Send(`{"method":"initialized"}`)
		var started struct{ Thread struct{ ID string } }
		app.Call("thread/start", map[string]any{"cwd": r.Dir, "sandbox": "danger-full-access"}, &started)
		c := connectMCP(t, mcpStdio(r, configured...), nil)
		if got, failed := c.run(t.Context(), "gantry-reply", map[string]any{"threadId": started.Thread.ID, "prompt": "hello"}); !strings.Contains(failed, "runs in another process") {
			t.Errorf("%+v %s", got, failed)
		}
	})
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, mcpScript)
		c := connectMCP(t, mcpStdio(r, append([]string{"--allow-wider"}, configured...)...), nil)
		if got, failed := c.run(t.Context(), "gantry", map[string]any{"prompt": "run it", "sandbox": "danger-full-access", "approval-policy": "never"}); failed != "" || !exists(r.Dir, "made") {
			t.Errorf("%+v %s", got, failed)
		}
	})
}

// A client calls a chosen tool itself: with approval, refused, in its own thread, and with an error that the tool reports.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	mcpTransports(t, func(t *testing.T, r *rig.Rig, connect func() mcp.Transport) {
		action := "accept"
		c := connectMCP(t, connect(), func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: action} })
		call := func(c *mcpClient, cmd string) *mcp.CallToolResult {
			t.Helper()
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": cmd, "login": false}})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		if res := call(c, "echo one >> made; echo said"); res.IsError || !strings.Contains(texts(res), "said") || r.Read("made") != "one\n" {
			t.Errorf("accepted: %v %s", res.IsError, texts(res))
		}
		action = "decline"
		if res := call(c, "echo two >> made"); !res.IsError || !strings.Contains(texts(res), "rejected by user") || r.Read("made") != "one\n" {
			t.Errorf("declined: %v %s", res.IsError, texts(res))
		}
		c.mu.Lock()
		if len(c.asked) != 2 {
			t.Errorf("asked %q", c.asked)
		}
		c.mu.Unlock()
		if all := threads(t, r); len(all) != 1 {
			t.Errorf("%d threads", len(all))
		}
		silent := connectMCP(t, connect(), nil)
		if res := call(silent, "echo three >> made"); !res.IsError || !strings.Contains(texts(res), "does not support elicitation") || r.Read("made") != "one\n" {
			t.Errorf("without elicitation: %v %s", res.IsError, texts(res))
		}
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{"command": "x"}})
		if err != nil || !res.IsError {
			t.Errorf("wrong arguments: %v %+v", err, res)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		action = "accept"
		go func() { // ends with the call
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "touch begun; sleep 1000", "login": false, "yield_time_ms": 30000}})
			done <- err
		}()
		r.Until("the command runs", func() bool { return exists(r.Dir, "begun") })
		cancel()
		if err := <-done; err == nil {
			t.Error("the call was not cancelled")
		}
		r.Until("the command has ended", func() bool { return len(rig.Processes(t, r.Dir, "sleep\x001000")) == 0 })
		if _, err := os.Stat(r.Log); err == nil {
			t.Error("a model was asked")
		}
		var thread string
		for _, info := range threads(t, r) {
			if thread == "" || string(info.ID) < thread { // the first client's
				thread = string(info.ID)
			}
		}
		if got, failed := c.run(t.Context(), "gantry-reply", map[string]any{"threadId": thread, "prompt": "hello"}); failed != "" || got.Content != "done with hello" {
			t.Errorf("%+v %s", got, failed)
		}
		if outputs := strings.Join(slices.Collect(maps.Values(r.Last().Outputs())), "|"); !strings.Contains(outputs, "said") || !strings.Contains(outputs, "rejected by user") {
			t.Errorf("a model that continues the thread reads %q", outputs)
		}
	}, "--tools", "shell", "-c", "approval.policy=untrusted")
}

// Plugins that have no tools are named when the server starts.
func TestMCPToolsOfNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, mcpScript)
	if res := r.Gantry("mcp", "serve", "--tools", "shel"); res.Code != 1 || !strings.Contains(res.Stderr, `"shel"`) {
		t.Errorf("%+v", res)
	}
}

// What a tool of an MCP server returns as structured content is that of gantry's result, and not the whole result of the server.
func TestMCPServesStructuredContent(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	for name, structured := range map[string]any{"data": json.RawMessage(`{"z":1,"a":{"structuredContent":"inner"}}`), "none": nil, "forgets": nil} {
		t := &mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}
		if name != "none" {
			t.OutputSchema = json.RawMessage(`{"type":"object","properties":{"z":{"type":"integer"}},"required":["z"]}`)
		}
		s.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "said"}}, StructuredContent: structured}, nil
		})
	}
	r := rig.New(t, mcpScript)
	addMCP(t, r, webBlock(overHTTP(t, s, nil), ""))
	c := connectMCP(t, mcpStdio(r, "--tools", "mcp"), nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]string{}
	for _, tool := range list.Tools {
		raw, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		schemas[tool.Name] = string(raw)
	}
	if got := schemas["mcp__web__data"]; got != `{"properties":{"z":{"type":"integer"}},"required":["z"],"type":"object"}` || schemas["mcp__web__none"] != "null" {
		t.Errorf("schemas of results: %q", schemas)
	}
	for name, want := range map[string]string{"data": `{"a":{"structuredContent":"inner"},"z":1}`, "none": "null", "forgets": "null"} {
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp__web__" + name})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(res.StructuredContent); err != nil || string(got) != want || res.IsError != (name == "forgets") {
			t.Errorf("%s: %s, %v, want %s\n%s", name, got, err, want, texts(res))
		}
	}
}
