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

// UsageError is an error in the command line. It ends the program with status 2.
type UsageError struct {
	Text string
	Next string // empty: refer to the command's help
}

// Error implements error.
func (e UsageError) Error() string { return e.Text }

// Usage returns a [UsageError]. Its next step is that of an error in args, otherwise the command's help.
func Usage(format string, args ...any) error {
	text, next := hint.Split(fmt.Errorf(format, args...))
	return UsageError{text, next}
}

// helped adds the command's help as the next step to a usage error that has none.
func helped(cmd *cobra.Command, err error) error {
	u, ok := errors.AsType[UsageError](err)
	if !ok || u.Next != "" {
		return err
	}
	return UsageError{u.Text, "see " + helpOf(cmd)}
}

// helpOf returns the command line that shows a command's help.
func helpOf(cmd *cobra.Command) string {
	return "`" + strings.TrimSpace("gantry help "+strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")) + "`"
}

// UnknownCommand returns the error for an unknown subcommand.
func UnknownCommand(cmd *cobra.Command, given string) error {
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

// Takes checks the number of arguments, least to most (-1: unlimited). names are those in the usage line. The error names missing
// and extra arguments.
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

// TaskArgument is the name of an argument that may consist of several words.
const TaskArgument = "TASK"

func usageLine(cmd *cobra.Command) string {
	path := cmd.CommandPath()
	if _, rest, ok := strings.Cut(cmd.Use, " "); ok {
		path += " " + rest
	}
	return path
}

// Exclusive makes flags mutually exclusive. A command may have several such groups.
func Exclusive(cmd *cobra.Command, names ...string) {
	cmd.MarkFlagsMutuallyExclusive(names...) // for completion, which then omits the other flags
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[exclusiveFlags] += strings.Join(names, " ") + ";"
}

const exclusiveFlags = "exclusive flags"

// checkExclusive runs before cobra's own check, for a better message.
func checkExclusive(cmd *cobra.Command) error {
	for group := range strings.SplitSeq(cmd.Annotations[exclusiveFlags], ";") {
		given := slices.DeleteFunc(strings.Fields(group), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return UsageError{fmt.Sprintf("--%s and --%s can't be combined", given[0], given[1]), "keep one of them; see " + helpOf(cmd)}
		}
	}
	return nil
}

// checkEmptyFlags rejects flags with an empty value: an unset shell variable must not silently select the default.
func checkEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = UsageError{fmt.Sprintf("%s is empty in `%s`", flagText(f), cmd.CommandPath()),
				fmt.Sprintf("use %s, or omit it; see %s", flagForm(f), helpOf(cmd))}
		}
	})
	return err
}

// checkColor validates --color.
func checkColor(word string) error {
	if !slices.Contains(ColorWords, word) {
		return UsageError{fmt.Sprintf("invalid value %q for --color", word), diag.DidYouMean(word, ColorWords, "use auto, always or never")}
	}
	return nil
}

// ColorWords are the values of --color.
var ColorWords = []string{"auto", "always", "never"}

// FlagError rewords cobra's flag errors.
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

// flagForm returns a flag with its argument: "--config FILE".
func flagForm(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return "--" + f.Name + " " + strings.ToUpper(name)
}

// PluginCommands is the annotation of commands that also run the commands of the plugin of the same name.
const PluginCommands = "plugin-commands"

// HelpCommand is cobra's help command, except that an unknown command is an error.
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
				if i < 0 && cmd == root { // perhaps the label of a plugin
					return root.RunE(root, append(slices.Clip(args), "--help"))
				}
				if i < 0 && cmd.Annotations[PluginCommands] != "" {
					cmd.SetContext(root.Context())
					return cmd.RunE(cmd, append(slices.Clip(args[1:]), "--help"))
				}
				if i < 0 {
					return UnknownCommand(cmd, name)
				}
				cmd = cmd.Commands()[i]
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// nextFor returns the next step for a flag of codex's exec that gantry lacks, or "" for other flags.
func nextFor(cmd *cobra.Command, flag string) string {
	if cmd.Flags().Lookup("skip-git-repo-check") == nil {
		return ""
	}
	return codex.Next(flag)
}
