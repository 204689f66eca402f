package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// openStore opens the store without a host: listing and exporting start nothing.
func (a *app) openStore(ctx context.Context) (*store.Store, error) {
	logger, err := a.logger()
	if err != nil {
		return nil, err
	}
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, store.Config{
		Path: filepath.Join(home, "threads.db"), ArtifactDir: filepath.Join(home, "artifacts"), Logger: logger.Named("store"),
	})
}

// withStore runs f on the store and closes it.
func (a *app) withStore(cmd *cobra.Command, f func(ctx context.Context, s *store.Store) error) (err error) {
	ctx := cmd.Context()
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return f(ctx, s)
}

func (a *app) threadsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "threads", Short: "List, show, export, import, delete and clean up stored threads"}
	cmd.AddCommand(a.threadsList(), a.threadsShow(), a.threadsExport(), a.threadsImport(), a.threadsDelete(), a.threadsClean())
	return cmd
}

// threadRow is a thread in the output of `threads list --json`. What is not known is left out.
type threadRow struct {
	ID         event.ThreadID `json:"id"`
	Name       string         `json:"name,omitempty"`
	Preview    string         `json:"preview,omitempty"` // beginning of the first task, in one line
	Status     string         `json:"status"`            // "new", "running", "stopped", "completed", "failed" or "interrupted"
	Cwd        string         `json:"cwd"`
	Model      string         `json:"model,omitempty"`     // name of the model block
	Provider   string         `json:"provider,omitempty"`  // label of the provider block
	ModelName  string         `json:"modelName,omitempty"` // the provider's name for the model
	Source     string         `json:"source,omitempty"`    // the door: "exec"
	Created    time.Time      `json:"created,omitzero"`
	Updated    time.Time      `json:"updated,omitzero"`
	Archived   time.Time      `json:"archived,omitzero"`
	Turns      int            `json:"turns"`
	Events     uint64         `json:"events"`
	Tokens     event.Tokens   `json:"tokens"`
	ForkedFrom event.ThreadID `json:"forkedFrom,omitempty"`
	Run        string         `json:"run,omitempty"` // the host process that wrote last
}

func rowOf(t store.ThreadInfo) threadRow {
	return threadRow{
		ID: t.ID, Name: t.Name, Preview: t.Preview, Status: t.Status, Cwd: t.Cwd, Model: t.Model, Provider: t.Provider,
		ModelName: t.ModelName, Source: t.Source, Created: t.Created.UTC(), Updated: t.Updated.UTC(), Archived: t.Archived.UTC(),
		Turns: t.Turns, Events: t.Seq, Tokens: t.Tokens, ForkedFrom: t.ForkedFrom, Run: t.Run,
	}
}

func (a *app) threadsList() *cobra.Command {
	var asJSON, all bool
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List threads, newest first", Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd, func(ctx context.Context, s *store.Store) error {
				if limit < 0 {
					return usage("--limit is %d; next: write a number from 0 on; 0 is all", limit)
				}
				f := store.Filter{Limit: limit}
				if !all {
					cwd, err := a.workDir("")
					if err != nil {
						return err
					}
					f.Cwd = cwd
				}
				infos, err := s.Threads(ctx, f)
				if err != nil {
					return err
				}
				for i := range infos {
					// The log of a host that was killed still says that its turn runs; the lock knows better.
					if _, held, err := s.Holder(infos[i].ID); err == nil && !held && infos[i].Status == "running" {
						infos[i].Status = "stopped"
					}
				}
				if asJSON {
					rows := make([]threadRow, 0, len(infos))
					for _, t := range infos {
						rows = append(rows, rowOf(t))
					}
					return json.NewEncoder(a.stdout).Encode(rows)
				}
				if len(infos) == 0 {
					fmt.Fprintln(a.stderr, "no threads here; --all lists those of every folder")
					return nil
				}
				w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "THREAD\tUPDATED\tTURNS\tMODEL\tSTATUS\tTASK")
				for _, t := range infos {
					title := t.Name
					if title == "" {
						title = t.Preview
					}
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", t.ID, t.Updated.Local().Format(time.DateTime), t.Turns, t.Model, t.Status, oneLine(title, 60))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "threads of every folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most `N` threads; 0: all")
	return cmd
}

func oneLine(s string, bound int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if r := []rune(s); len(r) > bound {
		s = string(r[:bound-1]) + "…"
	}
	return s
}

func (a *app) threadsShow() *cobra.Command {
	var events, verbose bool
	cmd := &cobra.Command{
		Use: "show THREAD", Short: "Show what happened in a thread", Args: takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, s *store.Store) error {
				info, err := s.Thread(ctx, args[0])
				if err != nil {
					return err
				}
				enc := json.NewEncoder(a.stdout)
				show := newHuman(a.stdout, a.colour(a.stdout), verbose)
				for e, err := range s.Events(ctx, info.ID, 0) {
					if err != nil {
						return err
					}
					if !events {
						show.Event(e)
					} else if err := enc.Encode(e); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&events, "events", false, "print every stored event as a JSON line")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show reasoning and all output")
	return cmd
}

func (a *app) threadsDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete THREAD...", Short: "Delete threads and what only they refer to", Args: takes(1, -1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd, func(ctx context.Context, s *store.Store) error {
				// All of them are found first: a slip in one name must not cost the others.
				var ids []event.ThreadID
				for _, which := range args {
					info, err := s.Thread(ctx, which)
					if err != nil {
						return err
					}
					if !slices.Contains(ids, info.ID) {
						ids = append(ids, info.ID)
					}
				}
				for _, id := range ids {
					if _, err := s.Delete(ctx, id); err != nil {
						return err
					}
					fmt.Fprintln(a.stderr, "deleted", id)
				}
				return nil
			})
		},
	}
}

// findThread resolves what a user calls a thread; "" is the newest one of the folder, or of any.
func findThread(ctx context.Context, s *store.Store, which, cwd string, all bool) (event.ThreadID, error) {
	if which != "" {
		info, err := s.Thread(ctx, which)
		return info.ID, err
	}
	f := store.Filter{Cwd: cwd, Limit: 1}
	if all {
		f.Cwd = ""
	}
	infos, err := s.Threads(ctx, f)
	if err != nil {
		return "", err
	}
	if len(infos) == 0 {
		return "", errors.New("there is no thread of this folder to resume; next: --all looks at every folder")
	}
	return infos[0].ID, nil
}
