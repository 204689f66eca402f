// Package shellstate is how a shell is brought into a state before it runs a command, so that a host can tell the command
// that it decided on from what only stands before it.
//
// It owns: the form of such a command line, and the names of the variables that hold the state. It must not know: what a
// state consists of, how a process is started.
//
// A host that reads a command line of this form sees the command behind it. The state itself comes from whoever starts the
// process: it is what a profile could have done as well.
//
// Start with [Script] and [Command].
package shellstate

import (
	"slices"
	"strconv"
	"strings"
)

// Variable begins the names of the variables that hold a state, in pieces with numbers from 0 on. Linux allows 128 KiB for
// each.
const Variable = "GANTRY_SHELL_STATE_"

// maxPieces bounds a state: more than an environment could hold.
const maxPieces = 64

// Names are those of n variables.
func Names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = Variable + strconv.Itoa(i)
	}
	return names
}

// prelude forgets the variables and runs what they held.
func prelude(n int) string {
	names := Names(n)
	return `eval "unset ` + strings.Join(names, " ") + "\n$" + strings.Join(names, "$") + `"`
}

// Script is what a shell is given behind -c to get into the state that n variables hold, and run a command then. The
// command has a line of its own: bash and sh read line by line, so aliases and options of the state count for all of it.
func Script(n int, command string) string { return prelude(n) + "\n" + command }

const zshCommand = "; true; eval '"

// ZshScript is Script for zsh, which reads all of a script before it runs the first of it: the command is a text of its own.
func ZshScript(n int, command string) string { return prelude(n) + zshCommand + quoted(command) + "'" }

func quoted(s string) string { return strings.ReplaceAll(s, "'", `'\''`) }

// Command returns the command that a shell runs in a state, empty where it is only brought into one; false for any other
// command line.
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
