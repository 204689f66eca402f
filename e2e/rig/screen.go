package rig

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// Screen is gantry on a terminal with a screen, as a person sees it.
type Screen struct {
	rig  *Rig
	Cmd  *exec.Cmd
	file *os.File

	mu      sync.Mutex
	changed *sync.Cond
	emu     *vt.Emulator
	raw     strings.Builder // everything that was written
	ended   bool
}

// Screen starts gantry on a terminal of this size.
func (r *Rig) Screen(width, height int, args ...string) *Screen {
	r.t.Helper()
	cmd, cancel := r.command(r.Host, args...)
	s := &Screen{rig: r, Cmd: cmd, emu: vt.NewEmulator(width, height)}
	s.changed = sync.NewCond(&s.mu)
	s.Cmd.Dir, s.Cmd.Env = r.Dir, append(r.Env, "TERM=xterm-256color", "LANG=C.UTF-8")
	s.Cmd.WaitDelay = 5 * time.Second
	f, err := pty.StartWithSize(s.Cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	s.file = f
	var parts sync.WaitGroup
	parts.Go(func() { // ends with the emulator's pipe: the terminal's answers, which nobody reads once it is closed
		buf := make([]byte, 1<<10)
		for {
			n, err := s.emu.Read(buf)
			if err != nil {
				return
			}
			_, _ = f.Write(buf[:n])
		}
	})
	parts.Go(func() { // ends with the terminal
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			s.mu.Lock()
			_, _ = s.emu.Write(buf[:n])
			s.raw.Write(buf[:n])
			s.ended = err != nil
			s.changed.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	r.t.Cleanup(func() {
		cancel()
		_ = s.Cmd.Wait()
		_ = f.Close()
		if c, ok := s.emu.InputPipe().(io.Closer); ok { // Close of the emulator races with its Read
			_ = c.Close()
		}
		parts.Wait()
	})
	return s
}

// Text returns what is on the screen.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text()
}

func (s *Screen) text() string {
	lines := strings.Split(s.emu.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// Raw returns everything that was written to the terminal.
func (s *Screen) Raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}

// Until waits until the screen is as the condition says.
func (s *Screen) Until(what string, ok func(text string) bool) {
	s.rig.t.Helper()
	late := time.AfterFunc(bound/2, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		s.changed.Broadcast()
	})
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok(s.text()) {
		if s.ended {
			s.rig.t.Fatalf("%s: the screen shows\n%s", what, s.text())
		}
		s.changed.Wait()
	}
}

// Shows waits until the screen contains all texts.
func (s *Screen) Shows(texts ...string) {
	s.rig.t.Helper()
	s.Until(strings.Join(texts, ", "), func(text string) bool {
		for _, t := range texts {
			if !strings.Contains(text, t) {
				return false
			}
		}
		return true
	})
}

// Type presses keys.
func (s *Screen) Type(keys string) {
	s.rig.t.Helper()
	if _, err := io.WriteString(s.file, keys); err != nil {
		s.rig.t.Fatal(err)
	}
}

// Resize changes the size of the terminal.
func (s *Screen) Resize(width, height int) {
	s.rig.t.Helper()
	s.mu.Lock()
	s.emu.Resize(width, height)
	s.mu.Unlock()
	if err := pty.Setsize(s.file, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)}); err != nil {
		s.rig.t.Fatal(err)
	}
}

// Close closes the terminal, as the end of its window does.
func (s *Screen) Close() { _ = s.file.Close() }

// Ends waits until the program has ended, and returns its exit status.
func (s *Screen) Ends() int {
	s.rig.t.Helper()
	s.mu.Lock()
	for !s.ended {
		s.changed.Wait()
	}
	s.mu.Unlock()
	_ = s.Cmd.Wait()
	return s.Cmd.ProcessState.ExitCode()
}
