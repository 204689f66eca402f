package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/plugins/mcp/authtest"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// needy is the value of mcpMode for a server that reaches a host and writes a file when it starts, and ends if it can't write.
const needy = "needy"

func serveNeedy() int {
	if resp, err := http.Get("https://api.needy.test/"); err == nil {
		resp.Body.Close()
	}
	file := filepath.Join(os.Args[1], "data", "db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "cannot start:", err)
		return 3
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "needy", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "hi", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	return 0
}

// `gantry mcp add` starts a server that is a program, asks about what its sandbox denies it, and writes the answers into its block.
func TestMCPAddTriesTheServer(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__needy", "hi", "")+finished)
	addMCP(t, r, "")
	mcpServer(t, "needy", r.Dir, "") // puts the program in its place
	program := filepath.Join(filepath.Dir(r.Dir), "mcp-server")
	data := filepath.Join(r.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	command := []string{"needy", "--env", mcpMode + "=" + needy, "--", program, r.Dir, "needy"}
	block := fmt.Sprintf("sandbox {\n  network = [\"api.needy.test\"]\n  writable_roots = [%q]\n}", data)

	refused := r.Gantry(append([]string{"mcp", "add", "--yes"}, command...)...)
	for _, want := range []string{"cannot start: open " + data, "its process exited with code 3", "its sandbox has denied it to reach the host api.needy.test; the server says that it could not write in " + data, block} {
		if refused.Code == 0 || !strings.Contains(refused.Stderr, want) {
			t.Errorf("without a terminal: exit %d, no %q:\n%s", refused.Code, want, refused.Stderr)
		}
	}
	r.OK("mcp", "remove", "--yes", "needy")

	run := r.Terminal(append([]string{"mcp", "add"}, command...)...)
	run.Sees("[y/N] ")
	run.Type("y\n")
	for i, want := range []string{`Let the server "needy" reach the host api.needy.test?`, `Let the server "needy" write in the folder ` + data} {
		run.SeesTimes("answer: ", i+1)
		run.Sees(want)
		run.Type("allow\n")
	}
	run.SeesTimes("[y/N] ", 2)
	run.Type("y\n")
	res := run.Wait()
	if res.Code != 0 || !strings.Contains(res.Stdout, `the server "needy" works; its tools: hi`) {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	b, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
	if text := strings.Join(strings.Fields(string(b)), " "); err != nil || !strings.Contains(text, `network = ["api.needy.test"]`) || !strings.Contains(text, fmt.Sprintf("writable_roots = [%q]", data)) {
		t.Errorf("the configuration:\n%s", b)
	}
	if out := r.OK("mcp", "call", "needy", "hi").Stdout; !strings.Contains(out, "hello") { // it has been accepted with that
		t.Errorf("a call:\n%s", out)
	}
	r.NothingLeft()
}

// Agreeing to a change of a server's sandbox accepts that change, and not another program that has taken the server's place meanwhile.
func TestMCPTryAcceptsOnlyWhatWasShown(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	data := filepath.Join(r.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	addMCP(t, r, strings.Replace(mcpServer(t, "srv", r.Dir, ""), mcpMode+` = "1"`, mcpMode+" = \""+needy+"\"", 1))
	program := filepath.Join(filepath.Dir(r.Dir), "mcp-server")
	run := r.Terminal("mcp", "try", "srv")
	run.Sees("answer: ")
	b, err := os.ReadFile(program)
	if err == nil { // which still runs
		err = os.WriteFile(program+".new", append(b, "other"...), 0o700)
	}
	if err == nil {
		err = os.Rename(program+".new", program)
	}
	if err != nil {
		t.Fatal(err)
	}
	run.Type("allow\n")
	run.SeesTimes("answer: ", 2)
	run.Type("allow\n")
	run.Sees("Make these changes? [y/N] ")
	run.Type("y\n")
	run.Sees("its program " + program + " has changed")
	run.Sees("Let the plugin start it? [y/N] ")
	run.Type("n\n")
	if res := run.Wait(); res.Code == 0 || !strings.Contains(res.Stdout, `process "server.srv" of plugin "mcp" was not accepted`) {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	r.NothingLeft()
}

// A command that names a server asks whether its program may start, and about no other; a disabled server is never asked about.
func TestMCPAsksAboutTheServerThatIsNamed(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	r.Config("plugin \"mcp\" {\n  source = \"builtin/mcp\"\n  config {\n" + mcpServer(t, "one", r.Dir, "") + mcpServer(t, "two", r.Dir, "") +
		mcpServer(t, "three", r.Dir, "") + mcpServer(t, "off", r.Dir, "enabled = false") + "  }\n}\n")
	for _, tc := range []struct {
		asks []string // about these servers, in this order
		args []string
	}{
		{[]string{"one"}, []string{"tools", "one"}},
		{[]string{"two"}, []string{"call", "two", "nothing"}},
		{nil, []string{"add", "--yes", "--no-try", "four", "--url", "https://four.test"}},
		{nil, []string{"get", "off"}},
		{[]string{"three"}, []string{"list"}},
	} {
		if locked := r.Gantry("plugin", "lock", "mcp"); len(tc.asks) > 0 && (locked.Code != 1 ||
			!strings.Contains(locked.Stderr, fmt.Sprintf("process \"server.%s\" of plugin \"mcp\" was not accepted", tc.asks[0])) || !strings.Contains(locked.Stderr, "review it and use --yes")) {
			t.Errorf("lock without a terminal: exit %d:\n%s", locked.Code, locked.Stderr)
		}
		run := r.Terminal(append([]string{"mcp"}, tc.args...)...)
		for i := range tc.asks {
			run.SeesTimes("start it? [y/N] ", i+1)
			run.Type("y\n")
		}
		out := run.Wait().Stdout
		if strings.Count(out, "start it?") != len(tc.asks) {
			t.Errorf("%q asks about more than %q:\n%s", tc.args, tc.asks, out)
		}
		for _, name := range tc.asks {
			if !strings.Contains(out, fmt.Sprintf("the process \"server.%s\" of plugin", name)) {
				t.Errorf("%q does not ask about %s:\n%s", tc.args, name, out)
			}
		}
	}
}

// Without the plugin's block, and without servers in it, the errors say what is missing.
func TestMCPWithoutBlockOrServers(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	for _, tc := range []struct {
		want string
		args []string
	}{
		{`unknown command "add" in ` + "`gantry mcp`" + `: the plugin "mcp", which has further commands, is not configured`, []string{"mcp", "add", "x", "--", "cat"}},
		{"`gantry plugin add builtin/mcp` adds its block, plugin \"mcp\" { source = \"builtin/mcp\" }; ", []string{"mcp", "list"}},
		{"", []string{"plugin", "add", "builtin/mcp"}},
		{`the MCP server "x" is not configured, or not ready`, []string{"mcp", "call", "x", "y"}},
		{`unknown command "lst" in `, []string{"mcp", "lst"}},
	} {
		res := r.Gantry(tc.args...)
		if (res.Code == 0) != (tc.want == "") || !strings.Contains(res.Stderr, tc.want) {
			t.Errorf("%q: exit %d, no %q:\n%s", tc.args, res.Code, tc.want, res.Stderr)
		}
	}
}

// `gantry mcp call` makes a call that passes the policy, and needs no model.
func TestMCPCall(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addMCP(t, r, mcpServer(t, "srv", r.Dir, "")+mcpServer(t, "slow", r.Dir, fmt.Sprintf("sandbox {\n  writable_roots = [%q]\n}", r.Dir))+
		"server \"broken\" {\n  command = \"/bin/sh\"\n  args = [\"-c\", \"echo no luck >&2; exit 7\"]\n}\n")
	if out := r.OK("mcp", "call", "srv", "say-it", `{"z": 1, "a": "x"}`).Stdout; !strings.Contains(out, `says {"z":1,"a":"x"}`) {
		t.Errorf("a call:\n%s", out)
	}
	var out struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if err := json.Unmarshal([]byte(r.OK("mcp", "call", "--json", "srv", "say_it").Stdout), &out); err != nil || out.IsError || len(out.Content) == 0 || !strings.Contains(fmt.Sprint(out.Content), "says {}") {
		t.Errorf("--json: %v %+v", err, out)
	}
	for _, tc := range []struct {
		code int
		want string // on either output
		args []string
	}{
		{2, "the arguments are not a JSON object", []string{"srv", "say-it", "[1]"}},
		{2, "the arguments are not a JSON object", []string{"srv", "say-it", "{"}},
		{1, `the MCP server "srv" has no tool "sing"; it has die, hang, hidden, large, say-it, write`, []string{"srv", "sing"}},
		{1, `the MCP server "other" is not configured, or not ready`, []string{"other", "say-it"}},
		{1, `the MCP server "broken" is not ready: the server "broken" does not start`, []string{"broken", "say-it"}},
		{1, "no luck", []string{"broken", "say-it"}},
		{1, "has ended during the call", []string{"srv", "die"}},
		{1, `"isError": true`, []string{"--json", "srv", "die"}},
		{1, "there is nobody to ask", []string{"-c", "approval.policy=on-request", "srv", "write"}},
	} {
		res := r.Gantry(append([]string{"mcp", "call"}, tc.args...)...)
		if res.Code != tc.code || !strings.Contains(res.Stdout+res.Stderr, tc.want) {
			t.Errorf("%q: exit %d, want %d and %q:\n%s%s", tc.args, res.Code, tc.code, tc.want, res.Stdout, res.Stderr)
		}
	}
	hanging := r.Start("mcp", "call", "slow", "hang")
	r.Until("the call runs", func() bool { return exists(r.Dir, "hangs") })
	hanging.Signal(os.Interrupt)
	if res := hanging.Wait(); res.Code != 130 {
		t.Errorf("an interrupted call: exit %d, want 130:\n%s", res.Code, res.Stderr)
	}
	for answer, want := range map[string]string{"y\n": "read-only file system", "n\n": "rejected by user"} {
		run := r.Terminal("mcp", "call", "-c", "approval.policy=on-request", "srv", "write", `{"text": "buy milk"}`)
		run.Sees("answer: ")
		run.Type(answer)
		if res := run.Wait(); !strings.Contains(res.Stdout, want) || !strings.Contains(res.Stdout, `asks "srv" for: "write"`) || !strings.Contains(res.Stdout, `arguments: {"text": "buy milk"}`) || (res.Code == 0) != (answer == "y\n") {
			t.Errorf("%q: exit %d, no %q:\n%s", answer, res.Code, want, res.Stdout)
		}
	}
	r.NothingLeft()
}

// The servers of another program's file are imported, disabled and without its secrets, and work once they are enabled.
func TestMCPImport(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__srv", "say_it", "")+finished)
	addMCP(t, r, "")
	mcpServer(t, "srv", r.Dir, "")
	program := filepath.Join(filepath.Dir(r.Dir), "mcp-server")
	file := filepath.Join(r.Dir, ".mcp.json")
	r.Write(file, fmt.Sprintf(`{"mcpServers": {"srv": {"command": %q, "args": [%q, "srv"], "env": {%q: "1", "SOME_TOKEN": "ghp_0123456789012345678901", "MINE": "${MINE}"}}, "odd": {"args": []}, "port": {"url": "https://a.test", "oauth": {"callbackPort": 99999999}}}}`, program, r.Dir, mcpMode))
	out := r.OK("mcp", "import", "--yes", ".mcp.json").Stdout
	for _, want := range []string{"srv     mcpServers.srv", "added, disabled: look at it", "gantry secret set srv-some-token", "mcpServers.odd", "not added: it has neither a command nor a url", "not added: callback_port must be a port"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(r.Home, "gantry.hcl"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	config := read()
	for _, want := range []string{`MINE = env("MINE", "")`, "enabled = false"} {
		if text := strings.Join(strings.Fields(config), " "); !strings.Contains(text, want) {
			t.Errorf("no %q in the configuration:\n%s", want, config)
		}
	}
	if strings.Contains(config, "ghp_") {
		t.Errorf("the configuration has the secret:\n%s", config)
	}
	if out := r.OK("mcp", "import", ".mcp.json").Stdout; !strings.Contains(out, "unchanged: there is a server of this name already") {
		t.Errorf("a second time:\n%s", out)
	}
	if after := read(); after != config {
		t.Errorf("the second import has changed the configuration:\n%s", after)
	}
	if res := r.Gantry("mcp", "import", "none.json"); res.Code != 2 || !strings.Contains(res.Stderr, `can't read FILE "none.json": no such file or directory`) {
		t.Errorf("a missing file: exit %d\n%s", res.Code, res.Stderr)
	}
	if !strings.Contains(config, "enabled = false") {
		t.Fatal(config)
	}
	r.Write(filepath.Join(r.Home, "gantry.hcl"), strings.Replace(config, "enabled = false", "enabled = true", 1))
	r.OK("plugin", "lock", "--yes", "mcp")
	r.OK("exec", "-c", "approval.policy=never", "go")
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"says {}"}})
	r.NothingLeft()
}

// notes is the value of mcpMode for a server that reads files of a folder. It has another tool once a file "other" is in the folder.
const notes = "notes"

func serveNotes() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	dir := os.Args[1]
	read := func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Path string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(dir, filepath.Base(in.Path)))
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}, nil
	}
	names := []string{"read_text_file"}
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		names = append(names, "read_media_file")
	}
	for _, name := range names {
		s.AddTool(&mcp.Tool{Name: name, Description: "Reads a file.", InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, read)
	}
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	return 0
}

// `gantry mcp get` shows what the block of a server sets, but no values of variables, and its whole message.
func TestMCPGet(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	long := strings.Repeat("x", 300)
	addMCP(t, r, fmt.Sprintf("server \"srv\" {\n  command = \"/bin/sh\"\n  args = [\"-c\", \"echo %s end >&2; exit 7\"]\n  cwd = %q\n  env = { B_TOKEN = \"hush-hush\", A = \"1\" }\n  pin = true\n"+
		"  sandbox {\n    network = [\"api.srv.test\"]\n    writable_roots = [%q]\n  }\n  tool \"one\" { approval = \"prompt\" }\n  tool \"two\" { pin = false }\n}\n", long, r.Dir, r.Dir)+
		"server \"bare\" {\n  command = \"true\"\n}\nserver \"off\" {\n  command = \"cat\"\n  enabled = false\n}\n")
	out := r.OK("mcp", "get", "srv").Stdout
	rows := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, " ")
		rows[name] = strings.TrimSpace(value)
	}
	for name, want := range map[string]string{
		"env": "A, B_TOKEN", "cwd": r.Dir, "sandbox": "network: api.srv.test; writes in " + r.Dir, "pin": "true", "tool_settings": "one: approval prompt; two: pin false",
	} {
		if rows[name] != want {
			t.Errorf("%s is %q, want %q", name, rows[name], want)
		}
	}
	if !strings.HasSuffix(rows["message"], long+" end") || strings.Contains(out, "hush") {
		t.Errorf("get:\n%s", out)
	}
	for name, want := range map[string]string{"bare": "sandbox          no network; writes nothing", "off": "sandbox          unknown: "} {
		if out := r.OK("mcp", "get", name).Stdout; !strings.Contains(out, want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
	r.NothingLeft()
}

// After a reload, the old process of the plugin and its server end with their calls, not half a minute later.
func TestMCPReload(t *testing.T) {
	t.Parallel()
	r := boxed(t, mcpCall("c1", "mcp__srv", "say_it", "")+
		"[[step]]\ndo = [{ call = \"exec_command\", id = \"c2\", args = { cmd = \"touch waits; until [ -e go-on ]; do sleep 0.05; done\", yield_time_ms = 30000 } }]\n"+mcpCall("c3", "mcp__srv", "say_it", "")+finished)
	addMCP(t, r, mcpServer(t, "srv", r.Dir, ""))
	session := r.Start("exec", "go")
	r.Until("the session waits", func() bool { return exists(r.Dir, "waits") })
	var old []int
	for _, program := range []string{"gantry-tool-mcp", "mcp-server"} {
		pids := rig.Processes(t, filepath.Dir(r.Dir), program)
		pids = append(pids, rig.Processes(t, r.Home, program)...)
		if len(pids) == 0 {
			t.Fatalf("there is no %s", program)
		}
		old = append(old, pids...)
	}
	r.OK("plugin", "reload", "mcp")
	began := time.Now()
	r.Until("the old processes have ended", func() bool {
		return !slices.ContainsFunc(old, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the old processes have lived for %v", took)
	} else {
		t.Logf("the old processes have lived for %v", took)
	}
	r.Write(filepath.Join(r.Dir, "go-on"), "")
	if res := session.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	wantOutputs(t, r.Last().Outputs(), map[string][]string{"c1": {"says {}"}, "c3": {"says {}"}})
	r.NothingLeft()
}

// The commands of the walk-through in the guide do what it says, in its order.
func TestMCPWalkThrough(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guides/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## A walk-through\n")
	section, _, _ = strings.Cut(section, "\n## ")
	r := boxed(t, finished)
	addMCP(t, r, "")
	mcpServer(t, "files", r.Dir, "")
	w := authtest.New(t) // stands for the server with an address
	config := filepath.Join(r.Home, "gantry.hcl")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Write(config, strings.Replace(string(b), `source = "builtin/mcp"`, fmt.Sprintf("source = \"builtin/mcp\"\n  permissions {\n    network = [%q]\n  }", strings.TrimPrefix(w.Auth.URL, "http://")), 1))
	folder := filepath.Join(r.Dir, "notes")
	r.Write(filepath.Join(folder, "todo.md"), "water the plants")
	r.Write(filepath.Join(r.Dir, ".mcp.json"), `{"mcpServers": {"web": {"type": "http", "url": "https://mcp.example.com/mcp"}}}`)
	bin := filepath.Join(filepath.Dir(r.Dir), "bin")
	r.Write(filepath.Join(bin, "npx"), fmt.Sprintf("#!/bin/sh\nshift 2\n%s=%s exec %s \"$@\" files\n", mcpMode, notes, filepath.Join(filepath.Dir(r.Dir), "mcp-server")))
	if err := os.Chmod(filepath.Join(bin, "npx"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	steps := []struct{ answers, want string }{ // of the commands in their order
		{"y", `the server "files" works; its tools: read_text_file`},
		{"", "mcp__files.read_text_file"},
		{"", "water the plants"},
		{"y", "needs a login"},
		{"login", `logged in to the server "linear"`},
		{"", "mcp__linear.read"},
		{"accept", "accepted read_media_file"},
		{"y", `removed the server "files"`},
		{"y", "added, disabled"},
	}
	i := 0
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "gantry mcp ") || strings.Contains(line, "`") {
			continue
		}
		if i == len(steps) {
			t.Fatalf("the test does not know %q", line)
		}
		command := strings.ReplaceAll(strings.TrimSpace(line), "https://mcp.linear.app", w.API.URL)
		split := exec.Command("sh", "-c", `set -- `+command+`; for a; do printf '%s\n' "$a"; done`)
		split.Env = []string{"HOME=" + r.Dir}
		words, err := split.Output()
		if err != nil {
			t.Fatal(err)
		}
		step := steps[i]
		if step.answers == "login" {
			if out := browse(t, r, "linear"); !strings.Contains(out, step.want) || line != "gantry mcp login linear\n" {
				t.Errorf("%s%s", line, out)
			}
			i++
			continue
		}
		if step.answers == "accept" { // after what the text before it says
			file := filepath.Join(r.Home, "gantry.hcl")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r.Write(file, strings.Replace(string(b), `server "files" {`, "server \"files\" {\n      pin = true", 1))
			if out := r.OK("mcp", "tools", "files").Stdout; !strings.Contains(out, "accepted") {
				t.Errorf("after it is pinned:\n%s", out)
			}
			r.Write(filepath.Join(folder, "other"), "")
		}
		run := r.Terminal(strings.Split(strings.TrimSpace(string(words)), "\n")[1:]...)
		if step.answers != "" {
			run.Sees(map[bool]string{true: "[y/N] ", false: "answer: "}[step.answers == "y"])
			run.Type(step.answers + "\n")
		}
		if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, step.want) {
			t.Fatalf("%sexit %d, no %q:\n%s", line, res.Code, step.want, res.Stdout)
		}
		i++
	}
	if i != len(steps) {
		t.Errorf("the guide has %d of %d commands", i, len(steps))
	}
	r.NothingLeft()
}

// A command of another plugin than gantry's own can't have a process accepted that its user has not looked at.
func TestCommandsThatContinue(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addServers(t, r, server("early", "echo early", ""))
	res := r.Gantry("servers", "grow", "--yes")
	if res.Code == 0 || !strings.Contains(res.Stdout, "added") || !strings.Contains(res.Stderr, `process "server.late"`) || !strings.Contains(res.Stderr, "has not been accepted") || strings.Contains(res.Stdout, "grown") {
		t.Errorf("exit %d:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	r.OK("plugin", "lock", "--yes", "servers")
	if out := r.OK("servers", "late").Stdout; !strings.Contains(out, "grown") {
		t.Errorf("once it is accepted:\n%s", out)
	}
	r.NothingLeft()
}

// --yes confirms the command that the user names, not one with which a plugin that is not part of gantry goes on.
func TestYesConfirmsOneCommand(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addServers(t, r, server("early", "echo early", ""))
	res := r.Gantry("servers", "lure", "--yes")
	if res.Code == 0 || !strings.Contains(res.Stdout, "harmless") || strings.Contains(res.Stdout, "spilled") || !strings.Contains(res.Stderr, `the command "spill" of plugin "servers" has side effects`) {
		t.Errorf("exit %d:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	if out := r.OK("servers", "spill", "--yes").Stdout; !strings.Contains(out, "spilled") {
		t.Errorf("the command itself:\n%s", out)
	}
	r.NothingLeft()
}

// For a server with an address, `gantry mcp add` says whether it needs a login.
func TestMCPAddSaysThatALoginIsNeeded(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(web.Close)
	r := boxed(t, finished)
	addMCP(t, r, "")
	if out := r.OK("mcp", "add", "--yes", "web", "--url", web.URL).Stdout; !strings.Contains(out, "needs a login") || !strings.Contains(out, "gantry mcp login web") {
		t.Errorf("add:\n%s", out)
	}
	if res := r.Gantry("mcp", "add", "--yes", "gone", "--url", "http://127.0.0.1:1/mcp"); res.Code == 0 || !strings.Contains(res.Stdout, `added the server "gone"`) {
		t.Errorf("an address without a server: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	r.NothingLeft()
}

// A server whose variable or secret is missing fails alone: the others work, and it can be removed.
func TestMCPMissingValuesFailOneServer(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addMCP(t, r, mcpServer(t, "good", r.Dir, "")+
		"server \"tk\" {\n url = \"http://127.0.0.1:9/mcp\"\n bearer_token = env(\"NC_TOKEN\")\n}\n"+
		"server \"off\" {\n enabled = false\n url = \"http://127.0.0.1:9/mcp\"\n headers = { X = secret(\"nc-none\") }\n}\n"+
		strings.NewReplacer("required = true", "", "env = {", "env = { NC_OTHER = env(\"NC_OTHER\"),").Replace(mcpServer(t, "needs", r.Dir, "")))
	var list struct {
		Servers []struct{ Name, State, Message string }
	}
	if err := json.Unmarshal([]byte(r.OK("mcp", "list", "--json").Stdout), &list); err != nil || len(list.Servers) != 4 {
		t.Fatalf("%v %+v", err, list)
	}
	want := map[string][2]string{
		"good": {"ready", ""}, "off": {"disabled", ""},
		"tk":    {"failed", `environment variable "NC_TOKEN" is not set`},
		"needs": {"failed", `environment variable "NC_OTHER" is not set`},
	}
	for _, s := range list.Servers {
		if w := want[s.Name]; s.State != w[0] || !strings.Contains(s.Message, w[1]) || w[1] != "" && (!strings.Contains(s.Message, "gantry.hcl:") || !strings.Contains(s.Message, "where gantry is started")) {
			t.Errorf("%s: %s: %s", s.Name, s.State, s.Message)
		}
	}
	if out := r.OK("mcp", "call", "good", "say-it").Stdout; !strings.Contains(out, "says {}") {
		t.Errorf("a call of another server:\n%s", out)
	}
	if out := r.OK("mcp", "get", "tk").Stdout; !strings.Contains(out, "NC_TOKEN") {
		t.Errorf("get:\n%s", out)
	}
	for _, name := range []string{"tk", "off", "needs"} {
		r.OK("mcp", "remove", "--yes", name)
	}
	r.NothingLeft()
}

// The list of no servers is a sentence, the help is readable, and a server of the project's configuration is removed from there.
func TestMCPCommandsAreReadable(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addMCP(t, r, "")
	if out := r.OK("mcp", "list").Stdout; out != "no servers\n" {
		t.Errorf("an empty list: %q", out)
	}
	if out := r.OK("mcp", "list", "--json").Stdout; !strings.Contains(out, `"servers": []`) {
		t.Errorf("an empty list as JSON: %q", out)
	}
	if out := r.OK("mcp", "add", "--help").Stdout; !strings.Contains(out, "env:VARIABLE for a variable of gantry, as NAME=VALUE (can be repeated)") {
		t.Errorf("the help:\n%s", out)
	}
	file := filepath.Join(r.Dir, ".gantry", "gantry.hcl")
	ignored := "the project's configuration is not trusted and was ignored"
	r.Write(file, "plugin \"mcp\" {\n  config {\n    server \"theirs\" {\n      enabled = false\n      command = \"cat\"\n    }\n  }\n}\n")
	if out := r.OK("mcp", "add", "--yes", "--no-try", "mine", "--url", "https://mine.test").Stderr; strings.Count(out, ignored) != 1 {
		t.Errorf("the warning about the project is not there once:\n%s", out)
	}
	r.OK("trust", "--yes")
	if res := r.Gantry("mcp", "remove", "--yes", "theirs"); res.Code == 0 || !strings.Contains(res.Stderr, "there is no such block: server \"theirs\" in ") || !strings.Contains(res.Stderr, "Next: add --project") {
		t.Errorf("remove: exit %d\n%s", res.Code, res.Stderr)
	}
	r.OK("mcp", "remove", "--yes", "--project", "theirs")
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "theirs") {
		t.Errorf("%v\n%s", err, b)
	}
}
