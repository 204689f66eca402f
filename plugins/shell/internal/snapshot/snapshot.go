// Package snapshot keeps what a user's profile makes of a shell, so that not every command has to read the profile.
//
// It owns: what of a shell's state is taken, what of it is left out, the proof that it can be brought back, and how long it
// holds. It must not know: how a process is started or confined, calls, what a model reads.
//
// A snapshot is a script that lives in memory and reaches a command in its environment: nothing is written to a disk. It
// holds what the profile added to a shell, never what the shell was given: variables that the host sets win over the
// profile's, and those whose names sound like secrets are left out. A profile that does what a script can't repeat has no
// snapshot, and its commands read it each time. bash and zsh are taken, each in its own words ([dialect]); other shells have
// no snapshot.
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
	// takeTime bounds the taking. A profile that takes longer is better read by nobody but the user.
	takeTime = 10 * time.Second
	// maxStateBytes bounds a snapshot. A program's arguments and environment have 1 MiB together on macOS, more elsewhere.
	maxStateBytes = 512 << 10
	// pieceBytes is what of it one variable holds. Linux allows 128 KiB.
	pieceBytes = 96 << 10
)

// Run runs a program to its end, with more variables in its environment than it has anyway, and returns what it wrote to
// standard output. A code other than 0 is an error.
type Run func(ctx context.Context, argv, env []string) ([]byte, error)

// dialect is what differs from shell to shell.
type dialect struct {
	// flag makes a new shell that has read no profile, login one that has.
	flag, login []string
	readRC      string // what a login shell reads of the user's interactive set-up before it is looked at
	sections    []section
	// difference returns the script that makes after out of before.
	difference func(before, after view) (string, error)
	// command is what brings the shell into the state that so many variables hold, and runs a command.
	command func(variables int, command string) string
}

// dialects are the shells that a snapshot is taken of, by the name of their program.
var dialects = map[string]*dialect{
	"bash": {
		flag: []string{"-c"}, login: []string{"-lc"}, readRC: readRC, sections: sections, difference: difference, command: shellstate.Script,
	},
	"zsh": {
		// -f: what the files that every zsh reads do is part of the state then, and does not win over the environment.
		flag: []string{"-f", "-c"}, login: []string{"-lc"}, readRC: readZshRC, sections: zshSections, difference: zshDifference, command: shellstate.ZshScript,
	},
}

func dialectOf(shell string) *dialect { return dialects[filepath.Base(shell)] }

// State is what a login makes of a shell.
type State struct {
	shell   string
	dialect *dialect
	script  string
}

// ErrUnsupported is returned by Take for a shell that no snapshot is taken of.
var ErrUnsupported = errors.New("no snapshot of this shell")

// Supported reports whether a snapshot can be taken of a shell.
func Supported(shell string) bool { return dialectOf(shell) != nil }

// Take logs in and returns what that made of the shell. It fails when the profile does, and when another shell that is
// brought into the same state differs from the first.
func Take(ctx context.Context, shell string, run Run) (*State, error) {
	d := dialectOf(shell)
	if d == nil {
		return nil, ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	before, err := d.inspect(ctx, run, shell, d.flag, "", "")
	if err != nil {
		return nil, fmt.Errorf("look at a new shell: %w", err)
	}
	after, err := d.inspect(ctx, run, shell, d.login, "", d.readRC)
	if err != nil {
		return nil, fmt.Errorf("look at a login shell: %w", err)
	}
	script, err := d.difference(before, after)
	if err != nil {
		return nil, err
	}
	s, err := newState(shell, d, script)
	if err != nil {
		return nil, err
	}
	// The proof: the same again from the script as from the profile.
	want := script
	if functions, ok := after[reread]; ok {
		after["functions"] = functions
		if want, err = d.difference(before, after); err != nil {
			return nil, err
		}
	}
	again, err := d.inspect(ctx, run, shell, d.flag, script, "")
	if err != nil {
		return nil, fmt.Errorf("bring the state back: %w", err)
	}
	if proof, err := d.difference(before, again); err != nil || proof != want {
		return nil, errors.Join(errors.New("the state can't be brought back"), err)
	}
	return s, nil
}

func newState(shell string, d *dialect, script string) (*State, error) {
	if len(script) > maxStateBytes {
		return nil, fmt.Errorf("the state takes %d bytes, more than %d", len(script), maxStateBytes)
	}
	return &State{shell: shell, dialect: d, script: script}, nil
}

// Env returns the variables that [State.Argv] needs beside the others of the command. They are gone before it begins.
func (s *State) Env() []string { return variables(s.script) }

// variables hold a script in pieces.
func variables(script string) []string {
	names := shellstate.Names((len(script) + pieceBytes - 1) / pieceBytes)
	env := make([]string, len(names))
	for i, name := range names {
		env[i] = name + "=" + script[i*pieceBytes:min(len(script), (i+1)*pieceBytes)]
	}
	return env
}

// Argv returns the command line that runs a command in the state.
func (s *State) Argv(command string) []string {
	argv := append([]string{s.shell}, s.dialect.flag...)
	n := len(s.Env())
	if n == 0 {
		return append(argv, command)
	}
	return append(argv, s.dialect.command(n, command))
}
