package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/trust"
)

// LoadConfig loads the configuration and prints warnings. Errors end the command.
func (a *Env) LoadConfig(ctx context.Context, home, dir string) (*config.Config, error) {
	cfg, ds := a.ReadConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return cfg, a.Warn(ds)
}

// ReadConfig loads the configuration and prints nothing.
func (a *Env) ReadConfig(ctx context.Context, home, dir string) (*config.Config, diag.Diagnostics) {
	return a.readConfig(ctx, home, dir, overrides{})
}

// overrides are what applies in addition to the flags.
type overrides struct {
	sets    []string
	profile string // "": the flag's
	user    []byte // in the place of the user's file; nil: the file
}

// readConfig is ReadConfig with overrides.
func (a *Env) readConfig(ctx context.Context, home, dir string, o overrides) (*config.Config, diag.Diagnostics) {
	return config.Load(ctx, options(a, home, dir, o))
}

// Widening returns those of some settings that would widen what the configuration of a folder permits; see [config.Widening].
func Widening(ctx context.Context, a *Env, home, dir string, sets []string) []string {
	return config.Widening(ctx, options(a, home, dir, overrides{}), sets)
}

func options(a *Env, home, dir string, o overrides) config.Options {
	return config.Options{
		Home: home, Dir: dir, Typed: a.Dir, File: a.Flags.Config, Sets: slices.Concat(a.Flags.Sets, o.sets), Profile: cmp.Or(o.profile, a.Flags.Profile), NoUser: a.Flags.NoUser,
		User: o.user, LookupEnv: a.LookupEnv,
		System: a.SystemConfig(), Trusted: trust.Open(home).Trusted,
		Secret: func(name string) (string, error) { return a.Vault(home).Get(UserSecret + name) },
	}
}

// SystemConfig returns the path of the machine's file from GANTRY_SYSTEM_CONFIG ("-": none), which is meant for tests and
// containers. "" is the default.
func (a *Env) SystemConfig() string {
	v, _ := a.LookupEnv("GANTRY_SYSTEM_CONFIG")
	return v
}

// ParsePins parses the digests of gantry's own plugins that the build contains.
func ParsePins(s string) map[string]string {
	out := map[string]string{}
	for pin := range strings.SplitSeq(s, ",") {
		if name, sum, ok := strings.Cut(pin, "="); ok {
			out[name] = sum
		}
	}
	return out
}
