package serve

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/mcpserver"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/spf13/cobra"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mcp COMMAND", Short: "Serve agents and tools over the Model Context Protocol", Args: console.Takes(0, 0)}
	cmd.AddCommand(a.mcpServeCommand())
	return cmd
}

func (a *app) mcpServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve agents as tools of an MCP server",
		Long: "serve is an MCP server: a client starts agents with the tool gantry, continues their conversations with gantry-reply, and puts their\n" +
			"questions to its user. It serves the program that started it, on standard input and output. When the client closes standard input,\n" +
			"running agents are interrupted.",
		Example: "  gantry mcp serve",
		Args:    console.Takes(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context()) },
	}
	return cmd
}

// serveMCP serves MCP clients until the one on standard input leaves, or a signal ends the process.
func (a *app) serveMCP(ctx context.Context) (err error) {
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	h, err := a.OpenHub(ctx, console.HubOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	server, err := mcpserver.New(mcpserver.Config{Hub: h, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("mcp")})
	if err != nil {
		return err
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
		if err := server.Serve(ctx, stream); err != nil {
			logger.Debug("the client left", "err", err)
		}
	})
}
