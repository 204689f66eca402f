package rig

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Terminal starts gantry on a pseudoterminal, as a user does. Both streams become its standard output.
func (r *Rig) Terminal(args ...string) *Run {
	r.t.Helper()
	cmd, cancel := r.command("gantry", args...)
	run := &Run{rig: r, Cmd: cmd, cancel: cancel}
	run.Cmd.Dir, run.Cmd.Env = r.Dir, append(r.Env, "TERM=dumb")
	run.Cmd.WaitDelay = 5 * time.Second
	terminal, err := pty.StartWithSize(run.Cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	run.terminal = terminal
	read := make(chan struct{})
	run.drained = read
	go func() { // owned by the run: ends when the terminal has no other end any more, or is closed by Wait
		defer close(read)
		_, _ = io.Copy(&run.out, terminal) // EIO is the end of a terminal
	}()
	r.t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	return run
}

// Type types a text into the terminal.
func (r *Run) Type(text string) {
	r.rig.t.Helper()
	if _, err := r.terminal.WriteString(text); err != nil {
		r.rig.t.Fatal(err)
	}
}

// TryType types a text into a terminal whose gantry may have ended.
func (r *Run) TryType(text string) { _, _ = r.terminal.WriteString(text) }

// Echoes reports whether the terminal echoes input.
func (r *Run) Echoes() bool {
	r.rig.t.Helper()
	state, err := unix.IoctlGetTermios(int(r.terminal.Fd()), unix.TCGETS)
	if err != nil {
		r.rig.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// endTerminal reads the rest of the output.
func (r *Run) endTerminal() {
	if r.terminal == nil {
		return
	}
	select {
	case <-r.drained:
	case <-time.After(5 * time.Second):
		r.rig.t.Errorf("something that gantry left behind still holds its terminal")
	}
	if err := r.terminal.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EIO) {
		r.rig.t.Error(err)
	}
	<-r.drained
}
