package console

import (
	"cmp"
	"context"
	"errors"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/appserver"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// ThreadTitle is what a thread is called: its name, or how its first task begins.
func ThreadTitle(t store.ThreadInfo) string { return render.OneLine(cmp.Or(t.Name, t.Preview), 60) }

// FindThread resolves what a user calls a thread; "" is the newest one of the folder, or of any.
func FindThread(ctx context.Context, s *store.Store, which, cwd string, all bool) (event.ThreadID, error) {
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
		return "", hint.New("no thread in this folder to resume", "--all considers all folders")
	}
	return infos[0].ID, nil
}

// RunsHere tells of a thread that can't be opened whether that is because a process runs it that can be asked. Where hosts
// share a database it may run on another machine, or with another home.
func (a *Env) RunsHere(id event.ThreadID, err error) bool {
	locked, runs := errors.AsType[*store.LockedError](err)
	if !runs || locked.Owner.Machine != "" {
		return false
	}
	home, err := a.Home()
	if err != nil {
		return false
	}
	socket, err := store.RunSocket(home, id)
	return err == nil && Exists(socket)
}

// TurnHelp says how a turn is named.
const TurnHelp = "TURN is a turn's number, its ID or a prefix of it; `gantry threads turns THREAD` lists them."

// ForkFlags say where a thread is forked.
type ForkFlags struct {
	At   branch.Point
	Name string
}

// Register adds the flags to a command.
func (f *ForkFlags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.At.Through, "through", "", "end the fork after `TURN`")
	fs.StringVar(&f.At.Before, "before", "", "end the fork before `TURN`")
	fs.StringVar(&f.Name, "name", "", "name the fork `NAME`")
	Exclusive(cmd, "through", "before")
}

// CheckName is a name as it is stored; "" where none was given.
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

// Fork makes a stored thread of another, which may run, also one that is not stored itself.
func (a *Env) Fork(ctx context.Context, s *store.Store, which string, f ForkFlags) (fork event.ThreadID, err error) {
	if f.Name, err = CheckName(f.Name); err != nil {
		return "", err
	}
	err = a.OnThread(ctx, s, which, func(id event.ThreadID) error {
		fork, err = branch.Fork(ctx, s, id, f.At, f.Name)
		return err
	}, func(c *appserver.Client) error {
		r, err := c.Fork(ctx, appserver.ForkParams{LastTurn: f.At.Through, BeforeTurn: f.At.Before, Name: f.Name})
		fork = r.Thread
		return err
	})
	return fork, err
}

// OnThread changes a thread: in the store where nobody runs it, else by asking who does.
func (a *Env) OnThread(ctx context.Context, s *store.Store, which string, stored func(event.ThreadID) error, live func(*appserver.Client) error) error {
	info, err := s.Thread(ctx, which)
	id := info.ID
	if err == nil {
		err = stored(id)
		if !a.RunsHere(id, err) {
			return err
		}
	} else {
		// It may be one that is not stored. Those are found by their whole id.
		var unparsed error
		if id, unparsed = event.ParseThreadID(which); unparsed != nil {
			return err
		}
	}
	home, hErr := a.Home()
	if hErr != nil {
		return hErr
	}
	path, pErr := store.RunSocket(home, id)
	if pErr != nil {
		return pErr
	}
	c, dErr := appserver.Dial(ctx, path)
	if errors.Is(dErr, appserver.ErrGone) {
		return err
	}
	if dErr != nil {
		return dErr
	}
	defer func() { _ = c.Close() }() // what was asked is answered by then
	return live(c)
}
