package install

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/host"
)

// pins are what the lock files demand of the programs that are about to be used.
type pins map[*config.PluginBlock]struct{ sha256, manifest string }

// Verify checks every program that is not gantry's own against its lock before anything is started. One that is
// not locked is asked about on a terminal, and refused without one.
func (in Installation) Verify(ctx context.Context, cfg *config.Config) (func(*config.PluginBlock) (string, string), error) {
	found := pins{}
	for _, b := range cfg.Blocks() {
		path, err := host.Program(b, in.Bin, in.Home)
		if err != nil {
			return nil, placed(b, err, nextNotInstalled)
		}
		if b.Program.Kind == source.Builtin {
			if !exists(path) {
				if err := unknownBuiltin(b, in.Bin, in.Builtins); err != nil {
					return nil, err
				}
			}
			pin := found[b]
			pin.sha256 = in.Builtins[filepath.Base(path)]
			found[b] = pin
			continue
		}
		entry, err := in.lockedEntry(ctx, cfg, b, path)
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
func (in Installation) lockedEntry(ctx context.Context, cfg *config.Config, b *config.PluginBlock, path string) (lock.Entry, error) {
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
	if m.Reason != lock.ReasonNotLocked && m.Reason != lock.ReasonPlatform || !in.consents(ctx, b, path) {
		return lock.Entry{}, mismatched(b, m)
	}
	return in.lockProgram(ctx, cfg, b)
}

// mismatched is the error for a program that is not as its lock says.
func mismatched(b *config.PluginBlock, m *lock.Mismatch) error {
	d := m.Diagnostic()
	if m.Reason == lock.ReasonNotLocked {
		// There is no place in the lock yet; the block that names the program is one.
		d.Range, d.Next = b.Range, fmt.Sprintf("review the program, then run `gantry plugin lock %s`", b.Label)
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// consents asks on the terminal whether a program may be used. Without a terminal the answer is no.
func (in Installation) consents(ctx context.Context, b *config.PluginBlock, path string) bool {
	asks := listed(Permissions(b.Permissions), "nothing beyond what it declares")
	return in.Front.Confirm(ctx, fmt.Sprintf("%s: plugin %q is not locked yet.\n"+
		"  program: %s\n"+
		"  requests: %s\n"+
		"Lock and use it?", b.Where(), b.Label, path, asks))
}

// Reverify says what the lock files demand of a program by now: it may have been locked anew since this host began.
func (in Installation) Reverify(ctx context.Context, b *config.PluginBlock) (sha256, manifest string, err error) {
	if b.Program.Kind == source.Builtin {
		return "", "", nil
	}
	cfg, err := in.Load(ctx)
	if err != nil {
		return "", "", err
	}
	for _, now := range cfg.Blocks() {
		if now.Label != b.Label || now.Kind != b.Kind {
			continue
		}
		if now.Address() != b.Address() || now.LockFile != b.LockFile {
			return "", "", hint.With(fmt.Errorf("%s now refers to another program", now.Where()), "restart gantry")
		}
		file, ds := cfg.Lock(now)
		if err := ds.Err(); err != nil {
			return "", "", err
		}
		entry, _ := file.Entry(now.Address())
		hashes := entry.Platforms[lock.Platform()].Binary
		if len(hashes) == 0 {
			return "", "", hint.With(fmt.Errorf("plugin %q is no longer locked", b.Label), fmt.Sprintf("review the program, then run `gantry plugin lock %s`", b.Label))
		}
		return hashes[0].Hex(), string(entry.Manifest), nil
	}
	return "", "", hint.With(fmt.Errorf("plugin %q is no longer configured", b.Label), "restart gantry")
}
