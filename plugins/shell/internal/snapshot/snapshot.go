// Package snapshot stores the effect of a user's profile on a shell, so that not every command has to read the profile.
//
// It owns: which parts of a shell's state are stored, the check that a snapshot reproduces the state, and how long a snapshot is valid.
// It must not know: how a process is started or confined, calls, or what a model reads.
//
// A snapshot is a script in memory that is passed to a command in its environment, so nothing is written to disk. It contains what the
// profile adds to a shell: variables set by the host take precedence over the profile's, and variables whose names indicate a secret
// are left out. A profile with effects that a script can't reproduce has no snapshot; commands then read it each time. bash and zsh
// are supported; see [dialect].
//
// Start with [Take] and [Cache].
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/sdk/process/shellstate"
)

const (
	// takeTime is the maximum duration of taking a snapshot.
	takeTime = 10 * time.Second
	// maxStateBytes is the maximum size of a snapshot. On macOS, arguments and environment of a program are limited to 1 MiB in total.
	maxStateBytes = 512 << 10
	// pieceBytes is the size of the pieces in variables. Linux limits a variable to 128 KiB.
	pieceBytes = 96 << 10
)

// Run runs a program with additional environment variables and returns its standard output. A non-zero exit code is an error.
type Run func(ctx context.Context, argv, env []string) ([]byte, error)

// dialect contains the differences between shells.
type dialect struct {
	// flag starts a shell without a profile, login one with the profile.
	flag, login []string
	readRC      string // script that reads the user's interactive configuration
	sections    []section
	// difference returns the script that changes the state before to after.
	difference func(before, after view) (string, error)
	// command returns a script that restores the state from a number of variables and then runs a command.
	command func(variables int, command string) string
}

// dialects contains the supported shells by the name of the program.
var dialects = map[string]*dialect{
	"bash": {
		flag: []string{"-c"}, login: []string{"-lc"}, readRC: readRC, sections: sections, difference: difference, command: shellstate.Script,
	},
	"zsh": {
		// With -f, the files that every zsh reads are part of the snapshot and do not override the environment.
		flag: []string{"-f", "-c"}, login: []string{"-lc"}, readRC: readZshRC, sections: zshSections, difference: zshDifference, command: shellstate.ZshScript,
	},
}

func dialectOf(shell string) *dialect { return dialects[filepath.Base(shell)] }

// State is a snapshot: the effect of a login on a shell.
type State struct {
	shell   string
	dialect *dialect
	script  string
}

// ErrUnsupported is returned by Take for an unsupported shell.
var ErrUnsupported = errors.New("no snapshot of this shell")

// Supported reports whether a snapshot can be taken of a shell.
func Supported(shell string) bool { return dialectOf(shell) != nil }

// Take starts a login shell and returns its state. It fails if the profile fails, or if a new shell with the restored state differs from
// the login shell.
func Take(ctx context.Context, shell string, run Run) (*State, error) {
	d := dialectOf(shell)
	if d == nil {
		return nil, ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	before, err := d.inspect(ctx, run, shell, d.flag, "", "")
	if err != nil {
		return nil, fmt.Errorf("inspect a new shell: %w", err)
	}
	after, err := d.inspect(ctx, run, shell, d.login, "", d.readRC)
	if err != nil {
		return nil, fmt.Errorf("inspect a login shell: %w", err)
	}
	script, err := d.difference(before, after)
	if err != nil {
		return nil, err
	}
	s, err := newState(shell, d, script)
	if err != nil {
		return nil, err
	}
	// Check that the script has the same effect as the profile.
	want := script
	if functions, ok := after[reread]; ok {
		after["functions"] = functions
		if want, err = d.difference(before, after); err != nil {
			return nil, err
		}
	}
	again, err := d.inspect(ctx, run, shell, d.flag, script, "")
	if err != nil {
		return nil, fmt.Errorf("restore the state: %w", err)
	}
	if proof, err := d.difference(before, again); err != nil || proof != want {
		return nil, errors.Join(errors.New("the state can't be restored"), err)
	}
	return s, nil
}

func newState(shell string, d *dialect, script string) (*State, error) {
	if len(script) > maxStateBytes {
		return nil, fmt.Errorf("the state has %d bytes; the maximum is %d", len(script), maxStateBytes)
	}
	return &State{shell: shell, dialect: d, script: script}, nil
}

// Env returns the environment variables that [State.Argv] needs. They are unset before the command starts.
func (s *State) Env() []string { return variables(s.script) }

// variables returns environment variables with the pieces of a script.
func variables(script string) []string {
	names := shellstate.Names((len(script) + pieceBytes - 1) / pieceBytes)
	env := make([]string, len(names))
	for i, name := range names {
		env[i] = name + "=" + script[i*pieceBytes:min(len(script), (i+1)*pieceBytes)]
	}
	return env
}

// Argv returns the command line that restores the state and runs a command.
func (s *State) Argv(command string) []string {
	argv := append([]string{s.shell}, s.dialect.flag...)
	n := len(s.Env())
	if n == 0 {
		return append(argv, command)
	}
	return append(argv, s.dialect.command(n, command))
}
