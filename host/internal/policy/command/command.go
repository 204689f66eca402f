// Package command reads command lines: which programs a shell script starts and with which words, and which of them are known
// to only look or to destroy.
//
// It owns: the reading of scripts by a real shell grammar, the programs that start other programs, and the lists of safe and
// of dangerous commands. It must not know: rules, approval policies, sandboxes.
//
// Start with [Lower] and [Extract], the two readings. [Lower] is strict: it gives commands only for a script that is nothing but a list of plain commands,
// so that what it says may be relied on to allow something. [Extract] is wide: it gives every command that stands anywhere in a
// script, and what it could not find out, so that it may be relied on to hold something back.
package command

import (
	"path"
	"slices"
	"strings"
)

// Word is one word of a command.
type Word struct {
	// Text is what the program gets; of a word that is not fixed, the source text.
	Text string
	// Fixed says that the text is known before the script runs. What is not may become any number of words.
	Fixed bool
}

// Command is a simple command: a name and its arguments.
type Command []Word

// Fixed makes a command of words that are known.
func Fixed(argv ...string) Command {
	c := make(Command, len(argv))
	for i, a := range argv {
		c[i] = Word{Text: a, Fixed: true}
	}
	return c
}

// Argv returns the words as text.
func (c Command) Argv() []string {
	out := make([]string, len(c))
	for i, w := range c {
		out[i] = w.Text
	}
	return out
}

// known reports whether every word is.
func (c Command) known() bool {
	return !slices.ContainsFunc(c, func(w Word) bool { return !w.Fixed })
}

// Lowered is the strict reading of a command line.
type Lowered struct {
	Commands []Command
	// Plain says that the line does nothing but start the commands, one after the other or piped.
	Plain bool
	// Complex says that the only command also gets a document that stands in the script.
	Complex bool
	// Shell is the program that reads the script; empty: there is no script.
	Shell string
}

// Lower reads a command line strictly. What it does not see through is one command: the line itself.
func Lower(argv []string) Lowered {
	shell, script, ok := scriptOf(argv)
	if !ok {
		return Lowered{Commands: []Command{Fixed(argv...)}, Plain: true}
	}
	if commands, ok := Plain(script); ok {
		return Lowered{Commands: commands, Plain: true, Shell: shell}
	}
	if c, ok := Document(script); ok {
		return Lowered{Commands: []Command{c}, Complex: true, Shell: shell}
	}
	return Lowered{Commands: []Command{Fixed(argv...)}, Shell: shell}
}

// scriptOf returns the script of a line that is exactly SHELL -c SCRIPT or SHELL -lc SCRIPT. What looks like an option is one, also
// in the place of the script.
func scriptOf(argv []string) (shell, script string, ok bool) {
	if len(argv) != 3 || argv[1] != "-c" && argv[1] != "-lc" || strings.HasPrefix(argv[2], "-") || strings.HasPrefix(argv[2], "+") {
		return "", "", false
	}
	switch stem(argv[0]) {
	case "bash", "zsh", "sh":
		return argv[0], argv[2], true
	}
	return "", "", false
}

// Name is the name of a program without its folder.
func Name(program string) string { return stem(program) }

// Starts reports whether all that a program of that name does is to start another one.
func Starts(name string) bool {
	_, ok := starters[name]
	return ok || isLoader(name)
}

// stem is the name of a program without its folder and without the ending that Windows gives it.
func stem(program string) string {
	name := path.Base(strings.ReplaceAll(program, `\`, "/"))
	return strings.TrimSuffix(name, ".exe")
}

// systemFolders hold programs that only an administrator installs.
var systemFolders = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin"}

// System reports whether a program is named without a folder, or lies in one of the system's.
func System(program string) bool {
	return !strings.Contains(program, "/") || slices.Contains(systemFolders, path.Dir(program))
}

// Canonical is a command line without what makes no difference to what it does, for comparing: a script of one plain command
// is that command, whichever of the system's shells starts it.
func Canonical(argv []string) []string {
	shell, script, ok := scriptOf(argv)
	if !ok {
		return argv
	}
	if !System(shell) {
		return append([]string{"__gantry_script__"}, argv...)
	}
	if commands, ok := Plain(script); ok && len(commands) == 1 && commands[0].known() {
		return commands[0].Argv()
	}
	return []string{"__gantry_script__", argv[1], script}
}
