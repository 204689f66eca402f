// Package background keeps sessions of the command line: threads that a process in the background runs between commands, so that what a call leaves
// running is there for the next one.
//
// It owns: the names of sessions, the lock that tells which process keeps one and which thread is its, and the start and end of that process. It must not
// know: what a thread is, or what the process does.
//
// Start with [Start] and [Hold].
package background

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/store/flock"
)

// Session is a session that a process keeps.
type Session struct {
	Name   string    `json:"name"`
	Thread string    `json:"thread"`
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
}

// CheckName checks the name of a session.
func CheckName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	if name == "" || len(name) > 64 || strings.HasPrefix(name, ".") || strings.Trim(name, allowed) != "" {
		return hint.New(fmt.Sprintf("invalid name of a session: %.80q", name), "use 1 to 64 letters, digits, dashes, underscores and dots, without one in front")
	}
	return nil
}

// file is the lock of a session. Its note names the thread.
func file(home, name string) string { return filepath.Join(home, "sessions", name) }

// List returns the sessions of a home folder.
func List(home string) ([]Session, error) {
	entries, err := os.ReadDir(filepath.Join(home, "sessions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := []Session{}
	for _, e := range entries {
		if s, ok, err := Find(home, e.Name()); err == nil && ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// Find returns a session, if a process keeps it.
func Find(home, name string) (Session, bool, error) {
	owner, held, err := flock.Held(file(home, name))
	return Session{name, owner.Purpose, owner.PID, owner.Since}, held && owner.Purpose != "", err
}

// Hold makes this process the one that keeps a session, and says so on w, which is its standard output. If another process does, it says that one's thread,
// and ok is false. release ends the session.
func Hold(home, name, thread string, w io.Writer) (release func() error, ok bool, err error) {
	lock, err := flock.Take(file(home, name), thread)
	if held, is := errors.AsType[*flock.HeldError](err); is {
		_, err := fmt.Fprintln(w, ready, held.Owner.Purpose)
		return nil, false, err
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := fmt.Fprintln(w, ready, thread); err != nil { // who has started it is gone
		return nil, false, errors.Join(err, lock.Release())
	}
	return lock.Release, true, nil
}

// ready begins the line that [Hold] prints.
const ready = "session"

// Process is what [Start] starts: gantry itself.
type Process struct {
	Args []string // those of a command that calls [Hold]
	Dir  string
	Env  []string
}

// Start starts the process of a session, which outlasts this one and its terminal, and returns the session's thread. If it does not start, the error is what it
// says on its standard error.
func Start(ctx context.Context, name string, p Process) (thread string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("start the session %q: %w", name, err) }
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	log, err := os.CreateTemp("", "gantry-session-*.log")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(log.Name()) // only what the process says before it is ready is read
	defer log.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer out.Close()
	cmd := exec.Command(self, p.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.Dir, p.Env, in, log, detached()
	err = cmd.Start()
	in.Close()
	if err != nil {
		return fail(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	defer stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if thread, ok := strings.CutPrefix(lines.Text(), ready+" "); ok {
			return thread, cmd.Process.Release()
		}
	}
	if ctx.Err() != nil {
		_ = cmd.Process.Kill() // nobody knows it yet
		_ = cmd.Wait()
		return fail(context.Cause(ctx))
	}
	_ = cmd.Wait() // what it says is in the log
	said, _ := os.ReadFile(log.Name())
	text := strings.TrimPrefix(strings.TrimSpace(string(said)), "Error: ")
	return fail(hint.Parse(cmp.Or(text, "its process has ended")))
}

// stopWait bounds how long the end of a session takes.
const stopWait = 30 * time.Second

// Stop ends the process of a session and waits for its end.
func Stop(ctx context.Context, home, name string) error {
	s, ok, err := Find(home, name)
	switch {
	case err != nil:
		return err
	case !ok || s.PID == 0:
		return hint.New(fmt.Sprintf("there is no session %q", name), "`gantry session list` lists them")
	}
	p, err := os.FindProcess(s.PID)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end process %d of the session %q: %w", s.PID, name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopWait, fmt.Errorf("process %d of the session %q is still running after %v", s.PID, name, stopWait))
	defer cancel()
	path := file(home, name)
	err = flock.With(ctx, path, true, func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
