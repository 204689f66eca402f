package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isShell reports whether a program reads the language that is read here.
func isShell(name string) bool {
	switch name {
	case "sh", "bash", "rbash", "dash", "ash", "zsh", "rzsh", "ksh", "ksh93", "mksh", "oksh", "yash":
		return true
	}
	return false
}

// isForeign reports whether a program reads another language with a shell's power.
func isForeign(name string) bool {
	switch name {
	case "fish", "csh", "tcsh", "pwsh", "powershell", "cmd", "nu", "elvish", "xonsh":
		return true
	}
	return false
}

// shell follows the script that a shell is given.
func (x *extractor) shell(name string, c Command, in input, depth int) {
	variant := syntax.LangBash
	if strings.HasSuffix(name, "zsh") {
		variant = syntax.LangZsh
	}
	o, ok := shellOptions(c[1:])
	switch {
	case !ok:
		x.unresolved(strings.Join(c.Argv(), " "))
	case o.command && len(o.rest) == 0: // a mistake that the shell reports
	case o.command:
		// What stands behind the script are its parameters; the script says what becomes of them.
		x.text(o.rest[:1], variant, depth+1)
	case o.harmless:
	case len(o.rest) > 0 && !o.stdin: // a file; what is in it is mostly not on the command line
		x.sourced(o.rest[0], c, in, variant, depth)
	case in.known:
		x.script(in.text, variant, depth+1)
	default:
		x.unresolved(strings.Join(c.Argv(), " ") + " (reads its commands from its input)")
	}
}

type shellLine struct {
	command, stdin, harmless bool
	rest                     Command
}

// shellOptions reads a shell's own options. Not ok: they can't all be known.
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
