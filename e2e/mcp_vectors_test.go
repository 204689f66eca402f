package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// vectorMode makes the test binary a server whose answers are those of the vectors.
const vectorMode = "vectors"

// serveVectors is that server. It writes the names of the tools that are called, and its end, into a folder.
func serveVectors() int {
	dir := os.Args[1]
	note := func(file, line string) {
		if f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			_, _ = f.WriteString(line + "\n")
			_ = f.Close()
		}
	}
	note("started", "")
	s := mcp.NewServer(&mcp.Implementation{Name: "vectors", Version: "1"}, nil)
	add := func(name string, hints *mcp.ToolAnnotations, f func(ctx context.Context) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, Title: "Tool " + name, InputSchema: map[string]any{"type": "object"}, Annotations: hints}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			note("called", name)
			return f(ctx)
		})
	}
	text := func(texts ...string) *mcp.CallToolResult {
		r := &mcp.CallToolResult{}
		for _, t := range texts {
			r.Content = append(r.Content, &mcp.TextContent{Text: t})
		}
		return r
	}
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	add("plain", nil, func(context.Context) (*mcp.CallToolResult, error) { return text("hi", "second"), nil })
	add("structured", reads, func(context.Context) (*mcp.CallToolResult, error) {
		r := text("beside")
		r.StructuredContent = json.RawMessage(`{"z":1,"a":{"k":[1,2]}}`)
		return r, nil
	})
	add("kaput", reads, func(context.Context) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32603, Message: "kaput", Data: json.RawMessage(`{"x":1}`)}
	})
	add("fails", reads, func(context.Context) (*mcp.CallToolResult, error) {
		r := text("boom")
		r.IsError = true
		return r, nil
	})
	add("large", reads, func(context.Context) (*mcp.CallToolResult, error) {
		return text("HEAD" + strings.Repeat("x", 2<<20) + "TAIL"), nil
	})
	add("pid", reads, func(context.Context) (*mcp.CallToolResult, error) { return text(fmt.Sprint("pid ", os.Getpid())), nil })
	add("hang", reads, func(ctx context.Context) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		note("called", "cancelled")
		return nil, ctx.Err()
	})
	s.AddResource(&mcp.Resource{URI: "note://a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://a", Text: "the note"}}}, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	note("ended", "")
	return 0
}

// vectorServer is the block of such a server.
func vectorServer(t *testing.T, r *rig.Rig, name, more string) string {
	t.Helper()
	block := mcpServer(t, name, r.Dir, more+fmt.Sprintf("\nsandbox {\n  writable_roots = [%q]\n}", r.Dir))
	return strings.Replace(block, mcpMode+` = "1"`, fmt.Sprintf("%s = %q", mcpMode, vectorMode), 1)
}

// What models and front ends get of results: M1, M4, M5, M11, the vectors 15.11 of MCP, and of what is large the beginning and the end.
func TestMCPResultVectors(t *testing.T) {
	t.Parallel()
	plain := func(id, tool, args string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = %q, id = %q, args = { %s } }]\n", tool, id, args)
	}
	r := boxed(t, mcpCall("c1", "mcp__one", "plain", "")+mcpCall("c2", "mcp__one", "structured", "")+mcpCall("c3", "mcp__two", "structured", "")+
		mcpCall("c4", "mcp__one", "kaput", "")+mcpCall("c5", "mcp__one", "fails", "")+mcpCall("c6", "mcp__one", "large", "")+
		plain("c7", "list_mcp_resources", "")+plain("c8", "read_mcp_resource", `server = "two", uri = "note://a"`)+finished)
	addMCP(t, r, vectorServer(t, r, "one", `approval = "approve"`)+vectorServer(t, r, "two", "approval = \"approve\"\ntext_beside_structured = true"))
	items := r.OK("exec", "--json", "go").Stdout
	got := r.Last().Outputs()
	const header = `(?s)^Wall time: \d+\.\d{4} seconds\nOutput:`
	for id, want := range map[string]string{
		"c1": `hisecond$`, "c2": `\n\{"z":1,"a":\{"k":\[1,2\]\}\}$`, "c3": `\n\{"z":1,"a":\{"k":\[1,2\]\}\}beside$`,
		"c4": `\nthe server answered with error -32603: kaput\ndata: \{"x":1\}$`, "c5": `\nboom$`, "c6": `HEADx+.*x+TAIL`,
	} {
		if !regexp.MustCompile(header + want).MatchString(got[id]) {
			t.Errorf("%s is %.300q … %q, want %s", id, got[id], got[id][max(0, len(got[id])-100):], want)
		}
	}
	if n := len(got["c6"]); n > 60_000 {
		t.Errorf("of what is large, the model reads %d bytes", n)
	}
	for _, want := range []string{
		`"server":"one","tool":"plain","arguments":{},"result":{"content":[{"type":"text","text":"hi"},{"type":"text","text":"second"}],"structured_content":null},"error":null,"status":"completed"`,
		`"server":"one","tool":"structured","arguments":{},"result":{"content":[{"type":"text","text":"beside"}],"structured_content":{"z":1,"a":{"k":[1,2]}}},"error":null`,
		`"server":"one","tool":"kaput","arguments":{},"result":null,"error":{"message":"the server answered with error -32603: kaput\ndata: {\"x\":1}"},"status":"failed"`,
		`"server":"one","tool":"fails","arguments":{},"result":{"content":[{"type":"text","text":"boom"}],"structured_content":null},"error":null,"status":"failed"`,
		`"server":"gantry","tool":"list_mcp_resources"`,
		`"server":"two","tool":"read_mcp_resource","arguments":{"server":"two","uri":"note://a"},"result":{"content":[{"text":"{\"server\":\"two\",\"uri\":\"note://a\",\"contents\":[`,
	} {
		if !strings.Contains(items, want) {
			t.Errorf("no item has %s:\n%.6000s", want, items)
		}
	}
	for line := range strings.Lines(items) { // from the beginning
		if strings.Contains(line, `"item.started"`) && !regexp.MustCompile(`"server":"(one|two|gantry)","tool":"[a-z_]+",`).MatchString(line) {
			t.Errorf("an item begins as %s", line)
		}
	}
	r.NothingLeft()
}

// M9: without anyone to ask, a tool that says nothing of its effects is refused before the server is contacted. M10: what is accepted for
// the session is asked about once, unless the tool is set to be asked about each time, which a client is told.
func TestMCPApprovalVectors(t *testing.T) {
	t.Parallel()
	calls := mcpCall("c1", "mcp__one", "plain", "a = 1") + mcpCall("c2", "mcp__one", "plain", "") + mcpCall("c3", "mcp__one", "pid", "") + mcpCall("c4", "mcp__one", "large", "") + finished
	r := boxed(t, calls)
	addMCP(t, r, vectorServer(t, r, "one", "tool \"large\" {\n approval = \"prompt\"\n}"))
	policied(r, "never", "read-only")
	r.OK("exec", "--config", "policy.hcl", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{
		"c1": {"approval required by policy, but AskForApproval is set to Never", `it asks the service "one" for "plain"`}, "c3": {"pid "}, "c4": {"AskForApproval is set to Never", "requires an approval"},
	})
	if got := r.Read("called"); got != "pid\n" {
		t.Errorf("the server was asked for %q", got)
	}
	r.NothingLeft()

	r = boxed(t, calls)
	addMCP(t, r, vectorServer(t, r, "one", "tool \"large\" {\n approval = \"prompt\"\n}"))
	c := r.AppServer(onRequest...)
	greet(t, c)
	submit(t, c, begin(t, c, object{}), "go")
	for i := range 2 {
		q := c.Notified("mcpServer/elicitation/request")
		if p := string(q.Params); !strings.Contains(p, [...]string{`plain`, `large`}[i]) || strings.Contains(p, `"persist":["session"]`) != (i == 0) || !strings.Contains(p, `"tool_params":{`+[...]string{`"a":1`, ``}[i]+`}`) {
			t.Errorf("question %d: %s", i, p)
		}
		c.Answer(q, object{"action": "accept", "_meta": object{"persist": "session"}})
	}
	c.Notified("turn/completed")
	if got := r.Read("called"); got != "plain\nplain\npid\nlarge\n" {
		t.Errorf("the server was asked for %q", got)
	}
}

// A call that takes longer than call_timeout is an error and cancelled; a server without calls ends after idle and is started again.
func TestMCPTimes(t *testing.T) {
	t.Parallel()
	until := func(id, condition string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"exec_command\", id = %q, args = { cmd = \"until %s; do sleep 0.02; done\", login = false, yield_time_ms = 30000 } }]\n", id, condition)
	}
	r := boxed(t, mcpCall("c1", "mcp__slow", "hang", "")+until("w1", "grep -q cancelled called")+mcpCall("c2", "mcp__one", "pid", "")+until("w2", "[ -e ended ]")+
		mcpCall("c3", "mcp__one", "pid", "")+finished)
	addMCP(t, r, vectorServer(t, r, "slow", `call_timeout = "2s"`)+vectorServer(t, r, "one", `idle = "700ms"`))
	r.OK("exec", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"the server has not answered within 2s; next: raise call_timeout in its block"}, "c2": {"Output:pid "}, "c3": {"Output:pid "}})
	if n := strings.Count(r.Read("started"), "\n"); n < 3 {
		t.Errorf("the two servers were started %d times", n)
	}
	r.NothingLeft()
}
