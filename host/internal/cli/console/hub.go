package console

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/appserver/transport"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// HubOptions are a command's requirements for a hub.
type HubOptions struct {
	// Dir is the only folder in which threads run. Its configuration is read once, also for the store, and its warnings are printed. "":
	// threads run in many folders.
	Dir        string
	Ephemeral  bool                      // only ephemeral threads run
	OnlyLooks  bool                      // the command changes nothing that is stored
	OneTurn    bool                      // the command ends after one turn
	Keyless    bool                      // the command needs no keys
	TrustHooks bool                      // run hooks that the user has not trusted
	Override   func(*config.Model)       // changes the models of threads; nil: no change
	Needs      func(config.Process) bool // see [HostOptions]
	// OnWarnings is called with the warnings of a configuration that a thread uses, which are the same each time; nil: they are printed
	// once if Dir is set, otherwise logged.
	OnWarnings func(w hub.Workspace, ds diag.Diagnostics) error
	// Server returns the app server of this process, which also serves clients that connect to the socket of a thread and speak its
	// protocol; nil: each of them gets a server of its own.
	Server func() *appserver.Server
}

// Views finds views of a server for clients that connect for their frames, as [transport.Config] says.
func Views(server *appserver.Server) func(token string, p transport.Peer) (transport.Handler, bool) {
	return func(token string, p transport.Peer) (transport.Handler, bool) {
		handle, ok := server.Frames(token, p.Launched)
		return func(ctx context.Context, stream rpc.Stream, _ transport.Peer) { handle(ctx, stream) }, ok
	}
}

// OpenHub opens a hub. The configuration of each workspace is that of its folder, with the flags of the command line.
func (a *Env) OpenHub(ctx context.Context, o HubOptions) (*hub.Hub, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	logger, err := a.Logger()
	if err != nil {
		return nil, err
	}
	cfg, ds := a.ReadConfig(ctx, home, cmp.Or(o.Dir, a.Dir))
	if err := ds.Err(); err != nil {
		return nil, err
	}
	where, err := a.Database(cfg)
	if err != nil {
		return nil, err
	}
	if o.OnWarnings == nil {
		o.OnWarnings = func(w hub.Workspace, ds diag.Diagnostics) error {
			for _, d := range ds {
				logger.Warn("configuration", "dir", w.Dir, "warning", d.Summary)
			}
			return nil
		}
		if o.Dir != "" {
			if err := a.Warn(ds); err != nil {
				return nil, err
			}
			o.OnWarnings = func(hub.Workspace, diag.Diagnostics) error { return nil }
		}
	}
	read := func(ctx context.Context, w hub.Workspace, user []byte) (*config.Config, diag.Diagnostics, error) {
		cfg, ds := cfg, ds
		if w.Dir != o.Dir || len(w.Sets) > 0 || w.Profile != "" || user != nil {
			cfg, ds = a.readConfig(ctx, home, w.Dir, overrides{sets: w.Sets, profile: w.Profile, user: user})
		}
		if err := ds.Err(); err != nil {
			return nil, nil, err
		}
		if len(w.WritableRoots) > 0 {
			with := *cfg // cfg may be in use elsewhere
			with.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, w.WritableRoots)
			cfg = &with
		}
		return cfg, ds, nil
	}
	var h *hub.Hub
	opened := make(chan struct{}) // closed when h is set
	defer close(opened)
	serve := func(ctx context.Context, conn net.Conn, launched bool) {
		select {
		case <-opened:
		case <-ctx.Done():
			return
		}
		cfg := transport.Config{Logger: logger.Named("transport")}
		var server *appserver.Server
		if o.Server != nil {
			server = o.Server()
			cfg.Views = Views(server)
		}
		transport.ServeConn(ctx, cfg, conn, transport.Peer{Kind: transport.Unix, Launched: launched},
			func(ctx context.Context, stream rpc.Stream, p transport.Peer) {
				server := server
				if server == nil { // few processes have such clients, so they don't share a server
					server = appserver.New(appserver.Config{
						Hub: h, Home: home, Version: a.Version, Workspace: hub.Workspace{Dir: a.Dir}, Logger: logger.Named("appserver"),
					})
					defer server.Close()
				}
				if err := server.Serve(ctx, stream, p.Launched); err != nil {
					logger.Debug("client left", "err", err)
				}
			})
	}
	h, err = hub.New(ctx, hub.Config{
		Serve: serve,
		Home:  home, Store: ConfigOf(home, where, logger), Environ: a.Environ, Logger: logger, Ephemeral: o.Ephemeral || o.OnlyLooks, Lazy: o.Dir != "", OneTurn: o.OneTurn,
		Load: func(ctx context.Context, w hub.Workspace) (*config.Config, error) {
			cfg, ds, err := read(ctx, w, nil)
			if err != nil {
				return nil, err
			}
			return cfg, o.OnWarnings(w, ds)
		},
		Check: func(ctx context.Context, w hub.Workspace, user []byte) (*config.Config, error) {
			cfg, _, err := read(ctx, w, user)
			return cfg, err
		},
		Open: func(ctx context.Context, w hub.Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error) {
			return a.HostOf(ctx, home, cfg, HostOptions{
				Dir: w.Dir, Ephemeral: w.Ephemeral, OnlyLooks: o.OnlyLooks, Keyless: o.Keyless, TrustHooks: o.TrustHooks, Override: o.Override,
				Needs: o.Needs, sets: w.Sets, profile: w.Profile, shared: shared,
			})
		},
	})
	return h, err
}

// WithHub calls f with a hub and closes it. The store is the one that the configuration of the current folder says.
func (a *Env) WithHub(cmd *cobra.Command, f func(ctx context.Context, h *hub.Hub) error) error {
	return a.withHub(cmd, HubOptions{}, f)
}

// LookingIntoHub is like WithHub for an f that changes nothing. The store need not be writable.
func (a *Env) LookingIntoHub(cmd *cobra.Command, f func(ctx context.Context, h *hub.Hub) error) error {
	return a.withHub(cmd, HubOptions{OnlyLooks: true}, f)
}

func (a *Env) withHub(cmd *cobra.Command, o HubOptions, f func(ctx context.Context, h *hub.Hub) error) (err error) {
	ctx := cmd.Context()
	h, err := a.OpenHub(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return f(ctx, h)
}

// NamedThread resolves the user's name for a thread of a hub: an ID, a prefix of one, or a name. A thread that is not stored is found by
// its ID while it runs.
func NamedThread(ctx context.Context, h *hub.Hub, which string) (event.ThreadID, error) {
	info, err := h.Info(ctx, which)
	if err == nil {
		return info.ID, nil
	}
	if id, perr := event.ParseThreadID(which); perr == nil {
		if t, ok := h.Find(ctx, id); ok {
			return t.ID(), nil
		}
	}
	return "", err
}

// ThreadIn is like [NamedThread], and resolves "" to the most recent thread of the folder cwd, or of all folders. A number that names no
// thread is its number in the listing of these threads.
func ThreadIn(ctx context.Context, h *hub.Hub, which, cwd string, all bool) (event.ThreadID, error) {
	if which == "" {
		return newest(ctx, h.List, cwd, all)
	}
	id, err := NamedThread(ctx, h, which)
	if n, isNumber := listed(which); err != nil && isNumber {
		return nth(ctx, h.List, n, cwd, all)
	}
	return id, err
}

// Unwritable reports whether an error means that the home folder can't be written.
func Unwritable(home string, err error) bool { return store.IsUnwritable(err) && !host.Writable(home) }
