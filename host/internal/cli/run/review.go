package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) reviewCommand() *cobra.Command {
	var f execFlags
	var target struct {
		uncommitted  bool
		base, commit string
	}
	var in string
	var findings bool
	cmd := &cobra.Command{
		Use:   "review [flags] [WHAT | -]",
		Short: "Review changes in a separate thread",
		Long: "review has a model review changes: uncommitted ones, the working tree compared with a branch, a commit, or whatever WHAT\n" +
			"describes. The reviewer works in its own thread and starts with nothing but the change. It asks no questions; anything\n" +
			"that needs approval is refused. Its findings are printed and become part of the thread: continue with\n" +
			"`gantry resume --last \"fix the first one\"`.",
		Example: "  gantry review\n  gantry review --base main --json\n  gantry review \"the error paths of cmd/serve\"",
		Args:    console.Takes(0, 1, "WHAT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := hub.ReviewTarget{Kind: hub.Uncommitted}
			switch {
			case len(args) > 0 && (target.uncommitted || target.base != "" || target.commit != ""):
				return console.UsageError{Text: fmt.Sprintf("%q and a flag both select what to review", args[0]), Next: "use only one of them"}
			case len(args) > 0:
				what, err := a.taskOf(args[0])
				if err != nil {
					return err
				}
				t = hub.ReviewTarget{Kind: hub.Custom, Instructions: what}
			case cmd.Flags().Changed("base"):
				t = hub.ReviewTarget{Kind: hub.BaseBranch, Branch: target.base}
			case cmd.Flags().Changed("commit"):
				t = hub.ReviewTarget{Kind: hub.Commit, SHA: target.commit}
			}
			return a.review(cmd.Context(), f, t, in, findings)
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&target.uncommitted, "uncommitted", false, "review uncommitted changes, including new files (default)")
	fs.StringVar(&target.base, "base", "", "review the working tree compared with `BRANCH`")
	fs.StringVar(&target.commit, "commit", "", "review the commit `SHA`")
	fs.BoolVar(&findings, "json", false, "print the findings as JSON")
	fs.BoolVar(&f.events, "events", false, "print every event as a JSON line to standard output")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show reasoning and complete output")
	fs.StringVar(&in, "thread", "", "add the findings to the stored or running `THREAD` instead of a new one")
	fs.BoolVar(&f.ephemeral, "ephemeral", false, "store nothing")
	fs.StringVarP(&f.model, "model", "m", "", "review with the model `NAME`, unless the review block names one")
	fs.StringVarP(&f.dir, "cd", "C", "", "work in `DIR`")
	console.Exclusive(cmd, "uncommitted", "base", "commit")
	console.Exclusive(cmd, "json", "events")
	console.Exclusive(cmd, "thread", "ephemeral")
	console.Exclusive(cmd, "thread", "model")
	console.Exclusive(cmd, "thread", "cd")
	return cmd
}

// review runs a review in a new thread, or in the one that in names.
func (a *app) review(ctx context.Context, f execFlags, target hub.ReviewTarget, in string, findings bool) (err error) {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return err
	}
	h, err := a.OpenHub(ctx, console.HubOptions{Dir: cwd, Ephemeral: f.ephemeral, OneTurn: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	w := hub.Workspace{Dir: cwd, Ephemeral: f.ephemeral}
	var t *hub.Thread
	start := func(ctx context.Context) (hub.Accepted, error) { return t.Review(ctx, target) }
	if in == "" {
		t, start, err = h.StartReview(ctx, hub.StartParams{Workspace: w, Model: f.model, Source: "review"}, target)
	} else {
		t, err = a.resume(ctx, h, w, in, false, "will review")
	}
	if err != nil {
		return err
	}
	ended, err := a.runTurn(ctx, t, output{view: a.reviewView(f, findings)}, func(ctx context.Context, _ *hub.Thread) (begun, error) {
		accepted, err := start(ctx)
		return begun{turn: accepted.Turn}, err
	})
	if err == nil && ended.Status != event.TurnCompleted {
		err = console.ErrTurn
	}
	return err
}

// reviewView shows the progress of a review, and its findings at the end.
func (a *app) reviewView(f execFlags, findings bool) render.View {
	if !findings {
		return a.view(f, nil)
	}
	return &findingsView{HumanView: render.HumanView{Human: render.NewHuman(a.Stderr, a.Colour(a.Stderr), f.verbose), Last: nil}, out: a.Stdout}
}

// findingsView writes the findings as JSON, and progress for the user.
type findingsView struct {
	render.HumanView
	out   io.Writer
	found *event.Review
}

// Event shows an event. If a thread has several reviews, the last one counts.
func (v *findingsView) Event(e event.Event, more bool) error {
	if c, ok := e.Body.(event.ItemCompleted); ok && c.Item.Type == event.ItemExitedReview {
		v.found = c.Item.Review
	}
	return v.HumanView.Event(e, more)
}

// Ended writes the findings, or nothing if the review failed.
func (v *findingsView) Ended(e event.TurnEnded) error {
	if v.found == nil || e.Status != event.TurnCompleted {
		return nil
	}
	enc := json.NewEncoder(v.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v.found)
}
