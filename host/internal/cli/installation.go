package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/install"
)

// installation is this user's gantry; load reads its configuration anew.
func (a *app) installation(home string, load func(context.Context) (*config.Config, error)) (install.Installation, error) {
	logger, err := a.logger()
	if err != nil {
		return install.Installation{}, err
	}
	bin, err := binDir()
	if err != nil {
		return install.Installation{}, err
	}
	return install.Installation{
		Home: home, Bin: bin, Dir: a.dir, Version: a.version, Environ: a.environ, Builtins: a.builtins, Logger: logger, Front: installer{a}, Load: load,
	}, nil
}

func (a *app) openPrograms(ctx context.Context, home, dir string) (*install.Programs, error) {
	cfg, err := a.loadConfig(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	return a.programsOf(cfg, home)
}

func (a *app) programsOf(cfg *config.Config, home string) (*install.Programs, error) {
	in, err := a.installation(home, func(ctx context.Context) (*config.Config, error) { return a.loadConfig(ctx, home, a.dir) })
	if err != nil {
		return nil, err
	}
	return in.Open(cfg)
}

// installer asks and shows on the terminal what concerns plugins.
type installer struct{ *app }

// Confirm asks the user.
func (i installer) Confirm(ctx context.Context, question string) bool {
	return i.confirm(ctx, render.Clean(question))
}

// Show prints a step.
func (i installer) Show(s install.Step) {
	switch s.Kind {
	case install.StepUnchanged:
		fmt.Fprintf(i.stdout, "%s %s: locked, unchanged\n", s.Label, s.Version)
	case install.StepChanges:
		var text strings.Builder
		for _, l := range s.Changes {
			fmt.Fprintf(&text, "  %s\n", render.Clean(l))
		}
		fmt.Fprintf(i.stdout, "%s %s\n%s", s.Label, s.Version, text.String())
	case install.StepRecorded:
		fmt.Fprintf(i.stdout, "  recorded in %s\n", s.File)
	case install.StepUnpinned:
		fmt.Fprintf(i.stderr, "Warning: %s: %s; what it loads is not pinned: add files = [...] to the block, then run `gantry plugin lock %s`\n", s.Label, render.Clean(s.Why), s.Label)
	case install.StepPruned:
		fmt.Fprintf(i.stdout, "%s: dropped from %s\n", s.Address, s.File)
	case install.StepAdded:
		fmt.Fprintf(i.stdout, "added %s to %s\n", s.Block, s.File)
	case install.StepRemoved:
		fmt.Fprintf(i.stdout, "removed %s from %s\n", s.Block, s.File)
	case install.StepUnlocked:
		fmt.Fprintf(i.stdout, "  dropped %q from %s\n", s.Address, s.File)
	case install.StepStillConfigured:
		fmt.Fprintf(i.stderr, "Note: it is still configured at %s\n", s.Where)
	case install.StepUnknown:
	}
}
