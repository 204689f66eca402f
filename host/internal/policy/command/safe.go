package command

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Safe reports whether a command line is known to be read-only: each of its commands is, and is the system's program of that name.
func Safe(argv []string) bool {
	low := Lower(argv)
	if !low.Plain || low.Shell != "" && !System(low.Shell) {
		return false
	}
	for _, c := range low.Commands {
		if !safe(c) {
			return false
		}
	}
	return len(low.Commands) > 0
}

// readOnly lists programs that are read-only with all arguments.
var readOnly = []string{
	"cat", "cd", "cut", "echo", "expr", "false", "grep", "head", "id", "ls", "nl", "paste", "pwd", "rev", "seq", "stat", "tail", "tr", "true",
	"uname", "wc", "which", "whoami",
}

func safe(c Command) bool {
	if len(c) == 0 || !c[0].Fixed || !System(c[0].Text) {
		return false
	}
	name, args := stem(c[0].Text), c[1:].Argv()
	if slices.Contains(readOnly, name) || runtime.GOOS == "linux" && (name == "numfmt" || name == "tac") {
		return true
	}
	if !c.Known() { // the name of a file may be an option
		return false
	}
	switch name {
	case "uniq": // it writes to a second file
		return len(slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && a != "-" })) < 2
	case "base64":
		return !slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "o") || abbreviates(a, "--output")
		})
	case "find":
		return !slices.ContainsFunc(args, func(a string) bool {
			return slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}, a)
		})
	case "rg":
		return !slices.ContainsFunc(args, func(a string) bool {
			cluster := strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
			return cluster && strings.Contains(a, "z") || abbreviates(a, "--pre") || abbreviates(a, "--hostname-bin") || abbreviates(a, "--search-zip")
		})
	case "git":
		return safeGit(args)
	case "sed":
		return safeSed(args)
	}
	return false
}

// abbreviates reports whether an argument is a long option, which may be abbreviated and have a value.
func abbreviates(arg, long string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return len(name) > 2 && strings.HasPrefix(long, name)
}

// safeGit reports whether a subcommand of git is read-only, without options that make git run a program or write elsewhere.
func safeGit(args []string) bool {
	at := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if at < 0 {
		return false
	}
	for _, a := range args[:at] {
		name, _, _ := strings.Cut(a, "=")
		if strings.HasPrefix(a, "-C") || strings.HasPrefix(a, "-c") || slices.Contains([]string{
			"-p", "--paginate", "--config-env", "--exec-path", "--git-dir", "--namespace", "--super-prefix", "--work-tree",
		}, name) {
			return false
		}
	}
	sub, rest := args[at], args[at+1:]
	for _, a := range rest {
		for _, long := range []string{"--output", "--ext-diff", "--textconv", "--exec"} {
			if len(a) > 4 && abbreviates(a, long) {
				return false
			}
		}
	}
	switch sub {
	case "status", "log", "diff", "show":
		return true
	case "branch":
		return !slices.ContainsFunc(rest, func(a string) bool {
			return !strings.HasPrefix(a, "--format=") && !slices.Contains([]string{
				"--list", "-l", "--show-current", "-a", "--all", "-r", "--remotes", "-v", "-vv", "--verbose",
			}, a)
		})
	}
	return false
}

var sedLines = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+,)?\d+p$`) })

// safeSed reports whether sed only prints lines.
func safeSed(args []string) bool {
	return len(args) >= 2 && len(args) <= 3 && args[0] == "-n" && sedLines().MatchString(args[1]) &&
		(len(args) == 2 || !strings.HasPrefix(args[2], "-"))
}
