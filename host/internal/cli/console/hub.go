package console

import (
	"context"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// HubOptions are a command's requirements for a hub.
type HubOptions struct {
	Keyless    bool                // the command needs no keys
	TrustHooks bool                // run hooks that the user has not trusted
	Override   func(*config.Model) // changes the models of threads; nil: no change
	// OnWarnings is called with the warnings of a configuration that a thread uses, which are the same each time; nil: they are logged.
	OnWarnings func(w hub.Workspace, ds diag.Diagnostics) error
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
	where, err := a.storeConfig(ctx)
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
	}
	read := func(ctx context.Context, w hub.Workspace, user []byte) (*config.Config, diag.Diagnostics, error) {
		cfg, ds := a.readConfig(ctx, home, w.Dir, overrides{sets: w.Sets, profile: w.Profile, user: user})
		if err := ds.Err(); err != nil {
			return nil, nil, err
		}
		if len(w.WritableRoots) > 0 {
			cfg.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, w.WritableRoots)
		}
		return cfg, ds, nil
	}
	return hub.New(ctx, hub.Config{
		Home: home, Store: where, Environ: a.Environ, Logger: logger,
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
				Dir: w.Dir, Ephemeral: w.Ephemeral, Keyless: o.Keyless, TrustHooks: o.TrustHooks, Override: o.Override,
				sets: w.Sets, profile: w.Profile, shared: shared,
			})
		},
	})
}
