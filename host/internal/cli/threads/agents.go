package threads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/spf13/cobra"
)

func (a *app) agentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agents", Short: "List, show, tell and stop the agents that a thread has spawned, and list their roles",
		Long: "agents works with the agents that the model of a thread has spawned. THREAD is the thread that you talk with, and AGENT the path of\n" +
			"one of its agents, such as /root/helper or helper.",
	}
	cmd.AddCommand(a.agentsList(), a.agentsShow(), a.agentsTell(), a.agentsStop(), agentsRoles(a))
	return cmd
}

// spawned is an agent of a thread.
type spawned struct {
	event.Agent
	hub.Info
}

// agentsOf returns the agents of a thread, by path.
func agentsOf(ctx context.Context, h *hub.Hub, which string) (root event.ThreadID, out []spawned, err error) {
	if root, err = console.NamedThread(ctx, h, which); err != nil {
		return "", nil, err
	}
	infos, err := h.List(ctx, hub.Filter{Ancestor: root, IncludeWorkers: true, Sources: []string{event.SourceAgent}})
	if err != nil {
		return "", nil, err
	}
	for _, i := range infos {
		for e, err := range h.Events(ctx, i.ID, 0) {
			if err != nil {
				return "", nil, err
			}
			if b, ok := e.Body.(event.ThreadStarted); ok && b.Agent != nil {
				out = append(out, spawned{*b.Agent, i})
			}
			break // the first event says who it is
		}
	}
	slices.SortFunc(out, func(a, b spawned) int { return strings.Compare(a.Path, b.Path) })
	return root, out, nil
}

// agentOf returns one agent of a thread.
func agentOf(ctx context.Context, h *hub.Hub, which, path string) (spawned, error) {
	_, all, err := agentsOf(ctx, h, which)
	if err != nil {
		return spawned{}, err
	}
	if !strings.HasPrefix(path, "/") {
		path = "/root/" + path
	}
	for _, s := range all {
		if s.Path == path {
			return s, nil
		}
	}
	return spawned{}, hint.With(fmt.Errorf("thread %s has no agent %s", which, path), "`gantry agents list "+which+"` lists them")
}

func (a *app) agentsList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list THREAD", Short: "List the agents of a thread", Args: console.Takes(1, 1, "THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				_, all, err := agentsOf(ctx, h, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					rows := make([]agentRow, 0, len(all))
					for _, s := range all {
						rows = append(rows, agentRow{s.Path, s.Nickname, s.ID, s.Status, s.ModelName, s.Turns, s.Tokens.Total})
					}
					return json.NewEncoder(a.Stdout).Encode(rows)
				}
				if len(all) == 0 {
					fmt.Fprintln(a.Stderr, "the thread has no agents")
					return nil
				}
				w := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
				fmt.Fprintln(w, "AGENT\tNAME\tSTATUS\tTURNS\tTOKENS\tMODEL\tTHREAD")
				for _, s := range all {
					fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", s.Path, s.Nickname, s.Status, s.Turns, s.Tokens.Total, s.ModelName, s.ID)
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// agentRow is an agent as JSON.
type agentRow struct {
	Path     string         `json:"path"`
	Nickname string         `json:"nickname"`
	Thread   event.ThreadID `json:"thread"`
	Status   string         `json:"status"`
	Model    string         `json:"model"`
	Turns    int            `json:"turns"`
	Tokens   int64          `json:"tokens"`
}

func (a *app) agentsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show THREAD AGENT", Short: "Show what an agent has done", Args: console.Takes(2, 2, "THREAD", "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				s, err := agentOf(ctx, h, args[0], args[1])
				if err != nil {
					return err
				}
				view := render.NewHuman(a.Stdout, a.Colour(a.Stdout), false)
				for e, err := range h.Events(ctx, s.ID, 0) {
					if err != nil {
						return err
					}
					view.Event(e)
				}
				return nil
			})
		},
	}
}

func (a *app) agentsTell() *cobra.Command {
	return &cobra.Command{
		Use: "tell THREAD AGENT MESSAGE", Short: "Say something to an agent", Args: console.Takes(3, 3, "THREAD", "AGENT", "MESSAGE"),
		Long: "tell gives an agent that is loaded in a running process a message of yours: it reads it in its turn, or a turn begins. What comes of it is\n" +
			"passed on to the agent above it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[2]) == "" {
				return console.UsageError{Text: "the message is empty", Next: "say something"}
			}
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				s, err := agentOf(ctx, h, args[0], args[1])
				if err != nil {
					return err
				}
				t, err := reachAgent(ctx, h, args[0], s)
				if err != nil {
					return err
				}
				_, err = t.Submit(ctx, hub.Submission{Input: hub.Input{Parts: []llm.Part{&llm.Text{Text: args[2]}}}})
				return err
			})
		},
	}
}

// reachAgent finds the process that has an agent loaded.
func reachAgent(ctx context.Context, h *hub.Hub, which string, s spawned) (*hub.Thread, error) {
	t, err := h.Reach(ctx, s.ID)
	if err != nil && hub.ErrorOf(err).Code == hub.Closed {
		err = hint.With(fmt.Errorf("no process has agent %s loaded", s.Path), "tell the thread itself, with `gantry resume "+which+"`, what its agent is to do")
	}
	return t, err
}

func (a *app) agentsStop() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "stop THREAD [AGENT]", Short: "Interrupt what agents do", Args: console.Takes(1, 2, "THREAD", "AGENT"),
		Long: "stop interrupts what an agent does, or with --all what all of them do, those that were spawned by others before these. They stay, and can\n" +
			"be given more work.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) == 2) {
				return console.UsageError{Text: "specify an agent, or --all", Next: "`gantry agents list " + args[0] + "` lists them"}
			}
			return a.LookingIntoHub(cmd, func(ctx context.Context, h *hub.Hub) error {
				if !all {
					s, err := agentOf(ctx, h, args[0], args[1])
					if err != nil {
						return err
					}
					return a.stopAgent(ctx, h, args[0], s)
				}
				_, found, err := agentsOf(ctx, h, args[0])
				slices.SortStableFunc(found, func(a, b spawned) int { return b.Depth - a.Depth })
				for _, s := range found {
					if s.Status == "running" {
						err = errors.Join(err, a.stopAgent(ctx, h, args[0], s))
					}
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "stop all agents of the thread")
	return cmd
}

func (a *app) stopAgent(ctx context.Context, h *hub.Hub, which string, s spawned) error {
	t, err := reachAgent(ctx, h, which, s)
	if err != nil {
		return err
	}
	if err := t.Interrupt(ctx, ""); err != nil {
		return err
	}
	fmt.Fprintln(a.Stderr, "stopped", s.Path)
	return nil
}
