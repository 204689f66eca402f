package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdks are the SDKs of MCP for other languages, as scripts/setup installs them.
type sdks struct{ dir, node, python string }

// mcpSDKs returns the SDKs. GANTRY_MCP_SDKS names their folder.
func mcpSDKs(t *testing.T) sdks {
	t.Helper()
	dir := os.Getenv("GANTRY_MCP_SDKS")
	if dir == "" {
		t.Skip("SKIPPED: GANTRY_MCP_SDKS is not set, so nothing is tested against MCP's SDKs for TypeScript and Python; `make test` installs them and sets it")
	}
	s := sdks{dir: dir, python: filepath.Join(dir, "python", "bin", "python")}
	if own, err := filepath.Glob(filepath.Join(dir, "node_modules", "node-linux-*", "bin", "node")); err == nil && len(own) == 1 {
		s.node = own[0]
	} else if s.node, err = exec.LookPath("node"); err != nil {
		t.Skip("SKIPPED: there is no node, so nothing is tested against MCP's SDK for TypeScript")
	} else if err := exec.Command(s.node, "--input-type=module", "--eval", "import { globSync } from 'node:fs'").Run(); err != nil {
		t.Skip("SKIPPED: node is older than 22, so nothing is tested against MCP's conformance suite and its SDK for TypeScript")
	}
	return s
}

// program returns the command line of a program in testdata/mcp, which is copied into a folder where it finds its SDK.
func (s sdks) program(t *testing.T, dir, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "mcp", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(name) == ".py" {
		return []string{s.python, path}
	}
	modules := filepath.Join(dir, "node_modules")
	if err := os.Symlink(filepath.Join(s.dir, "node_modules"), modules); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return []string{s.node, path}
}

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns what was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// listens starts a server over HTTP, and returns its port. It is killed with the test.
func listens(t *testing.T, r *rig.Rig, command ...string) (port string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the server wrote:\n%s", out)
		}
	})
	line := regexp.MustCompile(`listening on (\d+)\n`)
	r.Until("the server listens", func() bool {
		m := line.FindStringSubmatch(out.String())
		if m != nil {
			port = m[1]
		}
		return m != nil
	})
	return port
}

// Servers of the SDKs for TypeScript and Python over each transport: tools with each kind of content, progress, an error, a question to the
// user, resources, and a tool that is added while the server runs.
func TestMCPServersOfOtherSDKs(t *testing.T) {
	t.Parallel()
	s := mcpSDKs(t)
	call := func(id, namespace, tool, args string) string {
		return fmt.Sprintf("{ call = %q, namespace = %q, id = %q, args = { %s } },\n", tool, namespace, id, args)
	}
	first := func(prompt, calls string) string {
		return fmt.Sprintf("[[step]]\nwhen = { user = \"^%s\", since_user = 0 }\ntimes = -1\ndo = [\n%s]\n", prompt, calls)
	}
	const ns = "mcp__shop"
	script := first("look", call("greet", ns, "greet", `name = "Ada"`)+call("picture", ns, "picture", "")+call("price", ns, "price", `product = "tea"`)+
		call("fail", ns, "fail", "")+call("wrong", ns, "greet", "")+
		call("resources", "", "list_mcp_resources", "")+call("templates", "", "list_mcp_resource_templates", `server = "shop"`)+
		call("hours", "", "read_mcp_resource", `server = "shop", uri = "shop://hours"`)+call("tea", "", "read_mcp_resource", `server = "shop", uri = "shop://product/tea"`)) +
		first("order", call("order", ns, "order", "")) + first("grow", call("grow", ns, "grow", "")) + first("use", call("grown", ns, "grown", "")) +
		"[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n"
	for _, program := range []string{"server.mjs", "server.py"} {
		for _, transport := range []string{"stdio", "http", "sse"} {
			t.Run(program+" "+transport, func(t *testing.T) {
				t.Parallel()
				r := boxed(t, script)
				command := append(s.program(t, filepath.Dir(r.Dir), program), transport)
				where := fmt.Sprintf("command = %q\nargs = [%q, %q]", command[0], command[1], command[2])
				if transport != "stdio" {
					path := map[string]string{"http": "/mcp", "sse": "/sse"}[transport]
					where = fmt.Sprintf("url = \"http://127.0.0.1:%s%s\"\ntransport = %q", listens(t, r, command...), path, transport)
				}
				addMCP(t, r, "server \"shop\" {\nrequired = true\ndefer = false\napproval = \"approve\"\nstartup_timeout = \"2m\"\n"+where+"\n}\n")
				answer := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"size": 3, "colour": "blue"}}
				c := connectMCP(t, mcpStdio(r, "-c", "approval.policy=on-request"), func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult { return answer })
				said := func(tool string, args map[string]any) map[string]string {
					t.Helper()
					if _, failed := c.run(t.Context(), tool, args); failed != "" {
						t.Errorf("%v: %s", args, failed)
					}
					return r.Last().Outputs()
				}
				outputs := said("gantry", map[string]any{"prompt": "look"})
				wantOutputs(t, outputs, map[string][]string{
					"greet": {"hello Ada"}, "picture": {"a dot"}, "price": {`"product":"tea"`, `"cents":1250`}, "fail": {"out of stock"},
					"wrong": {"name"}, "resources": {`"uri":"shop://hours"`, "opening hours"}, "templates": {`"uriTemplate":"shop://product/{name}"`},
					"hours": {"from nine to five"}, "tea": {"the product tea"},
				})
				id := string(threads(t, r)[0].ID)
				next := func(prompt string) map[string]string {
					t.Helper()
					return said("gantry-reply", map[string]any{"threadId": id, "prompt": prompt})
				}
				wantOutputs(t, next("order"), map[string][]string{"order": {"ordered 3 blue"}})
				answer = &mcp.ElicitResult{Action: "decline"}
				wantOutputs(t, next("order"), map[string][]string{"order": {"decline"}})
				c.mu.Lock()
				if len(c.asked) != 2 || !strings.Contains(c.asked[0], `"shop"`) || !strings.Contains(c.asked[0], "Which one?") {
					t.Errorf("asked %q", c.asked)
				}
				if !slices.Contains(c.progress, "looked into the store") {
					t.Errorf("progress %q", c.progress)
				}
				c.mu.Unlock()
				wantOutputs(t, next("grow"), map[string][]string{"grow": {"there is another tool"}})
				r.Until("the new tool is offered", func() bool {
					next("hello")
					return slices.Contains(r.Last().Offered(), "grown")
				})
				wantOutputs(t, next("use"), map[string][]string{"grown": {"grown"}})
			})
		}
	}
}

// gantry mcp serve under the clients of the SDKs for TypeScript and Python: tools, a run with an approval, a reply, an interrupt, and another
// connection.
func TestMCPClientsOfOtherSDKs(t *testing.T) {
	t.Parallel()
	s := mcpSDKs(t)
	args := []string{"--tools", "shell", "-c", "approval.policy=untrusted"}
	for _, program := range []string{"client.mjs", "client.py"} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(program+" "+transport, func(t *testing.T) {
				t.Parallel()
				r := boxed(t, mcpScript)
				command := append(s.program(t, filepath.Dir(r.Dir), program), transport)
				if transport == "http" {
					server := r.ServeMCP(args...)
					command = append(command, server.URL, server.Token)
				} else {
					command = append(append(command, filepath.Join(r.Bin, r.Host), "mcp", "serve"), args...)
				}
				cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
				cmd.Dir, cmd.Env, cmd.WaitDelay = r.Dir, r.Env, time.Second
				if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "all is well\n") {
					t.Errorf("%v\n%s", err, out)
				}
				var list []string
				for _, info := range threads(t, r) {
					list = append(list, string(info.ID))
				}
				if len(list) != 2 { // of the agent, and of the client's own call
					t.Errorf("threads %q", list)
				}
			})
		}
	}
}
