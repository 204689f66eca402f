package host

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/hookconfig"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
)

// couldChange reports whether a running command could change one of these paths. Sandboxes protect some names, so paths below those are safe.
func (h *Host) couldChange(paths []string) bool {
	c := h.opts.Config
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return slices.ContainsFunc(append([]string{c.Dir}, c.Sandbox.WritableRoots...), func(root string) bool {
			rel, err := filepath.Rel(root, path)
			first, _, _ := strings.Cut(rel, "/")
			return err == nil && slices.Contains(box.Protected, first)
		})
	})
	if len(paths) == 0 {
		return false
	}
	_, found := h.launcher.CouldChange(paths)
	return found
}

// openHooks reads the hooks. A problem with one of the machine's hooks is an error, because that hook may protect something.
func (h *Host) openHooks() error {
	found, problems := hookconfig.Load(h.opts.Config)
	for _, p := range problems {
		switch {
		case p.Foreign:
			h.log.Debug("hooks for another program are left out", "err", p)
		case hookconfig.Managed(h.opts.Config, p.Source):
			return fmt.Errorf("a hook in the machine's configuration can't be used: %w", p)
		default:
			h.hookNotices = append(h.hookNotices, event.Notice{Level: "warning", Text: "hooks left out: " + p.Source + " " + p.Where + ": " + p.Text, Next: p.Next})
		}
	}
	shell := hook.Shell{
		Spawn: func(ctx context.Context, s launch.Spec) (hook.Process, error) { return h.launcher.Spawn(ctx, s) },
		End:   h.launcher.EndCall, Login: h.opts.Config.Hooks.Login,
	}
	if len(found) == 0 {
		return nil
	}
	var unasked func(*hook.Definition) bool
	if h.opts.TrustHooks {
		p := h.opts.Config.Project
		unasked = func(d *hook.Definition) bool { return d.Scope != hook.Project || p != nil && p.Trusted }
	}
	h.heldByHooks = hookconfig.NewHeld(found, h.opts.Home, unasked, h.environ.User).Files
	var err error
	h.hooks, err = hook.New(hook.Config{
		Ask: h.judges.AskForHook, Unasked: unasked, Exposed: h.couldChange,
		Definitions: found, Agreed: func() (map[string]string, error) { return hookconfig.Agreed(h.opts.Home) }, Run: shell.Run,
		Environ: h.environ.User, Logger: h.log.Named("hook"),
	})
	return err
}

// openHooks lets hooks run for the thread. Child threads have none.
func (r *running) openHooks(isNew bool) {
	h, t := r.host, r.thread
	if h.hooks == nil || r.role.Unattended {
		return
	}
	keep := func(text string) (string, error) { return h.scratch.Write(t.ID(), r.sandbox(), "hook", text) }
	source := "resume"
	if isNew {
		source = "startup"
	}
	if a := t.Started().Agent; a != nil {
		r.hooks = h.hooks.Agent(a.Root, hook.Agent{ID: a.Path, Type: cmp.Or(a.Role, "default")}, isNew, t, keep)
	} else {
		r.hooks = h.hooks.Thread(t.ID(), source, t, keep)
	}
	t.Approvals().OnQuestion(r.hooks.Notify)
}

// hookTurn returns what runs hooks for a turn; nil: there are no hooks.
func (r *running) hookTurn(id event.TurnID, started event.TurnStarted) *hook.Turn {
	if r.hooks == nil {
		return nil
	}
	return r.hooks.Turn(hook.TurnInfo{Turn: id, Cwd: started.Cwd, Model: started.ModelName, Never: started.Approval == string(policy.Never)})
}

// endHooks runs the hooks for the end of the thread.
func (r *running) endHooks(ctx context.Context) {
	if r.hooks == nil {
		return
	}
	if r.thread.Started().Agent != nil {
		r.hooks.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hooksEnd)
	defer cancel()
	r.hooks.End(ctx, r.thread.Settings().Cwd)
}

// hooksEnd is the time that hooks have at the end of a thread.
const hooksEnd = 4 * time.Second
