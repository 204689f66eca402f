package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/background"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
)

// sessionIdle is how long a session is kept without a call.
const sessionIdle = 30 * time.Minute

// sessionCommand returns the command session.
func (c caller) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "session", Short: "List and stop the sessions of `gantry call`",
		Long: "A session is a thread without a model, which a process in the background keeps for the calls of `gantry call --session NAME` and of\n" +
			"plugins' commands with that flag. It ends when it is unused for half an hour.",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the sessions", Args: console.Takes(0, 0),
		RunE: func(*cobra.Command, []string) error { return c.listSessions() },
	}
	stop := &cobra.Command{
		Use: "stop NAME", Short: "Stop a session, with everything that it has running", Args: console.Takes(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := c.home(args[0])
			if err != nil {
				return err
			}
			return background.Stop(cmd.Context(), home, args[0])
		},
	}
	var idle time.Duration
	keep := &cobra.Command{
		Use: "keep NAME", Short: "Be the process of a session", Hidden: true, Args: console.Takes(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.keepSession(cmd.Context(), args[0], idle) },
	}
	keep.Flags().DurationVar(&idle, "idle", sessionIdle, "end after this time without a call")
	cmd.AddCommand(list, stop, keep)
	return cmd
}

// home returns the home folder for a session.
func (c caller) home(session string) (string, error) {
	if err := background.CheckName(session); err != nil {
		return "", console.Usage("%w", err)
	}
	return c.Home()
}

// listSessions prints the sessions.
func (c caller) listSessions() error {
	home, err := c.Home()
	if err != nil {
		return err
	}
	list, err := background.List(home)
	if err != nil {
		return err
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if shown, ok := render.Output(b); ok {
		fmt.Fprint(c.Stdout, shown)
	}
	return nil
}

// keepSession is the process of a session: it starts the thread, says so on standard output, and keeps it until it is unused or a signal ends it.
func (c caller) keepSession(ctx context.Context, name string, idle time.Duration) (err error) {
	home, err := c.home(name)
	if err != nil {
		return err
	}
	h, err := c.OpenHub(ctx, console.HubOptions{Dir: c.Dir})
	if err != nil {
		return err
	}
	release := func() error { return nil }
	defer func() { err = errors.Join(err, h.Close(), release()) }() // it is kept as long as something of it may be left
	t, err := h.Start(ctx, hub.StartParams{Workspace: hub.Workspace{Dir: c.Dir}, Source: "exec", Name: "session " + name})
	if err != nil {
		return err
	}
	stop := c.interruptOnSignal(ctx, t)
	defer stop()
	events, err := t.Follow(ctx, hub.FromNow, hub.Lossless)
	if err != nil {
		return err
	}
	defer events.Close()
	end, ok, err := background.Hold(home, name, string(t.ID()), c.Stdout)
	if err != nil || !ok {
		return err
	}
	release = end
	for running := false; ; {
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if !running { // a call may take as long as it likes
			waiting, cancel = context.WithTimeout(ctx, idle)
		}
		e, err := events.Next(waiting)
		cancel()
		if err != nil {
			return nil // unused, stopped, or ended
		}
		switch e.Body.(type) {
		case event.TurnStarted:
			running = true
		case event.TurnEnded:
			running = false
		}
	}
}

// callInSession makes a call in a session, which is started if it does not run.
func (c caller) callInSession(ctx context.Context, call Call) (err error) {
	home, err := c.home(call.Session)
	if err != nil {
		return err
	}
	s, ok, err := background.Find(home, call.Session)
	if err != nil {
		return err
	}
	if !ok {
		if s.Thread, err = background.Start(ctx, call.Session, c.keeping(home, call.Session)); err != nil {
			return err
		}
	}
	h, err := c.OpenHub(ctx, console.HubOptions{OnlyLooks: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	t, err := h.Reach(ctx, event.ThreadID(s.Thread))
	if err != nil {
		return fmt.Errorf("the session %q: %w", call.Session, err)
	}
	return c.callIn(ctx, t, call, contract.Descriptor{Name: call.Tool})
}

// keeping returns the process that keeps a session, with the settings of this command line.
func (c caller) keeping(home, session string) background.Process {
	args := []string{"--home", home}
	for _, s := range c.Flags.Sets {
		args = append(args, "-c", s)
	}
	for flag, value := range map[string]string{"--config": c.Flags.Config, "--profile": c.Flags.Profile, "--log": c.Flags.Log} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if c.Flags.NoUser {
		args = append(args, "--ignore-user-config")
	}
	return background.Process{Args: append(args, "session", "keep", session), Dir: c.Dir, Env: c.Environ}
}
