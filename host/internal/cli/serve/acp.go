package serve

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/acp"
	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/spf13/cobra"
)

func (a *app) acpCommand() *cobra.Command {
	var login string
	cmd := &cobra.Command{
		Use:   "acp [flags]",
		Short: "Serve an editor that speaks the Agent Client Protocol",
		Long: "acp serves the editor that started it, on standard input and output, in version 1 of the Agent Client Protocol. A session of the\n" +
			"editor is a thread, which other front ends see as well. When the editor closes standard input, running turns are interrupted.",
		Example: "  gantry acp",
		Args:    console.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("login") {
				return logIn(cmd, login)
			}
			return a.serveEditor(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&login, "login", "", "log in to a `PROVIDER` instead, like \"gantry login\": editors run this in a terminal")
	return cmd
}

// logIn runs the command login. Editors start a login with the command of the agent and additional arguments.
func logIn(cmd *cobra.Command, provider string) error {
	login, _, err := cmd.Root().Find([]string{"login"})
	if err != nil || login.RunE == nil {
		return hint.New("this build of gantry has no logins", "set a key in gantry.hcl")
	}
	login.SetContext(cmd.Context())
	return login.RunE(login, []string{provider})
}

// serveEditor serves the editor until it closes standard input, or a signal ends the process.
func (a *app) serveEditor(ctx context.Context) (err error) {
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	h, err := a.OpenHub(ctx, console.HubOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	cfg := acp.Config{Hub: h, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("acp")}
	if self, err := os.Executable(); err == nil {
		cfg.Login = []string{self, "login"}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ln, err := transport.Listen(ctx, transport.Config{
		Address: transport.Address{Kind: transport.Stdio}, Stdin: a.Stdin, Stdout: os.Stdout, Signals: signals, Logger: logger.Named("transport"),
	})
	if err != nil {
		return err
	}
	return ln.Serve(ctx, func(ctx context.Context, stream rpc.Stream, _ transport.Peer) {
		if err := acp.Serve(ctx, cfg, stream); err != nil {
			logger.Debug("the editor left", "err", err)
		}
	})
}
