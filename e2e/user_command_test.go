package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A command of the user's runs beside the turn, asks nobody, and the turn reads of it before its next request.
func TestCommandBesideATurn(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "-c", "approval.policy=on-request", "go")
	res := r.OK("attach", thread, "!echo one > made; echo said; exit 3")
	if !strings.Contains(res.Stderr, "said") || r.Read("made") != "one\n" {
		t.Errorf("it made %q; shown:\n%s", r.Read("made"), res.Stderr)
	}
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stderr, "said") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	users := r.Last().Texts(llm.RoleUser)
	got := users[len(users)-1]
	for _, want := range []string{
		"<user_shell_command>\n<command>\necho one > made; echo said; exit 3\n</command>\n<result>\nExit code: 3\nDuration: ", " seconds\nOutput:\nsaid\n",
		"\n</result>\n</user_shell_command>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in what the model reads:\n%s", want, got)
		}
	}
	if res := r.OK("threads", "show", thread); !strings.Contains(res.Stdout, "$ echo one > made") || !strings.Contains(res.Stdout, "exit 3") {
		t.Errorf("the thread does not show the command:\n%s", res.Stdout)
	}
	r.NothingLeft()
}

// A command that outlives its turn goes on; what it did is told to the next turn. One that its host outlives not is ended.
func TestCommandEndsWithItsHost(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "go")
	watcher := r.Start("attach", thread, "!echo begun > begun; sleep 600")
	r.Until("the command runs", func() bool { return exists(r.Dir, "begun") })
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if res := watcher.Wait(); res.Code != 1 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	r.NothingLeft()
	r.OK("resume", thread, "what came of it?")
	if users := strings.Join(r.Last().Texts(llm.RoleUser), "\n"); !strings.Contains(users, "Exit code: -1") || !strings.Contains(users, "command aborted by user") {
		t.Errorf("the model reads:\n%s", users)
	}
}

// Who watches a thread on a terminal may type: a task, which steers the turn, and commands of their own.
func TestTypingIntoAThread(t *testing.T) {
	t.Parallel()
	r, run, thread := busy(t, "go")
	watcher := r.Terminal("attach", thread)
	watcher.Sees("wait_for")
	watcher.Type("!echo typed in; touch typed\n")
	r.Until("the command has run", func() bool { return exists(r.Dir, "typed") })
	watcher.Sees("✓")
	watcher.Type("\nand the docs\n! \n")
	watcher.Sees("the command is empty")
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if res := watcher.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "> and the docs") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	users := r.Last().Texts(llm.RoleUser)
	if n := len(users); n < 2 || !strings.Contains(users[n-2], "typed in") || users[n-1] != "and the docs" {
		t.Errorf("the model reads %q", users)
	}
}

// lastOutput is that of the last call.
func lastOutput(q rig.Request) string {
	out := ""
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			if res, ok := p.(*llm.ToolResult); ok {
				out = llm.Message{Parts: res.Content}.Text()
			}
		}
	}
	return strings.TrimSpace(out)
}

// A thread goes on in another folder, also when it is resumed the next time, and its model is told what is different there.
func TestThreadMoves(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", args = { cmd = "pwd", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Write("AGENTS.md", "Be brief.\n")
	other := t.TempDir()
	r.OK("exec", "one")
	id := string(threads(t, r)[0].ID)
	r.OK("resume", id, "-C", other, "two")
	if got := lastOutput(r.Last()); !strings.HasSuffix(got, other) {
		t.Errorf("the command ran elsewhere:\n%s", got)
	}
	told := r.Last().Texts(llm.RoleUser)
	moved := told[len(told)-2]
	for _, want := range []string{"do not hold any more", "<environment_context>\n  <cwd>" + other + "</cwd>\n</environment_context>"} {
		if !strings.Contains(moved, want) {
			t.Errorf("%q is not in what the model was told:\n%s", want, moved)
		}
	}
	n := len(told)
	r.OK("resume", id, "three") // from the project's folder, which is not the thread's any more
	if got := lastOutput(r.Last()); !strings.HasSuffix(got, other) {
		t.Errorf("the command ran elsewhere:\n%s", got)
	}
	if now := r.Last().Texts(llm.RoleUser); len(now) != n+1 {
		t.Errorf("the model was told again: %q", now[n-1:])
	}
	r.OK("resume", id, "-C", r.Dir, "four")
	if back := r.Last().Texts(llm.RoleUser); !strings.Contains(back[len(back)-2], "Be brief.") {
		t.Errorf("back again the model is told %q", back[len(back)-2])
	}
	if res := r.Gantry("resume", id, "-C", "/nowhere", "five"); res.Code != 1 || !strings.Contains(res.Stderr, "the folder /nowhere doesn't exist") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
}
