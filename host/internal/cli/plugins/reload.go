package plugins

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/runsocket"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/spf13/cobra"
)

func (a *app) pluginReload() *cobra.Command {
	return &cobra.Command{
		Use: "reload NAME [PATH]", Short: "Replace a plugin in every running host", Args: console.Takes(1, 2, "NAME", "PATH"),
		Long: "reload asks every host that uses this home to start the plugin again, alongside the running process. New calls go to the\n" +
			"new process once it has passed its checks; the old one finishes its current calls. If the new process fails, the old one\n" +
			"stays in use. PATH starts another file, whose content must be locked as well.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			home, err := a.Home()
			if err != nil {
				return err
			}
			p := threadsocket.ReloadParams{Plugin: args[0]}
			if len(args) > 1 {
				if p.Path, err = a.executable(args[1]); err != nil {
					return err
				}
			}
			return a.reload(ctx, home, p)
		},
	}
}

func (a *app) executable(path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", hint.With(fmt.Errorf("reload: %w", console.Missing(err, path)), "build the program first, or check the path")
	}
	if !info.Mode().IsRegular() {
		return "", hint.With(fmt.Errorf("reload: %s is not a file", path), "specify a program")
	}
	return path, nil
}

// reload sends a request to each running host of this home once.
func (a *app) reload(ctx context.Context, home string, p threadsocket.ReloadParams) error {
	sockets, err := runSockets(home)
	if err != nil {
		return err
	}
	hosts, failed := 0, false
	told := map[int]bool{} // by process ID
	var known []string
	for _, socket := range sockets {
		pid := owner(ctx, socket)
		if pid != 0 && told[pid] {
			continue
		}
		names, reloaded, err := a.reloadIn(ctx, socket, p)
		if errors.Is(err, threadsocket.ErrGone) {
			continue // the socket of a host that has ended
		}
		told[pid] = true
		hosts++
		who := "a running host"
		if pid != 0 {
			who = fmt.Sprintf("the host with pid %d", pid)
		}
		_, silent := errors.AsType[*threadsocket.SilentError](err)
		switch {
		case silent:
			failed = true
			a.ShowError(fmt.Errorf("plugin %q was not replaced: %w", p.Plugin, err))
		case err != nil:
			failed = true
			a.ShowError(fmt.Errorf("%s did not replace plugin %q, whose old process stays in use: %w", who, p.Plugin, err))
		case !reloaded:
			known = append(known, names...)
			fmt.Fprintf(a.Stderr, "%s has no plugin %q\n", who, p.Plugin)
		default:
			known = append(known, p.Plugin)
			fmt.Fprintf(a.Stdout, "reloaded %s in %s\n", p.Plugin, who)
		}
	}
	switch {
	case failed:
		return console.ErrShown
	case hosts == 0:
		return hint.With(fmt.Errorf("no host is using the home %s", home), "nothing to do: the next `gantry exec` starts the current program")
	case !slices.Contains(known, p.Plugin):
		return hint.With(fmt.Errorf("no running host has a plugin %q", p.Plugin), diag.DidYouMean(p.Plugin, known, "see `gantry plugin list`"))
	}
	return nil
}

// reloadIn sends the request to one host, if it has the plugin.
func (a *app) reloadIn(ctx context.Context, socket string, p threadsocket.ReloadParams) (names []string, reloaded bool, err error) {
	c, err := threadsocket.Dial(ctx, socket)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = c.Close() }() // the host continues; there is nothing to lose
	there, err := c.Plugins(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, s := range there {
		names = append(names, s.Label)
	}
	if !slices.Contains(names, p.Plugin) {
		return names, false, nil
	}
	return names, true, c.Reload(ctx, p)
}

// runSockets lists the sockets of running threads, including those left by a crashed host.
func runSockets(home string) ([]string, error) {
	// Their folder depends on the length of the path and is known only to the store: ask for the socket of any thread.
	some, err := runsocket.Path(home, event.NewThreadID())
	if err != nil {
		return nil, err
	}
	sockets, err := filepath.Glob(filepath.Join(globQuote(filepath.Dir(some)), "*.sock"))
	if err != nil {
		return nil, fmt.Errorf("look for running hosts: %w", err)
	}
	return sockets, nil
}

// globQuote escapes special characters in a folder's name.
func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// owner returns the process that listens on a socket, or 0 if unknown.
func owner(ctx context.Context, socket string) int {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	peer, err := wire.PeerOf(conn.(*net.UnixConn))
	if err != nil {
		return 0
	}
	return peer.PID
}
