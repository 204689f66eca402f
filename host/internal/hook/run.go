package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/google/uuid"
)

// Command is a process that a run of a hook needs.
type Command struct {
	Line    string // for a shell
	Dir     string // absolute
	Env     []string
	Input   []byte
	Timeout time.Duration
	Thread  string // for which it runs
}

// Process is a command that runs; [launch.Process] is one.
type Process interface {
	Attach(ctx context.Context, stdin <-chan launch.Input, emit func(launch.Output) error) (launch.Exit, error)
}

// Shell runs commands of hooks, outside the sandbox: the user wrote them. All fields are required but Login.
type Shell struct {
	Spawn func(context.Context, launch.Spec) (Process, error)
	End   func(context.Context, launch.Owner) error // kills what a command left
	Login bool                                      // the shell reads the user's profile
}

// owner is who the processes belong to, where calls have a plugin. No plugin can be called so.
const owner = "(hook)"

// Bounds of what is read of a hook, and of the time in which what it left is killed.
const (
	maxStdout = 1 << 20
	maxStderr = 64 << 10
	killBound = 5 * time.Second
)

// timeoutError ends a hook that takes too long.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("it timed out after %v", e.after)
}

// Run runs a command to its end, its timeout, or the end of ctx. Nothing of its process tree is left when it returns.
func (s *Shell) Run(ctx context.Context, c Command) (p Printed) {
	own := launch.Owner{Plugin: owner, Thread: c.Thread, Call: uuid.Must(uuid.NewV7()).String()}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, &timeoutError{c.Timeout})
	defer cancel()
	process, err := s.Spawn(ctx, launch.Spec{
		Argv: s.argv(c.Env, c.Line), Cwd: c.Dir, Env: c.Env, Stdin: true, Grant: launch.Grant{Mode: launch.FullAccess, Network: true}, Owner: own,
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Printed{Err: fmt.Errorf("it did not start: %w", err)}
	}
	defer func() {
		keep, done := context.WithTimeout(context.WithoutCancel(ctx), killBound)
		defer done()
		p.Err = errors.Join(p.Err, s.End(keep, own))
	}()
	stdin := make(chan launch.Input, 1)
	stdin <- launch.Input{Data: c.Input, Close: true}
	var stdout, stderr bytes.Buffer
	exit, err := process.Attach(ctx, stdin, func(o launch.Output) error {
		to, most := &stdout, maxStdout
		if o.Stderr {
			to, most = &stderr, maxStderr
		}
		n := min(len(o.Data), most-to.Len())
		to.Write(o.Data[:n])
		p.Cut = p.Cut || n < len(o.Data) && !o.Stderr
		return nil
	})
	p.Stdout, p.Stderr, p.Code, p.Err = strings.ToValidUTF8(stdout.String(), "\uFFFD"), strings.ToValidUTF8(stderr.String(), "\uFFFD"), exit.Code, err
	return p
}

// shells are those that are trusted to take a line behind -c.
var shells = []string{"bash", "zsh", "sh", "dash", "ksh", "fish"}

func (s *Shell) argv(env []string, line string) []string {
	shell, flag := "/bin/sh", "-c"
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "SHELL="); ok && filepath.IsAbs(path) && slices.Contains(shells, filepath.Base(path)) {
			shell = path
		}
	}
	if s.Login {
		flag = "-lc"
	}
	return []string{shell, flag, line}
}
