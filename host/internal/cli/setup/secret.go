package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
)

const maxSecretRead = 1 << 20

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "Manage the keys for secret(\"NAME\") in configuration files",
		Long: "Secrets are stored in gantry's home, encrypted. The encryption key is stored in the system's keyring or, if there is none,\n" +
			"in a file that only you can read. A provider's block refers to a secret as api_key = secret(\"NAME\"); no other block can\n" +
			"read it.",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "set NAME", Short: "Store a secret, typed without echo or read from standard input", Args: console.Takes(1, 1, "NAME"),
			RunE: func(cmd *cobra.Command, args []string) error {
				ctx, stop := console.Interruptible(cmd)
				defer stop()
				return a.setSecret(ctx, args[0])
			},
		},
		&cobra.Command{
			Use: "list", Short: "List the names of stored secrets", Args: console.Takes(0, 0),
			RunE: func(*cobra.Command, []string) error { return a.listSecrets() },
		},
		&cobra.Command{
			Use: "delete NAME", Short: "Delete a secret", Args: console.Takes(1, 1, "NAME"),
			RunE: func(_ *cobra.Command, args []string) error { return a.deleteSecret(args[0]) },
		},
	)
	return cmd
}

func (a *app) setSecret(ctx context.Context, name string) error {
	home, err := a.Home()
	if err != nil {
		return err
	}
	value, err := a.readSecret(ctx, "Secret "+render.Clean(name)+" (not shown): ")
	if err != nil {
		return err
	}
	v := a.Vault(home)
	if err := v.Put(console.UserSecret+name, value); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "Stored; its key is in %s. Use it as secret(%q).\n", v.Where(), name)
	return nil
}

// readSecret reads a line from the terminal without echo, or all of standard input.
func (a *app) readSecret(ctx context.Context, prompt string) (string, error) {
	if !a.Terminal() {
		b, err := io.ReadAll(io.LimitReader(a.Stdin, maxSecretRead+1))
		switch {
		case err != nil:
			return "", err
		case len(b) > maxSecretRead:
			return "", console.Usage("standard input has more than %d bytes, too many for a secret", maxSecretRead)
		}
		value := strings.TrimRight(string(b), "\r\n")
		if value == "" {
			return "", console.Usage("no secret on standard input")
		}
		return value, nil
	}
	return a.typeSecret(ctx, prompt)
}

// typeSecret reads a line from the terminal with echo switched off, and always restores it.
func (a *app) typeSecret(ctx context.Context, prompt string) (_ string, err error) {
	fd := int(a.Stdin.Fd())
	before, err := term.MakeRaw(fd) // before the prompt, so that nothing typed early is shown
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // owned by the terminal: exits with the line, at the latest with the process
		text, err := term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{a.Stdin, a.Stderr}, "").ReadPassword(prompt)
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		if errors.Is(l.err, io.EOF) || l.err == nil && l.text == "" { // Ctrl-C also ends the input
			fmt.Fprint(a.Stderr, "\r\n")
			return "", errors.New("no input; nothing was stored")
		}
		return l.text, l.err
	case <-ctx.Done():
		fmt.Fprint(a.Stderr, "\r\n")
		return "", context.Cause(ctx)
	}
}

func (a *app) listSecrets() error {
	home, err := a.Home()
	if err != nil {
		return err
	}
	names, err := a.Vault(home).Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if own, ok := strings.CutPrefix(n, console.UserSecret); ok {
			fmt.Fprintln(a.Stdout, render.Clean(own))
		}
	}
	return nil
}

func (a *app) deleteSecret(name string) error {
	home, err := a.Home()
	if err != nil {
		return err
	}
	err = a.Vault(home).Delete(console.UserSecret + name)
	if errors.Is(err, fs.ErrNotExist) {
		return hint.With(fmt.Errorf("unknown secret %q", name), "`gantry secret list` shows the names")
	}
	return err
}

// secrets reports where the key of stored secrets is kept.
func (d *doctor) secrets() {
	v := d.app.Vault(d.home)
	where, found, err := v.KeyLocation()
	if err != nil {
		d.say(ill, "secrets", "", "%w", err)
		return
	}
	names, err := v.Names()
	switch {
	case err != nil:
		d.say(ill, "secrets", "", "%w", err)
	case found:
		d.say(healthy, "secrets", "", "%d stored, their key is in %s", len(names), where)
	default:
		d.say(healthy, "secrets", "", "none stored; their key will be in %s", where)
	}
}
