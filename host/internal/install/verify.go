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
	"github.com/gantry-agent/gantry/host/internal/pluginset"
)

// pins are the digests that the lock files require of the programs in use.
type pins map[*config.PluginBlock]struct{ sha256, manifest string }

// Verify checks every program that is not built in against its lock before anything starts. It asks the user about programs that
// are not locked; without a user, they are rejected.
func (in Installation) Verify(ctx context.Context, cfg *config.Config) (func(*config.PluginBlock) (string, string), error) {
	found := pins{}
	for _, b := range cfg.Blocks() {
		path, err := pluginset.Program(b, in.Bin, in.Home)
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
	if err := in.askAboutProcesses(ctx, cfg); err != nil {
		return nil, err
	}
	return func(b *config.PluginBlock) (string, string) { return found[b].sha256, found[b].manifest }, nil
}

// lockedEntry returns the lock entry of a program, after checking what can be checked without starting it. The supervisor checks
// the content at each start.
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

// mismatched returns the error for a program that does not match its lock.
func mismatched(b *config.PluginBlock, m *lock.Mismatch) error {
	d := m.Diagnostic()
	if m.Reason == lock.ReasonNotLocked {
		// There is no position in the lock file yet, so use that of the block.
		d.Range, d.Next = b.Range, fmt.Sprintf("review the program, then run `gantry plugin lock %s`", b.Label)
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// consents asks the user whether a program may be used. Without a user the answer is no.
func (in Installation) consents(ctx context.Context, b *config.PluginBlock, path string) bool {
	asks := listed(Permissions(b.Permissions), "nothing beyond what it declares")
	return in.Front.Confirm(ctx, fmt.Sprintf("%s: plugin %q is not locked yet.\n"+
		"  program: %s\n"+
		"  requests: %s\n"+
		"Lock and use it?", b.Where(), b.Label, path, asks))
}

// Reverify returns the digests that the lock files currently require of a program, which may have been locked again since the host
// started.
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
