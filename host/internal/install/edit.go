package install

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/diff"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// target is a configuration file that a command edits.
type target struct {
	path    string
	base    string                     // relative sources are resolved against it
	project *config.Project            // nil for the user's own file, and for a project that is about to be created
	inside  bool                       // the file belongs to a project
	check   func(*config.Config) error // of the configuration with the change; nil: that it can be loaded is enough
}

// target returns the user's file or the project's. It rejects a project that is not trusted, because the edit would put its whole
// content into effect.
func (p *Programs) target(project bool) (target, error) {
	if !project {
		return target{path: filepath.Join(p.Home, "gantry.hcl"), base: p.Home}, nil
	}
	t := target{base: p.Dir, inside: true}
	if pr := p.cfg.Project; pr != nil {
		if !pr.Trusted {
			return target{}, hint.With(fmt.Errorf("the configuration in %s is not trusted", filepath.Join(pr.Dir, ".gantry")), "review it, then run `gantry trust`")
		}
		t.project, t.base = pr, pr.Dir
	}
	t.path = filepath.Join(t.base, ".gantry", "gantry.hcl")
	return t, nil
}

// change edits the file and reloads the configuration. If that fails, it restores the previous text. It renews the trust in a
// project for exactly the text that it wrote.
func (t target) change(ctx context.Context, p *Programs, f func(old []byte) ([]byte, error)) (*config.Config, error) {
	perm := os.FileMode(0o600)
	if t.inside {
		perm = 0o644 // meant to be committed
		if err := os.MkdirAll(filepath.Dir(t.path), 0o755); err != nil {
			return nil, fmt.Errorf("create the project's configuration folder: %w", err)
		}
	}
	var before, after []byte
	existed := false
	err := edit.Update(ctx, t.path, perm, func(old []byte) (_ []byte, err error) {
		before, existed = old, old != nil
		after, err = f(old)
		return after, err
	})
	if err != nil {
		return nil, err
	}
	undo := func(reason error) error {
		var err error
		if existed {
			err = edit.Update(ctx, t.path, perm, func([]byte) ([]byte, error) { return before, nil })
		} else {
			err = os.Remove(t.path)
		}
		if t.inside && t.project != nil {
			err = errors.Join(err, trust.Open(p.Home).Add(ctx, t.project.Dir, t.project.Digest))
		}
		return errors.Join(reason, err)
	}
	if t.inside {
		changed := map[string][]byte{"gantry.hcl": after}
		dir, digest := t.base, ""
		if t.project != nil {
			dir, digest = t.project.Dir, t.project.DigestWith(changed)
		} else {
			// A lock file without a configuration also becomes part of the new project.
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(t.path), lock.FileName)); err == nil {
				changed[lock.FileName] = text
			}
			digest = trust.Digest(changed)
		}
		if err := trust.Open(p.Home).Add(ctx, dir, digest); err != nil {
			return nil, undo(err)
		}
	}
	cfg, err := p.Load(ctx)
	if err == nil && !bytes.Equal(cfg.Text(t.path), after) {
		return nil, t.changedMeanwhile() // by somebody whose text must not be replaced
	}
	if err == nil && t.check != nil {
		err = t.check(cfg)
	}
	if err != nil {
		return nil, undo(err)
	}
	return cfg, nil
}

func (t target) changedMeanwhile() error {
	return hint.With(fmt.Errorf("%s was changed meanwhile", t.path), "run the command again")
}

// Add configures and locks the program that text names. label is the label of its block; empty: the plugin's own name. yes skips
// the question to the user.
func (p *Programs) Add(ctx context.Context, text, label string, project, yes bool) (*Added, error) {
	t, err := p.target(project)
	if err != nil {
		return nil, err
	}
	b, err := p.newBlock(t, text, label)
	if err != nil {
		return nil, err
	}
	pr := p.Look(b)
	if pr.SHA256 == "" {
		return nil, p.notAdded(b, text, pr.Problem)
	}
	if !yes && !pr.Trusted() && !p.Front.Confirm(ctx, fmt.Sprintf("%s is new.\n  program: %s\n  sha256:  %s\n", text, pr.Path, pr.SHA256)+
		"It will be started, confined and without permissions, to read its manifest, and then accepted.\n"+
		"Start and add it?") {
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{{
			Severity: diag.Error, Summary: text + " was not added", Detail: "It is new and was not started.",
			Next: "run the command again on a terminal, or review the program and use --yes",
		}}}
	}
	pr.Manifest = nil // the manifest must be requested again, because the kind is not known yet
	if slot, err := p.Describe(ctx, &pr, contract.KindUnknown); err != nil {
		if e, ok := errors.AsType[*plugin.Error](err); ok && slot != nil {
			full := *e // there is no block yet to inspect, so the error is shown in full
			full.Where, full.StderrTail, full.Next = "", slot.Stderr(MaxInspectLines), "correct the program and run the command again; nothing was "+
				"added"
			err = &full
		}
		return nil, err
	}
	m := pr.Manifest
	if label == "" {
		label = m.Name
	}
	for _, there := range p.Blocks() {
		if there.Label == label {
			return nil, hint.With(fmt.Errorf("the label %q is already used at %s", label, there.Where()), "choose another one with --label")
		}
	}
	block := edit.Block{Type: BlockType(m.Kind), Label: label}
	cfg, err := t.change(ctx, p, func(old []byte) ([]byte, error) {
		return edit.Add(old, t.path, block, edit.Argument{Name: "source", Value: b.Source})
	})
	if err != nil {
		return nil, err
	}
	p.Front.Show(Step{Kind: StepAdded, Block: block, File: t.path})
	if err := p.lockAdded(ctx, cfg, label, pr.SHA256); err != nil {
		return nil, err
	}
	return &Added{Block: block, Manifest: m, File: t.path}, nil
}

// newBlock returns the block for SOURCE before the program's manifest is known.
func (p *Programs) newBlock(t target, text, label string) (*config.PluginBlock, error) {
	src, err := source.Parse(text)
	if err != nil {
		if text != "" && exists(filepath.Join(p.Dir, text)) {
			return nil, &ArgumentError{hint.New(err.Error(), fmt.Sprintf(`did you mean "./%s"?`, filepath.ToSlash(text)))}
		}
		return nil, &ArgumentError{err}
	}
	b := &config.PluginBlock{
		Label: cmp.Or(labelOf(label), labelOf(text), "new"), Kind: contract.KindTool, Source: text, Program: src, Enabled: true,
		LockFile: filepath.Join(filepath.Dir(t.path), lock.FileName),
	}
	switch src.Kind {
	case source.Path:
		home := p.env("HOME")
		if home == "" && strings.HasPrefix(src.Path, "~/") {
			return nil, &ArgumentError{hint.New(fmt.Sprintf("can't resolve %s: ~ stands for $HOME, which is not set", text), "set HOME, or use the full path")}
		}
		b.Path = src.File(p.Dir, home)
		if b.Source, err = t.source(b.Path, home); err != nil {
			return nil, err
		}
		if b.Program, err = source.Parse(b.Source); err != nil {
			return nil, err
		}
	case source.Builtin:
		// The file name depends on the kind.
		kinds := []contract.Kind{contract.KindProvider, contract.KindTool}
		var there []string
		for _, b.Kind = range kinds {
			of := builtinSources(p.Bin, p.Builtins, b.Kind)
			if slices.Contains(of, text) {
				return b, nil
			}
			there = append(there, of...)
		}
		return nil, &ArgumentError{hint.New(fmt.Sprintf("unknown %s", text), diag.DidYouMean(text, there, "use the path of a program"))}
	}
	return b, nil
}

// labelOf returns a name for a program in messages until its manifest is known.
func labelOf(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return -1
	}, strings.ToLower(path.Base(filepath.ToSlash(text))))
	return strings.TrimLeft(name[:min(len(name), 64)], "-_.")
}

// notAdded returns an error about the program that the user named, rather than about a configuration that does not contain it yet.
func (p *Programs) notAdded(b *config.PluginBlock, text string, problem error) error {
	f, ok := errors.AsType[diag.Failure](problem)
	if !ok || len(f.Diagnostics) == 0 {
		return problem
	}
	d := f.Diagnostics[0]
	d.Summary, d.Plugin = text+" can't be added", ""
	switch b.Program.Kind {
	case source.Path:
		info, err := os.Stat(b.Path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			d.Next = "build the program first, or check the path, which is relative to the current folder"
		case err == nil && info.IsDir():
			d.Next = "specify the program in it"
		case err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0:
			d.Next = "if it is a program, make it executable: chmod +x " + text
		default:
			d.Next = "specify a program"
		}
	case source.Installed, source.Registry:
		d.Next = "install it there, or specify a file with a path that starts with ./ or /"
		if exists(filepath.Join(p.Dir, text)) {
			d.Next = fmt.Sprintf("did you mean \"./%s\"?", text)
		}
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// source returns the spelling of a program's path in the file: relative if it stays valid when the project is moved, otherwise
// relative to the user's home folder, or absolute.
func (t target) source(path, home string) (string, error) {
	if rel, err := filepath.Rel(t.base, path); err == nil && filepath.IsLocal(rel) {
		return "./" + filepath.ToSlash(rel), nil
	}
	if !t.inside && home != "" {
		if rel, err := filepath.Rel(home, path); err == nil && filepath.IsLocal(rel) {
			return "~/" + filepath.ToSlash(rel), nil
		}
	}
	return filepath.ToSlash(path), nil
}

// lockAdded locks the program with this digest, which the user has accepted.
func (in Installation) lockAdded(ctx context.Context, cfg *config.Config, label, sha256 string) (err error) {
	p, err := in.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	b, err := p.Block(label)
	if err != nil {
		return err
	}
	if b.Program.Kind == source.Builtin {
		return nil // pinned by the build
	}
	_, err = p.Lock(ctx, b, true, sha256)
	return err
}

// Remove removes a block from its file, and its program from the lock.
func (p *Programs) Remove(ctx context.Context, name string, project bool) error {
	b, err := p.Block(name)
	if err != nil {
		return err
	}
	block := edit.Block{Type: BlockType(b.Kind), Label: b.Label}
	t, err := p.holder(block, project)
	if err != nil {
		return err
	}
	if t.path == "" {
		return hint.With(fmt.Errorf("%s is defined at %s, not in one of your files", block, b.Where()),
			fmt.Sprintf("disable it with `%s { enabled = false }` in gantry.hcl", block))
	}
	cfg, err := t.change(ctx, p, func(old []byte) ([]byte, error) {
		out, removed, err := edit.Remove(old, t.path, block)
		if err == nil && !removed {
			err = fmt.Errorf("%s no longer has a block %s", t.path, block)
		}
		return out, err
	})
	if err != nil {
		return err
	}
	p.Front.Show(Step{Kind: StepRemoved, Block: block, File: t.path})
	if b.Program.Kind != source.Builtin {
		if err := p.unlock(ctx, cfg, b); err != nil {
			return err
		}
	}
	for _, rest := range slices.Concat(cfg.Providers, cfg.Plugins) {
		if rest.Label == b.Label && rest.Kind == b.Kind {
			p.Front.Show(Step{Kind: StepStillConfigured, Block: block, Where: rest.Where()})
		}
	}
	return nil
}

// ErrNotAgreed is returned by Configure if the user does not agree to the changes.
var ErrNotAgreed = errors.New("the configuration was not changed: not confirmed")

// Configure makes changes that a plugin proposes for its own settings, in the project's file or in the user's, which agree gets as a diff.
// The file stays as it is unless agree returns true and the configuration is valid with all changes. It returns the file's path, or ""
// if the changes are none, and the consents to the processes of the plugin as the block declares them with exactly these changes.
func (p *Programs) Configure(ctx context.Context, label string, project bool, edits []contract.ConfigEdit, agree func(file, diff string) bool) (
	file string, agreed map[string]pluginset.Consent, err error,
) {
	b, err := p.Block(label)
	if err != nil {
		return "", nil, err
	}
	m := p.Look(b).Manifest
	if m == nil {
		return "", nil, hint.With(fmt.Errorf("the settings of plugin %q are not known", label), fmt.Sprintf("see `gantry plugin inspect %s`", label))
	}
	block := edit.Block{Type: BlockType(b.Kind), Label: label}
	var t target
	if !project {
		if t, err = p.holder(block, false); err != nil {
			return "", nil, err
		}
	}
	if t.path == "" { // neither file has the block, but it can be added to
		if t, err = p.target(project); err != nil {
			return "", nil, err
		}
	}
	at := []edit.Block{block}
	if b.Kind != contract.KindProvider {
		at = append(at, edit.Block{Type: "config"})
	}
	changes := make([]edit.Change, len(edits))
	for i, e := range edits {
		if changes[i], err = changeOf(e); err != nil {
			return "", nil, fmt.Errorf("plugin %q proposes a wrong change: %w", label, err)
		}
	}
	before, err := os.ReadFile(t.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", nil, fmt.Errorf("read the configuration: %w", err)
	}
	after, err := edit.ApplyOwn(before, t.path, at, m.Config, changes...)
	if errors.Is(err, edit.ErrNoBlock) && !project && p.cfg.Project != nil && p.cfg.Project.Trusted {
		err = hint.With(fmt.Errorf("%w in %s", err, t.path), "add --project if it is in the project's configuration")
	}
	if err != nil {
		return "", nil, fmt.Errorf("the changes that plugin %q proposes can't be made: %w", label, err)
	}
	shown := diff.Of(diff.File{Name: "gantry.hcl", Before: diff.Version{Mode: diff.Regular, Data: string(before)}, After: diff.Version{Mode: diff.Regular, Data: string(after)}})
	switch {
	case shown.Diff == "":
		return "", nil, nil
	case !agree(t.path, shown.Diff):
		return "", nil, ErrNotAgreed
	}
	t.check = func(cfg *config.Config) error {
		i := slices.IndexFunc(cfg.Blocks(), func(x *config.PluginBlock) bool { return x.Label == label })
		if i < 0 {
			return fmt.Errorf("there is no plugin %q any more", label)
		}
		_, ds := cfg.Blocks()[i].Check(m)
		return ds.Err()
	}
	cfg, err := t.change(ctx, p, func(old []byte) ([]byte, error) {
		if !bytes.Equal(old, before) {
			return nil, t.changedMeanwhile()
		}
		return after, nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("%s was not changed: %w", t.path, err)
	}
	agreed, err = p.consentsIn(ctx, cfg, label)
	return t.path, agreed, err
}

// changeOf converts a change that a plugin proposes.
func changeOf(e contract.ConfigEdit) (edit.Change, error) {
	c := edit.Change{Path: e.Path, Replace: true}
	if len(e.Value) == 0 {
		return c, nil
	}
	d := json.NewDecoder(bytes.NewReader(e.Value))
	d.UseNumber()
	if err := d.Decode(&c.Value); err != nil {
		return c, fmt.Errorf("the value of %q is not JSON: %w", strings.Join(e.Path, "."), err)
	}
	return c, nil
}

// holder returns the file that has a block: the user's, unless only the project's has it or project is set.
func (p *Programs) holder(block edit.Block, project bool) (target, error) {
	var found []target
	for _, inside := range []bool{false, true} {
		if inside && (p.cfg.Project == nil || !p.cfg.Project.Trusted) && !project {
			continue
		}
		t, err := p.target(inside)
		if err != nil {
			return target{}, err
		}
		text, err := os.ReadFile(t.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return target{}, err
		}
		has, err := edit.Has(text, t.path, block)
		if err != nil {
			return target{}, err
		}
		if has && (inside || !project) {
			found = append(found, t)
		}
	}
	switch {
	case len(found) > 0:
		return found[0], nil
	case project:
		return target{}, diag.Failure{Diagnostics: diag.Diagnostics{{
			Severity: diag.Error, Summary: fmt.Sprintf("the project has no block %s", block), Next: "remove --project",
		}}}
	}
	return target{}, nil
}

// unlock removes a program from its lock file unless another block uses it.
func (in Installation) unlock(ctx context.Context, cfg *config.Config, b *config.PluginBlock) (err error) {
	for _, other := range slices.Concat(cfg.Providers, cfg.Plugins) {
		if other.LockFile == b.LockFile && other.Address() == b.Address() {
			return nil
		}
	}
	if !exists(b.LockFile) {
		return nil
	}
	p, err := in.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	removed := false
	if err := p.updateLock(ctx, b, func(f *lock.File) error { removed = f.Remove(b.Address()); return nil }); err != nil {
		return err
	}
	if removed {
		p.Front.Show(Step{Kind: StepUnlocked, Address: b.Address(), File: b.LockFile})
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
