package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"encoding/json"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const demoPrompt = "The tests of this project fail. Find the bug, fix it, prove it."

// workshop is a copy of the demo project and the two tools that the demo needs, in their simplest form.
type workshop struct {
	t   *testing.T
	dir string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{t: t, dir: t.TempDir()}
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join("..", "..", "..", "docs", "examples", "demo"))); err != nil {
		t.Fatal(err)
	}
	w.run("git init -q . && git add -A && git -c user.name=demo -c user.email=demo@example.com commit -qm start")
	return w
}

func (w *workshop) run(cmd string) string {
	c := exec.Command("sh", "-c", cmd)
	c.Dir = w.dir
	out, err := c.CombinedOutput()
	head := "Wall time: 0.1000 seconds\nProcess exited with code 0\nOutput:\n"
	if err != nil {
		head = "Wall time: 0.1000 seconds\nProcess exited with code 1\nOutput:\n"
	}
	return head + string(out)
}

func (w *workshop) call(c *llm.ToolCall) (string, bool) {
	switch c.Name {
	case "exec_command":
		var args struct {
			Cmd string `json:"cmd"`
		}
		if err := json.Unmarshal([]byte(c.Input), &args); err != nil {
			w.t.Fatalf("arguments %s: %v", c.Input, err)
		}
		return w.run(args.Cmd), true
	case "apply_patch":
		return w.patch(c.Input)
	}
	return "unsupported call: " + c.Name, false
}

// patch applies one replaced line, which is all the demo asks for.
func (w *workshop) patch(text string) (string, bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 6 || lines[0] != "*** Begin Patch" || lines[2] != "@@" || lines[5] != "*** End Patch" {
		w.t.Fatalf("patch:\n%s", text)
	}
	name := filepath.Join(w.dir, strings.TrimPrefix(lines[1], "*** Update File: "))
	b, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	before, after := lines[3][1:], lines[4][1:]
	if !strings.Contains(string(b), "\n"+before+"\n") {
		return "apply_patch verification failed: Failed to find expected lines", false
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(b), before, after, 1)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM lib/till.awk\n", true
}

// talk runs a turn against the demo script and returns the last text and the commands.
func talk(t *testing.T, tool func(*llm.ToolCall) (string, bool), tools []string, prompt string) (string, []string) {
	t.Helper()
	p, err := script.Load("demo", demo)
	if err != nil {
		t.Fatal(err)
	}
	req := user(prompt)
	for _, name := range tools {
		req.Tools = append(req.Tools, llm.Tool{Name: name})
	}
	var calls []string
	for range 10 {
		// Each request meets a new process: nothing is known but the conversation.
		a, err := p.Play(script.Input{Request: req})
		if err != nil {
			t.Fatal(err)
		}
		var f llm.Fold
		var check llm.Checker
		for _, action := range a.Actions {
			if e, ok := action.(script.Emit); ok {
				if err := check.Check(e.Event); err != nil {
					t.Fatal(err)
				}
				f.Add(e.Event)
			}
		}
		for _, part := range f.Message().Parts { // a message per block, as the host keeps them
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: llm.Parts{part}})
		}
		if len(f.Calls()) == 0 {
			return f.Message().Text(), calls
		}
		for _, c := range f.Calls() {
			calls = append(calls, c.Input)
			out, ok := tool(c)
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleTool, Parts: llm.Parts{
				&llm.ToolResult{ID: c.ID, Name: c.Name, Content: llm.Parts{&llm.Text{Text: out}}, IsError: !ok},
			}})
		}
	}
	t.Fatalf("the demo does not end:\n%s", strings.Join(script.Lines(req), "\n"))
	return "", nil
}

func TestDemoRepairsTheProject(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "awk", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the demo needs %s: %v", tool, err)
		}
	}
	w := newWorkshop(t)
	if out := w.run("sh tests/run.sh"); !strings.Contains(out, "code 1") || !strings.Contains(out, "5 of 6 tests passed") {
		t.Fatalf("the project must have exactly one failing test:\n%s", out)
	}
	text, calls := talk(t, w.call, []string{"exec_command", "apply_patch"}, demoPrompt)
	for _, want := range []string{
		"5 of 6 tests passed", "not ok 2 - at-the-limit", "wanted `to pay   90.00`, got `to pay   100.00`",
		"line 24 of `lib/till.awk`, `if (sum > limit) {`", "`if (sum >= limit) {`", "6 of 6 tests passed", "`ok 2 - at-the-limit`",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if len(calls) != 5 {
		t.Errorf("calls:\n%s", strings.Join(calls, "\n"))
	}
	if out := w.run("sh tests/run.sh"); !strings.Contains(out, "code 0") {
		t.Errorf("the tests still fail:\n%s", out)
	}
	// The same again, on what is now whole.
	if text, _ := talk(t, w.call, []string{"exec_command", "apply_patch"}, demoPrompt); !strings.Contains(text, "`6 of 6 tests passed`. Nothing fails") {
		t.Errorf("on a whole project: %s", text)
	}
}

func TestDemoIsHonest(t *testing.T) {
	t.Parallel()
	both := []string{"exec_command", "apply_patch"}
	say := func(out string, ok bool) func(*llm.ToolCall) (string, bool) {
		return func(*llm.ToolCall) (string, bool) { return out, ok }
	}
	for _, tc := range []struct {
		name   string
		prompt string
		tools  []string
		tool   func(*llm.ToolCall) (string, bool)
		want   string
	}{
		{"anything else", "What is the capital of France?", both, nil, "I am gantry's offline demo model: a script, not a language model."},
		{"no tools", demoPrompt, []string{"weather"}, nil, "Tools on offer: weather."},
		{"another project", demoPrompt, both, say("Output:\nsh: 0: cannot open tests/run.sh", true), "    sh: 0: cannot open tests/run.sh"},
		{"refused", demoPrompt, both, say("rejected by user", false), "    rejected by user"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := talk(t, tc.tool, tc.tools, tc.prompt); !strings.Contains(got, tc.want) {
				t.Errorf("%s", got)
			}
		})
	}
}

// What a start costs beyond the process itself: the demo script is read and compiled.
func BenchmarkLoadDemo(b *testing.B) {
	for b.Loop() {
		if _, err := script.Load("demo", demo); err != nil {
			b.Fatal(err)
		}
	}
}
