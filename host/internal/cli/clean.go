package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
)

func (a *app) threadsClean() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use: "clean", Short: "Delete threads that the configured retention does not cover", Args: takes(0, 0),
		Long: "clean deletes the threads that `store { retention { ... } }` does not cover, and artifacts that no thread refers to. It\n" +
			"skips threads that are open in a process. `gantry exec` does the same once a day, in the background.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := interruptible(cmd)
			defer stop()
			home, err := a.home()
			if err != nil {
				return err
			}
			cfg, err := a.loadConfig(ctx, home, a.dir)
			if err != nil {
				return err
			}
			s, err := a.openStore(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
			policy := retention(cfg)
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

func retention(cfg *config.Config) store.Policy {
	r := cfg.Store.Retention
	return store.Policy{MaxAge: r.MaxAge, MaxThreads: int(r.MaxThreads), KeepNamed: r.KeepNamed}
}

func (a *app) showRetained(r store.Report, p store.Policy) {
	for _, id := range r.Threads {
		fmt.Fprintln(a.stdout, id)
	}
	verb := "removed"
	if p.DryRun {
		verb = "would remove"
	}
	fmt.Fprintf(a.stderr, "%s %s", verb, render.Plural(len(r.Threads), "thread"))
	if !p.DryRun {
		fmt.Fprintf(a.stderr, ", %s with %d bytes", render.Plural(r.Artifacts, "artifact"), r.Bytes)
	}
	if n := len(r.Skipped); n > 0 {
		fmt.Fprintf(a.stderr, "; left %d open", n)
	}
	fmt.Fprintln(a.stderr)
	if p.MaxAge == 0 && p.MaxThreads == 0 {
		fmt.Fprintln(a.stderr, "Note: every thread is kept; to change that set max_age or max_threads in `store { retention { ... } }`.")
	}
}

// tidyEvery is how often threads are cleaned up on the side.
const tidyEvery = 24 * time.Hour

// tidyStamp is a file in the cache folder whose time says when that was done last. Looking at it costs next to nothing.
const tidyStamp = "tidied"

// tidy cleans up when a day has passed. It is meant to run beside a host's threads, and may be ended at any time.
func tidy(ctx context.Context, home string, cfg *config.Config, s *store.Store, log hclog.Logger) {
	stamp := filepath.Join(home, "cache", tidyStamp)
	before := time.Time{}
	if info, err := os.Stat(stamp); err == nil {
		before = info.ModTime()
	}
	if age := time.Since(before); age >= 0 && age < tidyEvery {
		return
	}
	// Marked first, so that a second host does not begin as well.
	if err := touch(stamp, time.Now()); err != nil {
		log.Warn("the time of the last clean-up can't be kept", "err", err)
		return
	}
	r, err := s.Retain(ctx, retention(cfg))
	if err == nil {
		log.Debug("cleaned up", "threads", len(r.Threads), "artifacts", r.Artifacts, "bytes", r.Bytes)
		return
	}
	if ctx.Err() == nil {
		log.Warn("not cleaned up", "err", err)
	}
	if err := touch(stamp, before); err != nil { // the next host goes on with it
		log.Warn("the time of the last clean-up can't be kept", "err", err)
	}
}

// touch gives a file a time; the zero time is long ago.
func touch(path string, at time.Time) error {
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	err := os.Chtimes(path, at, at)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Chtimes(path, at, at))
}
