package console

import (
	"cmp"
	"context"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// OpenHub opens the hub of this process, for threads in any folder. The configuration of dir determines the database.
func (a *Env) OpenHub(ctx context.Context, dir string) (*hub.Hub, error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	logger, err := a.Logger()
	if err != nil {
		return nil, err
	}
	cfg, err := a.LoadConfig(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	where, err := a.Database(cfg)
	if err != nil {
		return nil, err
	}
	return hub.New(ctx, hub.Config{
		Home: home, Store: ConfigOf(home, where, logger), Logger: logger.Named("hub"),
		Load: func(ctx context.Context, w hub.Workspace) (*config.Config, error) {
			cfg, ds := a.readWith(ctx, home, w.Dir, slices.Concat(a.Flags.Sets, w.Sets), cmp.Or(w.Profile, a.Flags.Profile))
			if err := ds.Err(); err != nil {
				return nil, err
			}
			if len(w.WritableRoots) > 0 {
				cfg.Sandbox.WritableRoots = slices.Concat(cfg.Sandbox.WritableRoots, w.WritableRoots)
			}
			return cfg, nil
		},
		Open: func(ctx context.Context, w hub.Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error) {
			return a.HostOf(ctx, home, cfg, HostOptions{Dir: w.Dir, Ephemeral: w.Ephemeral, Shared: shared})
		},
	})
}
