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
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Strict makes all mistakes on the command line usage errors with a next step. By default, cobra shows the help for an unknown
// subcommand and exits with status 0.
func (a *Env) Strict(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return UnknownCommand(cmd, args[0])
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			return cmp.Or(checkEmptyFlags(cmd), checkExclusive(cmd), checkColor(a.Flags.Color), check(cmd, args))
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

// Interruptible returns a context that ends with Ctrl-C or SIGTERM, so that child processes are stopped and files are written
// completely. A second signal terminates the program at once.
func Interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Terminal reports whether there is a user to ask.
func (a *Env) Terminal() bool { return a.Stdin != nil && term.IsTerminal(int(a.Stdin.Fd())) }

// Confirm asks on the terminal. Without a terminal it returns false. Input that was typed before the question is not an answer to
// it.
func (a *Env) Confirm(ctx context.Context, question string) bool {
	if !a.Terminal() {
		return false
	}
	fmt.Fprint(a.Stderr, question)
	discardTyped(a.Stdin)
	fmt.Fprint(a.Stderr, " [y/N] ")
	answer := make(chan string, 1)
	go func() { // owned by the terminal: exits with the line, at the latest with the process
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

// PrintJSON prints v as indented JSON.
func (a *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// Warn prints problems that do not end the command. A command that reads the configuration several times warns once.
func (a *Env) Warn(ds diag.Diagnostics) error {
	ds = slices.DeleteFunc(slices.Clone(ds), func(d diag.Diagnostic) bool {
		return d.Severity == diag.Warning && !a.warned.First(fmt.Sprint(d.Range, d.Summary, d.Detail))
	})
	if len(ds) == 0 {
		return nil
	}
	return diag.Write(a.Stderr, ds, a.Colour(a.Stderr))
}

// Exists reports whether a file exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// PathReason removes the file name from an error whose message already contains it.
func PathReason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// Missing describes why a file cannot be read.
func Missing(err error, path string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file %s doesn't exist", path)
	}
	return err
}
