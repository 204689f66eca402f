// Package command analyses command lines: which programs a shell script starts, with which words, and which of them are known to be
// read-only or destructive.
//
// It owns: parsing scripts with a complete shell grammar, the programs that start other programs, and the lists of safe and of dangerous
// commands. It must not know: rules, approval policies, sandboxes.
//
// Start with [Lower] and [Extract]. [Lower] is strict: it returns the commands of a script only if the script is a plain list of commands,
// so it can be relied on to allow something. [Extract] is broad: it returns every command anywhere in a script, and what it could not
// determine, so it can be relied on to restrict something.
package command

import (
	"path"
	"slices"
	"strings"
)

// Word is one word of a command.
type Word struct {
	// Text is the argument that the program gets, or the source text if the word is not fixed.
	Text string
	// Fixed says that the argument is known before the script runs. A word that is not fixed may become any number of arguments.
	Fixed bool
}

// Command is a simple command: a name and its arguments.
type Command []Word

// Fixed makes a command of fixed words.
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

// Known reports whether all words are fixed.
func (c Command) Known() bool {
	return !slices.ContainsFunc(c, func(w Word) bool { return !w.Fixed })
}

// Lowered is the strict analysis of a command line.
type Lowered struct {
	Commands []Command
	// Plain says that the line only starts the commands, one after the other or piped.
	Plain bool
	// Shell is the program that runs the script; empty: there is no script.
	Shell string
}

// Lower analyses a command line strictly. A line that is not plain is returned as one command.
func Lower(argv []string) Lowered {
	shell, script, ok := scriptOf(argv)
	if !ok {
		return Lowered{Commands: []Command{Fixed(argv...)}, Plain: true}
	}
	if commands, ok := Plain(script); ok {
		return Lowered{Commands: commands, Plain: true, Shell: shell}
	}
	return Lowered{Commands: []Command{Fixed(argv...)}, Shell: shell}
}

// scriptOf returns the script of a line that is exactly SHELL -c SCRIPT or SHELL -lc SCRIPT. A word that looks like an option is not a
// script.
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

// Name returns the name of a program without its folder.
func Name(program string) string { return stem(program) }

// Starts reports whether the purpose of a program with this name is to start another one.
func Starts(name string) bool {
	_, ok := starters[name]
	return ok || isLoader(name)
}

// stem returns the name of a program without its folder and its extension on Windows.
func stem(program string) string {
	name := path.Base(strings.ReplaceAll(program, `\`, "/"))
	return strings.TrimSuffix(name, ".exe")
}

// systemFolders contain programs that only an administrator can install.
var systemFolders = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin"}

// System reports whether a program is named without a folder, or with one of the system's folders.
func System(program string) bool {
	return !strings.Contains(program, "/") || slices.Contains(systemFolders, path.Dir(program))
}

// Canonical returns a command line in a form for comparison: a script of one plain command becomes that command, whichever of the system's
// shells runs it.
func Canonical(argv []string) []string {
	shell, script, ok := scriptOf(argv)
	if !ok {
		return argv
	}
	if !System(shell) {
		return append([]string{"__gantry_script__"}, argv...)
	}
	if commands, ok := Plain(script); ok && len(commands) == 1 && commands[0].Known() {
		return commands[0].Argv()
	}
	return []string{"__gantry_script__", argv[1], script}
}
