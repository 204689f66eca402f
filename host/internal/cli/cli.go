// Package cli is the command line: it assembles the commands, which are in packages by subject, and completes words.
//
// It owns the list of commands and the flags that all commands have. Its subpackages own the commands (run, threads, plugins,
// setup, safety), what they share (console), how events are displayed (render), and the compatibility with codex's exec (codex).
// It does not know how a thread, a plugin or a store works.
//
// Start with [Main]. Conventions for the streams: the requested output goes to standard output, everything else to standard error.
// Exit statuses: 0 success, 1 failure, 2 usage error; 3 is specific to `config fmt --check`.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/plugins"
	"github.com/gantry-agent/gantry/host/internal/cli/run"
	"github.com/gantry-agent/gantry/host/internal/cli/safety"
	"github.com/gantry-agent/gantry/host/internal/cli/serve"
	"github.com/gantry-agent/gantry/host/internal/cli/setup"
	"github.com/gantry-agent/gantry/host/internal/cli/threads"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// app is one invocation of the command line.
type app struct {
	*console.Env
	args []string // as they were given
}

// Main runs the command line and returns the exit status. builtins pins gantry's own plugins as NAME=SHA256, separated by commas;
// names that are not listed are not checked. drivers are database drivers in addition to the built-in one.
func Main(version, builtins string, args []string, drivers ...store.Driver) int {
	keepOut()
	defer ballast()()
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: the current folder can't be read:", err)
		return 1
	}
	ctx, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	a := &app{args: args, Env: &console.Env{
		Version: version, Builtins: console.ParsePins(builtins), Drivers: drivers, Stdin: os.Stdin, Stdout: &console.Output{File: os.Stdout}, Stderr: os.Stderr, Dir: dir, Environ: os.Environ(),
		Leave: func() { leave(orchestrate.ErrShutdown) },
	}}
	status := a.run(ctx, args)
	if a.EndedBy != nil {
		return run.EndBy(a.EndedBy)
	}
	return status
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	if lost := a.Stdout.Lost(); lost != nil && (err == nil || !a.Began) {
		err = lost // even if the command succeeded, its output was lost
	}
	if _, told := errors.AsType[console.UsageError](err); err != nil && !a.Began && !told && a.Stdout.Lost() == nil {
		err = console.Usage("%w", err)
	}
	return a.Status(err)
}

func (a *app) root() *cobra.Command {
	name := "gantry"
	for _, d := range a.Drivers {
		name += "-" + d.Name()
	}
	root := &cobra.Command{
		Use:   name,
		Short: "A host for AI agents in which every tool and model provider is a plugin",
		Long: "gantry runs the agent loop, enforces your policies, and records everything. Tools and model providers are separate\n" +
			"programs, configured in gantry.hcl. Without a command, it opens the terminal interface.",
		Example: "  gantry                                         # work in the terminal\n" +
			"  gantry init                                    # create a first gantry.hcl\n" +
			"  gantry exec \"what does this project do?\"\n" +
			"  gantry resume --last \"and what is missing?\"\n" +
			"  gantry threads list",
		Version:       a.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(console.FlagError)
	fs := root.PersistentFlags()
	fs.Var(&settings{app: a, file: true}, "config", "read `FILE` after all other configuration files")
	fs.VarP(&settings{app: a}, "set", "c", "override a setting with `NAME=VALUE`, as in -c approval.policy=never; can be repeated")
	fs.StringVarP(&a.Flags.Profile, "profile", "p", "", "use the profile `NAME`")
	fs.StringVar(&a.Flags.Home, "home", "", "use `DIR` instead of ~/.gantry (or $GANTRY_HOME)")
	fs.StringVar(&a.Flags.Color, "color", "auto", "`WHEN` to use colours: auto (on a terminal), always, never")
	fs.BoolVar(&a.Flags.NoUser, "ignore-user-config", false, "ignore your own gantry.hcl")
	fs.StringVar(&a.Flags.Log, "log", "", "log to standard error at `LEVEL`: trace, debug, info, warn, error (default warn)")
	root.AddCommand(slices.Concat(
		run.Commands(a.Env), threads.Commands(a.Env), serve.Commands(a.Env), plugins.Commands(a.Env), setup.Commands(a.Env), safety.Commands(a.Env),
	)...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "mcp" {
			cmd.AddCommand(run.MCPCall(a.Env))
		}
	}
	root.SetHelpCommand(console.HelpCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			for _, shell := range cmd.Commands() {
				shell.Args = console.Takes(0, 0)
			}
		}
	}
	plugins.Short(a.Env, root)
	a.openTerminal(root)
	a.complete(root)
	a.Strict(root)
	return root
}
