package threads

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

// goals has the commands on the goals of threads.
type goals struct{ *app }

func (a goals) goalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "goal", Short: "Set, show, pause, resume and clear the goal of a thread",
		Long: "A thread with an active goal begins a new turn by itself whenever one has completed, until its model reports the goal as complete or\n" +
			"blocked, its budget is used up, or you pause it. A thread that runs in no process continues after its next turn: see `gantry resume`.",
	}
	cmd.AddCommand(
		a.goalSet(), a.goalShow(),
		a.goalStatus("pause", "Pause the work on a goal", "pause stops a thread from beginning turns by itself. A turn that runs goes on.", hub.GoalPaused),
		a.goalStatus("resume", "Resume the work on a goal", "resume lets a thread work on a goal that is paused, blocked, limited or complete.", hub.GoalActive),
		a.goalClear(),
	)
	return cmd
}

func (a goals) goalSet() *cobra.Command {
	var tokens int64
	cmd := &cobra.Command{
		Use: "set THREAD OBJECTIVE", Short: "Set or change the goal of a thread", Args: console.Takes(2, 2, "THREAD", "OBJECTIVE"),
		Long: "set gives a thread a goal, or changes the objective of the one that it has. A goal that is complete is replaced.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := hub.GoalChange{Objective: &args[1]}
			if cmd.Flags().Changed("tokens") {
				c.Budget = &tokens
			}
			return a.changeGoal(cmd, args[0], c)
		},
	}
	cmd.Flags().Int64Var(&tokens, "tokens", 0, "let the goal use at most `N` tokens; 0: unlimited, or goals.max_tokens")
	return cmd
}

func (a goals) goalStatus(word, short, long string, to hub.GoalStatus) *cobra.Command {
	return &cobra.Command{
		Use: word + " THREAD", Short: short, Long: long, Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeGoal(cmd, args[0], hub.GoalChange{Status: &to})
		},
	}
}

func (a goals) goalClear() *cobra.Command {
	return &cobra.Command{
		Use: "clear THREAD", Short: "Remove the goal of a thread", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeGoal(cmd, args[0], hub.GoalChange{Clear: true})
		},
	}
}

// changeGoal changes a goal and shows it.
func (a goals) changeGoal(cmd *cobra.Command, which string, c hub.GoalChange) error {
	return a.onThread(cmd, which, func(ctx context.Context, h *hub.Hub, id event.ThreadID) error {
		g, err := h.ChangeGoal(ctx, id, c)
		if err != nil {
			return err
		}
		a.showGoal(g)
		return nil
	})
}

func (a goals) goalShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show THREAD", Short: "Show the goal of a thread", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				id, err := console.NamedThread(ctx, h, args[0])
				if err != nil {
					return err
				}
				g, err := h.Goal(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return a.PrintJSON(hub.GoalView(id, g))
				}
				a.showGoal(g)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a goals) showGoal(g *hub.Goal) {
	if g == nil {
		fmt.Fprintln(a.Stderr, "the thread has no goal")
		return
	}
	fmt.Fprintln(a.Stdout, render.Goal(*g))
	fmt.Fprintln(a.Stdout, render.OneLine(g.Objective, 200))
}
