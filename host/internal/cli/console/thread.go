package console

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/spf13/cobra"
)

// ThreadTitle returns a thread's name, or the beginning of its first task.
func ThreadTitle(t store.ThreadInfo) string { return render.OneLine(cmp.Or(t.Name, t.Preview), 60) }

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

// maxListed is the largest number of a listing that names a thread: shorter than the shortest part of an ID.
const maxListed = 999

// listed returns the number of a listing that a text is.
func listed(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && n <= maxListed && text[0] != '0' && text[0] != '+'
}

// nth returns the thread with a number in the listing.
func nth(ctx context.Context, list func(context.Context, store.Filter) ([]store.ThreadInfo, error), n int, cwd string, all bool) (event.ThreadID, error) {
	f := store.Filter{Cwd: cwd, Limit: n}
	if all {
		f.Cwd = ""
	}
	infos, err := list(ctx, f)
	if err != nil {
		return "", err
	}
	if len(infos) < n {
		return "", hint.New(fmt.Sprintf("there is no thread %d: the listing has %d", n, len(infos)), "specify one of those that `gantry threads list` shows")
	}
	return infos[n-1].ID, nil
}

// TailOf returns the end of an ID that names a thread in commands. It is random, so that it stays unique.
func TailOf(id event.ThreadID) string { return string(id[max(len(id)-8, 0):]) }

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
