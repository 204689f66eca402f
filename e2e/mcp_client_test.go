package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

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
		//lint:ignore SA1019 what most servers use
		return r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
			SystemPrompt: "be brief", MaxTokens: 50, StopSequences: []string{"END"}, ModelPreferences: &mcp.ModelPreferences{Hints: []*mcp.ModelHint{{Name: "other"}}},
			Messages: []*mcp.SamplingMessage{
				text("user", "a picture"), {Role: "user", Content: &mcp.ImageContent{MIMEType: "image/png", Data: image}},
				text("assistant", "seen"), text("user", "a question of the server"),
			},
		})
	})
	tool("roots", func(ctx context.Context, r *mcp.CallToolRequest) (any, error) {
		return r.Session.ListRoots(ctx, nil) //lint:ignore SA1019 likewise
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
