package e2e_test

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// mayAsk is a configuration under which plugins may ask.
const mayAsk = "approval {\n  policy = \"untrusted\"\n}\n"

// addAsking adds tools that ask the client for something and return what they get.
func addAsking(s *mcp.Server) {
	type elicitation struct{ Mode string }
	image, _ := base64.StdEncoding.DecodeString(pixel)
	tool := func(name string, f func(ctx context.Context, r *mcp.CallToolRequest) (any, error)) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				out, err := f(ctx, r)
				b, _ := json.Marshal(out)
				text := string(b)
				if err != nil {
					text = "error: " + err.Error()
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	tool("ask", func(ctx context.Context, r *mcp.CallToolRequest) (any, error) {
		var in elicitation
		_ = json.Unmarshal(r.Params.Arguments, &in)
		p := &mcp.ElicitParams{Message: "Which\x1b[2J name?", RequestedSchema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}}}
		if in.Mode == "url" {
			p = &mcp.ElicitParams{Mode: "url", Message: "Sign in.", URL: "https://shop.test/sign-in", ElicitationID: "e1"}
		}
		res, err := r.Session.Elicit(ctx, p)
		if err != nil {
			return nil, err
		}
		return map[string]any{"action": res.Action, "content": res.Content}, nil
	})
	tool("sample", func(ctx context.Context, r *mcp.CallToolRequest) (any, error) {
		text := func(role mcp.Role, text string) *mcp.SamplingMessage {
			return &mcp.SamplingMessage{Role: role, Content: &mcp.TextContent{Text: text}}
		}
		return r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
			SystemPrompt: "be brief", MaxTokens: 50, StopSequences: []string{"END"}, ModelPreferences: &mcp.ModelPreferences{Hints: []*mcp.ModelHint{{Name: "other"}}},
			Messages: []*mcp.SamplingMessage{
				text("user", "a picture"), {Role: "user", Content: &mcp.ImageContent{MIMEType: "image/png", Data: image}},
				text("assistant", "seen"), text("user", "a question of the server"),
			},
		})
	})
	tool("roots", func(ctx context.Context, r *mcp.CallToolRequest) (any, error) {
		return r.Session.ListRoots(ctx, nil)
	})
}

// overHTTP serves the server over HTTP until the test ends, and returns its address.
func overHTTP(t *testing.T, s *mcp.Server, opts *mcp.StreamableHTTPOptions) string {
	t.Helper()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, opts))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// A server's questions reach the person, in its name, and each way to end them reaches the server.
func TestMCPElicitation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, mode string
		typed      []string
		want       string // what the server gets
	}{
		{"accepted", "form", []string{"y", "Ada", "y"}, `{"action":"accept","content":{"name":"Ada"}}`},
		{"declined", "form", []string{"n"}, `{"action":"decline","content":null}`},
		{"dismissed", "form", []string{"q"}, `{"action":"cancel","content":null}`},
		{"address accepted", "url", []string{"y"}, `{"action":"accept","content":null}`},
		{"address declined", "url", []string{"n"}, `{"action":"decline","content":null}`},
		{"address dismissed", "url", []string{"q"}, `{"action":"cancel","content":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, mcpCall("c1", "mcp__asks", "ask", fmt.Sprintf("mode = %q", tc.mode))+finished)
			addMCP(t, r, mcpServer(t, "asks", r.Dir, "approval = \"approve\"\nprotocol = \"2025-11-25\""))
			r.Write("asks.hcl", mayAsk)
			run := r.Terminal("exec", "--config", "asks.hcl", "go")
			prompts := []string{"answer: ", `"name"`, "q) dismiss\r\n  answer: "}
			for i, line := range tc.typed {
				run.Sees(prompts[i])
				run.Type(line + "\n")
			}
			res := run.Wait()
			if res.Code != 0 || !strings.Contains(res.Stdout, `? server "asks" of plugin "mcp" asks`) || strings.Contains(res.Stdout, "\x1b[2J") {
				t.Errorf("exit %d\n%s", res.Code, res.Stdout)
			}
			if tc.mode == "url" && !strings.Contains(res.Stdout, "https://shop.test/sign-in") {
				t.Errorf("no address\n%s", res.Stdout)
			}
			wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {tc.want}})
			r.NothingLeft()
		})
	}
	t.Run("no one to ask", func(t *testing.T) {
		t.Parallel()
		r := boxed(t, mcpCall("c1", "mcp__asks", "ask", "")+finished)
		addMCP(t, r, mcpServer(t, "asks", r.Dir, "approval = \"approve\""))
		r.OK("exec", "go")
		wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {`{"action":"decline"`}})
	})
}

// A server's request for a model's answer goes to the thread's model, on the thread's budget, if its block says so.
func TestMCPSampling(t *testing.T) {
	t.Parallel()
	script := "[[step]]\nwhen = { user = \"a question of the server\" }\ntimes = -1\nusage = { input = 1000, output = 100 }\ndo = [{ text = \"an answer\" }]\n" +
		mcpCall("c1", "mcp__asks", "sample", "") + "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n"
	for _, tc := range []struct {
		name, sampling string
		typed          string
		want           string // what the server gets
		asked          bool
	}{
		{"allow", "allow", "", `{"content":{"type":"text","text":"an answer"},"model":"scripted","role":"assistant","stopReason":"endTurn"}`, true},
		{"ask", "ask", "allow", `"text":"an answer"`, true},
		{"ask, declined", "ask", "decline", "the user declined the sampling request", false},
		{"ask no one", "ask", "", "the sampling request was declined: there is nobody to ask", false},
		{"off", "off", "", "client does not support CreateMessage", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := boxed(t, script)
			addMCP(t, r, mcpServer(t, "asks", r.Dir, fmt.Sprintf("approval = \"approve\"\nsampling = %q", tc.sampling)))
			r.Write("asks.hcl", mayAsk)
			if tc.typed != "" {
				run := r.Terminal("exec", "--config", "asks.hcl", "go")
				run.Sees("answer: ")
				run.Type(tc.typed + "\n")
				res := run.Wait()
				for _, want := range []string{`? server "asks" of plugin "mcp" asks`, `| The MCP server "asks" wants to ask the model, at your expense`, "|   > be brief", "|   > a question of the server", "image/png", "at most 50 tokens"} {
					if res.Code != 0 || !strings.Contains(res.Stdout, want) {
						t.Errorf("exit %d, no %q\n%s", res.Code, want, res.Stdout)
					}
				}
			} else {
				r.OK("exec", "--config", "asks.hcl", "go")
			}
			wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {tc.want}})
			var sampled []llm.Request
			for _, q := range r.Requests() {
				if len(q.Request.System) == 1 && q.Request.System[0] == "be brief" {
					sampled = append(sampled, q.Request)
				}
			}
			if len(sampled) != map[bool]int{true: 1}[tc.asked] {
				t.Fatalf("the model was asked %d times", len(sampled))
			}
			if tc.asked {
				q := sampled[0]
				b, _ := json.Marshal(q.Messages)
				if *q.Generation.MaxTokens != 50 || fmt.Sprint(q.Generation.Stop) != "[END]" || len(q.Tools) > 0 || q.Model != "scripted" || !strings.Contains(string(b), "image/png") {
					t.Errorf("%+v\n%s", q, b)
				}
			}
			r.NothingLeft()
		})
	}
	t.Run("budget", func(t *testing.T) {
		t.Parallel()
		r := boxed(t, script)
		addMCP(t, r, mcpServer(t, "asks", r.Dir, "approval = \"approve\"\nsampling = \"allow\""))
		res := r.Gantry("-c", "budget.turn_tokens=1000", "exec", "go")
		if res.Code != 1 || !strings.Contains(res.Stderr, "the budget is reached") {
			t.Errorf("exit %d\n%s", res.Code, res.Stderr)
		}
	})
}

// A program is told the folder of the thread that calls it; an address only if its block says so.
func TestMCPRoots(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__asks", "roots", "")+mcpCall("c2", "mcp__untold", "roots", "")+mcpCall("c3", "mcp__web", "roots", "")+mcpCall("c4", "mcp__told", "roots", "")+finished)
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	addAsking(s)
	url := overHTTP(t, s, nil)
	block := func(name, more string) string {
		return fmt.Sprintf("server %q {\n  required = true\n  url = %q\n  approval = \"approve\"\n%s\n}\n", name, url, more)
	}
	addMCP(t, r, mcpServer(t, "asks", r.Dir, "approval = \"approve\"")+mcpServer(t, "untold", r.Dir, "approval = \"approve\"\nroots = false")+block("web", "")+block("told", "roots = true"))
	r.OK("exec", "go")
	folder := fmt.Sprintf(`{"roots":[{"name":"ws","uri":"file://%s"}]}`, r.Dir)
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {folder}, "c2": {`{"roots":[]}`}, "c3": {`{"roots":[]}`}, "c4": {folder}})
	r.NothingLeft()
}

// webBlock is the block of a server with an address.
func webBlock(url, more string) string {
	return fmt.Sprintf("server \"web\" {\n  required = true\n  url = %q\n  approval = \"approve\"\n%s\n}\n", url, more)
}

// prompting is a server with prompts, templates of resources, and proposals for their values.
func prompting() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			values := []string{}
			for _, v := range []string{"Ada", "Alan", "A\x1b[2J"} {
				if strings.HasPrefix(v, r.Params.Argument.Value) && (r.Params.Ref.Name == "greet" || r.Params.Ref.URI == "note://{who}") {
					values = append(values, v)
				}
			}
			if r.Params.Context != nil && r.Params.Context.Arguments["how"] == "short" {
				values = values[:1]
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
		},
	})
	s.AddTool(&mcp.Tool{Name: "hi", InputSchema: map[string]any{"type": "object"}}, nil)
	s.AddPrompt(&mcp.Prompt{
		Name: "greet", Title: "Greeting", Description: "Greets\u202e someone.",
		Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}, {Name: "how"}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if r.Params.Arguments["who"] == "" {
			return nil, fmt.Errorf("who is missing")
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Greet %s %s.\u202e", r.Params.Arguments["who"], r.Params.Arguments["how"])}},
			{Role: "assistant", Content: &mcp.TextContent{Text: "Hello."}},
		}}, nil
	})
	note := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "the note of " + r.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "note://all", Name: "all", MIMEType: "text/plain"}, note)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "note://{who}", Name: "one"}, note)
	return s
}

// What servers offer beside tools is listed, filled in, read and completed by commands.
func TestMCPPromptCommands(t *testing.T) {
	t.Parallel()
	bare := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	bare.AddTool(&mcp.Tool{Name: "hi", InputSchema: map[string]any{"type": "object"}}, nil)
	r := boxed(t, finished)
	addMCP(t, r, webBlock(overHTTP(t, prompting(), nil), "")+strings.Replace(webBlock(overHTTP(t, bare, nil), ""), `"web"`, `"bare"`, 1))
	for _, tc := range []struct {
		want string // compared without white space
		args []string
	}{
		{"NAME ARGUMENTS TITLE DESCRIPTION greet who [how] Greeting Greets someone.", []string{"prompts", "web"}},
		{`{"messages":[{"content":{"text":"Greet Ada warmly.�","type":"text"},"role":"user"},{"content":{"text":"Hello.","type":"text"},"role":"assistant"}]}`,
			[]string{"prompt", "web", "greet", "--arg", "who=Ada", "--arg", "how=warmly", "--json"}},
		{"URI NAME TYPE DESCRIPTION note://all all text/plain", []string{"resources", "web"}},
		{"URI NAME TYPE DESCRIPTION note://{who} one", []string{"resources", "web", "--templates"}},
		{`{"contents":[{"text":"thenoteofnote://Ada","uri":"note://Ada"}],"server":"web","uri":"note://Ada"}`, []string{"resource", "web", "note://Ada", "--json"}},
		{`{"more":true,"values":["Ada","Alan"]}`, []string{"complete", "web", "who", "--prompt", "greet", "--value", "A", "--json"}},
		{`{"more":false,"values":["Ada"]}`, []string{"complete", "web", "who", "--template", "note://{who}", "--given", "how=short", "--json"}},
	} {
		out := r.OK(append([]string{"mcp"}, tc.args...)...).Stdout
		if strings.Join(strings.Fields(out), "") != strings.Join(strings.Fields(tc.want), "") {
			t.Errorf("%q prints\n%s\nwant %s", tc.args, out, tc.want)
		}
	}
	for want, args := range map[string][]string{
		"prompts/get failed: the server answered with error 0: who is missing": {"prompt", "web", "greet"},
		"prompts/get failed: the server answered with error -32602":            {"prompt", "web", "nothing"},
		`there is no server "wb"`:           {"prompts", "wb"},
		"set either --prompt or --template": {"complete", "web", "who"},
		"completion/complete failed":        {"complete", "bare", "who", "--prompt", "x"},
	} {
		if res := r.Gantry(append([]string{"mcp"}, args...)...); res.Code == 0 || !strings.Contains(res.Stderr, want) {
			t.Errorf("%q: exit %d, no %q:\n%s", args, res.Code, want, res.Stderr)
		}
	}
	r.NothingLeft()
}

// An editor is offered the prompts of servers as commands, which become messages that are marked as the server's.
func TestMCPPromptsInAnEditor(t *testing.T) {
	t.Parallel()
	r := boxed(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	s := prompting()
	addMCP(t, r, webBlock(overHTTP(t, s, nil), ""))
	c, session := editor(t, r)
	offers := func(command string) func(rig.Message) bool {
		return func(m rig.Message) bool { return strings.Contains(string(m.Params), command) }
	}
	until := func(command string) rig.Message {
		for _, m := range c.All {
			if offers(command)(m) {
				return m
			}
		}
		return c.Until(offers(command))
	}
	got := until(`"name":"web:greet"`) // before the first turn
	stopped(t, c, prompt(c, session, "go"), "end_turn")
	if !strings.Contains(string(got.Params), `"description":"Prompt of web: Greets someone."`) || !strings.Contains(string(got.Params), `who\u003e [how]"`) || !strings.Contains(string(got.Params), `"name":"compact"`) {
		t.Errorf("%s", got.Params)
	}
	from := len(c.All)
	stopped(t, c, prompt(c, session, "/web:greet Ada very warmly"), "end_turn")
	said := r.Last().Request.Messages
	want := "The prompt \"greet\" of \"web\":\n\n[user]\nGreet Ada very warmly.\uFFFD\n[assistant]\nHello."
	if i := slices.IndexFunc(said, func(m llm.Message) bool { return m.Role == llm.RoleUser && m.Text() == want }); i < 0 {
		t.Errorf("the model has read %+v", said)
	}
	if got := updates(t, c.All[from:]); !slices.Contains(got, "agent_message_chunk done") || slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "user_message") }) {
		t.Errorf("%q", got)
	}
	if _, message := c.Refused("session/prompt", map[string]any{"sessionId": session, "prompt": []any{map[string]any{"type": "text", "text": "/web:greet"}}}); !strings.Contains(message, "who is missing") {
		t.Errorf("%s", message)
	}
	s.AddPrompt(&mcp.Prompt{Name: "leave now"}, nil)
	until(`"name":"web:leave-now"`)
	var other struct{ SessionID string } // in the same process
	c.Call("session/new", map[string]any{"cwd": r.Dir, "mcpServers": []any{}}, &other)
	c.Until(func(m rig.Message) bool {
		return strings.Contains(string(m.Params), other.SessionID) && offers(`"name":"web:greet"`)(m)
	})
}

// A model sees the change of a server's tools in its next request that follows the change, and not within an answer.
func TestMCPChangedTools(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	grown, listed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	add := func(name string, f func()) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "has run " + name}}}, nil
		})
	}
	add("grow", func() {
		add("grown", func() {})
		close(grown)
	})
	add("nap", func() {
		select {
		case <-listed:
		case <-t.Context().Done():
		}
	})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			select {
			case <-grown:
				if method == "tools/list" {
					once.Do(func() { close(listed) })
				}
			default:
			}
			return next(ctx, method, r)
		}
	})
	r := boxed(t, "[[step]]\ndo = [{ call = \"grow\", namespace = \"mcp__web\", id = \"c1\", args = {} }, { call = \"grown\", namespace = \"mcp__web\", id = \"c2\", args = {} }]\n"+
		"[[step]]\nwhen = { output = \"has not answered\" }\ndo = [{ text = \"the tools are not listed again\" }]\n[[step]]\ntimes = -1\nwhen = { no_tools = [\"mcp__web.grown\"] }\ndo = [{ call = \"nap\", namespace = \"mcp__web\", args = {} }]\n"+mcpCall("c3", "mcp__web", "grown", "")+finished)
	addMCP(t, r, webBlock(overHTTP(t, s, nil), "call_timeout = \"30s\""))
	r.OK("exec", "go")
	var seen []bool
	for _, q := range r.Requests() {
		seen = append(seen, slices.ContainsFunc(q.Request.Tools, func(t llm.Tool) bool { return t.Name == "grown" }))
	}
	if len(slices.Compact(slices.Clone(seen))) != 2 || seen[0] {
		t.Errorf("requests with the new tool: %v", seen)
	}
	out := r.Last().Outputs()
	wantOutputs(t, out, map[string][]string{"c1": {"has run grow"}, "c2": {"grown"}, "c3": {"has run grown"}})
	if strings.Contains(out["c2"], "has run") {
		t.Errorf("a tool was called that the model had not seen: %s", out["c2"])
	}
	r.NothingLeft()
}

// A stream that breaks during a call is resumed where it ended, and the call gets its result.
func TestMCPResumption(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	var web *httptest.Server
	resumed := make(chan struct{})
	var once sync.Once
	calls := 0
	s.AddTool(&mcp.Tool{Name: "long", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls++
		if err := r.Session.Ping(ctx, nil); err != nil { // the client has read the stream up to here
			return nil, err
		}
		web.CloseClientConnections()
		select {
		case <-resumed:
		case <-t.Context().Done():
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "after the break"}}}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet && q.Header.Get("Last-Event-ID") != "" {
			once.Do(func() { close(resumed) })
		}
		handler.ServeHTTP(w, q)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	r := boxed(t, mcpCall("c1", "mcp__web", "long", "")+finished)
	addMCP(t, r, webBlock(web.URL, ""))
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"after the break"}})
	if calls != 1 {
		t.Errorf("the tool has run %d times", calls)
	}
	r.NothingLeft()
}
