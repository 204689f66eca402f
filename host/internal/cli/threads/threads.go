// Package threads implements the commands on stored threads: threads with its subcommands, diff and undo.
//
// It owns the flags of these commands and their output. It does not know how the store keeps threads, or where and how a thread runs.
//
// Start with [Commands].
package threads

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

// app is one invocation of the command line.
type app struct{ *console.Env }

// Commands returns the commands of this package.
func Commands(env *console.Env) []*cobra.Command {
	a := &app{env}
	return []*cobra.Command{a.threadsCommand(), a.diffCommand(), a.undoCommand(), a.agentsCommand(), goals{a}.goalCommand()}
}

func (a *app) threadsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "threads", Short: "List, search, show, name, stop sessions of, fork, revert, archive, export, import, delete, clean up, check and recover stored threads"}
	cmd.AddCommand(
		a.threadsList(), a.threadsSearch(), a.threadsShow(), a.threadsTurns(), a.threadsName(), a.threadsStop(), a.threadsFork(), a.threadsRevert(), a.threadsRollback(),
		a.threadsArchive(true), a.threadsArchive(false), a.threadsExport(), a.threadsImport(), a.threadsDelete(), a.threadsClean(),
		a.threadsCheck(), a.threadsRecover(),
	)
	return cmd
}

// threadFilter are the flags that select threads.
type threadFilter struct {
	all, archived, workers bool

	cwd   string
	limit int
}

func (f *threadFilter) register(cmd *cobra.Command, limit int) {
	fs := cmd.Flags()
	fs.BoolVar(&f.all, "all", false, "list threads of all folders")
	fs.StringVar(&f.cwd, "cwd", "", "list threads of the folder `DIR`, which need not exist any more")
	fs.BoolVar(&f.archived, "archived", false, "list archived threads instead of others")
	fs.BoolVar(&f.workers, "workers", false, "include threads that work for others, such as reviewers' threads")
	fs.IntVar(&f.limit, "limit", limit, "list at most `N` threads; 0: all")
	console.Exclusive(cmd, "all", "cwd")
}

// filter returns the filter for the flags. The default is the current folder.
func (a *app) filter(f threadFilter) (hub.Filter, error) {
	if f.limit < 0 {
		return hub.Filter{}, console.UsageError{Text: fmt.Sprintf("invalid --limit %d", f.limit), Next: "specify a number, 0 or greater; 0 means all"}
	}
	out := hub.Filter{Archived: f.archived, IncludeWorkers: f.workers, Limit: f.limit}
	var err error
	switch {
	case f.all:
	case f.cwd != "":
		out.Cwd, err = filepath.Abs(f.cwd)
	default:
		out.Cwd, err = a.WorkDir("")
	}
	return out, err
}

func (a *app) threadsList() *cobra.Command {
	var asJSON bool
	var flags threadFilter
	var name string
	cmd := &cobra.Command{
		Use: "list", Short: "List threads, newest first", Args: console.Takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := a.filter(flags)
			if err != nil {
				return err
			}
			f.Name = name
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				infos, err := h.List(ctx, f)
				if err != nil {
					return err
				}
				if asJSON {
					rows := make([]threadRow, 0, len(infos))
					for _, t := range infos {
						rows = append(rows, threadRowOf(t))
					}
					return json.NewEncoder(a.Stdout).Encode(rows)
				}
				if len(infos) == 0 {
					fmt.Fprintln(a.Stderr, none(flags, f))
					return nil
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "#\tTHREAD\tUPDATED\tTURNS\tMODEL\tSTATUS\tTASK")
				for i, t := range infos {
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", flags.number(i, name), t.ID, t.Updated.Local().Format(time.DateTime), t.Turns,
						modelOf(t), t.Status, console.ThreadTitle(t))
				}
				return w.Flush()
			})
		},
	}
	flags.register(cmd, 50)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&name, "name", "", "list threads whose name or first task contains `TEXT`")
	return cmd
}

// number returns the number that names a thread of the listing in commands, if the listing is that of the folder.
func (f threadFilter) number(i int, name string) string {
	if f.all || f.cwd != "" || f.archived || f.workers || name != "" {
		return "-"
	}
	return strconv.Itoa(i + 1)
}

// modelOf names the model of a thread as --model takes it, not by the label of its block, which may select another one by now.
func modelOf(t hub.Info) string {
	if t.Provider == "" || t.ModelName == "" {
		return t.Model
	}
	return t.Provider + "/" + t.ModelName
}

// none says that no threads match, and which flag may show some.
func none(flags threadFilter, f hub.Filter) string {
	what := "no threads"
	switch {
	case f.Archived:
		what = "no archived threads"
	case f.Name != "":
		what = "no such threads"
	}
	switch {
	case flags.all:
		return what
	case flags.cwd != "":
		return what + " of " + f.Cwd
	}
	return what + " here; --all lists those of every folder"
}

func (a *app) threadsShow() *cobra.Command {
	var events, verbose, reverted, diffs bool
	cmd := &cobra.Command{
		Use: "show THREAD", Short: "Show the events of a thread", Args: console.Takes(1, 1, "THREAD"),
		Long: "show prints the events of a thread in a readable form. Turns that were rolled back are omitted, or marked with --reverted.\n" +
			"--diff adds the net file changes of each turn. --events prints all stored events.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				info, err := h.Info(ctx, args[0])
				if err != nil {
					return err
				}
				turns, err := h.Turns(ctx, info.ID)
				if err != nil {
					return err
				}
				takenBack := map[event.TurnID]bool{}
				for _, t := range turns {
					takenBack[t.ID] = t.Reverted > 0
				}
				enc := json.NewEncoder(a.Stdout)
				show := render.NewHuman(a.Stdout, a.Colour(a.Stdout), verbose)
				if reverted {
					show.Reverted = takenBack
				}
				var files map[event.TurnID]*checkpoint.Record
				if diffs {
					if files, err = filesOf(h.Events(ctx, info.ID, 0)); err != nil {
						return err
					}
				}
				for e, err := range h.Events(ctx, info.ID, 0) {
					if err != nil {
						return err
					}
					if _, ended := e.Body.(event.TurnEnded); ended && files[e.Turn] != nil && (reverted || !takenBack[e.Turn]) {
						d, err := a.diffOf(ctx, h, info.ID, files[e.Turn])
						if err != nil {
							return err
						}
						show.Net(d.Files, d.Diff, d.notes)
					}
					switch {
					case events:
						if err := enc.Encode(e); err != nil {
							return err
						}
					case reverted || !takenBack[e.Turn]:
						show.Event(e)
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&events, "events", false, "print every stored event as a JSON line")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show reasoning and complete output")
	cmd.Flags().BoolVar(&reverted, "reverted", false, "include turns that were rolled back")
	cmd.Flags().BoolVar(&diffs, "diff", false, "show the file changes of each turn")
	console.Exclusive(cmd, "events", "diff")
	return cmd
}

// filesOf returns the records of turns that changed files.
func filesOf(events iter.Seq2[event.Event, error]) (map[event.TurnID]*checkpoint.Record, error) {
	list, err := checkpoint.Read(events)
	out := map[event.TurnID]*checkpoint.Record{}
	for i := range list {
		if len(list[i].Changes.Net()) > 0 {
			out[list[i].ID] = &list[i]
		}
	}
	return out, err
}

func (a *app) threadsSearch() *cobra.Command {
	var asJSON bool
	var flags threadFilter
	cmd := &cobra.Command{
		Use: "search TEXT...", Short: "Search threads", Args: console.Takes(1, -1, "TEXT"),
		Long: "search finds threads whose name, or one of whose messages, contains all words, ignoring case; parts of words match. It\n" +
			"searches messages of users and agents (the first 32 KiB of each), except in turns that were rolled back.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.filter(flags)
			if err != nil {
				return err
			}
			query := strings.Join(args, " ")
			if strings.TrimSpace(query) == "" {
				return console.UsageError{Text: "empty search text", Next: "specify a word that occurs in the thread"}
			}
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				hits, err := h.Search(ctx, query, f)
				if err != nil {
					return err
				}
				rows := make([]hitRow, 0, len(hits))
				for _, hit := range hits {
					rows = append(rows, hitRowOf(hit))
				}
				if asJSON {
					return a.PrintJSON(rows)
				}
				if len(hits) == 0 {
					fmt.Fprintln(a.Stderr, none(flags, hub.Filter{Archived: f.Archived, Cwd: f.Cwd, Name: query}))
				}
				for _, hit := range hits {
					fmt.Fprintf(a.Stdout, "%s  %s  %s\n", hit.Thread.ID, hit.Thread.Updated.Local().Format(time.DateTime), console.ThreadTitle(hit.Thread))
					for _, p := range hit.Passages {
						fmt.Fprintf(a.Stdout, "  %s  %-5s  %s\n", p.Turn, p.Role, render.OneLine(p.Snippet, 200))
					}
					if hit.More > 0 {
						fmt.Fprintf(a.Stdout, "  … and %d more\n", hit.More)
					}
				}
				return nil
			})
		},
	}
	flags.register(cmd, 20)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) threadsDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete THREAD...", Short: "Delete threads and everything that only they refer to", Args: console.Takes(1, -1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				// Resolve all names first: a typing error in one must not delete the others.
				var ids []event.ThreadID
				for _, which := range args {
					id, err := console.NamedThread(ctx, h, which)
					if err != nil {
						return err
					}
					if !slices.Contains(ids, id) {
						ids = append(ids, id)
					}
				}
				for _, id := range ids {
					if err := h.Delete(ctx, id); err != nil {
						return err
					}
					fmt.Fprintln(a.Stderr, "deleted", id)
				}
				return nil
			})
		},
	}
}
