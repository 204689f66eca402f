package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/codex"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError says that the command line is wrong. It ends the program with status 2.
type UsageError struct {
	Text string
	Next string // empty: the help of the command
}

// Error implements error.
func (e UsageError) Error() string { return e.Text }

// Usage makes a [UsageError]. Its next step is that of an error among args, or else the help of the command.
func Usage(format string, args ...any) error {
	text, next := hint.Split(fmt.Errorf(format, args...))
	return UsageError{text, next}
}

// helped gives a usage error of a command its help as the next step, unless there is a better one.
func helped(cmd *cobra.Command, err error) error {
	u, ok := errors.AsType[UsageError](err)
	if !ok || u.Next != "" {
		return err
	}
	return UsageError{u.Text, "see " + helpOf(cmd)}
}

// helpOf is how to ask for a command's help.
func helpOf(cmd *cobra.Command) string {
	return "`" + strings.TrimSpace("gantry help "+strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")) + "`"
}

// unknownCommand is the error for a subcommand that is not there.
func unknownCommand(cmd *cobra.Command, given string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	place := ""
	if cmd.HasParent() {
		place = fmt.Sprintf(" in `%s`", cmd.CommandPath())
	}
	next := helpOf(cmd) + " lists the commands"
	if given != "" && cmd.Flags().Lookup(given) != nil {
		next = fmt.Sprintf("did you mean \"--%s\"? %s", given, next)
	} else if name := diag.Suggest(given, names); name != "" {
		next = fmt.Sprintf("did you mean %q? %s", name, next)
	}
	return UsageError{fmt.Sprintf("unknown command %q%s", given, place), next}
}

// Takes checks the number of arguments. The names are those of the usage line; what is beyond most (-1: any number) is
// named, and so is what is missing of the first least.
func Takes(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return UsageError{fmt.Sprintf("%s is missing", names[len(args)]), fmt.Sprintf("use `%s`; see %s", usageLine(cmd), helpOf(cmd))}
		case most == 0 && len(args) > 0:
			return UsageError{fmt.Sprintf("`%s` takes no arguments, but got %q", cmd.CommandPath(), args[0]), "remove it; see " + helpOf(cmd)}
		case most > 0 && len(args) > most:
			next := "remove it; see " + helpOf(cmd)
			if names[most-1] == TaskArgument {
				next = "put a task of several words in quotes"
			}
			return UsageError{fmt.Sprintf("unexpected argument %q for `%s`", args[most], cmd.CommandPath()), next}
		}
		return nil
	}
}

// TaskArgument is the name of an argument that people write in several words.
const TaskArgument = "TASK"

func usageLine(cmd *cobra.Command) string {
	path := cmd.CommandPath()
	if _, rest, ok := strings.Cut(cmd.Use, " "); ok {
		path += " " + rest
	}
	return path
}

// Exclusive says that only one of some flags may be given. A command may have several such groups.
func Exclusive(cmd *cobra.Command, names ...string) {
	cmd.MarkFlagsMutuallyExclusive(names...) // completion proposes no second one
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[exclusiveFlags] += strings.Join(names, " ") + ";"
}

const exclusiveFlags = "exclusive flags"

// checkExclusive comes before the library's own check, which has other words.
func checkExclusive(cmd *cobra.Command) error {
	for group := range strings.SplitSeq(cmd.Annotations[exclusiveFlags], ";") {
		given := slices.DeleteFunc(strings.Fields(group), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return UsageError{fmt.Sprintf("--%s and --%s can't be combined", given[0], given[1]), "keep one of them; see " + helpOf(cmd)}
		}
	}
	return nil
}

// checkEmptyFlags refuses a flag that was given and is empty: a variable that is not set must not stand for the default.
func checkEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = UsageError{fmt.Sprintf("%s is empty in `%s`", flagText(f), cmd.CommandPath()),
				fmt.Sprintf("use %s, or omit it; see %s", flagForm(f), helpOf(cmd))}
		}
	})
	return err
}

// checkColor refuses what --color does not know.
func (a *Env) checkColor() error {
	if !slices.Contains(ColorWords, a.Flags.Color) {
		return UsageError{fmt.Sprintf("invalid value %q for --color", a.Flags.Color), diag.DidYouMean(a.Flags.Color, ColorWords, "use auto, always or never")}
	}
	return nil
}

// ColorWords are the values of --color.
var ColorWords = []string{"auto", "always", "never"}

// FlagError says in our words what is wrong with a flag.
func FlagError(cmd *cobra.Command, err error) error {
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	place := fmt.Sprintf("in `%s`", cmd.CommandPath())
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		next := "see " + helpOf(cmd)
		if group := e.GetSpecifiedShortnames(); group != "" {
			text := fmt.Sprintf("unknown flag %q %s", "-"+group, place)
			if len(group) > 1 {
				text = fmt.Sprintf("unknown flag %q, in %q, %s", "-"+e.GetSpecifiedName(), "-"+group, place)
			}
			if i := slices.Index(flags, "--"+group); i >= 0 {
				next = fmt.Sprintf("did you mean %q? %s", flags[i], next)
			}
			if strings.Contains(cmd.Use, TaskArgument) && next == "see "+helpOf(cmd) {
				next = "put -- before a task that starts with a dash; " + next
			}
			return UsageError{text, next}
		}
		given := "--" + e.GetSpecifiedName()
		if other := nextFor(cmd, e.GetSpecifiedName()); other != "" {
			next = other
		} else if name := diag.Suggest(given, flags); name != "" {
			next = fmt.Sprintf("did you mean %q? %s", name, next)
		}
		return UsageError{fmt.Sprintf("unknown flag %q %s", given, place), next}
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return UsageError{fmt.Sprintf("%s needs a value %s", flagText(e.GetFlag()), place), fmt.Sprintf("use %s; see %s", flagForm(e.GetFlag()), helpOf(cmd))}
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := map[string]string{"int": "a whole number", "bool": "true or false"}[e.GetFlag().Value.Type()]
		if kind == "" {
			return UsageError{fmt.Sprintf("invalid value %q for %s %s: %v", e.GetValue(), flagText(e.GetFlag()), place, e.Unwrap()), "see " + helpOf(cmd)}
		}
		return UsageError{fmt.Sprintf("invalid value %q for %s %s: it must be %s", e.GetValue(), flagText(e.GetFlag()), place, kind), "see " + helpOf(cmd)}
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return UsageError{fmt.Sprintf("invalid flag %q %s", e.GetSpecifiedFlag(), place), "see " + helpOf(cmd)}
	}
	return UsageError{fmt.Sprintf("%v (%s)", err, place), "see " + helpOf(cmd)}
}

func flagText(f *pflag.Flag) string { return "--" + f.Name }

// flagForm is how a flag is written: "--config FILE".
func flagForm(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return "--" + f.Name + " " + strings.ToUpper(name)
}

// HelpCommand is the library's, but a command that is not there is a mistake.
func HelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show help for a command",
		Long: "help describes a command and its flags. Without a COMMAND, it lists the commands.",
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for _, sub := range cmd.Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begun) {
					out = append(out, sub.Name()+"\t"+sub.Short)
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd := root
			for _, name := range args {
				i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if i < 0 {
					return unknownCommand(cmd, name)
				}
				cmd = cmd.Commands()[i]
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// nextFor is what to do about a flag of codex's exec that is not here; empty: it is none.
func nextFor(cmd *cobra.Command, flag string) string {
	if cmd.Flags().Lookup("skip-git-repo-check") == nil {
		return ""
	}
	return codex.Next(flag)
}
