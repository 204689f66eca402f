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

// Command is the process of one run of a hook.
type Command struct {
	Line    string // for a shell
	Dir     string // absolute
	Env     []string
	Input   []byte
	Timeout time.Duration
	Thread  string // the thread that it runs for
}

// Process is a running command; [launch.Process] implements it.
type Process interface {
	Attach(ctx context.Context, stdin <-chan launch.Input, emit func(launch.Output) error) (launch.Exit, error)
}

// Shell runs the commands of hooks, without a sandbox: they are the user's own. All fields but Login are required.
type Shell struct {
	Spawn func(context.Context, launch.Spec) (Process, error)
	End   func(context.Context, launch.Owner) error // kills the processes that a command left
	Login bool                                      // the shell reads the user's profile
}

// owner owns the processes, in the place of a plugin. No plugin can have this name.
const owner = "(hook)"

// Limits of a hook's output that is read, and of the time for killing what it left.
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

// Run runs a command until it ends, times out or ctx ends. No process of its tree is left when it returns.
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

// shells are the shells that accept a command line after -c.
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
