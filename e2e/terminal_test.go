package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// task is a model that runs a command outside of the sandbox, changes a file, and says what it has done.
const task = `
[[step]]
do = [{ text = "I **look** first." }, { call = "exec_command", id = "c1", args = { cmd = "echo looked", sandbox_permissions = "require_escalated", justification = "to see", login = false } }]
[[step]]
do = [{ call = "apply_patch", id = "c2", args = { input = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-one\n+uno\n two\n*** End Patch\n" } }]
[[step]]
times = -1
do = [{ text = "All done." }]
`

// Somebody types a task, approves a command, sees the diff, undoes it, and leaves; the terminal is as it was.
func TestTerminal(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	s := r.Screen(100, 40, "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write")
	s.Shows("What shall be done?", "ready", "on-request/workspace-write")
	s.Type("translate it\r")
	s.Shows("› translate it", "I look first.", "May this command run?", "because to see", "Esc refuses")
	s.Type("y")
	s.Shows("$ echo looked ✓", "changed", "-one", "+uno", "All done.", "ready")
	if b, err := os.ReadFile(filepath.Join(r.Dir, "hello.txt")); err != nil || string(b) != "uno\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	s.Type("/undo\r")
	s.Shows("Undo the changes of these files?", "hello.txt")
	s.Type("\r")
	s.Shows("restored 1 files")
	if b, err := os.ReadFile(filepath.Join(r.Dir, "hello.txt")); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	s.Resize(50, 20)
	s.Shows("What shall be done?")
	s.Type("\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d:\n%s", code, s.Text())
	}
	if raw := s.Raw(); strings.LastIndex(raw, "\x1b[?1049l") < strings.LastIndex(raw, "\x1b[?1049h") {
		t.Error("the terminal was not restored")
	}
}
