package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// askAboutProcesses asks the user about the declared processes of all blocks that were not accepted yet. What the user refuses, or can't
// be asked about, is not started when its plugin names it; the plugin then gets the reason.
func (in Installation) askAboutProcesses(ctx context.Context, cfg *config.Config) (err error) {
	var blocks []*config.PluginBlock
	for _, b := range cfg.Blocks() {
		if b.Declares() {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		return nil
	}
	p, err := in.Open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, b := range blocks {
		// The plugin reports what is wrong when it starts: other plugins must not wait for that.
		if err := p.acceptProcesses(ctx, b, asked, in.asksAbout); err != nil {
			in.Logger.Info("declared processes were not accepted", "plugin", b.Label, "err", err)
		}
	}
	return nil
}

// AcceptProcesses asks about each process that a block declares and that the user has not accepted, and records the answer: for a
// process of a project in its lock file, for others in gantry's home. What is not accepted is an error. accepted answers yes to all. names are those of the processes that it
// is about; none: all of the block that are not disabled. The program of the plugin must be locked or part of gantry; it is started if its
// manifest is not known.
func (p *Programs) AcceptProcesses(ctx context.Context, b *config.PluginBlock, accepted bool, names ...string) error {
	return p.acceptProcesses(ctx, b, func(pluginset.Consent) bool { return accepted }, func(q config.Process) bool {
		return len(names) == 0 && !q.Disabled || slices.Contains(names, q.Name)
	})
}

// asked accepts no process without a question.
func asked(pluginset.Consent) bool { return false }

// Consents returns the consents to the processes that a block declares, by their names. That to a process whose program can't be found or
// read is not given.
func (p *Programs) Consents(ctx context.Context, b *config.PluginBlock) (map[string]pluginset.Consent, error) {
	out := map[string]pluginset.Consent{}
	if !b.Declares() {
		return out, nil
	}
	processes, err := p.processes(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		out[process.Name], _ = p.consents().Of(process) // the error is returned where the process is needed
	}
	return out, nil
}

// consentsIn returns the [Programs.Consents] of a plugin's block in another configuration.
func (p *Programs) consentsIn(ctx context.Context, cfg *config.Config, label string) (out map[string]pluginset.Consent, err error) {
	in, err := p.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close(ctx)) }()
	b, err := in.Block(label)
	if err != nil {
		return nil, err
	}
	return in.Consents(ctx, b)
}

// AcceptEdited accepts the processes of a block that a plugin's edits have changed, for a user who has seen and agreed to the edits. before
// are the [Programs.Consents] from before the edits, and agreed those to what the user has agreed to, from [Programs.Configure]. A process
// is accepted without a question if it is still as it was agreed to, and if an edit has added its block, or if it had been accepted and only
// its block has changed since; the user is asked about others.
func (p *Programs) AcceptEdited(ctx context.Context, b *config.PluginBlock, before, agreed map[string]pluginset.Consent, edits []contract.ConfigEdit) error {
	added := map[string]bool{} // by the names of processes whose block is edited: whether all of it is in the edit
	for _, e := range edits {
		if len(e.Path) >= 2 && len(e.Value) > 0 {
			name := contract.ProcessName(e.Path[0], e.Path[1])
			added[name] = added[name] || len(e.Path) == 2
		}
	}
	return p.acceptProcesses(ctx, b, func(n pluginset.Consent) bool {
		was, there := before[n.Name]
		seen, ok := agreed[n.Name]
		return ok && seen.Pin.String() == n.Pin.String() && (!there && added[n.Name] || was.Given && was.Pin.Program == n.Pin.Program)
	}, func(q config.Process) bool { _, edited := added[q.Name]; return edited })
}

// consents finds out what the user has accepted.
func (p *Programs) consents() pluginset.Consents {
	return pluginset.Consents{Config: p.cfg, Home: p.Home, Env: grants.NewEnviron(p.cfg, p.Environ).Tools()}
}

// asksAbout reports whether the user is asked about a process before a host opens.
func (in Installation) asksAbout(p config.Process) bool {
	return !p.Disabled && (in.Needs == nil || in.Needs(p))
}

// acceptProcesses is AcceptProcesses for the processes that about selects. Those that accepted selects are accepted without a question.
func (p *Programs) acceptProcesses(ctx context.Context, b *config.PluginBlock, accepted func(pluginset.Consent) bool, about func(config.Process) bool) error {
	if !b.Declares() {
		return nil
	}
	processes, err := p.processes(ctx, b)
	if err != nil {
		return err
	}
	consents := p.consents()
	var errs []error
	for _, process := range processes {
		if !about(process) {
			continue
		}
		n, err := consents.Of(process)
		yes := err == nil && accepted(n)
		switch {
		case err != nil || n.Given:
		case !yes && !p.Front.Confirm(ctx, question(consents, n)):
			err = hint.With(fmt.Errorf("%s: process %q of plugin %q was not accepted", n.Range, n.Name, n.Plugin),
				fmt.Sprintf("run `gantry plugin lock %s` on a terminal, or review it and use --yes", n.Plugin))
		default:
			if yes { // otherwise the question has shown it
				p.Front.Show(Step{Kind: StepChanges, Label: n.Plugin, Version: n.Name, Changes: consents.Describe(n)})
			}
			err = p.accept(ctx, n)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// processes returns what a block declares.
func (p *Programs) processes(ctx context.Context, b *config.PluginBlock) ([]config.Process, error) {
	pr := p.Look(b)
	if !pr.Trusted() {
		return nil, pr.Problem
	}
	if _, err := p.Describe(ctx, &pr, b.Kind); err != nil {
		return nil, err
	}
	processes, ds := b.Processes(pr.Manifest)
	return processes, ds.Err()
}

// pruneProcesses removes the entries of processes from the project's lock file that no block declares. It removes none if a block can't be
// read.
func (p *Programs) pruneProcesses(ctx context.Context) error {
	if p.cfg.Project == nil || !p.cfg.Project.Trusted {
		return nil
	}
	used := map[string]bool{}
	for _, b := range p.Blocks() {
		if !b.Declares() {
			continue
		}
		processes, err := p.processes(ctx, b)
		if err != nil {
			return err
		}
		for _, process := range processes {
			used[process.Key()] = used[process.Key()] || p.cfg.InProject(process)
		}
	}
	before, path, ds := p.cfg.ProjectLock()
	if err := ds.Err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(before.Processes(), func(e lock.Process) bool { return !used[e.Name] }) {
		return nil
	}
	var dropped []string
	err := p.updateLockFile(ctx, path, before, func(f *lock.File) error {
		dropped = f.PruneProcesses(func(name string) bool { return used[name] })
		return nil
	})
	for _, name := range dropped {
		p.Front.Show(Step{Kind: StepPruned, Address: name, File: path})
	}
	return err
}

func question(c pluginset.Consents, n pluginset.Consent) string {
	state := "is new"
	if n.Before {
		state = "has changed since you accepted it: " + n.Changed
	}
	return fmt.Sprintf("%s: the process %q of plugin %q %s.\n  %s\nLet the plugin start it?", n.Range, n.Name, n.Plugin, state, strings.Join(c.Describe(n), "\n  "))
}

// accept records the consent to a process.
func (p *Programs) accept(ctx context.Context, n pluginset.Consent) error {
	if !p.cfg.InProject(n.Process) {
		return trust.OpenProcesses(p.Home).Add(ctx, map[string]string{n.Key(): n.Pin.String()})
	}
	before, path, ds := p.cfg.ProjectLock()
	if err := ds.Err(); err != nil {
		return err
	}
	return p.updateLockFile(ctx, path, before, func(f *lock.File) error {
		return f.PutProcess(lock.Process{Name: n.Key(), Content: n.Pin.Content, Programs: []lock.Hash{n.Pin.Program}})
	})
}
