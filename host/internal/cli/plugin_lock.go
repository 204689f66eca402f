package cli

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
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

func (a *app) pluginLock() *cobra.Command {
	var yes, prune bool
	cmd := &cobra.Command{
		Use: "lock [flags] [NAME...]", Short: "Lock plugins to their current content",
		Long: "lock hashes the program of each given block, or of all blocks, reads its manifest, and records both in gantry.lock.hcl,\n" +
			"next to the file that contains the block. It shows what changes. If a program is new or requests more than was accepted\n" +
			"before, lock asks for confirmation on a terminal; without a terminal, use --yes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *programs) error { return a.lock(ctx, p, args, yes, prune) })
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "accept changes without confirmation")
	cmd.Flags().BoolVar(&prune, "prune", false, "drop entries that no block uses any more")
	return cmd
}

func (a *app) lock(ctx context.Context, p *programs, names []string, yes, prune bool) error {
	blocks := p.blocks()
	if len(names) > 0 {
		blocks = nil
		for _, n := range names {
			b, err := p.block(n)
			if err != nil {
				return err
			}
			if b.Program.Kind == source.Builtin {
				fmt.Fprintf(a.stderr, "%s comes with gantry: its build pins it, there is nothing to lock\n", b.Label)
				continue
			}
			blocks = append(blocks, b)
		}
	}
	var problems []error
	count, done := 0, map[string]bool{}
	for _, b := range blocks {
		key := b.LockFile + "\x00" + b.Address()
		if b.Program.Kind == source.Builtin || done[key] || len(names) == 0 && !b.Enabled {
			continue
		}
		done[key] = true
		count++
		// One that fails does not keep the others from being locked.
		if _, err := a.lockBlock(ctx, p, b, consentAsk(yes), ""); err != nil {
			problems = append(problems, err)
		}
	}
	if prune {
		if err := a.prune(ctx, p); err != nil {
			problems = append(problems, err)
		}
	}
	for _, err := range problems {
		a.showProblem(err)
	}
	if len(problems) > 0 {
		return errShown
	}
	if count == 0 && len(names) == 0 {
		fmt.Fprintln(a.stderr, "nothing to lock: every configured plugin comes with gantry")
	}
	return nil
}

// consent says how a program that is new, or wants more, comes to be accepted.
type consent int

const (
	consentUnknown consent = iota
	consentOnTerminal
	consentGiven
)

func consentAsk(yes bool) consent {
	if yes {
		return consentGiven
	}
	return consentOnTerminal
}

// lockBlock records a block's program as it is now and says what changed. agreed is the digest of the only program that may be; empty:
// of any.
func (a *app) lockBlock(ctx context.Context, p *programs, b *config.PluginBlock, c consent, agreed string) (lock.Entry, error) {
	pr := p.look(b)
	if pr.sha256 == "" {
		return lock.Entry{}, pr.problem
	}
	if agreed != "" && agreed != pr.sha256 {
		return lock.Entry{}, notAccepted(b, "Its program was changed since you have agreed to it.")
	}
	if pr.problem != nil && pr.mismatch == nil {
		return lock.Entry{}, pr.problem // the lock file itself can't be read
	}
	if pr.state == lockLocked && pr.manifest != nil && pr.entry.Manifest == lock.Hash(pr.manifest.Digest()) {
		fmt.Fprintf(a.stdout, "%s %s: locked, unchanged\n", b.Label, pr.entry.Version)
		return pr.entry, nil
	}
	// A program that nobody has accepted yet is not even started to hear what it is.
	if !pr.locked {
		question := fmt.Sprintf("%s: plugin %q is new.\n  program: %s\n  sha256:  %s\nStart it to see what it is?", b.Where(), b.Label, pr.path, pr.sha256)
		if c != consentGiven && !a.confirm(ctx, question) {
			return lock.Entry{}, notAccepted(b, "It is new.")
		}
	}
	if _, err := p.describe(ctx, &pr, b.Kind); err != nil {
		return lock.Entry{}, err
	}
	entry, err := p.entry(&pr)
	if err != nil {
		return lock.Entry{}, err
	}
	changes, growth := p.changes(&pr, entry)
	var text strings.Builder
	for _, l := range changes {
		fmt.Fprintf(&text, "  %s\n", render.Clean(l))
	}
	fmt.Fprintf(a.stdout, "%s %s\n%s", b.Label, entry.Version, text.String())
	if len(growth) > 0 && c != consentGiven && !a.confirm(ctx, "Accept "+strings.Join(growth, " and ")+"?") {
		return lock.Entry{}, notAccepted(b, sentence(strings.Join(growth, " and ")+" would have to be accepted"))
	}
	if err := a.record(ctx, p, b, entry); err != nil {
		return lock.Entry{}, err
	}
	fmt.Fprintf(a.stdout, "  recorded in %s\n", b.LockFile)
	a.warnUnpinned(p.cfg, b)
	return entry, nil
}

// warnUnpinned says when a lock covers only a part of what a program loads.
func (a *app) warnUnpinned(cfg *config.Config, b *config.PluginBlock) {
	if why := cfg.Unpinned(b); why != "" {
		fmt.Fprintf(a.stderr, "Warning: %s: %s; what it loads is not pinned: add files = [...] to the block, then run `gantry plugin lock %s`\n", b.Label, render.Clean(why), b.Label)
	}
}

func notAccepted(b *config.PluginBlock, detail string) error {
	return diag.Failure{Diagnostics: diag.Diagnostics{{
		Severity: diag.Error, Summary: fmt.Sprintf("plugin %q was not accepted", b.Label), Detail: detail, Range: b.Range, Plugin: b.Label,
		Next: fmt.Sprintf("run `gantry plugin lock %s` on a terminal, or with --yes once you have looked at it", b.Label),
	}}}
}

// entry is what the lock would say about a program.
func (p *programs) entry(pr *program) (lock.Entry, error) {
	b, m := pr.block, pr.manifest
	v, err := version.Parse(m.Version)
	if err != nil {
		return lock.Entry{}, hint.With(fmt.Errorf("%s: plugin %q: %w", b.Where(), b.Label, err), "the plugin's author has to correct it")
	}
	if b.Version != nil && !b.Version.Allows(v) {
		return lock.Entry{}, diag.Failure{Diagnostics: diag.Diagnostics{{
			Severity: diag.Error, Summary: fmt.Sprintf("plugin %q has version %s", b.Label, v), Range: b.Range, Plugin: b.Label,
			Detail: fmt.Sprintf("The block asks for %q.", b.Version), Next: "use another version of the program, or change `version`",
		}}}
	}
	hash, err := lock.Binary(pr.sha256)
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

// changes says what is different from the lock, and what of it is more than was accepted.
func (p *programs) changes(pr *program, e lock.Entry) (changes, growth []string) {
	b, m, old := pr.block, pr.manifest, pr.entry
	asks := append([]string{"capabilities: " + listed(m.Capabilities, "none")}, permissions(b.Permissions)...)
	if !pr.locked {
		changes = append(changes, "new: "+pr.path, "sha256: "+pr.sha256)
		for _, l := range asks {
			changes = append(changes, "asks for "+l)
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
		changes = append(changes, fmt.Sprintf("program: sha256 %s became %s", cut(known[0].Hex()), cut(pr.sha256)))
	}
	if old.Manifest != e.Manifest {
		words, more := p.difference(old, m)
		changes = append(changes, "manifest: "+words)
		if more != "" {
			growth = append(growth, more)
		}
	}
	if old.Grants != e.Grants {
		changes = append(changes, append([]string{"permissions changed, they are now:"}, indentEach(permissions(b.Permissions))...)...)
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

// effectful lists the commands of a plugin that have side effects.
func effectful(m *contract.Manifest) []string {
	var names []string
	for _, c := range m.Commands {
		if c.SideEffects {
			names = append(names, c.Name)
		}
	}
	return names
}

// difference compares with the manifest that was locked, as far as it is still known.
func (p *programs) difference(old lock.Entry, m *contract.Manifest) (words, growth string) {
	for _, h := range old.Platforms[lock.Platform()].Binary {
		if before := p.plugins.Known(h.Hex()); before != nil && lock.Hash(before.Digest()) == old.Manifest {
			words, more := plugin.Difference(before, m)
			if len(more) > 0 {
				growth = "the capabilities " + strings.Join(more, ", ")
			}
			return words, growth
		}
	}
	words = "changed; what it was before is not known here any more. It has the capabilities " + listed(m.Capabilities, "(none)")
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

// cut shortens a digest for people.
func cut(hex string) string {
	if len(hex) > 12 {
		return hex[:12] + "…"
	}
	return hex
}

// record writes an entry into the block's lock file.
func (a *app) record(ctx context.Context, p *programs, b *config.PluginBlock, e lock.Entry) error {
	return p.updateLock(ctx, b, func(f *lock.File) error { return f.Put(e) })
}

// updateLock changes the lock file of a block. The user's trust in a project covers its lock file: it is renewed for what
// gantry itself has written, and for nothing else.
func (p *programs) updateLock(ctx context.Context, b *config.PluginBlock, change func(*lock.File) error) error {
	before, ds := p.cfg.Lock(b)
	if err := ds.Err(); err != nil {
		return err
	}
	project := p.cfg.Project
	inProject := project != nil && project.Trusted && filepath.Dir(b.LockFile) == filepath.Join(project.Dir, ".gantry")
	var fresh []byte
	err := lock.Update(ctx, b.LockFile, func(f *lock.File) error {
		if inProject && !bytes.Equal(f.Bytes(), before.Bytes()) {
			return hint.With(fmt.Errorf("%s was changed meanwhile", b.LockFile), "look at it, then run the command again")
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
	if err := trust.Open(p.home).Renew(ctx, project.Dir, project.Digest, after); err != nil {
		return err
	}
	// What follows in this command starts from what was written.
	renewed, err := config.FindProject(project.Dir, p.home)
	if err != nil {
		return err
	}
	if renewed != nil && renewed.Digest == after {
		renewed.Trusted = true
		p.cfg.Project = renewed
	}
	return nil
}

// prune drops entries that no block uses.
func (a *app) prune(ctx context.Context, p *programs) error {
	files := map[string]*config.PluginBlock{}
	used := map[string][]string{}
	for _, b := range p.blocks() {
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
			fmt.Fprintf(a.stdout, "%s: dropped from %s\n", address, path)
		}
	}
	return nil
}

// lockProgram locks a program that the user has just agreed to.
func (a *app) lockProgram(ctx context.Context, cfg *config.Config, home string, b *config.PluginBlock) (_ lock.Entry, err error) {
	p, err := a.programsOf(cfg, home)
	if err != nil {
		return lock.Entry{}, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	pr := p.look(b)
	if pr.sha256 == "" {
		return lock.Entry{}, pr.problem
	}
	if _, err := p.describe(ctx, &pr, b.Kind); err != nil {
		return lock.Entry{}, err
	}
	entry, err := p.entry(&pr)
	if err != nil {
		return lock.Entry{}, err
	}
	return entry, a.record(ctx, p, b, entry)
}

func (a *app) pluginVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare plugins with their locks", Args: takes(0, 0),
		Long: "verify hashes the program of each enabled block, reads its manifest if the content matches the lock, and compares both with\n" +
			"the lock. Exit status 1: a plugin is missing, not locked, or different.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *programs) error { return a.verify(ctx, p, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) verify(ctx context.Context, p *programs, asJSON bool) error {
	p.records.Always = true // whoever asks for a check wants the content read
	all := p.lookAll(ctx)
	bad := false
	rows := make([]pluginRow, 0, len(all))
	for i := range all {
		pr := &all[i]
		if !pr.block.Enabled {
			continue
		}
		if pr.state == lockLocked && pr.problem == nil {
			p.compare(pr) // now with the manifest
		}
		bad = bad || pr.problem != nil
		rows = append(rows, pr.row())
	}
	if asJSON {
		if err := a.printJSON(rows); err != nil {
			return err
		}
	} else {
		for i := range all {
			pr := &all[i]
			if !pr.block.Enabled {
				continue
			}
			mark := "✓"
			if pr.problem != nil {
				mark = "✗"
			}
			fmt.Fprintf(a.stdout, "%s %s: %s\n", mark, pr.block.Label, pr.state)
		}
		for i := range all {
			if err := all[i].problem; err != nil && all[i].block.Enabled {
				a.showProblem(err)
			}
		}
		a.showUnused(p)
	}
	if bad {
		return errShown
	}
	return nil
}

// showUnused names what is locked and not used by any block: a profile may use it.
func (a *app) showUnused(p *programs) {
	used := map[string]map[string]bool{}
	blocks := map[string]*config.PluginBlock{}
	for _, b := range p.blocks() {
		if used[b.LockFile] == nil {
			used[b.LockFile] = map[string]bool{}
		}
		used[b.LockFile][b.Address()] = true
		blocks[b.LockFile] = b
	}
	for path, b := range blocks {
		f, ds := p.cfg.Lock(b)
		if ds.HasErrors() {
			continue // was shown with the block
		}
		for _, e := range f.Entries() {
			if !used[path][e.Address] {
				fmt.Fprintf(a.stderr, "Note: %s has an entry for %q, which no block uses; `gantry plugin lock --prune` drops it\n", path, e.Address)
			}
		}
	}
}
