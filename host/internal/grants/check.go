package grants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/hashicorp/go-hclog"
)

// Checker finds out whether sandbox modes can be enforced on this machine.
type Checker struct {
	Config   *config.Config
	Launcher *launch.Launcher
	Environ  *Environ
	UserHome string
	CacheDir string // remembers the result of a trial
	Logger   hclog.Logger

	mu    sync.Mutex // held during a trial
	works bool       // a trial has succeeded
}

// Check returns an error if commands can't be confined to a mode in cwd. A turn checks this before it asks its model.
func (k *Checker) Check(ctx context.Context, mode, cwd string) error {
	err := k.Launcher.Check(For(k.Config, mode, cwd, ""))
	if err == nil {
		err = CheckWorkDir(k.Config, mode, cwd, k.UserHome)
	}
	if err == nil && mode != launch.FullAccess {
		err = k.Try(ctx, mode)
	}
	u, ok := errors.AsType[*launch.UnsupportedError](err)
	if !ok {
		return err
	}
	d := diag.Diagnostic{Severity: diag.Error, Summary: u.What, Next: u.Next}
	if u.Limit == "" && mode == k.Config.Sandbox.Mode {
		d = k.Config.Place(k.Config.Sandbox.Range, d)
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{d}}
}

// CheckWorkDir refuses the user's home or a folder above it as the working folder of commands that may write there, unless it is one of
// the writable_roots: many files there are executed later or contain keys. The error is a [launch.UnsupportedError].
func CheckWorkDir(c *config.Config, mode, cwd, home string) error {
	if mode != box.WorkspaceWrite || home == "" {
		return nil
	}
	at, err := filepath.EvalSymlinks(cwd)
	if err != nil {
		return nil // the command itself reports this when it starts
	}
	if home, err = filepath.EvalSymlinks(home); err != nil || !Inside(home, at) || at == "/" {
		return nil // / is refused as a root in any case
	}
	for _, r := range c.Sandbox.WritableRoots {
		if r, err := filepath.EvalSymlinks(r); err == nil && Inside(at, r) {
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

// Try starts a command in a sandbox to find out whether this machine permits sandboxes; containers and some distributions don't. This
// takes some milliseconds, so a success is remembered until the machine restarts, for processes in the same namespaces.
func (k *Checker) Try(ctx context.Context, mode string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.works {
		return nil
	}
	marker, current := filepath.Join(k.CacheDir, "sandbox"), machine()
	if last, err := os.ReadFile(marker); err == nil && current != "" && string(last) == current {
		k.works = true
		return nil
	}
	p, err := k.Launcher.Spawn(ctx, launch.Spec{
		Argv: []string{"true"}, Cwd: "/", Env: k.Environ.Tools(), Grant: launch.Grant{Mode: box.ReadOnly}, Owner: launch.Owner{Plugin: "(sandbox)"},
	})
	if err == nil {
		_, err = p.Wait(ctx)
	}
	if s, ok := errors.AsType[*launch.StartError](err); ok && s.Op == "confine" {
		return &launch.UnsupportedError{
			Mode: mode, What: fmt.Sprintf("sandbox mode %q can't be enforced: %s", mode, s.Message),
			Next: `fix this, or set sandbox { mode = "full-access" } to run without confinement`,
		}
	}
	if err != nil { // for example, there is no such program: the result says nothing about sandboxes
		k.Logger.Debug("the sandbox was not tried", "err", err)
		return nil
	}
	k.works = true
	if err := os.MkdirAll(filepath.Dir(marker), 0o700); err == nil {
		err = os.WriteFile(marker, []byte(current), 0o600)
		k.Logger.Debug("the sandbox works here", "remembered", err == nil)
	}
	return nil
}

// machine identifies the current boot of the machine and the namespaces of this process. It is empty if they are unknown.
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
