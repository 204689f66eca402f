package console

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/trust"
)

// LoadConfig reads the layers. Warnings are shown, errors end the command.
func (a *Env) LoadConfig(ctx context.Context, home, dir string) (*config.Config, error) {
	cfg, ds := a.ReadConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return cfg, a.Warn(ds)
}

// ReadConfig reads the layers and shows nothing.
func (a *Env) ReadConfig(ctx context.Context, home, dir string) (*config.Config, diag.Diagnostics) {
	return config.Load(ctx, config.Options{
		Home: home, Dir: dir, Typed: a.Dir, File: a.Flags.Config, Sets: a.Flags.Sets, Profile: a.Flags.Profile, NoUser: a.Flags.NoUser, LookupEnv: a.LookupEnv,
		System: a.SystemConfig(), Trusted: trust.Open(home).Trusted,
		Secret: func(name string) (string, error) { return a.Vault(home).Get(UserSecret + name) },
	})
}

// SystemConfig is the machine's file, or the one that GANTRY_SYSTEM_CONFIG names ("-": none), for tests and containers.
func (a *Env) SystemConfig() string {
	v, _ := a.LookupEnv("GANTRY_SYSTEM_CONFIG")
	return v
}

// ParsePins reads what the build says of gantry's own plugins.
func ParsePins(s string) map[string]string {
	out := map[string]string{}
	for pin := range strings.SplitSeq(s, ",") {
		if name, sum, ok := strings.Cut(pin, "="); ok {
			out[name] = sum
		}
	}
	return out
}
