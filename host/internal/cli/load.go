package cli

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/trust"
)

// loadConfig reads the layers. Warnings are shown, errors end the command.
func (a *app) loadConfig(ctx context.Context, home, dir string) (*config.Config, error) {
	cfg, ds := a.readConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return cfg, a.warn(ds)
}

// readConfig reads the layers and shows nothing.
func (a *app) readConfig(ctx context.Context, home, dir string) (*config.Config, diag.Diagnostics) {
	return config.Load(ctx, config.Options{
		Home: home, Dir: dir, Typed: a.dir, File: a.flags.config, Sets: a.flags.sets, Profile: a.flags.profile, NoUser: a.flags.noUser, LookupEnv: a.env,
		System: a.systemConfig(), Trusted: trust.Open(home).Trusted,
		Secret: func(name string) (string, error) { return a.vault(home).Get(userSecret + name) },
	})
}

// systemConfig is the machine's file, or the one that GANTRY_SYSTEM_CONFIG names ("-": none), for tests and containers.
func (a *app) systemConfig() string {
	v, _ := a.env("GANTRY_SYSTEM_CONFIG")
	return v
}

// parsePins reads what the build says of gantry's own plugins.
func parsePins(s string) map[string]string {
	out := map[string]string{}
	for pin := range strings.SplitSeq(s, ",") {
		if name, sum, ok := strings.Cut(pin, "="); ok {
			out[name] = sum
		}
	}
	return out
}
