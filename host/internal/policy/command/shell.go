package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a program is a shell whose language is analysed.
func isShell(name string) bool {
	switch name {
	case "sh", "bash", "rbash", "dash", "ash", "zsh", "rzsh", "ksh", "ksh93", "mksh", "oksh", "yash":
		return true
	}
	return false
}

// isForeign reports whether a program is a shell with another language.
func isForeign(name string) bool {
	switch name {
	case "fish", "csh", "tcsh", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh":
		return true
	}
	return false
}

// shell extracts from the script of a shell.
func (x *extractor) shell(name string, c Command, in input, depth int) {
	variant := syntax.LangBash
	if strings.HasSuffix(name, "zsh") {
		variant = syntax.LangZsh
	}
	o, ok := shellOptions(c[1:])
	switch {
	case !ok:
		x.unresolved(strings.Join(c.Argv(), " "))
	case o.command && len(o.rest) == 0: // an error that the shell reports
	case o.command:
		// The words after the script are its parameters.
		x.text(o.rest[:1], variant, depth+1)
	case o.harmless:
	case len(o.rest) > 0 && !o.stdin: // a file, whose content is usually not known
		x.sourced(o.rest[0], c, in, variant, depth)
	case in.known:
		x.script(in.text, variant, depth+1)
	default:
		x.unresolved(strings.Join(c.Argv(), " ") + " (reads its commands from its input)")
	}
}

// shellLine is the command line of a shell.
type shellLine struct {
	command, stdin, harmless bool
	rest                     Command
}

// shellOptions parses a shell's options; false: not all of them are known.
func shellOptions(args Command) (shellLine, bool) {
	var o shellLine
	for len(args) > 0 {
		if !args[0].Fixed {
			return o, false
		}
		a := args[0].Text
		switch {
		case a == "--" || a == "-":
			o.rest = args[1:]
			return o, true
		case a == "--rcfile" || a == "--init-file" || a == "--emulate":
			args = args[min(2, len(args)):]
			continue
		case a == "--version" || a == "--help":
			o.harmless = true
		case strings.HasPrefix(a, "--"):
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			takes := 0
			for _, letter := range a[1:] {
				switch letter {
				case 'c':
					o.command = o.command || a[0] == '-'
				case 's':
					o.stdin = true
				case 'o', 'O':
					takes++
				}
			}
			args = args[min(takes, len(args)-1):]
		default:
			o.rest = args
			return o, true
		}
		args = args[1:]
	}
	return o, true
}
