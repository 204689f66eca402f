package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
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
	s.Shows("Undo these changes?", "hello.txt", "+uno")
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

// Somebody without any configuration gets an answer, which says what to configure.
func TestTerminalWithoutConfiguration(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	s := r.Screen(100, 40, "--home", t.TempDir())
	s.Shows("ready", "on-request/workspace-write")
	s.Type("hi\r")
	s.Shows("› hi", "I am gantry's offline demo model", "ready")
	s.Type("\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Whoever leaves while a turn runs, with a key or by closing the window, leaves the turn running; the server ends with it.
func TestTerminalLeavesTurnsRunning(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s *rig.Screen){
		"Ctrl-D": func(s *rig.Screen) {
			s.Type("\x04")
			s.Shows("Ctrl-D again leaves")
			s.Type("\x04")
		},
		"the window is closed": func(s *rig.Screen) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, waiting)
			addOdd(t, r, "waits", "waits", "")
			s := r.Screen(100, 30)
			s.Shows("ready")
			s.Type("go\r")
			s.Shows("working")
			r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
			leave(s)
			s.Ends()
			r.Write(filepath.Join(r.Dir, "go"), "")
			r.Until("the model has the result", func() bool { return len(r.Requests()) == 2 })
			r.Until("the server has ended", func() bool { return len(rig.Processes(t, r.Home, "")) == 0 })
			r.NothingLeft()
		})
	}
}

// The server is killed under the interface: another one continues the thread, and says what became of the turn.
func TestTerminalServerIsKilled(t *testing.T) {
	t.Parallel()
	r := rig.New(t, waiting)
	addOdd(t, r, "waits", "waits", "")
	s := r.Screen(100, 30)
	s.Shows("ready")
	s.Type("go\r")
	s.Shows("working")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	for _, pid := range rig.Processes(t, r.Dir, "app-server") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	s.Shows("interrupted", "ready")
	s.Type("again\r")
	s.Shows("› go", "› again", "answer 2", "ready")
	s.Type("\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// A terminal without a cursor is refused, with what to use instead.
func TestTerminalIsDumb(t *testing.T) {
	t.Parallel()
	run := rig.New(t, task).Terminal()
	if res := run.Wait(); res.Code != 2 || !strings.Contains(res.Stdout, "TERM is dumb") || !strings.Contains(res.Stdout, "gantry exec") {
		t.Errorf("exit %d: %s", res.Code, res.Stdout)
	}
}

// Colours are the user's choice.
func TestTerminalWithoutColour(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Env = append(r.Env, "NO_COLOR=1")
	s := r.Screen(100, 40)
	s.Shows("What shall be done?", "ready")
	s.Type("\x04")
	s.Ends()
	if raw := s.Raw(); strings.Contains(raw, "\x1b[90m") || strings.Contains(raw, "\x1b[34m") || strings.Contains(raw, "\x1b[1;34m") {
		t.Errorf("%q", raw)
	}
}

// A configuration that can't be read ends the interface with the reason, on the terminal as it was.
func TestTerminalBrokenConfiguration(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Config("approval {}\n") // a second block
	s := r.Screen(100, 20)
	if code := s.Ends(); code != 1 {
		t.Errorf("exit %d", code)
	}
	s.Shows("Error: duplicate approval block")
}

// Somebody edits the first message of a thread in a fork, and then here, with the files as they were.
func TestTerminalGoesBack(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ call = "apply_patch", id = "c1", args = { input = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-one\n+uno\n two\n*** End Patch\n" } }]
[[step]]
times = -1
do = [{ text = "All done." }]
`)
	file := filepath.Join(r.Dir, "hello.txt")
	r.Write(file, "one\ntwo\n")
	s := r.Screen(100, 40)
	s.Shows("ready", "never/danger-full-access")
	s.Type("translate it\r")
	s.Shows("+uno", "All done.", "ready")
	back := func() {
		t.Helper()
		s.Type("\x1b")
		s.Shows("Esc again edits an earlier message")
		s.Type("\x1b")
		s.Shows("Edit an earlier message")
		s.Type("\r")
		s.Shows("Edit it where?", "this thread stays as it is")
	}
	back()
	s.Type("\x1b[B\x1b[B\r")
	s.Shows("Undo these changes, and drop the messages?")
	s.Type("\r")
	s.Until("the thread is empty, and the message is edited", func(text string) bool {
		return strings.Contains(text, "› translate it") && !strings.Contains(text, "All done.") && !strings.Contains(text, "Undo these")
	})
	if b, err := os.ReadFile(file); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	s.Type(" again\r")
	s.Shows("› translate it again", "All done.", "ready")
	back()
	s.Type("\r")
	s.Until("the fork is empty, and the message is edited", func(text string) bool {
		return strings.Contains(text, "› translate it again") && !strings.Contains(text, "All done.") && !strings.Contains(text, "Edit it where")
	})
	s.Type("\x15\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// Somebody starts a second thread from the roster, sees that it needs an answer, goes there and gives it.
func TestTerminalRoster(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	s := r.Screen(100, 40, "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write")
	s.Shows("ready", "on-request/workspace-write")
	s.Type("/threads\r")
	s.Shows("type a task to start one")
	s.Type("translate it")
	s.Shows("new thread: translate it")
	s.Type("\r")
	s.Shows("needs you  translate it")
	s.Type("\r")
	s.Shows("May this command run?", "Esc refuses")
	s.Type("y")
	s.Shows("$ echo looked ✓", "All done.", "ready")
	s.Type("/threads\r")
	s.Shows("done       translate it", "open here")
	s.Type("\x1b")
	s.Shows("What shall be done?")
	s.Type("\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// With a screen reader, a task with a question is heard from its beginning to its end, in order.
func TestTerminalScreenReader(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	r.Write(filepath.Join(r.Dir, "hello.txt"), "one\ntwo\n")
	s := r.Screen(80, 40, "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "-c", "tui.screen_reader=true")
	s.Shows("Ready", "Message:")
	s.Until("the screen is that of a screen reader", func(text string) bool { return !strings.Contains(text, "─") && strings.Contains(text, "Ready") })
	s.Type("translate it\r")
	s.Shows("You: translate it", "Agent: I **look** first.", "May this command run?")
	s.Until("keys count", func(text string) bool { return !strings.Contains(text, "keys count in a moment") })
	s.Type("y")
	s.Shows("Command: echo looked", "Output: looked", "Change of", "+uno", "Agent: All done.", "Ready")
	text := s.Text()
	last := -1
	for _, part := range []string{"You: translate it", "Agent: I **look**", "Command: echo looked", "+uno", "Agent: All done.", "Ready", "Message:"} {
		at := strings.LastIndex(text, part)
		if at < last {
			t.Errorf("%q is in the wrong place:\n%s", part, text)
		}
		last = at
	}
	s.Type("\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// The message is edited in the user's editor, and the interface is suspended and continued. The screen follows after both.
func TestTerminalEditorAndSuspend(t *testing.T) {
	t.Parallel()
	r := rig.New(t, task)
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nprintf 'edited: ' > \"$1.new\"; cat \"$1\" >> \"$1.new\"; mv \"$1.new\" \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Env = append(r.Env, "VISUAL="+editor)
	s := r.Screen(80, 20)
	s.Shows("ready", "never/danger-full-access")
	s.Type("first words")
	s.Shows("› first words")
	s.Type("\x07")
	s.Shows("› edited: first words")
	s.Type("!")
	s.Shows("› edited: first words!")
	s.Type("\x1a")
	r.Until("the terminal is given back", func() bool {
		raw := s.Raw()
		return strings.LastIndex(raw, "\x1b[?1049l") > strings.LastIndex(raw, "\x1b[?1049h")
	})
	if err := s.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.Shows("› edited: first words!", "ready")
	s.Type("?")
	s.Shows("› edited: first words!?")
	s.Type("\x03\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// The model sees an image that is dropped on the terminal. A message with an image that does not exist comes back.
func TestTerminalImage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = -1
do = [{ text = "A dot." }]
`)
	r.Write("a dot.png", dot(t))
	s := r.Screen(120, 30)
	s.Shows("ready", "never/danger-full-access")
	s.Type("what is \x1b[200~" + filepath.Join(r.Dir, "a dot.png") + "\x1b[201~")
	s.Shows(`a dot.png"`)
	s.Type("?\r")
	s.Shows("A dot.", "ready")
	images := 0
	for _, m := range r.Last().Request.Messages {
		for _, p := range m.Parts {
			if _, ok := p.(*llm.Media); ok {
				images++
			}
		}
	}
	if images != 1 {
		t.Errorf("the model gets %d images", images)
	}
	s.Type("and @none.png ?\r")
	s.Shows("✗", "› and @none.png ?")
	s.Type("\x03\x04")
	if code := s.Ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
