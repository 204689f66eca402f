package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/host"
	"golang.org/x/term"
)

// loadConfig reads the layers. Warnings are shown, errors end the command.
func (a *app) loadConfig(ctx context.Context, home, dir string) (*config.Config, error) {
	trusted := trust.Open(home)
	cfg, ds := config.Load(ctx, config.Options{
		Home: home, Dir: dir, File: a.flags.config, Sets: a.flags.sets, Profile: a.flags.profile, LookupEnv: a.env,
		System: a.systemConfig(), Trusted: trusted.Trusted,
	})
	if err := ds.Err(); err != nil {
		return nil, err
	}
	if len(ds) > 0 {
		if err := diag.Write(a.stderr, ds, a.colour(a.stderr)); err != nil {
			return nil, err
		}
	}
	if p := cfg.Project; p != nil && !p.Trusted {
		fmt.Fprintf(a.stderr, "Note: the configuration in %s is not trusted and was not read.\n  Next: look at it, then run `gantry trust`.\n",
			filepath.Join(p.Dir, ".gantry"))
	}
	return cfg, nil
}

// systemConfig is the machine's file, or the one that GANTRY_SYSTEM_CONFIG names ("-": none), for tests and containers.
func (a *app) systemConfig() string {
	v, _ := a.env("GANTRY_SYSTEM_CONFIG")
	return v
}

// pins are what the lock files demand of the programs that are about to be used.
type pins map[*config.PluginBlock]struct{ sha256, manifest string }

// verifyPlugins checks every program that is not gantry's own against its lock before anything is started. One that is
// not locked is asked about on a terminal, and refused without one.
func (a *app) verifyPlugins(ctx context.Context, home, _ string, cfg *config.Config) (func(*config.PluginBlock) (string, string), error) {
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	found := pins{}
	for _, b := range cfg.Blocks() {
		if b.Program.Kind == source.Builtin {
			continue // pinned by the build
		}
		path, err := host.Program(b, bin, home)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Where(), err)
		}
		entry, err := a.lockedEntry(ctx, cfg, b, path)
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
func (a *app) lockedEntry(ctx context.Context, cfg *config.Config, b *config.PluginBlock, path string) (lock.Entry, error) {
	file, ds := cfg.Lock(b)
	if err := ds.Err(); err != nil {
		return lock.Entry{}, err
	}
	p := lock.Program{Address: b.Address(), Label: b.Label, Constraints: b.Version, Grants: cfg.Grants(b.Address())}
	entry, locked := file.Entry(b.Address())
	hash := func() (err error) { p.Binary, err = lock.HashFile(path); return err }
	if !locked || len(entry.Platforms[lock.Platform()].Binary) == 0 {
		if err := hash(); err != nil {
			return lock.Entry{}, fmt.Errorf("%s: plugin %q: %w", b.Where(), b.Label, err)
		}
	}
	err := file.Check(p)
	if err == nil {
		return entry, nil
	}
	m, ok := errors.AsType[*lock.Mismatch](err)
	if !ok {
		return lock.Entry{}, err
	}
	if m.Reason != lock.ReasonNotLocked && m.Reason != lock.ReasonPlatform || !a.consents(b, path) {
		return lock.Entry{}, diag.Failure{Diagnostics: diag.Diagnostics{m.Diagnostic()}}
	}
	entry, err = a.lockProgram(ctx, cfg, b, path)
	return entry, err
}

// consents asks on the terminal whether a program may be used. Without a terminal the answer is no.
func (a *app) consents(b *config.PluginBlock, path string) bool {
	if a.stdin == nil || !term.IsTerminal(int(a.stdin.Fd())) {
		return false
	}
	fmt.Fprintf(a.stderr, "%s: plugin %q is not locked yet.\n  program: %s\n  asks for: %s\nLock it as it is and use it? [y/N] ",
		b.Where(), b.Label, path, b.Permissions)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	return err == nil && strings.EqualFold(strings.TrimSpace(line), "y")
}

// lockProgram records a program as it is now.
func (a *app) lockProgram(ctx context.Context, cfg *config.Config, b *config.PluginBlock, path string) (lock.Entry, error) {
	sum, err := lock.HashFile(path)
	if err != nil {
		return lock.Entry{}, err
	}
	entry := lock.Entry{Address: b.Address(), Constraints: b.Version, Grants: cfg.Grants(b.Address())}
	err = lock.Update(ctx, b.LockFile, func(f *lock.File) error {
		if old, ok := f.Entry(b.Address()); ok {
			entry.Platforms = old.Platforms
		}
		if err := entry.Learn(lock.Platform(), lock.Hashes{Binary: []lock.Hash{sum}}, lock.Hashes{}); err != nil {
			return err
		}
		return f.Put(entry)
	})
	return entry, err
}
