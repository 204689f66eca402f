package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/config/version"
	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Lock records a block's current program and shows what changed. accepted skips the question about new programs. If agreed is not
// empty, only the program with this digest is accepted.
func (p *Programs) Lock(ctx context.Context, b *config.PluginBlock, accepted bool, agreed string) (lock.Entry, error) {
	pr := p.Look(b)
	if pr.SHA256 == "" {
		return lock.Entry{}, pr.Problem
	}
	if agreed != "" && agreed != pr.SHA256 {
		return lock.Entry{}, notAccepted(b, "Its program has changed since you accepted it.")
	}
	if pr.Problem != nil && pr.mismatch == nil {
		return lock.Entry{}, pr.Problem // the lock file itself can't be read
	}
	if pr.State == lockLocked && pr.Manifest != nil && pr.entry.Manifest == lock.Hash(pr.Manifest.Digest()) {
		p.Front.Show(Step{Kind: StepUnchanged, Label: b.Label, Version: pr.entry.Version.String()})
		return pr.entry, nil
	}
	// A program that the user has not accepted is not even started for its manifest.
	if !pr.locked {
		question := fmt.Sprintf("%s: plugin %q is new.\n"+
			"  program: %s\n"+
			"  sha256:  %s\n"+
			"Start it to read its manifest?", b.Where(), b.Label, pr.Path, pr.SHA256)
		if !accepted && !p.Front.Confirm(ctx, question) {
			return lock.Entry{}, notAccepted(b, "It is new.")
		}
	}
	if _, err := p.Describe(ctx, &pr, b.Kind); err != nil {
		return lock.Entry{}, err
	}
	entry, err := p.entry(&pr)
	if err != nil {
		return lock.Entry{}, err
	}
	changes, growth := p.changes(&pr, entry)
	p.Front.Show(Step{Kind: StepChanges, Label: b.Label, Version: entry.Version.String(), Changes: changes})
	if len(growth) > 0 && !accepted && !p.Front.Confirm(ctx, "Accept "+strings.Join(growth, " and ")+"?") {
		return lock.Entry{}, notAccepted(b, sentence(strings.Join(growth, " and ")+" need to be accepted"))
	}
	if err := p.record(ctx, b, entry); err != nil {
		return lock.Entry{}, err
	}
	p.Front.Show(Step{Kind: StepRecorded, Label: b.Label, File: b.LockFile})
	if why := p.cfg.Unpinned(b); why != "" {
		p.Front.Show(Step{Kind: StepUnpinned, Label: b.Label, Why: why})
	}
	return entry, nil
}

func notAccepted(b *config.PluginBlock, detail string) error {
	return diag.Failure{Diagnostics: diag.Diagnostics{{
		Severity: diag.Error, Summary: fmt.Sprintf("plugin %q was not accepted", b.Label), Detail: detail, Range: b.Range, Plugin: b.Label,
		Next: fmt.Sprintf("run `gantry plugin lock %s` on a terminal, or review it and use --yes", b.Label),
	}}}
}

// entry returns the lock entry for a program.
func (p *Programs) entry(pr *Program) (lock.Entry, error) {
	b, m := pr.Block, pr.Manifest
	v, err := version.Parse(m.Version)
	if err != nil {
		return lock.Entry{}, hint.With(fmt.Errorf("%s: plugin %q: %w", b.Where(), b.Label, err), "the plugin's author has to correct this")
	}
	if b.Version != nil && !b.Version.Allows(v) {
		return lock.Entry{}, diag.Failure{Diagnostics: diag.Diagnostics{{
			Severity: diag.Error, Summary: fmt.Sprintf("plugin %q has version %s", b.Label, v), Range: b.Range, Plugin: b.Label,
			Detail: fmt.Sprintf("The block requires %q.", b.Version), Next: "use another version of the program, or change `version`",
		}}}
	}
	hash, err := lock.Binary(pr.SHA256)
	if err != nil {
		return lock.Entry{}, err
	}
	files, err := p.cfg.FilesDigest(b.Address())
	if err != nil {
		return lock.Entry{}, placed(b, err, "correct `files`")
	}
	if files == lock.NoFiles {
		files = ""
	}
	return lock.Entry{
		Files: files, Address: b.Address(), Version: v, Constraints: b.Version, Contract: contract.Version, Manifest: lock.Hash(m.Digest()),
		Grants: p.cfg.Grants(b.Address()), Platforms: map[string]lock.Hashes{lock.Platform(): {Binary: []lock.Hash{hash}}},
	}, nil
}

// changes returns the differences from the lock, and those among them that exceed what the user accepted.
func (p *Programs) changes(pr *Program, e lock.Entry) (changes, growth []string) {
	b, m, old := pr.Block, pr.Manifest, pr.entry
	asks := append([]string{"capabilities: " + listed(m.Capabilities, "none")}, Permissions(b.Permissions)...)
	if !pr.locked {
		changes = append(changes, "new: "+pr.Path, "sha256: "+pr.SHA256)
		for _, l := range asks {
			changes = append(changes, "requests "+l)
		}
		if len(m.Tools) > 0 {
			var names []string
			for _, t := range m.Tools {
				names = append(names, t.Name)
			}
			changes = append(changes, "tools: "+strings.Join(names, ", "))
		}
		if names := effectful(m); len(names) > 0 {
			changes = append(changes, "commands with side effects, which run only when you confirm it: "+strings.Join(names, ", "))
		}
		return changes, []string{"it"}
	}
	if old.Version != e.Version {
		changes = append(changes, fmt.Sprintf("version: %s became %s", old.Version, e.Version))
	}
	known := old.Platforms[lock.Platform()].Binary
	switch now := e.Platforms[lock.Platform()].Binary[0]; {
	case len(known) == 0:
		changes = append(changes, "new on "+lock.Platform())
	case !slices.Contains(known, now):
		changes = append(changes, fmt.Sprintf("program: sha256 %s became %s", cut(known[0].Hex()), cut(pr.SHA256)))
	}
	if old.Manifest != e.Manifest {
		words, more := p.difference(old, m)
		changes = append(changes, "manifest: "+words)
		if more != "" {
			growth = append(growth, more)
		}
	}
	if old.Grants != e.Grants {
		changes = append(changes, append([]string{"permissions changed, now:"}, indentEach(Permissions(b.Permissions))...)...)
		growth = append(growth, "the permissions")
	}
	if old.Files != e.Files {
		changes = append(changes, fmt.Sprintf("files that it loads: %s", strings.Join(b.Files, ", ")))
		growth = append(growth, "the files that it loads")
	}
	if old.Constraints.String() != e.Constraints.String() {
		changes = append(changes, fmt.Sprintf("version constraint: %q became %q", old.Constraints, e.Constraints))
	}
	return changes, growth
}

// effectful returns the names of a plugin's commands that have side effects.
func effectful(m *contract.Manifest) []string {
	var names []string
	for _, c := range m.Commands {
		if c.SideEffects {
			names = append(names, c.Name)
		}
	}
	return names
}

// difference compares a manifest with the locked one, if that is still cached.
func (p *Programs) difference(old lock.Entry, m *contract.Manifest) (words, growth string) {
	for _, h := range old.Platforms[lock.Platform()].Binary {
		if before := p.plugins.Known(h.Hex()); before != nil && lock.Hash(before.Digest()) == old.Manifest {
			words, more := manifest.Difference(before, m), manifest.AddedCapabilities(before, m)
			if len(more) > 0 {
				growth = "the capabilities " + strings.Join(more, ", ")
			}
			return words, growth
		}
	}
	words = "changed; the previous manifest is no longer available. It now has the capabilities " + listed(m.Capabilities, "(none)")
	if len(m.Capabilities) > 0 {
		growth = "the capabilities " + strings.Join(m.Capabilities, ", ")
	}
	return words, growth
}

func indentEach(lines []string) []string {
	if len(lines) == 0 {
		return []string{"  none"}
	}
	out := make([]string, 0, len(lines))
	for _, l := range lines {
		out = append(out, "  "+l)
	}
	return out
}

// cut shortens a digest for display.
func cut(hex string) string {
	if len(hex) > 12 {
		return hex[:12] + "…"
	}
	return hex
}

// record writes an entry to the block's lock file.
func (p *Programs) record(ctx context.Context, b *config.PluginBlock, e lock.Entry) error {
	return p.updateLock(ctx, b, func(f *lock.File) error { return f.Put(e) })
}

// updateLock changes the lock file of a block. Trust in a project covers its lock file: it is renewed only for exactly the text
// that gantry wrote.
func (p *Programs) updateLock(ctx context.Context, b *config.PluginBlock, change func(*lock.File) error) error {
	before, ds := p.cfg.Lock(b)
	if err := ds.Err(); err != nil {
		return err
	}
	return p.updateLockFile(ctx, b.LockFile, before, change)
}

// updateLockFile changes the lock file at a path, whose content was before.
func (p *Programs) updateLockFile(ctx context.Context, path string, before *lock.File, change func(*lock.File) error) error {
	project := p.cfg.Project
	inProject := project != nil && project.Trusted && filepath.Dir(path) == filepath.Join(project.Dir, ".gantry")
	var fresh []byte
	err := lock.Update(ctx, path, func(f *lock.File) error {
		if inProject && !bytes.Equal(f.Bytes(), before.Bytes()) {
			return hint.With(fmt.Errorf("%s has changed in the meantime", path), "review it, then run the command again")
		}
		if err := change(f); err != nil {
			return err
		}
		fresh = f.Bytes()
		return nil
	})
	if err != nil || !inProject {
		return err
	}
	after := project.DigestWith(map[string][]byte{lock.FileName: fresh})
	if err := trust.Open(p.Home).Renew(ctx, project.Dir, project.Digest, after); err != nil {
		return err
	}
	// The rest of the command uses what was written.
	renewed, err := config.FindProject(project.Dir, p.Home)
	if err != nil {
		return err
	}
	if renewed != nil && renewed.Digest == after {
		renewed.Trusted = true
		p.cfg.Project = renewed
	}
	return nil
}

// Prune removes entries that no block uses.
func (p *Programs) Prune(ctx context.Context) error {
	files := map[string]*config.PluginBlock{}
	used := map[string][]string{}
	for _, b := range p.Blocks() {
		if b.Program.Kind == source.Builtin {
			continue
		}
		files[b.LockFile] = b
		used[b.LockFile] = append(used[b.LockFile], b.Address())
	}
	for path, b := range files {
		var dropped []string
		err := p.updateLock(ctx, b, func(f *lock.File) error { dropped = f.Prune(used[path]); return nil })
		if err != nil {
			return err
		}
		for _, address := range dropped {
			p.Front.Show(Step{Kind: StepPruned, Address: address, File: path})
		}
	}
	return p.pruneProcesses(ctx)
}

// lockProgram locks a program that the user has just accepted.
func (in Installation) lockProgram(ctx context.Context, cfg *config.Config, b *config.PluginBlock) (_ lock.Entry, err error) {
	p, err := in.Open(cfg)
	if err != nil {
		return lock.Entry{}, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	pr := p.Look(b)
	if pr.SHA256 == "" {
		return lock.Entry{}, pr.Problem
	}
	if _, err := p.Describe(ctx, &pr, b.Kind); err != nil {
		return lock.Entry{}, err
	}
	entry, err := p.entry(&pr)
	if err != nil {
		return lock.Entry{}, err
	}
	return entry, p.record(ctx, b, entry)
}

// VerifyAll reads the content of every program and compares it with its lock.
func (p *Programs) VerifyAll(ctx context.Context) []Program {
	p.records.Always = true // a check must read the content, not rely on cached digests
	all := p.LookAll(ctx)
	for i := range all {
		if pr := &all[i]; pr.Block.Enabled && pr.State == lockLocked && pr.Problem == nil {
			p.Compare(pr) // again, with the manifest
		}
	}
	return all
}

// unusedEntry is a lock entry that no block uses.
type unusedEntry struct{ File, Address string }

// Unused returns the lock entries that no block uses. A profile may still use them.
func (p *Programs) Unused() []unusedEntry {
	used := map[string]map[string]bool{}
	blocks := map[string]*config.PluginBlock{}
	for _, b := range p.Blocks() {
		if used[b.LockFile] == nil {
			used[b.LockFile] = map[string]bool{}
		}
		used[b.LockFile][b.Address()] = true
		blocks[b.LockFile] = b
	}
	var out []unusedEntry
	for path, b := range blocks {
		f, ds := p.cfg.Lock(b)
		if ds.HasErrors() {
			continue // already shown with its block
		}
		for _, e := range f.Entries() {
			if !used[path][e.Address] {
				out = append(out, unusedEntry{path, e.Address})
			}
		}
	}
	return out
}
