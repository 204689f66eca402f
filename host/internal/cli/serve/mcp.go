package serve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/mcpserver"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/spf13/cobra"
)

func (a *app) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp COMMAND", Short: "Serve agents and tools over the Model Context Protocol", Args: console.Takes(0, 0),
		Long: "mcp serves agents and tools to clients of the Model Context Protocol. If the plugin mcp is configured, its commands are here as\n" +
			"well. They manage the servers whose tools gantry uses.",
	}
	cmd.AddCommand(a.mcpServeCommand())
	return cmd
}

func (a *app) mcpServeCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve agents as tools of an MCP server",
		Long: "serve is an MCP server: a client starts agents with the tool gantry, continues their conversations with gantry-reply, and puts their\n" +
			"questions to its user. With --tools, it calls tools of plugins itself. The server serves the program that started it, on standard input and output; with --http, any number of clients over\n" +
			"streamable HTTP. When the client closes standard input, or after Ctrl-C, running agents are interrupted.",
		Example: "  gantry mcp serve\n  gantry mcp serve --tools shell,python\n  gantry mcp serve --http 127.0.0.1:4600 --token-file token",
		Args:    console.Takes(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.http, flagHTTP, "", "serve HTTP on `[IP:]PORT` instead of standard input and output; port 0: any free one")
	cmd.Flags().StringVar(&f.tokenFile, flagToken, "", "read the token of HTTP clients from `PATH`")
	cmd.Flags().StringSliceVar(&f.tools, "tools", nil, "also offer the tools of the plugins with these `LABELS`, separated by commas")
	cmd.Flags().BoolVar(&f.wider, "allow-wider", false, "let clients ask for folders elsewhere, a wider sandbox, other approvals and any settings than configured")
	cmd.Flags().BoolVar(&f.noAuth, flagNoToken, false, "let every local process use HTTP on a loopback address")
	return cmd
}

// mcpFlags are the flags of mcp serve.
type mcpFlags struct {
	http, tokenFile string
	noAuth          bool
	wider           bool     // clients may ask for more than the configuration permits
	tools           []string // labels of plugins
}

const (
	flagHTTP    = "http"
	flagToken   = "token-file"
	flagNoToken = "no-auth"
)

// transport returns where clients connect and how they authenticate. Errors are usage errors.
func (f mcpFlags) transport() (transport.Address, transport.Auth, error) {
	none := func(text, next string) (transport.Address, transport.Auth, error) {
		return transport.Address{}, transport.Auth{}, console.UsageError{Text: text, Next: next}
	}
	if f.http == "" {
		if f.tokenFile != "" || f.noAuth {
			return none("clients on standard input need no token", "remove --"+flagToken+" and --"+flagNoToken+", or add --"+flagHTTP+" [IP:]PORT")
		}
		return transport.Address{Kind: transport.Stdio}, transport.Auth{}, nil
	}
	at := f.http
	if !strings.Contains(at, ":") {
		at = "127.0.0.1:" + at
	}
	tcp, err := netip.ParseAddrPort(at)
	if err != nil {
		return none(fmt.Sprintf("invalid value %q for --%s: it is not an IP address and a port", f.http, flagHTTP), "use [IP:]PORT, for example 127.0.0.1:4600, or 0 for any free port")
	}
	addr := transport.Address{Kind: transport.TCP, TCP: netip.AddrPortFrom(tcp.Addr().Unmap(), tcp.Port())}
	const token = "add --" + flagToken + " PATH"
	switch {
	case f.noAuth && f.tokenFile != "":
		return none("--"+flagNoToken+" and --"+flagToken+" exclude each other", "remove one of them")
	case f.noAuth && !addr.TCP.Addr().IsLoopback():
		return none(fmt.Sprintf("other machines can reach %s", f.http), token+", or listen on 127.0.0.1")
	case f.noAuth:
		return addr, transport.Auth{Mode: transport.AuthNone}, nil
	case f.tokenFile == "":
		return none("clients over HTTP must authenticate", token+"; or --"+flagNoToken+", which lets every local user and process run agents")
	}
	return addr, transport.Auth{Mode: transport.CapabilityToken, TokenFile: f.tokenFile}, nil
}

// serveMCP serves MCP clients until the one on standard input leaves, or a signal ends the process.
func (a *app) serveMCP(ctx context.Context, f mcpFlags) (err error) {
	addr, auth, err := f.transport()
	if err != nil {
		return err
	}
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	h, err := a.OpenHub(ctx, console.HubOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	cfg := mcpserver.Config{Hub: h, Tools: f.tools, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("mcp")}
	if !f.wider {
		home, err := a.Home()
		if err != nil {
			return err
		}
		cfg.Widening = func(ctx context.Context, dir string, sets []string) []string {
			return console.Widening(ctx, a.Env, home, dir, sets)
		}
	}
	server, err := mcpserver.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ln, err := transport.Listen(ctx, transport.Config{
		Address: addr, Auth: auth, HTTP: server.Handler(), Stdin: a.Stdin, Stdout: os.Stdout, Signals: signals, Logger: logger.Named("transport"),
	})
	if err != nil {
		return err
	}
	if addr.Kind != transport.Stdio {
		fmt.Fprintf(a.Stderr, "listening on %s\n", ln.URL())
	}
	return ln.Serve(ctx, func(ctx context.Context, stream rpc.Stream, _ transport.Peer) {
		if err := server.Serve(ctx, stream); err != nil {
			logger.Debug("the client left", "err", err)
		}
	})
}
