package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// conforms is a plugin with the tools that the conformance suite calls at a server.
func conforms() tool.Plugin {
	type args struct {
		Message string `json:"message,omitempty"`
	}
	var tools []tool.Tool
	add := func(name string, run func(ctx context.Context, c *tool.Call) (*tool.Result, error), opts ...tool.Option) {
		tools = append(tools, tool.New(name, "A tool of the conformance suite.", func(ctx context.Context, c *tool.Call, _ args) (*tool.Result, error) {
			return run(ctx, c)
		}, append(opts, tool.ReadOnly())...))
	}
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
	media := func(mediaType, data string) *contract.MediaPart {
		b, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			panic(err)
		}
		return &contract.MediaPart{MediaType: mediaType, Data: b}
	}
	parts := func(parts ...contract.Part) func(context.Context, *tool.Call) (*tool.Result, error) {
		return func(context.Context, *tool.Call) (*tool.Result, error) { return &tool.Result{Parts: parts}, nil }
	}
	add("test_simple_text", parts(&contract.TextPart{Text: "This is a simple text response for testing."}))
	add("test_image_content", parts(media("image/png", png)))
	add("test_audio_content", parts(media("audio/wav", wav)))
	add("test_multiple_content_types", parts(&contract.TextPart{Text: "Multiple content types test:"}, media("image/png", png), media("application/pdf", png)))
	add("test_embedded_resource", parts(media("application/pdf", png)))
	add("test_error_handling", func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Errorf("This tool intentionally returns an error for testing"), nil
	})
	add("test_tool_with_progress", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		// Of lines that arrive faster than a client reads them, it gets the last. The suite wants three.
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range 60 {
			if err := c.Progress(fmt.Sprintf("step %d", n+1), float64(n+1), 60); err != nil {
				return nil, err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return tool.Text("done"), nil
	})
	ask := func(name, schema string) {
		add(name, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			a, err := c.Ask(ctx, tool.Question{Title: "Conformance", Message: "Please answer.", FormSchema: json.RawMessage(schema)})
			if err != nil {
				return nil, err
			}
			return tool.Text(fmt.Sprintf("declined: %v, content: %s", a.Declined, a.JSON)), nil
		})
	}
	ask("test_elicitation", `{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username","email"]}`)
	ask("test_elicitation_sep1034_defaults", `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)
	ask("test_elicitation_sep1330_enums", `{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)
	add("json_schema_2020_12_tool", parts(&contract.TextPart{Text: "done"}), tool.Schema(json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema",
		"type":"object","$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`)))
	return tool.Plugin{Name: "conforms", Version: "1.0.0", Description: "Has the tools of a suite.", Capabilities: []string{"ask"}, Tools: tools}
}

// suite runs the conformance suite and returns what it prints.
func (s sdks) suite(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.node, append([]string{filepath.Join(s.dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")}, args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	return string(out)
}

// expected compares what the suite says about a scenario with what testdata/mcp/conformance.txt expects. kind is client or server, and
// results the folder in which the suite has written what it has seen.
func expected(t *testing.T, kind, scenario string, passed bool, results string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "mcp", "conformance.txt"))
	if err != nil {
		t.Fatal(err)
	}
	reason := ""
	for line := range strings.Lines(string(b)) {
		if r, ok := strings.CutPrefix(line, kind+" "+scenario+": "); ok {
			reason = strings.TrimSpace(r)
		}
	}
	switch {
	case passed && reason != "":
		t.Errorf("%s %s passes; remove it from conformance.txt, which expects a failure: %s", kind, scenario, reason)
	case !passed && reason == "":
		t.Errorf("%s %s fails: %s", kind, scenario, failures(t, results))
	}
}

// failures returns what the suite has found wrong, and what a client has printed.
func failures(t *testing.T, results string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(results, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var checks []struct{ Name, Status, Description, ErrorMessage string }
		if filepath.Ext(path) != ".json" {
			fmt.Fprintf(&out, "\n%s: %.6000s", filepath.Base(path), b)
		} else if err := json.Unmarshal(b, &checks); err != nil {
			return err
		}
		for _, c := range checks {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				fmt.Fprintf(&out, "\n%s %s: %s: %s", c.Status, c.Name, c.Description, c.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return out.String()
}

// gantry mcp serve passes the official conformance suite.
func TestMCPConformanceOfTheServer(t *testing.T) {
	t.Parallel()
	s := mcpSDKs(t)
	r := rig.New(t, mcpScript)
	addOdd(t, r, "conforms", "conforms", "")
	server := r.Start("mcp", "serve", "--http", "0", "--no-auth", "--tools", "conforms", "-c", "approval.policy=on-request")
	address := regexp.MustCompile(`listening on (\S+)\n`)
	r.Until("the server listens", func() bool { return address.MatchString(server.Output()) })
	results := t.TempDir()
	out := s.suite(t, "server", "--suite", "all", "--url", address.FindStringSubmatch(server.Output())[1], "-o", results)
	summary := regexp.MustCompile(`(?m)^(✓|✗) (\S+): \d+ passed`).FindAllStringSubmatch(out, -1)
	if len(summary) < 30 {
		t.Fatalf("the suite has tested %d scenarios:\n%s", len(summary), out)
	}
	for _, m := range summary {
		dirs, err := filepath.Glob(filepath.Join(results, "server-"+m[2]+"-20*"))
		if err != nil || len(dirs) != 1 {
			t.Fatal(m[2], dirs, err)
		}
		expected(t, "server", m[2], m[1] == "✓", dirs[0])
	}
}

// The plugin, under the official conformance suite. The suite starts this test as the client of each of its servers.
func TestMCPConformanceOfTheClient(t *testing.T) {
	if scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); scenario != "" {
		conformanceClient(t, scenario, os.Args[len(os.Args)-1])
		return
	}
	t.Parallel()
	s := mcpSDKs(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scenarios := regexp.MustCompile(`(?m)^  - (\S+)`).FindAllStringSubmatch(s.suite(t, "list", "--client"), -1)
	if len(scenarios) < 25 {
		t.Fatalf("the suite has %d scenarios", len(scenarios))
	}
	for _, m := range scenarios {
		t.Run(m[1], func(t *testing.T) {
			t.Parallel()
			results := t.TempDir()
			out := s.suite(t, "client", "--scenario", m[1], "--timeout", "120000", "-o", results, "--command", self+" -test.run=^TestMCPConformanceOfTheClient$ -test.v")
			expected(t, "client", m[1], strings.Contains(out, "OVERALL: PASSED"), results)
		})
	}
}

// conformanceClient does with the server at url what a scenario of the suite wants of a client: gantry calls its tools, after its user has logged in.
func conformanceClient(t *testing.T, scenario, url string) {
	call := mcpCall("c1", "mcp__web", "test_tool", "")
	switch scenario {
	case "tools_call":
		call = mcpCall("c1", "mcp__web", "add_numbers", "a = 5, b = 3")
	case "elicitation-sep1034-client-defaults":
		call = mcpCall("c1", "mcp__web", "test_client_elicitation_defaults", "")
	case "sse-retry":
		call = mcpCall("c1", "mcp__web", "test_reconnection", "")
	case "initialize":
		call = ""
	}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			t.Fatal(err)
		}
	}
	oauth := ""
	if given.ID != "" {
		oauth = fmt.Sprintf("client_id = %q\nclient_secret = env(\"SECRET\")\n", given.ID)
	}
	switch scenario {
	case "auth/client-credentials-basic":
		oauth += "grant = \"client_credentials\"\n"
	case "auth/basic-cimd":
		oauth = "client_id = \"https://conformance-test.local/client-metadata.json\"\n"
	}
	if oauth != "" {
		oauth = "oauth {\n" + oauth + "}\n"
	}
	r := boxed(t, call+finished)
	r.Env = append(r.Env, "SECRET="+given.Secret)
	file := filepath.Join(r.Home, "gantry.hcl")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hosts := ""
	login := func() {
		page, denied := regexp.MustCompile(`(http://\S+[?&]code_challenge=\S+)\s`), regexp.MustCompile(`may not reach (localhost:\d+)`)
		for range 5 {
			configureMCP(t, r, file, string(before), "permissions {\nnetwork = ["+hosts+"]\n}", fmt.Sprintf("url = %q\napproval = \"approve\"\n%s", url, oauth))
			run := r.Terminal("mcp", "login", "--yes", "web")
			ended := make(chan rig.Result, 1)
			go func() { ended <- run.Wait() }() // ends with the command
			r.Until("the login shows a page or ends", func() bool { return page.MatchString(run.Output()) || len(ended) > 0 })
			if m := page.FindStringSubmatch(run.Output()); m != nil {
				resp, err := http.Get(m[1]) // which is redirected to gantry
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			res := <-ended
			m := denied.FindStringSubmatch(res.Stdout)
			if m == nil {
				t.Logf("login: exit %d\n%s", res.Code, res.Stdout)
				return
			}
			hosts += strconv.Quote(m[1]) + ", " // its user does what the error says
		}
	}
	configureMCP(t, r, file, string(before), "", fmt.Sprintf("url = %q\napproval = \"approve\"\n%s", url, oauth))
	if strings.HasPrefix(scenario, "auth/") {
		login()
	}
	c := connectMCP(t, mcpStdio(r, "-c", "approval.policy=on-request"), reply("accept", map[string]any{}))
	got, failed := c.run(t.Context(), "gantry", map[string]any{"prompt": "go"})
	if failed != "" {
		t.Fatalf("%+v %s", got, failed)
	}
	t.Logf("the model got %q", r.Last().Outputs())
	if scenario == "auth/scope-step-up" {
		login()
		c.run(t.Context(), "gantry", map[string]any{"prompt": "go"})
		t.Logf("the model got %q", r.Last().Outputs())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
