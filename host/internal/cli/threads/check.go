package threads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// condition describes the damage of a thread, in JSON.
type condition struct {
	Thread event.ThreadID `json:"thread"`
	Events int            `json:"events"`          // intact ones
	Newer  int            `json:"newer,omitempty"` // of these, those that only a later version can read
	Wrong  []problem      `json:"wrong,omitempty"`
}

type problem struct {
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

// problemOf converts an error.
func problemOf(err error) problem {
	text, next := hint.Split(err)
	return problem{render.Clean(text), render.Clean(next)}
}

// checked is the result of check.
type checked struct {
	Database []problem   `json:"database,omitempty"`
	Threads  []condition `json:"threads"`
}

func (c checked) wrong() int {
	n := len(c.Database)
	for _, t := range c.Threads {
		n += len(t.Wrong)
	}
	return n
}

func (a *app) threadsCheck() *cobra.Command {
	var asJSON, reindex bool
	cmd := &cobra.Command{
		Use: "check [THREAD...]", Short: "Check stored threads for damage", Args: console.Takes(0, -1, "THREAD"),
		Long: "check reads everything that is stored for the given threads, or for all threads, and verifies the checksum of each event\n" +
			"and the digest of each artifact. Without a THREAD, it also checks the database file. It changes nothing. With --reindex,\n" +
			"it first rebuilds the indexes, for a database in which only an index is damaged. Exit status 1: something is damaged.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			open := a.LookIntoStore
			if reindex {
				open = a.OpenStore
			}
			return console.Closing(ctx, open, func(ctx context.Context, s *store.Store) error {
				if reindex {
					if err := s.Reindex(ctx); err != nil {
						return fmt.Errorf("rebuild the indexes: %w", err)
					}
				}
				found, err := check(ctx, s, args)
				if err == nil && asJSON {
					err = a.PrintJSON(found)
				} else if err == nil {
					a.showChecked(found)
				}
				if err == nil && found.wrong() > 0 {
					err = console.ErrShown
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&reindex, "reindex", false, "rebuild the indexes of the database first")
	return cmd
}

// check examines the named threads, or without names the database and all threads.
func check(ctx context.Context, s *store.Store, names []string) (checked, error) {
	out := checked{Threads: []condition{}}
	var ids []event.ThreadID
	for _, name := range names {
		info, err := s.Thread(ctx, name)
		if err != nil {
			return out, err
		}
		ids = append(ids, info.ID)
	}
	if len(names) == 0 {
		wrong, err := s.Verify(ctx, true)
		if err != nil {
			out.Database = append(out.Database, problemOf(err))
		}
		for _, w := range wrong {
			out.Database = append(out.Database, problem{render.Clean(w), damagedNext(wrong)})
		}
		for _, archived := range []bool{false, true} {
			infos, err := s.Threads(ctx, store.Filter{IncludeWorkers: true, Archived: archived})
			if ctx.Err() != nil {
				return out, err
			}
			if err != nil {
				out.Database = append(out.Database, problemOf(err))
			}
			for _, t := range infos {
				ids = append(ids, t.ID)
			}
		}
	}
	for _, id := range ids {
		c, err := s.Check(ctx, id)
		if ctx.Err() != nil {
			return out, err
		}
		if _, gone := errors.AsType[*store.NotFoundError](err); gone {
			continue // deleted meanwhile
		}
		row := condition{Thread: id, Events: c.Events, Newer: c.Newer}
		if c.Damage != nil {
			row.Wrong = append(row.Wrong, problemOf(c.Damage))
		}
		for _, e := range append(c.Artifacts, err) {
			if e != nil {
				row.Wrong = append(row.Wrong, problemOf(e))
			}
		}
		out.Threads = append(out.Threads, row)
	}
	return out, nil
}

// damagedNext returns the next step for a damaged database file.
func damagedNext(wrong []string) string {
	if !slices.ContainsFunc(wrong, func(w string) bool { return !strings.Contains(w, " index ") }) {
		return "`gantry threads check --reindex` rebuilds its indexes"
	}
	return "restore a backup of the database; or export intact threads with `gantry threads export`, move the file away together with its -wal file, and import them again"
}

// maxWrongShown limits the printed errors of a database, because one damaged page causes many.
const maxWrongShown = 5

func (a *app) showChecked(c checked) {
	show := func(about string, list []problem) {
		for i, p := range list {
			if i == maxWrongShown {
				fmt.Fprintf(a.Stdout, "  … and %d more\n", len(list)-i)
				break
			}
			fmt.Fprintf(a.Stdout, "✗ %s%s\n", about, p.Text)
			if next := p.Next; next != "" && (i+1 == len(list) || i+1 == maxWrongShown || list[i+1].Next != next) {
				fmt.Fprintf(a.Stdout, "    Next: %s\n", next)
			}
		}
	}
	show("database: ", c.Database)
	events := 0
	for _, t := range c.Threads {
		events += t.Events
		show("", t.Wrong)
		if t.Newer > 0 {
			fmt.Fprintf(a.Stdout, "! thread %s has %s of a later version\n    Next: update gantry\n", t.Thread, render.Plural(t.Newer, "event"))
		}
	}
	verdict := "all whole"
	if n := c.wrong(); n > 0 {
		verdict = render.Plural(n, "thing") + " damaged"
	}
	fmt.Fprintf(a.Stdout, "%s, %s: %s\n", render.Plural(len(c.Threads), "thread"), render.Plural(events, "event"), verdict)
}

func (a *app) threadsRecover() *cobra.Command {
	return &cobra.Command{
		Use: "recover THREAD", Short: "Copy the intact part of a damaged thread to a new thread", Args: console.Takes(1, 1, "THREAD"),
		Long: "recover copies the events of a damaged thread up to the damage to a new thread, and prints its ID. It doesn't change the\n" +
			"damaged thread. In the new thread, the model is told that the record of what followed was lost.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				if err != nil {
					return err
				}
				lock, err := s.LockThread(ctx, info.ID)
				if err != nil {
					return err
				}
				id, damage, err := branch.Recover(ctx, s, info.ID)
				if err = errors.Join(err, lock.Release()); err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "%d of %s were copied: %v\n", damage.Good, render.Plural(int(cmp.Or(damage.Last, damage.Good)), "event"), render.Clean(damage.Err.Error()))
				fmt.Fprintln(a.Stdout, id)
				return nil
			})
		},
	}
}
