// Package shellstate brings a shell into a state before it runs a command, in a form from which a host can extract the
// command that it approved.
//
// It owns: the form of such a command line, and the names of the variables that contain the state. It must not know: what a
// state consists of, how a process is started.
//
// A host that receives a command line of this form sees the actual command. The state itself comes from the caller that
// starts the process, and can do no more than a profile could.
//
// Start with [Script] and [Command].
package shellstate

import (
	"slices"
	"strconv"
	"strings"
)

// Variable is the prefix of the variables that contain a state, in pieces numbered from 0. Linux allows 128 KiB per
// variable.
const Variable = "GANTRY_SHELL_STATE_"

// maxPieces bounds the size of a state. An environment can't contain more.
const maxPieces = 64

// Names returns the names of n variables.
func Names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = Variable + strconv.Itoa(i)
	}
	return names
}

// prelude unsets the variables and evaluates their former values.
func prelude(n int) string {
	names := Names(n)
	return `eval "unset ` + strings.Join(names, " ") + "\n$" + strings.Join(names, "$") + `"`
}

// Script returns the argument for `-c` that brings a shell into the state in n variables and then runs a command. The
// command is on a separate line: bash and sh read line by line, so aliases and options of the state apply to the entire
// command.
func Script(n int, command string) string { return prelude(n) + "\n" + command }

const zshCommand = "; true; eval '"

// ZshScript is like Script, for zsh, which parses a whole script before it runs the first command: the command is a
// separate text.
func ZshScript(n int, command string) string { return prelude(n) + zshCommand + quoted(command) + "'" }

func quoted(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// Command returns the command that a shell runs in a state, or an empty string if the shell is only brought into one; false
// for any other command line.
func Command(argv []string) (command string, ok bool) {
	if len(argv) < 3 {
		return "", false
	}
	flags, script := argv[1:len(argv)-1], argv[len(argv)-1]
	if !slices.Equal(flags, []string{"-c"}) && !slices.Equal(flags, []string{"-lc"}) && !slices.Equal(flags, []string{"-f", "-c"}) {
		return "", false
	}
	for n := 1; n <= maxPieces; n++ {
		rest, found := strings.CutPrefix(script, prelude(n))
		if !found {
			continue
		}
		if command, ok = strings.CutPrefix(rest, "\n"); ok {
			return command, true
		}
		if rest, found = strings.CutPrefix(rest, zshCommand); !found {
			return "", false
		}
		rest, found = strings.CutSuffix(rest, "'")
		command = strings.ReplaceAll(rest, `'\''`, "'")
		return command, found && quoted(command) == rest
	}
	return "", false
}
