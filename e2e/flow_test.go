// Package e2e_test runs the real binaries against a model that follows a script, and looks at what a user and the model
// would see.
//
// It owns: the stories of whole runs. It must not know: anything inside gantry; the rig does the running (e2e/rig).
//
// Start with [TestTaskWithCommandsAndAPatch].
package e2e_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// say is a script whose model answers one text.
const say = `
[[step]]
times = -1
do = [{ text = "done" }]
`

func TestTaskWithCommandsAndAPatch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [
  { call = "exec_command", id = "c1", args = { cmd = "printf 'a\nb\n' > f; echo made" } },
]
[[step]]
do = [{ call = "apply_patch", id = "c2", freeform = '''
*** Begin Patch
*** Update File: f
@@
-b
+B
*** End Patch
''' }]
[[step]]
do = [{ call = "exec_command", id = "c3", args = { cmd = "cat f; exit 3" } }]
[[step]]
do = [{ text = "all done" }]
`)
	res := r.OK("exec", "--json", "do it")
	if got := r.Read("f"); got != "a\nB\n" {
		t.Errorf("f = %q", got)
	}
	var kinds []string
	for line := range strings.Lines(res.Stdout) {
		var e struct {
			Type string `json:"type"`
			Item struct {
				ID, Type, Status string
				ExitCode         *int `json:"exit_code"`
			} `json:"item"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		kind := e.Type
		if e.Item.Type != "" {
			kind += " " + e.Item.ID + " " + e.Item.Type + " " + e.Item.Status
		}
		if e.Item.ExitCode != nil {
			kind += " " + strconv.Itoa(*e.Item.ExitCode)
		}
		kinds = append(kinds, strings.TrimSpace(kind))
	}
	want := []string{
		"thread.started", "turn.started",
		"item.started item_0 command_execution in_progress", "item.completed item_0 command_execution completed 0",
		"item.started item_1 file_change in_progress", "item.completed item_1 file_change completed",
		"item.started item_2 command_execution in_progress", "item.completed item_2 command_execution failed 3",
		"item.completed item_3 agent_message", "turn.completed",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(kinds, "\n"), strings.Join(want, "\n"))
	}
	out := r.Requests()[3].Outputs()
	if !strings.HasPrefix(out["c1"], "Chunk ID: ") || !strings.Contains(out["c1"], "\nProcess exited with code 0\nOriginal token count: 2\nOutput:\nmade\n") {
		t.Errorf("output of the command:\n%s", out["c1"])
	}
	if !regexp.MustCompile(`^Exit code: 0\nWall time: [0-9.]+ seconds\nOutput:\nSuccess. Updated the following files:\nM f\n$`).MatchString(out["c2"]) {
		t.Errorf("output of the patch:\n%s", out["c2"])
	}
	if !strings.Contains(out["c3"], "\nProcess exited with code 3\n") {
		t.Errorf("output of the last command:\n%s", out["c3"])
	}
}

func TestOutputIsCutOnce(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 30000", max_output_tokens = 50 } },
      { call = "exec_command", id = "c2", args = { cmd = "seq 1 30000" } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Config("history {\n  tool_output_tokens = 100\n}\n")
	r.OK("exec", "go")
	out := r.Requests()[1].Outputs()
	if !strings.Contains(out["c1"], "…42174 tokens truncated…") {
		t.Errorf("asked for 50 tokens:\n%s", out["c1"])
	}
	if !strings.Contains(out["c2"], "…42159 tokens truncated…") || len([]rune(out["c2"])) != 473 {
		t.Errorf("%d characters, want 473 with the marker of 42159:\n%s", len([]rune(out["c2"])), out["c2"])
	}
}

// A plugin that is killed in the middle of a call costs that call; the next one works.
func TestKilledPluginCostsItsCall(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch started; sleep 600", yield_time_ms = 30000 } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "echo still here" } }]
[[step]]
do = [{ text = "done" }]
`)
	run := r.Start("exec", "go")
	r.Until("the command runs", func() bool { return r.Read("started") != "" || exists(r.Dir, "started") })
	rig.Kill(t, rig.Processes(t, r.Home, "gantry-tool-shell")...)
	res := run.Wait()
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	out := r.Requests()[2].Outputs()
	if !strings.Contains(out["c1"], "crashed during the call") {
		t.Errorf("output of the killed call: %s", out["c1"])
	}
	if !strings.Contains(out["c2"], "still here") {
		t.Errorf("output of the next call: %s", out["c2"])
	}
}

// kill -9 of the host in the middle of a call: everything it started ends; resume tells the model that the call's outcome
// is unknown, and runs nothing again.
func TestKilledHostIsResumed(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo once >> ran; setsid sleep 654321 & sleep 600", yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "resumed" }]
`)
	run := r.Start("exec", "go")
	r.Until("the command runs", func() bool { return r.Read("ran") != "" })
	r.Until("the detached command runs", func() bool { return len(rig.Processes(t, r.Dir, "654321")) > 0 })
	started := rig.Descendants(t, run.Cmd.Process.Pid)
	if len(started) < 5 {
		t.Errorf("processes of the host: %v, want two plugins, a launcher and the commands at least", started)
	}
	run.Signal(syscall.SIGKILL)
	r.Until("all that the host started has ended", func() bool { return len(rig.Alive(started)) == 0 })
	run.Wait()
	res := r.OK("resume", "--last", "go on")
	if !strings.Contains(res.Stdout, "resumed") {
		t.Errorf("stdout: %s", res.Stdout)
	}
	requests := r.Requests()
	last := requests[len(requests)-1]
	if out := last.Outputs()["c1"]; !strings.Contains(out, "outcome unknown") {
		t.Errorf("the model reads of the call: %q", out)
	}
	if got := r.Read("ran"); got != "once\n" {
		t.Errorf("the command ran again: %q", got)
	}
	var texts []string
	for _, m := range last.Request.Messages {
		if m.Role == llm.RoleUser {
			texts = append(texts, m.Text())
		}
	}
	if !slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "<turn_aborted>") }) {
		t.Errorf("no marker of the end of the turn among %q", texts)
	}
}

func TestCtrlCInterruptsOnceAndLeavesTwice(t *testing.T) {
	t.Parallel()
	script := `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "touch started; sleep 600", yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "second turn" }]
`
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, script)
		run := r.Start("exec", "--json", "go")
		r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
		run.Signal(os.Interrupt)
		res := run.Wait()
		if res.Code != 1 || strings.Contains(res.Stdout, "turn.completed") {
			t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
		}
		r.OK("resume", "--last", "again")
		requests := r.Requests()
		if out := requests[len(requests)-1].Outputs()["c1"]; !strings.HasPrefix(out, "Wall time: ") || !strings.HasSuffix(out, "seconds\naborted by user") {
			t.Errorf("the model reads of the call: %q", out)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, "[[step]]\ndo = [{ text = \"never\" }]\ndelay_ms = 600000\n")
		run := r.Start("exec", "go")
		r.Until("the model was asked", func() bool { return exists(filepath.Dir(r.Log), filepath.Base(r.Log)) })
		run.Signal(os.Interrupt)
		run.Signal(os.Interrupt)
		if res := run.Wait(); res.Code != 1 {
			t.Errorf("exit %d", res.Code)
		}
		if left := rig.Processes(t, r.Home, "gantry-"); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
	})
}

func TestStartedCallsRunBesideTheStreamAndAnswerInOrder(t *testing.T) {
	t.Parallel()
	// Each call waits for the other one's file, so both must run at once.
	r := rig.New(t, `
[[step]]
do = [
  { call = "exec_command", id = "c1", args = { cmd = "touch a; while [ ! -e b ]; do sleep 0.01; done; echo A" } },
  { call = "exec_command", id = "c2", args = { cmd = "touch b; while [ ! -e a ]; do sleep 0.01; done; echo B" } },
]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	var order []string
	for _, m := range r.Requests()[1].Request.Messages {
		for _, p := range m.Parts {
			if res, ok := p.(*llm.ToolResult); ok {
				order = append(order, res.ID)
			}
		}
	}
	if !slices.Equal(order, []string{"c1", "c2"}) {
		t.Errorf("outputs in the order %v", order)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "sleep 765432 & (setsid sleep 765432 &) ; echo bg" } }]
[[step]]
do = [{ text = "done" }]
`)
	r.OK("exec", "go")
	if left := rig.Processes(t, r.Dir, "765432"); len(left) > 0 {
		t.Errorf("commands left: %v", left)
	}
	if left := rig.Processes(t, r.Home, "gantry-"); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	sockets, err := filepath.Glob(filepath.Join(r.Home, "run", "*.[sp]*")) // of threads and of processes
	if err != nil || len(sockets) > 0 {
		t.Errorf("sockets left: %v %v", sockets, err)
	}
}

func TestProviderThatDiesIsAskedAgain(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ text = "partial" }]
break = { how = "kill" }
[[step]]
do = [{ text = "whole" }]
`)
	res := r.OK("exec", "--json", "go")
	if !strings.Contains(res.Stdout, "Reconnecting... 1/5") || !strings.Contains(res.Stdout, `"text":"whole"`) {
		t.Errorf("stdout:\n%s", res.Stdout)
	}
}

// Whoever reads the output may leave: the run ends, closes its turn, and leaves nothing behind.
func TestReaderOfTheOutputLeaves(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 2000; touch started; while [ ! -e left ]; do sleep 0.01; done; seq 1 2000; sleep 600", login = false, yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "done" }]
`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "gantry"), "exec", "--events", "go")
	cmd.Dir, cmd.Env, cmd.Stdout = r.Dir, r.Env, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	read.Close()
	r.Write("left", "")
	if err := cmd.Wait(); err == nil {
		t.Error("the run ended as if it had been read")
	}
	r.NothingLeft()
	var ended struct{ Status string }
	for _, e := range rig.Events(t, r.OK("threads", "show", "--events", threads(t, r)[0].ID).Stdout) {
		if e.Kind == "turn.ended" {
			e.Into(t, &ended)
		}
	}
	if ended.Status != "interrupted" {
		t.Errorf("the turn ended as %q, want interrupted", ended.Status)
	}
}

func TestBadConfigurationNamesItsPlace(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.Config("approvel {\n}\n")
	res := r.Gantry("exec", "go")
	if res.Code != 1 || !strings.Contains(res.Stderr, "gantry.hcl:") || !strings.Contains(res.Stderr, "approval") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// What can't be a task or an image is refused before there is a thread.
func TestRefusedBeforeTheThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.Write("not.png", "hello")
	for _, args := range [][]string{
		{"exec", "-i", "none.png", "look"}, {"exec", "-i", ".", "look"}, {"exec", "-i", "not.png", "look"},
		{"exec", " \n"}, {"exec", ""}, {"exec"}, {"exec", "-"}, {"exec", "caf\xe9"},
	} {
		res := r.Gantry(args...)
		if res.Code != 1 || !strings.Contains(res.Stderr, "Next: ") || res.Stdout != "" {
			t.Errorf("gantry %q: exit %d:\n%s%s", args, res.Code, res.Stdout, res.Stderr)
		}
	}
	if all := threads(t, r); len(all) > 0 {
		t.Errorf("threads are left: %+v", all)
	}
	// A thread that is there does not get such a task either.
	r.OK("exec", "go")
	id := threads(t, r)[0].ID
	for _, args := range [][]string{{"resume", "--last", " "}, {"resume", id, "caf\xe9"}, {"attach", id, " "}, {"attach", id, ""}} {
		if res := r.Gantry(args...); res.Code == 0 || !strings.Contains(res.Stderr, "the task is") {
			t.Errorf("gantry %q: exit %d:\n%s", args, res.Code, res.Stderr)
		}
	}
	if all := threads(t, r); len(all) != 1 || all[0].Turns != 1 {
		t.Errorf("threads: %+v", all)
	}
}

// A turn asks the model as often as the configuration allows; what comes after that is a new turn's.
func TestLimitOfSamplings(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = 4
do = [{ call = "exec_command", args = { cmd = "echo once >> ran", login = false } }]
[[step]]
do = [{ text = "done" }]
`)
	r.Config("limits {\n  samplings = 3\n}\n")
	res := r.Gantry("exec", "go")
	if res.Code != 1 || !strings.Contains(res.Stderr, "limit of 3 requests to the model") || !strings.Contains(res.Stderr, "limits.samplings") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if n, ran := len(r.Requests()), r.Read("ran"); n != 3 || ran != strings.Repeat("once\n", 3) {
		t.Errorf("the model was asked %d times and ran\n%s", n, ran)
	}
	if res := r.OK("resume", "--last", "go on"); !strings.Contains(res.Stdout, "done") {
		t.Errorf("the thread did not go on:\n%s", res.Stdout)
	}
}
