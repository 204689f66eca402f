package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// enforces says whether a turn's commands can be held as they must be; where not, its model need not be asked. A role is looked
// after by who gave it.
func (h *Host) enforces(ctx context.Context, as child.Role, t event.TurnStarted) error {
	if as.Sandbox != "" {
		return nil
	}
	err := h.launcher.Check(Grant(h.opts.Config, t.Sandbox, t.Cwd, ""))
	if err == nil {
		err = NotTheHome(h.opts.Config, t.Sandbox, t.Cwd, UserHome(h.opts.Environ))
	}
	if err == nil && t.Sandbox != launch.FullAccess {
		err = h.makesBoxes(ctx, t.Sandbox)
	}
	u, ok := errors.AsType[*launch.UnsupportedError](err)
	if !ok {
		return err
	}
	d := diag.Diagnostic{Severity: diag.Error, Summary: u.What, Next: u.Next}
	if u.Limit == "" && t.Sandbox == h.opts.Config.Sandbox.Mode {
		d = h.opts.Config.Place(h.opts.Config.Sandbox.Range, d)
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// NotTheHome refuses the user's home, or a folder above it, as the working folder of commands that write there, unless it is one of the
// writable_roots: too much of what lies there is executed later or holds keys. The error is a [launch.UnsupportedError].
func NotTheHome(c *config.Config, mode, cwd, home string) error {
	if mode != box.WorkspaceWrite || home == "" {
		return nil
	}
	at, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return nil // whoever enters it says so
	}
	if home, err = filepath.EvalSymlinks(home); err != nil || !inside(home, at) || at == "/" {
		return nil // / is refused as a root in any case
	}
	for _, r := range c.Sandbox.WritableRoots {
		if r, err := filepath.EvalSymlinks(r); err == nil && inside(at, r) {
			return nil
		}
	}
	what := "your home"
	if at != home {
		what = "above your home"
	}
	return &launch.UnsupportedError{
		Mode: mode, What: fmt.Sprintf("commands may write the working folder, and %s is %s, where programs keep keys and settings that are executed", cwd, what),
		Next: fmt.Sprintf("work in a project's folder (--cd DIR), look around with --sandbox read-only, or add %q to sandbox { writable_roots }", cwd),
	}
}

// makesBoxes tries whether this machine lets a box be made, which containers and some distributions forbid. It takes some
// milliseconds, so a yes is remembered for as long as the machine runs, for those who see it from the same place.
func (h *Host) makesBoxes(ctx context.Context, mode string) error {
	h.boxing.Lock()
	defer h.boxing.Unlock()
	if h.boxes {
		return nil
	}
	marker, place := filepath.Join(h.folders.base, "cache", "sandbox"), machine()
	if was, err := os.ReadFile(marker); err == nil && place != "" && string(was) == place {
		h.boxes = true
		return nil
	}
	p, err := h.launcher.Spawn(ctx, launch.Spec{
		Argv: []string{"true"}, Cwd: "/", Env: h.toolEnvironment(""), Grant: launch.Grant{Mode: box.ReadOnly}, Owner: launch.Owner{Plugin: "(sandbox)"},
	})
	if err == nil {
		_, err = p.Wait(ctx)
	}
	if s, ok := errors.AsType[*launch.StartError](err); ok && s.Op == "confine" {
		return &launch.UnsupportedError{
			Mode: mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %s", mode, s.Message),
			Next: `mend that, or set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	if err != nil { // that there is no such program says nothing of boxes; each command is told what is wrong with its own
		h.log.Debug("the sandbox was not tried", "err", err)
		return nil
	}
	h.boxes = true
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err == nil {
		err = os.WriteFile(marker, []byte(place), 0o600)
		h.log.Debug("the sandbox works here", "remembered", err == nil)
	}
	return nil
}

// machine names this run of the machine, and the namespaces from which it is seen; empty: it can't be told.
func machine() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	names := []string{strings.TrimSpace(string(boot))}
	for _, kind := range []string{"user", "mnt", "pid"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return ""
		}
		names = append(names, link)
	}
	return strings.Join(names, " ")
}
