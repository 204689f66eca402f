package console

import (
	"cmp"
	"context"
	"errors"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/spf13/cobra"
)

// ThreadTitle returns a thread's name, or the beginning of its first task.
func ThreadTitle(t store.ThreadInfo) string { return render.OneLine(cmp.Or(t.Name, t.Preview), 60) }

// FindThread resolves the user's name for a thread. "" is the most recent thread of the folder cwd, or of all folders.
func FindThread(ctx context.Context, s *store.Store, which, cwd string, all bool) (event.ThreadID, error) {
	if which != "" {
		info, err := s.Thread(ctx, which)
		return info.ID, err
	}
	return newest(ctx, s.Threads, cwd, all)
}

// newest returns the most recent thread of the folder cwd, or of all folders.
func newest(ctx context.Context, list func(context.Context, store.Filter) ([]store.ThreadInfo, error), cwd string, all bool) (event.ThreadID, error) {
	f := store.Filter{Cwd: cwd, Limit: 1}
	if all {
		f.Cwd = ""
	}
	infos, err := list(ctx, f)
	if err != nil {
		return "", err
	}
	if len(infos) == 0 {
		return "", hint.New("no thread in this folder to resume", "--all considers all folders")
	}
	return infos[0].ID, nil
}

// RunsHere reports whether a thread cannot be opened because a reachable process runs it. If hosts share a database, that process
// may be on another machine or use another home.
func (a *Env) RunsHere(id event.ThreadID, err error) bool {
	locked, runs := errors.AsType[*store.LockedError](err)
	if !runs || locked.Owner.Machine != "" {
		return false
	}
	home, err := a.Home()
	if err != nil {
		return false
	}
	socket, err := runsocket.Path(home, id)
	return err == nil && Exists(socket)
}

// TurnHelp explains how to name a turn.
const TurnHelp = "TURN is a turn's number, its ID or a prefix of it; `gantry threads turns THREAD` lists them."

// ForkFlags are the flags that say where to fork a thread.
type ForkFlags struct{ hub.Fork }

// Register adds the flags to a command.
func (f *ForkFlags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.Through, "through", "", "end the fork after `TURN`")
	fs.StringVar(&f.Before, "before", "", "end the fork before `TURN`")
	fs.StringVar(&f.Name, "name", "", "name the fork `NAME`")
	Exclusive(cmd, "through", "before")
}

// CheckName validates a thread name and returns it as stored; "" stays "".
func CheckName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	name, err := branch.Name(name)
	if err != nil {
		return "", Usage("%w", err)
	}
	return name, nil
}

// OnThread changes a thread: in the store if no process runs it, otherwise by a request to that process.
func (a *Env) OnThread(ctx context.Context, s *store.Store, which string, stored func(event.ThreadID) error, live func(*threadsocket.Client) error) error {
	info, err := s.Thread(ctx, which)
	id := info.ID
	if err == nil {
		err = stored(id)
		if !a.RunsHere(id, err) {
			return err
		}
	} else {
		// The thread may be an ephemeral one, which can only be found by its full ID.
		var unparsed error
		if id, unparsed = event.ParseThreadID(which); unparsed != nil {
			return err
		}
	}
	home, hErr := a.Home()
	if hErr != nil {
		return hErr
	}
	path, pErr := runsocket.Path(home, id)
	if pErr != nil {
		return pErr
	}
	c, dErr := threadsocket.Dial(ctx, path)
	if errors.Is(dErr, threadsocket.ErrGone) {
		return err
	}
	if dErr != nil {
		return dErr
	}
	defer func() { _ = c.Close() }() // all requests have been answered by then
	return live(c)
}
