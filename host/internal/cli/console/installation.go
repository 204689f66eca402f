package console

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/install"
)

// installation returns this user's installation; load reloads its configuration.
func (a *Env) installation(home string, load func(context.Context) (*config.Config, error)) (install.Installation, error) {
	logger, err := a.Logger()
	if err != nil {
		return install.Installation{}, err
	}
	bin, err := BinDir()
	if err != nil {
		return install.Installation{}, err
	}
	return install.Installation{
		Home: home, Bin: bin, Dir: a.Dir, Version: a.Version, Environ: a.Environ, Builtins: a.Builtins, Logger: logger, Front: installer{a}, Load: load,
	}, nil
}

// OpenPrograms loads the configuration and returns its programs.
func (a *Env) OpenPrograms(ctx context.Context, home, dir string) (*install.Programs, error) {
	cfg, err := a.LoadConfig(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	return a.ProgramsOf(cfg, home)
}

// ProgramsOf returns the programs of a configuration.
func (a *Env) ProgramsOf(cfg *config.Config, home string) (*install.Programs, error) {
	in, err := a.installation(home, func(ctx context.Context) (*config.Config, error) { return a.LoadConfig(ctx, home, a.Dir) })
	if err != nil {
		return nil, err
	}
	return in.Open(cfg)
}

// installer is the front end of package install on the terminal.
type installer struct{ env *Env }

// Confirm asks the user.
func (i installer) Confirm(ctx context.Context, question string) bool {
	return i.env.Confirm(ctx, render.Clean(question))
}

// Show prints a step.
func (i installer) Show(s install.Step) {
	switch s.Kind {
	case install.StepUnchanged:
		fmt.Fprintf(i.env.Stdout, "%s %s: locked, unchanged\n", s.Label, s.Version)
	case install.StepChanges:
		var text strings.Builder
		for _, l := range s.Changes {
			fmt.Fprintf(&text, "  %s\n", render.Clean(l))
		}
		fmt.Fprintf(i.env.Stdout, "%s %s\n%s", s.Label, s.Version, text.String())
	case install.StepRecorded:
		fmt.Fprintf(i.env.Stdout, "  recorded in %s\n", s.File)
	case install.StepUnpinned:
		fmt.Fprintf(i.env.Stderr, "Warning: %s: %s; what it loads is not pinned: add files = [...] to the block, then run `gantry plugin lock %s`\n", s.Label, render.Clean(s.Why), s.Label)
	case install.StepPruned:
		fmt.Fprintf(i.env.Stdout, "%s: dropped from %s\n", s.Address, s.File)
	case install.StepAdded:
		fmt.Fprintf(i.env.Stdout, "added %s to %s\n", s.Block, s.File)
	case install.StepRemoved:
		fmt.Fprintf(i.env.Stdout, "removed %s from %s\n", s.Block, s.File)
	case install.StepUnlocked:
		fmt.Fprintf(i.env.Stdout, "  dropped %q from %s\n", s.Address, s.File)
	case install.StepStillConfigured:
		fmt.Fprintf(i.env.Stderr, "Note: it is still configured at %s\n", s.Where)
	case install.StepUnknown:
	}
}
