package e2e_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// line is a line of --json.
type line struct {
	Type   string         `json:"type"`
	Thread string         `json:"thread_id"`
	Item   map[string]any `json:"item"`
	Usage  struct {
		Input int `json:"input_tokens"`
	} `json:"usage"`
	Turn struct {
		Input int `json:"input_tokens"`
	} `json:"turn_usage"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
	fields []string
}

// kind says what a line is: its event, its item, and how that is.
func (l line) kind() string {
	out := l.Type
	for _, name := range []string{"type", "status"} {
		if v, ok := l.Item[name].(string); ok {
			out += " " + v
		}
	}
	return out
}

func lines(t *testing.T, stdout string) (out []line) {
	t.Helper()
	for text := range strings.Lines(stdout) {
		var l line
		var all map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		l.fields = slices.Sorted(maps.Keys(all))
		if l.Item != nil {
			l.fields = slices.Sorted(maps.Keys(l.Item))
		}
		out = append(out, l)
	}
	return out
}

// kindsOf are the kinds of lines in their order, with the numbers of items.
func kindsOf(all []line) (out []string) {
	for _, l := range all {
		kind := l.kind()
		if id, ok := l.Item["id"].(string); ok {
			kind += " " + id
		}
		out = append(out, kind)
	}
	return out
}

// shapes are the fields that readers of codex's lines expect.
func shapes(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "exec", "shapes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for l := range strings.Lines(string(b)) {
		if kind, fields, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && !strings.HasPrefix(l, "#") {
			out[kind] = strings.Fields(fields)
		}
	}
	return out
}

// beyond are the fields that only gantry has.
var beyond = []string{"turn_usage"}

// checkShapes sees that the lines have the fields that readers expect, and no others but gantry's own.
func checkShapes(t *testing.T, all []line) {
	t.Helper()
	known := shapes(t)
	for _, l := range all {
		want, ok := known[l.kind()]
		if !ok {
			t.Errorf("codex has no line like %q", l.kind())
			continue
		}
		got := slices.DeleteFunc(slices.Clone(l.fields), func(f string) bool { return slices.Contains(beyond, f) })
		if !slices.Equal(got, want) {
			t.Errorf("%s has the fields %v, want %v", l.kind(), got, want)
		}
	}
}

// Everything that a turn can hold, in the order and with the fields of codex's lines.
func TestExecLines(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 100, output = 20 }
do = [
  { reasoning = "I think." },
  { text = "I look first." },
  { call = "exec_command", id = "c1", args = { cmd = "echo one; echo two", login = false } },
]
[[step]]
usage = { input = 110, output = 20 }
do = [
  { call = "exec_command", id = "c2", args = { cmd = "true", login = false } },
]
[[step]]
do = [{ call = "exec_command", id = "c3", args = { cmd = "echo bad >&2; exit 3", login = false } }]
[[step]]
do = [{ call = "apply_patch", id = "c4", freeform = "*** Begin Patch\n*** Add File: new\n+hi\n*** End Patch\n" }]
[[step]]
do = [{ call = "no_such_tool", id = "c5", args = { x = 1 } }]
[[step]]
do = [
  { call = "web_search", id = "s1", args = { type = "search", query = "gantry" }, result = "found" },
  { call = "web_search", id = "s2", args = { type = "open_page", url = "https://example.com/" }, result = "opened" },
  { text = "all done" },
]
`)
	all := lines(t, r.OK("exec", "--json", "go").Stdout)
	checkShapes(t, all)
	want := []string{
		"thread.started", "turn.started", "item.completed reasoning item_0", "item.completed agent_message item_1",
		"item.started command_execution in_progress item_2", "item.completed command_execution completed item_2",
		"item.started command_execution in_progress item_3", "item.completed command_execution completed item_3",
		"item.started command_execution in_progress item_4", "item.completed command_execution failed item_4",
		"item.started file_change in_progress item_5", "item.completed file_change completed item_5",
		"item.started mcp_tool_call in_progress item_6", "item.completed mcp_tool_call failed item_6",
		"item.started web_search item_7", "item.completed web_search item_7",
		"item.started web_search item_8", "item.completed web_search item_8",
		"item.completed agent_message item_9", "turn.completed",
	}
	if got := kindsOf(all); !slices.Equal(got, want) {
		t.Fatalf("lines:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, out := range map[int]string{5: "one\ntwo\n", 7: "", 9: "bad\n"} {
		if got := all[i].Item["aggregated_output"]; got != out {
			t.Errorf("%s: aggregated_output is %q, want %q", want[i], got, out)
		}
	}
	if started := all[4].Item; started["aggregated_output"] != "" || started["exit_code"] != nil {
		t.Errorf("a command that runs: %v", started)
	}
	if a, ok := all[14].Item["action"].(map[string]any); !ok || a["type"] != "search" || all[14].Item["query"] != "gantry" || all[16].Item["query"] != "https://example.com/" {
		t.Errorf("searches: %v, %v", all[14].Item, all[16].Item)
	}
	last := all[len(all)-1]
	if last.Usage.Input < 210 || last.Turn.Input != last.Usage.Input {
		t.Errorf("the first turn's usage: %+v, of the thread %+v", last.Turn, last.Usage)
	}
}

// The sequences that readers of codex's lines know.
func TestExecSequences(t *testing.T) {
	t.Parallel()
	command := func(cmd string) string {
		return "[[step]]\ndo = [{ call = \"exec_command\", id = \"c1\", args = { cmd = \"" + cmd + "\", login = false } }]\n" + say
	}
	for _, tc := range []struct {
		name, script string
		want         []string
	}{
		{"a message", say, []string{"thread.started", "turn.started", "item.completed agent_message item_0", "turn.completed"}},
		{"a command", command("echo hi"), []string{
			"thread.started", "turn.started", "item.started command_execution in_progress item_0", "item.completed command_execution completed item_0",
			"item.completed agent_message item_1", "turn.completed",
		}},
		{"a command that fails", command("exit 3"), []string{
			"thread.started", "turn.started", "item.started command_execution in_progress item_0", "item.completed command_execution failed item_0",
			"item.completed agent_message item_1", "turn.completed",
		}},
	} {
		all := lines(t, rig.New(t, tc.script).OK("exec", "--json", "hi").Stdout)
		checkShapes(t, all)
		if got := kindsOf(all); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Codex refuses to run outside of a repository, in which changes could be undone, unless a flag says so. gantry needs no repository: trust is
// a matter of folders, commands are sandboxed wherever they run, and what the agent's changes replace is backed up.
func TestExecNeedsNoRepository(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	if exists(r.Dir, ".git") {
		t.Fatal("the project is a repository")
	}
	if out := r.OK("exec", "hi").Stdout; out != "done\n" {
		t.Errorf("stdout %q", out)
	}
}

// Usage is the thread's, as codex has it; the turn's stands beside it.
func TestExecUsageOverResumes(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\nusage = { input = 1200, output = 1 }\ndo = [{ text = \"done\" }]\n")
	id := lines(t, r.OK("exec", "--json", "one").Stdout)[0].Thread
	for i, want := range []int{2400, 3600} {
		all := lines(t, r.OK("exec", "--json", "resume", id, "go on").Stdout)
		if last := all[len(all)-1]; all[0].Thread != id || last.Usage.Input != want || last.Turn.Input != 1200 {
			t.Errorf("turn %d of %s: usage %d, of the turn %d; want %d and 1200", i+2, all[0].Thread, last.Usage.Input, last.Turn.Input, want)
		}
	}
}

// What a turn that fails leaves: an error, how it ended, status 1, and no new last message.
func TestExecFails(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\nerror = { code = \"invalid-request\", message = \"no such thing\", next = \"do another\" }\n")
	r.Write("old", "kept")
	for _, name := range []string{"old", "new"} {
		res := r.Gantry("exec", "--json", "-o", name, "go")
		all := lines(t, res.Stdout)
		checkShapes(t, all)
		if got, want := kindsOf(all), []string{"thread.started", "turn.started", "error", "turn.failed"}; res.Code != 1 || !slices.Equal(got, want) {
			t.Errorf("exit %d, lines %v, want %v", res.Code, got, want)
		}
		if m := all[len(all)-1].Error.Message; !strings.Contains(m, "no such thing; next: do another") {
			t.Errorf("message %q", m)
		}
	}
	if r.Read("old") != "kept" || !exists(r.Dir, "new") || r.Read("new") != "" {
		t.Errorf("the files hold %q and %q", r.Read("old"), r.Read("new"))
	}
}

// A stream that breaks is told as codex tells it; what was only begun is no message.
func TestExecBrokenStream(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ text = "half of it", chunk = 4 }]
break = { after_bytes = 8, how = "eof" }
[[step]]
do = [{ text = "whole" }]
`)
	all := lines(t, r.OK("exec", "--json", "go").Stdout)
	checkShapes(t, all)
	want := []string{"thread.started", "turn.started", "error", "item.completed agent_message item_0", "turn.completed"}
	if got := kindsOf(all); !slices.Equal(got, want) || all[3].Item["text"] != "whole" {
		t.Errorf("lines %v, want %v", got, want)
	}
}

// stuck streams a first word and then nothing more.
const stuck = `
[[step]]
do = [{ text = "first word", chunk = 5 }]
break = { after_bytes = 5, how = "hang" }
`

// Ctrl-C ends the turn, SIGTERM the run: with its signal, once everything is cleaned up.
func TestExecSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(sig) {
				t.Skip("the tests run under nohup")
			}
			r := rig.New(t, stuck)
			run := r.Start("exec", "--json", "go")
			r.Until("the model was asked", func() bool { return exists(filepath.Dir(r.Log), filepath.Base(r.Log)) })
			run.Sees("turn.started")
			run.Signal(sig)
			res := run.Wait()
			status := run.Cmd.ProcessState.Sys().(syscall.WaitStatus)
			if sig == syscall.SIGINT && res.Code != 1 || sig != syscall.SIGINT && status.Signal() != sig {
				t.Errorf("it ended with %v", run.Cmd.ProcessState)
			}
			for _, l := range lines(t, res.Stdout) {
				if l.Type == "turn.completed" || l.Type == "turn.failed" || l.Item["type"] == "agent_message" {
					t.Errorf("a line that an interrupted turn must not have: %s", l.kind())
				}
			}
			r.NothingLeft()
		})
	}
}

// What is asked of codex's exec is asked of this one in the same words, as its SDKs do.
func TestExecTakesCodexsCommandLine(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo done > done", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	untrusting(t, r)
	args := []string{
		"exec", "--experimental-json", "--config", "hide_agent_reasoning=true", "--config", `compact_prompt="short"`, "--model", "scripted/scripted",
		"--thread-source", "sdk", "--sandbox", "danger-full-access", "--cd", r.Dir, "--add-dir", r.Home, "--skip-git-repo-check",
		"--config", `model_reasoning_effort="high"`, "--config", "sandbox_workspace_write.network_access=true", "--config", `web_search="disabled"`,
		"--config", `approval_policy="never"`, "--enable", "shiny", "--disable", "other",
	}
	res := piped(t, r, "the task", args...)
	if res.Code != 0 || r.Read("done") != "done\n" || !strings.Contains(res.Stderr, "Warning: gantry has no equivalent of codex's features.shiny") {
		t.Fatalf("exit %d:\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if got := r.Last().Request; got.ReasoningEffort != "high" || got.Model != "scripted" {
		t.Errorf("model %q, effort %q", got.Model, got.ReasoningEffort)
	}
	var source string
	for _, row := range rows(t, r) {
		source, _ = row["source"].(string)
	}
	if source != "sdk" {
		t.Errorf("the thread comes from %q", source)
	}
	id := lines(t, res.Stdout)[0].Thread
	r.Write("dot.png", dot(t))
	again := piped(t, r, "and now", append(args, "resume", id, "--image", filepath.Join(r.Dir, "dot.png")+",dot.png")...)
	if again.Code != 0 || lines(t, again.Stdout)[0].Thread != id {
		t.Fatalf("resumed: exit %d:\n%s\n%s", again.Code, again.Stdout, again.Stderr)
	}
	images := 0
	for _, m := range r.Last().Request.Messages {
		for _, p := range m.Parts {
			if _, ok := p.(*llm.Media); ok {
				images++
			}
		}
	}
	if images != 2 {
		t.Errorf("the model gets %d images, want 2", images)
	}
	// Without the words that allow it, nothing is run.
	os.Remove(filepath.Join(r.Dir, "done"))
	if res := r.Gantry("exec", "--json", "go"); res.Code != 0 || exists(r.Dir, "done") || !strings.Contains(res.Stdout, `"declined"`) {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
}

// untrusting makes the rig's user one who is asked before everything.
func untrusting(t *testing.T, r *rig.Rig) {
	t.Helper()
	path := filepath.Join(r.Home, "gantry.hcl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.Write(path, strings.Replace(string(b), `"never"`, `"untrusted"`, 1))
}

func rows(t *testing.T, r *rig.Rig) (out []map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// What commands may do is said on the command line, and holds over the files.
func TestExecAccess(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = -1
when = { since_user = 0 }
do = [{ call = "exec_command", args = { cmd = "echo x >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	untrusting(t, r)
	for _, c := range []struct{ args, says, ran string }{
		{"-s read-only -c approval.policy=never", "approval never · sandbox read-only", ""},
		{"-s workspace-write -c approval_policy=on-failure", "approval on-request · sandbox workspace-write", ""},
		{"--full-auto", "approval never · sandbox workspace-write", ""},
		{"-c sandbox_mode=danger-full-access", "approval untrusted · sandbox full-access", ""},
		{"--dangerously-bypass-approvals-and-sandbox", "approval never · sandbox full-access", "x\n"},
		{"--yolo", "approval never · sandbox full-access", "x\n"},
	} {
		if err := os.Remove(filepath.Join(r.Dir, "ran")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		res := r.OK(append([]string{"exec", "go"}, strings.Fields(c.args)...)...)
		if !strings.Contains(res.Stderr, c.says) {
			t.Errorf("%s: want %q in\n%s", c.args, c.says, res.Stderr)
		}
		// What workspace-write lets happen here is up to the system.
		if got := r.Read("ran"); got != c.ran && !strings.Contains(c.says, "workspace-write") {
			t.Errorf("%s: ran %q, want %q", c.args, got, c.ran)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"-s open", "there is no sandbox mode"}, {"--add-dir nowhere", "doesn't exist"}, {"-s read-only --yolo", "can't be combined"},
		{"--color purple", "invalid value \"purple\" for --color"}, {"--oss", "PROVIDER/MODEL"}, {"-c approval_policy=always", "there is no approval policy"},
		{"--nope", "unknown flag"}, {"--sandbox", "needs a value"}, {"go there", "unexpected argument"},
	} {
		if res := r.Gantry(append([]string{"exec", "go"}, strings.Fields(c.args)...)...); res.Code != 2 || !strings.Contains(res.Stderr, c.want) || !strings.Contains(res.Stderr, "Next: ") {
			t.Errorf("%s: exit %d, want 2:\n%s", c.args, res.Code, res.Stderr)
		}
	}
}

// A thread is resumed where it was, or anywhere by its id and with --all.
func TestExecResume(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	first := lines(t, r.OK("exec", "--json", "one").Stdout)[0].Thread
	other := t.TempDir()
	if res := r.Gantry("exec", "-C", other, "resume", "--last", "next"); res.Code != 1 || !strings.Contains(res.Stderr, "--all") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	for _, args := range [][]string{
		{"exec", "--json", "resume", "--last", "next"}, {"exec", "resume", "--json", first, "next"},
		{"exec", "resume", "--json", first[:30], "next"}, {"resume", "--json", "--last", "next"},
		{"exec", "-C", other, "resume", "--json", "--last", "--all", "moves"}, {"exec", "-C", other, "resume", "--json", "--last", "stays"},
	} {
		if got := lines(t, r.OK(args...).Stdout)[0].Thread; got != first {
			t.Errorf("%v resumed %s, want %s", args, got, first)
		}
	}
	for _, args := range [][]string{{"exec", "resume", "nobody", "x"}, {"exec", "resume", "0199a213-81c0-7800-8aa1-bbab2a035a53", "x"}} {
		if res := r.Gantry(args...); res.Code != 1 || res.Stdout != "" || !strings.Contains(res.Stderr, "no thread") {
			t.Errorf("%v: exit %d:\n%s%s", args, res.Code, res.Stdout, res.Stderr)
		}
	}
	// It goes on where it was told to work, and with --cd that is elsewhere from then on.
	if res := r.OK("resume", first, "where are you?"); !strings.Contains(res.Stderr, "· "+other) {
		t.Errorf("stderr:\n%s", res.Stderr)
	}
	if n := len(threads(t, r)); n != 0 {
		t.Errorf("%d threads are left in the first folder", n)
	}
}

// exec fork is codex's way to say gantry fork.
func TestExecFork(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	first := lines(t, r.OK("exec", "--json", "one").Stdout)[0].Thread
	made := lines(t, r.OK("exec", "fork", "--json", first).Stdout)
	if got := kindsOf(made); !slices.Equal(got, []string{"thread.started"}) || made[0].Thread == first {
		t.Errorf("a fork without a task: %v %+v", got, made)
	}
	on := lines(t, r.OK("exec", "fork", "--json", first, "two").Stdout)
	if last := on[len(on)-1]; last.Type != "turn.completed" || on[0].Thread == first || on[0].Thread == made[0].Thread {
		t.Errorf("a fork with a task: %v", kindsOf(on))
	}
	if n := len(threads(t, r)); n != 3 {
		t.Errorf("%d threads, want 3", n)
	}
	r.OK("exec", "fork", "--ephemeral", first, "three")
	if res := r.Gantry("exec", "fork", "--ephemeral", first); res.Code != 2 || len(threads(t, r)) != 3 {
		t.Errorf("exit %d, %d threads", res.Code, len(threads(t, r)))
	}
}

// The last message goes where it is wanted, once.
func TestExecLastMessage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.Write("old", "something longer than the message")
	if out := r.OK("exec", "-o", "old", "go").Stdout; out != "done\n" || r.Read("old") != "done" {
		t.Errorf("stdout %q, file %q", out, r.Read("old"))
	}
	for _, where := range []string{"-", "/dev/stdout"} {
		if out := r.OK("exec", "-o", where, "go").Stdout; out != "done\n" {
			t.Errorf("-o %s: stdout %q", where, out)
		}
	}
	if res := r.Gantry("exec", "-o", "-", "--json", "go"); res.Code != 2 || res.Stdout != "" {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if exists(r.Dir, "-") {
		t.Error("there is a file of the name -")
	}
}

// What is piped in belongs to the task; standard input that stays open is waited for, and people are told.
func TestExecStandardInput(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	for in, want := range map[string]string{"ctx\n": "go\n\n<stdin>\nctx\n</stdin>", "": "go"} {
		if res := piped(t, r, in, "exec", "go"); res.Code != 0 {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
		}
		if texts := r.Last().Texts(llm.RoleUser); texts[len(texts)-1] != want {
			t.Errorf("the model reads %q, want %q", texts[len(texts)-1], want)
		}
	}
	for in, want := range map[string]string{"": "no data on standard input", "ab\xffc": "invalid byte at offset 2", "\xff\xfe\x00\x00": "UTF-32"} {
		if res := piped(t, r, in, "exec", "--json"); res.Code != 1 || !strings.Contains(res.Stderr, want) || res.Stdout != "" {
			t.Errorf("%q: exit %d:\n%s", in, res.Code, res.Stderr)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "gantry"), "exec", "go")
	var stderr strings.Builder
	told := make(chan struct{})
	cmd.Dir, cmd.Env, cmd.Stdin = r.Dir, r.Env, read
	cmd.Stderr = &watched{text: "waiting for the end of standard input", seen: told, out: &stderr}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-told
	write.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, stderr.String())
	}
}

// watched closes a channel when a text goes by.
type watched struct {
	text string
	seen chan struct{}
	out  *strings.Builder
	told bool
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	w.out.Write(p)
	if !w.told && strings.Contains(w.out.String(), w.text) {
		w.told = true
		close(w.seen)
	}
	return len(p), nil
}

// Whoever reads the lines may leave.
func TestExecReaderLeaves(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch started; while [ ! -e left ]; do sleep 0.01; done", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "gantry"), "exec", "--json", "go")
	var stderr strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, write, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	read.Close()
	r.Write("left", "")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "write the output") {
		t.Errorf("%v:\n%s", err, stderr.String())
	}
	r.NothingLeft()
}

// Colour is where it is wanted.
func TestExecColour(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	escape := regexp.MustCompile("\x1b\\[")
	for when, want := range map[string]bool{"always": true, "never": false, "auto": false} {
		if got := escape.MatchString(r.OK("exec", "--color", when, "go").Stderr); got != want {
			t.Errorf("--color %s: coloured %v", when, got)
		}
	}
}

// The user's own file can be left out; what the machine and the command line say still holds.
func TestExecIgnoresTheUsersFile(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	if res := r.OK("exec", "--ignore-user-config", "go"); !strings.Contains(res.Stderr, "approval on-request") {
		t.Errorf("stderr:\n%s", res.Stderr)
	}
	if res := r.OK("exec", "--ignore-user-config", "--config", filepath.Join(r.Home, "gantry.hcl"), "go"); !strings.Contains(res.Stderr, "approval never") {
		t.Errorf("stderr:\n%s", res.Stderr)
	}
}
