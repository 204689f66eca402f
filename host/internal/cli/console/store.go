package console

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
)

// Database returns the configured database. Its errors have the position of the setting.
func (a *Env) Database(cfg *config.Config) (store.Database, error) {
	if cfg.Store.Driver == schema.DriverSQLite {
		return store.Database{}, nil
	}
	for _, d := range a.Drivers {
		if d.Name() != cfg.Store.Driver {
			continue
		}
		address, ds := cfg.Store.Address()
		return store.Database{Driver: d, Source: address.Value}, ds.Err()
	}
	return store.Database{}, diag.Failure{Diagnostics: diag.Diagnostics{cfg.Place(cfg.Store.Range, diag.Diagnostic{
		Severity: diag.Error, Summary: fmt.Sprintf("this program has no driver %q", cfg.Store.Driver),
		Detail: "It stores threads in a file. The host with a PostgreSQL driver is a separate program.",
		Next:   "run gantry-" + cfg.Store.Driver + " instead of gantry; it has the same commands",
	})}}
}

// storeConfig returns the configuration of the store.
func (a *Env) storeConfig(ctx context.Context) (store.Config, error) {
	logger, err := a.Logger()
	if err != nil {
		return store.Config{}, err
	}
	home, err := a.Home()
	if err != nil {
		return store.Config{}, err
	}
	// Warnings only concern commands that run something with the configuration.
	cfg, ds := a.ReadConfig(ctx, home, a.Dir)
	if err := ds.Err(); err != nil {
		return store.Config{}, err
	}
	where, err := a.Database(cfg)
	return ConfigOf(home, where, logger), err
}

// ConfigOf returns the configuration of a home's store.
func ConfigOf(home string, where store.Database, logger hclog.Logger) store.Config {
	return store.Config{
		Path: filepath.Join(home, "threads.db"), ArtifactDir: filepath.Join(home, "artifacts"), Database: where,
		Logger: logger.Named("store"),
	}
}

// OpenStore opens the store without a host: listing and exporting start no plugins.
func (a *Env) OpenStore(ctx context.Context) (*store.Store, error) {
	cfg, err := a.storeConfig(ctx)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, cfg)
}

// LookIntoStore opens the store for commands that change nothing. It also opens a read-only database.
func (a *Env) LookIntoStore(ctx context.Context) (*store.Store, error) {
	cfg, err := a.storeConfig(ctx)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, cfg)
	if store.IsUnwritable(err) {
		cfg.ReadOnly = true
		return store.Open(ctx, cfg)
	}
	return s, err
}

// WithStore calls f with the store and closes it.
func (a *Env) WithStore(cmd *cobra.Command, f func(ctx context.Context, s *store.Store) error) error {
	return Closing(cmd.Context(), a.OpenStore, f)
}

// LookingIntoStore is like WithStore for an f that changes nothing.
func (a *Env) LookingIntoStore(cmd *cobra.Command, f func(ctx context.Context, s *store.Store) error) error {
	return Closing(cmd.Context(), a.LookIntoStore, f)
}

// Closing calls f with the store that open returns, and closes it.
func Closing(ctx context.Context, open func(context.Context) (*store.Store, error), f func(context.Context, *store.Store) error) (err error) {
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return f(ctx, s)
}
