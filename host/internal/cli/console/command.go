package console

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Strict makes every mistake on the command line a usage error with a next step. Left to itself the library shows the help
// for an unknown subcommand and leaves with status 0.
func (a *Env) Strict(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			return cmp.Or(checkEmptyFlags(cmd), checkExclusive(cmd), a.checkColor(), check(cmd, args))
		}
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.Began = true
			return helped(cmd, run(cmd, args))
		}
	}
	for _, sub := range cmd.Commands() {
		a.Strict(sub)
	}
}

// Interruptible ends the context of a command with Ctrl-C or SIGTERM, so that what it started is stopped and what it was
// writing stays whole. A second signal ends the program at once.
func Interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Terminal tells whether somebody can be asked.
func (a *Env) Terminal() bool { return a.Stdin != nil && term.IsTerminal(int(a.Stdin.Fd())) }

// Confirm asks on the terminal. Without one nobody is asked, and the answer is no. What was typed before the question was
// there is no answer to it.
func (a *Env) Confirm(ctx context.Context, question string) bool {
	if !a.Terminal() {
		return false
	}
	fmt.Fprint(a.Stderr, question)
	discardTyped(a.Stdin)
	fmt.Fprint(a.Stderr, " [y/N] ")
	answer := make(chan string, 1)
	go func() { // owned by the terminal: ends with the line, at the latest with the process
		line, err := bufio.NewReader(a.Stdin).ReadString('\n')
		if err != nil {
			line = ""
		}
		answer <- line
	}()
	select {
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes"
	case <-ctx.Done():
		fmt.Fprintln(a.Stderr)
		return false
	}
}

// PrintJSON prints what a program asked for.
func (a *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// Warn shows problems that don't end the command.
func (a *Env) Warn(ds diag.Diagnostics) error {
	if len(ds) == 0 {
		return nil
	}
	return diag.Write(a.Stderr, ds, a.Colour(a.Stderr))
}

// Exists reports whether there is a file.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// PathReason is an error without the name of the file, where that is told anyway.
func PathReason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Missing says in words why a file can't be read.
func Missing(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file %s doesn't exist", path)
	}
	return err
}
