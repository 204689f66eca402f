package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/web"
	"github.com/spf13/cobra"
)

func (a *app) webCommand() *cobra.Command {
	var port uint16
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "web [flags]",
		Short: "Work with threads in a web browser on this machine",
		Long: "web serves a page that shows all threads, runs new ones, and answers their questions. It prints a link that opens the page\n" +
			"once; the page can make further links. Other machines, other web pages and other programs have no access.\n\n" +
			"The first Ctrl-C waits until no turn is running, and a second one ends the server at once.",
		Example: "  gantry web\n  gantry web --port 4700 --no-open",
		Args:    console.Takes(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveWeb(cmd.Context(), port, !noOpen) },
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "listen on port `N` of 127.0.0.1 (default: any free one)")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "only print the link, instead of opening it in a browser as well")
	return cmd
}

// serveWeb serves the page until the server is stopped.
func (a *app) serveWeb(ctx context.Context, port uint16, open bool) (err error) {
	home, err := a.Home()
	if err != nil {
		return err
	}
	logger, err := a.Logger()
	if err != nil {
		return err
	}
	browser := &opener{}
	if open {
		browser = newOpener(a.Environ)
	}
	defer browser.close()
	var server *appserver.Server
	started := make(chan struct{}) // closed when server is set
	h, err := a.OpenHub(ctx, console.HubOptions{Server: func() *appserver.Server { <-started; return server }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	server = appserver.New(appserver.Config{
		Hub: h, Home: home, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("appserver"),
		FramePaths: true, Accounts: accounts{a, home},
	})
	close(started)
	defer server.Close()
	page, err := web.New(web.Config{Logger: logger.Named("web"), Artifact: func(ctx context.Context, thread, digest string) (io.ReadCloser, error) {
		id, err := event.ParseThreadID(thread)
		if err != nil {
			return nil, errors.Join(web.ErrNoArtifact, err)
		}
		r, err := h.Artifact(ctx, id, digest)
		if err != nil && hub.ErrorOf(err).Code == hub.NotFound {
			err = errors.Join(web.ErrNoArtifact, err)
		}
		return r, err
	}})
	if err != nil {
		return err
	}

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	ln, err := transport.Listen(ctx, transport.Config{
		Address: transport.Address{Kind: transport.TCP, TCP: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)},
		Page:    page, Home: home, Signals: signals, Idle: server.Idle, Logger: logger.Named("transport"), Views: console.Views(server),
	})
	if err != nil {
		return err
	}
	link := page.Link(ln.URL())
	fmt.Fprintf(a.Stderr, "Open this link, which works once:\n\n  %s\n\n", link)
	if open {
		browser.open(link, a.Environ)
	}
	return ln.Serve(ctx, func(ctx context.Context, stream rpc.Stream, p transport.Peer) {
		if err := server.Serve(ctx, stream, p.Launched); err != nil {
			logger.Debug("client left", "peer", p.Addr, "err", err)
		}
	})
}
