package plugins

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/spf13/cobra"
)

func (a *app) pluginLock() *cobra.Command {
	var yes, prune bool
	cmd := &cobra.Command{
		Use: "lock [flags] [NAME...]", Short: "Lock plugins to their current content",
		Long: "lock hashes the program of each given block, or of all blocks, reads its manifest, and records both in gantry.lock.hcl,\n" +
			"next to the file that contains the block. It shows what changes. If a program is new or requests more than was accepted\n" +
			"before, lock asks for confirmation on a terminal; without a terminal, use --yes. It asks in the same way about the\n" +
			"processes that a plugin's block declares, and records them in gantry.lock.hcl of the project, or else in gantry's home.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error { return a.lock(ctx, p, args, yes, prune) })
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "accept changes without confirmation")
	cmd.Flags().BoolVar(&prune, "prune", false, "drop entries that no block uses any more")
	return cmd
}

func (a *app) lock(ctx context.Context, p *install.Programs, names []string, yes, prune bool) error {
	blocks := p.Blocks()
	if len(names) > 0 {
		blocks = nil
		for _, n := range names {
			b, err := p.Block(n)
			if err != nil {
				return err
			}
			if b.Program.Kind == source.Builtin && !b.Declares() {
				fmt.Fprintf(a.Stderr, "%s is built in and pinned by gantry's build; nothing to lock\n", b.Label)
				continue
			}
			blocks = append(blocks, b)
		}
	}
	var problems []error
	count, done := 0, map[string]bool{}
	for _, b := range blocks {
		key := b.LockFile + "\x00" + b.Address()
		if len(names) == 0 && !b.Enabled {
			continue
		}
		if b.Program.Kind != source.Builtin && !done[key] {
			done[key] = true
			count++
			// A failure must not prevent the others from being locked.
			if _, err := p.Lock(ctx, b, yes, ""); err != nil {
				problems = append(problems, err)
				continue
			}
		}
		if b.Declares() {
			count++
			if err := p.AcceptProcesses(ctx, b, yes); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if prune {
		if err := p.Prune(ctx); err != nil {
			problems = append(problems, err)
		}
	}
	for _, err := range problems {
		a.ShowProblem(err)
	}
	if len(problems) > 0 {
		return console.ErrShown
	}
	if count == 0 && len(names) == 0 {
		fmt.Fprintln(a.Stderr, "nothing to lock: all configured plugins are built in")
	}
	return nil
}

func (a *app) pluginVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare plugins with their locks", Args: console.Takes(0, 0),
		Long: "verify hashes the program of each enabled block, reads its manifest if the content matches the lock, and compares both with\n" +
			"the lock. Exit status 1: a plugin is missing, not locked, or different.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error { return a.verify(ctx, p, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) verify(ctx context.Context, p *install.Programs, asJSON bool) error {
	all := p.VerifyAll(ctx)
	bad := false
	rows := make([]pluginRow, 0, len(all))
	for i := range all {
		pr := &all[i]
		if !pr.Block.Enabled {
			continue
		}
		bad = bad || pr.Problem != nil
		rows = append(rows, rowOf(pr))
	}
	if asJSON {
		if err := a.PrintJSON(rows); err != nil {
			return err
		}
	} else {
		for i := range all {
			pr := &all[i]
			if !pr.Block.Enabled {
				continue
			}
			mark := "✓"
			if pr.Problem != nil {
				mark = "✗"
			}
			fmt.Fprintf(a.Stdout, "%s %s: %s\n", mark, pr.Block.Label, pr.State)
		}
		for i := range all {
			if err := all[i].Problem; err != nil && all[i].Block.Enabled {
				a.ShowProblem(err)
			}
		}
		a.showUnused(p)
	}
	if bad {
		return console.ErrShown
	}
	return nil
}

// showUnused lists lock entries that no block uses. A profile may still use them.
func (a *app) showUnused(p *install.Programs) {
	for _, u := range p.Unused() {
		fmt.Fprintf(a.Stderr, "Note: %s has an entry for %q, which no block uses; `gantry plugin lock --prune` removes it\n", u.File, u.Address)
	}
}
