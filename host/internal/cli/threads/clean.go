package threads

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

func (a *app) threadsClean() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "clean", Short: "Delete threads that the configured retention does not cover", Args: console.Takes(0, 0),
		Long: "clean deletes the threads that `store { retention { ... } }` does not cover, and artifacts that no thread refers to. It\n" +
			"skips threads that are open in a process. `gantry exec` does the same once a day, in the background.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			home, err := a.Home()
			if err != nil {
				return err
			}
			cfg, err := a.LoadConfig(ctx, home, a.Dir)
			if err != nil {
				return err
			}
			s, err := a.OpenStore(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
			policy := console.Retention(cfg)
			policy.DryRun = dry
			r, err := s.Retain(ctx, policy)
			if err != nil {
				return err
			}
			a.showRetained(r, policy)
			return nil
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be deleted")
	return cmd
}

func (a *app) showRetained(r store.Report, p store.Policy) {
	for _, id := range r.Threads {
		fmt.Fprintln(a.Stdout, id)
	}
	verb := "removed"
	if p.DryRun {
		verb = "would remove"
	}
	fmt.Fprintf(a.Stderr, "%s %s", verb, render.Plural(len(r.Threads), "thread"))
	if !p.DryRun {
		fmt.Fprintf(a.Stderr, ", %s with %d bytes", render.Plural(r.Artifacts, "artifact"), r.Bytes)
	}
	if n := len(r.Skipped); n > 0 {
		fmt.Fprintf(a.Stderr, "; left %d open", n)
	}
	fmt.Fprintln(a.Stderr)
	if p.MaxAge == 0 && p.MaxThreads == 0 {
		fmt.Fprintln(a.Stderr, "Note: all threads are kept; to change this, set max_age or max_threads in `store { retention { ... } }`.")
	}
}
