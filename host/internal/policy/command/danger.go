package command

import "strings"

// Reasons why commands are dangerous.
const (
	ForcedRemoval = "rm -f style commands are not permitted. Use a safer approach" // codex-compatible
	Irreversible  = "commands that irreversibly discard data are not permitted. Use a safer approach"
)

// Dangerous finds a command that destroys data irreversibly; why is empty if there is none. It helps people to see what they approve. It
// is not a protection; that is the sandbox.
func (x Extraction) Dangerous() (c Command, why string) {
	for _, c := range x.Commands {
		if why := danger(c); why != "" {
			return c, why
		}
	}
	return nil, ""
}

func danger(c Command) string {
	if !c[0].Fixed {
		return ""
	}
	switch stem(c[0].Text) {
	case "rm":
		if option(c[1:], 'f', "--force", 3) {
			return ForcedRemoval
		}
	case "find":
		for _, w := range c[1:] {
			if w.Fixed && w.Text == "-delete" {
				return Irreversible
			}
		}
	case "git":
		switch sub, args := subcommand(c[1:]); sub {
		case "clean":
			if option(args, 'f', "--force", 3) && !option(args, 'n', "--dry-run", 3) {
				return Irreversible
			}
		case "reset":
			if option(args, 0, "--hard", 3) {
				return Irreversible
			}
		}
	case "shred":
		return Irreversible
	}
	return ""
}

// option reports whether an option is among the words before `--`: as a letter in a cluster, or by its long name, which may be abbreviated
// to atLeast bytes.
func option(args Command, letter rune, long string, atLeast int) bool {
	for _, w := range args {
		switch {
		case !w.Fixed:
		case w.Text == "--":
			return false
		case strings.HasPrefix(w.Text, "--"):
			if len(w.Text) >= atLeast && strings.HasPrefix(long, w.Text) {
				return true
			}
		case strings.HasPrefix(w.Text, "-") && letter != 0 && strings.ContainsRune(w.Text, letter):
			return true
		}
	}
	return false
}

// subcommand returns git's subcommand and the words after it.
func subcommand(args Command) (string, Command) {
	for len(args) > 0 && args[0].Fixed && strings.HasPrefix(args[0].Text, "-") {
		switch args[0].Text {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env", "--attr-source":
			args = args[min(2, len(args)):]
		default:
			args = args[1:]
		}
	}
	if len(args) == 0 || !args[0].Fixed {
		return "", nil
	}
	return args[0].Text, args[1:]
}
