package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/host"
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

// pins are what the lock files demand of the programs that are about to be used.
type pins map[*config.PluginBlock]struct{ sha256, manifest string }

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

// verifyPlugins checks every program that is not gantry's own against its lock before anything is started. One that is
// not locked is asked about on a terminal, and refused without one.
func (a *app) verifyPlugins(ctx context.Context, home, _ string, cfg *config.Config) (func(*config.PluginBlock) (string, string), error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	found := pins{}
	for _, b := range cfg.Blocks() {
		path, err := host.Program(b, bin, home)
		if err != nil {
			return nil, placed(b, err, nextNotInstalled)
		}
		if b.Program.Kind == source.Builtin {
			if !exists(path) {
				if err := unknownBuiltin(b, bin, a.builtins); err != nil {
					return nil, err
				}
			}
			pin := found[b]
			pin.sha256 = a.builtins[filepath.Base(path)]
			found[b] = pin
			continue
		}
		entry, err := a.lockedEntry(ctx, cfg, home, b, path)
		if err != nil {
			return nil, err
		}
		pin := found[b]
		for _, h := range entry.Platforms[lock.Platform()].Binary {
			pin.sha256 = h.Hex()
		}
		pin.manifest = string(entry.Manifest)
		found[b] = pin
	}
	return func(b *config.PluginBlock) (string, string) { return found[b].sha256, found[b].manifest }, nil
}

// lockedEntry finds the entry of a program and compares what can be compared without starting it. The content itself is
// compared by the supervisor at each start.
func (a *app) lockedEntry(ctx context.Context, cfg *config.Config, home string, b *config.PluginBlock, path string) (lock.Entry, error) {
	file, ds := cfg.Lock(b)
	err := ds.Err()
	if err != nil {
		return lock.Entry{}, err
	}
	p := lock.Program{Address: b.Address(), Label: b.Label, Constraints: b.Version, Grants: cfg.Grants(b.Address())}
	if p.Files, err = cfg.FilesDigest(b.Address()); err != nil {
		return lock.Entry{}, placed(b, err, "correct `files`")
	}
	entry, locked := file.Entry(b.Address())
	hash := func() (err error) { p.Binary, err = lock.HashFile(path); return err }
	if !locked || len(entry.Platforms[lock.Platform()].Binary) == 0 {
		if err := hash(); err != nil {
			return lock.Entry{}, placed(b, reason(err, path), nextNotThere)
		}
	}
	err = file.Check(p)
	if err == nil {
		return entry, nil
	}
	m, ok := errors.AsType[*lock.Mismatch](err)
	if !ok {
		return lock.Entry{}, err
	}
	if m.Reason != lock.ReasonNotLocked && m.Reason != lock.ReasonPlatform || !a.consents(ctx, b, path) {
		return lock.Entry{}, mismatched(b, m)
	}
	return a.lockProgram(ctx, cfg, home, b)
}

// mismatched is the error for a program that is not as its lock says.
func mismatched(b *config.PluginBlock, m *lock.Mismatch) error {
	d := m.Diagnostic()
	if m.Reason == lock.ReasonNotLocked {
		// There is no place in the lock yet; the block that names the program is one.
		d.Range, d.Next = b.Range, fmt.Sprintf("look at the program, then run `gantry plugin lock %s`", b.Label)
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// consents asks on the terminal whether a program may be used. Without a terminal the answer is no.
func (a *app) consents(ctx context.Context, b *config.PluginBlock, path string) bool {
	asks := listed(permissions(b.Permissions), "nothing beside what it declares")
	return a.confirm(ctx, fmt.Sprintf("%s: plugin %q is not locked yet.\n  program: %s\n  asks for: %s\nLock it as it is and use it?", b.Where(), b.Label, path, asks))
}

// reverify says what the lock files demand of a program by now: it may have been locked anew since this host began.
func (a *app) reverify(ctx context.Context, home, dir string, b *config.PluginBlock) (sha256, manifest string, err error) {
	if b.Program.Kind == source.Builtin {
		return "", "", nil
	}
	cfg, ds := a.readConfig(ctx, home, dir)
	if err := ds.Err(); err != nil {
		return "", "", err
	}
	for _, now := range cfg.Blocks() {
		if now.Label != b.Label || now.Kind != b.Kind {
			continue
		}
		if now.Address() != b.Address() || now.LockFile != b.LockFile {
			return "", "", hint.With(fmt.Errorf("%s names another program now", now.Where()), "start gantry again")
		}
		file, ds := cfg.Lock(now)
		if err := ds.Err(); err != nil {
			return "", "", err
		}
		entry, _ := file.Entry(now.Address())
		hashes := entry.Platforms[lock.Platform()].Binary
		if len(hashes) == 0 {
			return "", "", hint.With(fmt.Errorf("plugin %q is not locked any more", b.Label), fmt.Sprintf("look at the program, then run `gantry plugin lock %s`", b.Label))
		}
		return hashes[0].Hex(), string(entry.Manifest), nil
	}
	return "", "", hint.With(fmt.Errorf("plugin %q is not configured any more", b.Label), "start gantry again")
}
