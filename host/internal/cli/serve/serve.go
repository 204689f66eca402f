// Package serve implements the commands that serve threads to other programs: app-server with its subcommands, acp, mcp serve, and web.
//
// It owns the flags of these commands. It does not know the protocol or how clients are connected.
//
// Start with [Commands].
package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/spf13/cobra"
)

// app is one invocation of the command line.
type app struct{ *console.Env }

// Commands returns the commands of this package.
func Commands(env *console.Env) []*cobra.Command {
	a := &app{env}
	return []*cobra.Command{a.acpCommand(), a.appServerCommand(), a.mcpCommand(), a.webCommand()}
}

func (a *app) appServerCommand() *cobra.Command {
	var f transport.Flags
	cmd := &cobra.Command{
		Use:   "app-server [flags]",
		Short: "Serve threads to editors and other programs, in the protocol of codex's app server",
		Long: "app-server serves JSON-RPC: to the program that started it, on standard input and output, or to any number of clients on a\n" +
			"unix socket or a websocket. Programs that were written for codex's app server work with it.\n\n" +
			"On stdio, the end of standard input ends the server, and running turns are interrupted. The client of a connected socket that\n" +
			"the parent passes on as descriptor N, fd://N, may leave: the server ends when no turn is running. Otherwise the first Ctrl-C\n" +
			"or SIGTERM waits until no turn is running, and a second one ends the server at once.",
		Example: "  gantry app-server\n  gantry app-server --listen unix://\n  gantry app-server --listen ws://127.0.0.1:4500 --ws-auth capability-token --ws-token-file token",
		Args:    console.Takes(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), &f) },
	}
	f.Register(cmd.Flags())
	cmd.AddCommand(a.proxyCommand(), a.generateCommand("generate-json-schema", "JSON Schemas", protocol.WriteJSONSchema),
		a.generateCommand("generate-ts", "TypeScript types", protocol.WriteTypeScript))
	return cmd
}

func (a *app) proxyCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "proxy [flags]",
		Short: "Connect standard input and output to the socket of a running app server",
		Args:  console.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				home, err := a.Home()
				if err != nil {
					return err
				}
				path = transport.ControlSocket(home)
			}
			return transport.Proxy(cmd.Context(), path, a.Stdin, os.Stdout)
		},
	}
	cmd.Flags().StringVar(&path, "sock", "", "the socket's `PATH` (default: that of --listen unix://)")
	return cmd
}

func (a *app) generateCommand(name, what string, write func(dir string, experimental bool) error) *cobra.Command {
	var dir string
	var experimental bool
	cmd := &cobra.Command{
		Use:   name + " --out DIR [flags]",
		Short: "Write the " + what + " of the app server's protocol",
		Args:  console.Takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return console.UsageError{Text: "--out is missing", Next: "name the folder to write to"}
			}
			return write(dir, experimental)
		},
	}
	cmd.Flags().StringVarP(&dir, "out", "o", "", "write to the folder `DIR`")
	cmd.Flags().BoolVar(&experimental, "experimental", false, "include what needs the capability experimentalApi")
	return cmd
}

// serve serves clients until the server is stopped.
func (a *app) serve(ctx context.Context, f *transport.Flags) (err error) {
	addr, auth, err := f.Parse()
	if err != nil {
		text, next := hint.Split(err)
		return console.UsageError{Text: text, Next: next}
	}
	if addr.Kind == transport.Off {
		return hint.New("a server that listens nowhere has no clients", "use --listen stdio://, unix:// or ws://IP:PORT")
	}
	home, err := a.Home()
	if err != nil {
		return err
	}
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	var server *appserver.Server
	started := make(chan struct{}) // closed when server is set
	h, err := a.OpenHub(ctx, console.HubOptions{Server: func() *appserver.Server { <-started; return server }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	server = appserver.New(appserver.Config{
		Hub: h, Home: home, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("appserver"),
		FramePaths: addr.Kind == transport.Unix || addr.Kind == transport.TCP,
		Accounts:   accounts{a, home},
	})
	close(started)
	defer server.Close()

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	ln, err := transport.Listen(ctx, transport.Config{
		Address: addr, Auth: auth, Home: home, Stdin: a.Stdin, Stdout: os.Stdout, Signals: signals, Idle: server.Idle, Logger: logger.Named("transport"),
		Views: console.Views(server),
	})
	if err != nil {
		return err
	}
	if addr.Kind == transport.Unix || addr.Kind == transport.TCP {
		fmt.Fprintf(a.Stderr, "listening on %s\n", ln.URL())
	}
	return ln.Serve(ctx, func(ctx context.Context, stream rpc.Stream, p transport.Peer) {
		if err := server.Serve(ctx, stream, p.Launched); err != nil {
			logger.Debug("client left", "peer", p.Addr, "err", err)
		}
	})
}
