package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Hooks are the hooks that a configuration has, in the order in which their answers count: the machine's, the user's, the project's,
// and of each the files that count by themselves before the blocks. Problems are of files that can't be read, or only in part.
func Hooks(c *config.Config) (found []hook.Definition, problems []hook.Problem) {
	read := func(path string, layer config.Layer, must bool, onError string) {
		text, err := config.ReadFile(path) // also of a folder that is not trusted
		if err != nil {
			if must || !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, hook.Problem{Source: path, Text: "it can't be read: " + err.Error(), Next: "make it readable, or leave it out"})
			}
			return
		}
		ds, ps := hook.ParseFile(text, path, scopeOf(layer))
		for i := range ds {
			ds[i].Roots = c.Sandbox.WritableRoots
			if ds[i].Block == nil {
				ds[i].Block = blocks(onError, c.Hooks.OnError)
			}
		}
		found, problems = append(found, ds...), append(problems, ps...)
	}
	for _, layer := range []config.Layer{
		config.LayerSystem, config.LayerUser, config.LayerProject, config.LayerFile, config.LayerCommandLine,
	} {
		if c.Hooks.ManagedOnly && layer != config.LayerSystem {
			break
		}
		for _, f := range c.Hooks.Files {
			if f.Layer == layer {
				read(f.Path, layer, false, "")
			}
		}
		for _, b := range c.Hooks.Blocks {
			switch {
			case b.Layer != layer || !b.Enabled:
			case b.File != "":
				read(b.File, layer, true, b.OnError)
			default:
				found = append(found, hook.Definition{
					Key: b.Path + ":hook:" + b.Label, Event: hook.Event(b.Event), Matcher: b.Matcher, Command: b.Command,
					Prompt: b.Prompt, Looks: b.Agent, Model: b.Model, Timeout: b.Timeout,
					Files: b.Files, Roots: c.Sandbox.WritableRoots, Async: b.Async, Block: blocks(b.OnError, c.Hooks.OnError), Status: b.Status, ContextTokens: b.ContextTokens, Source: b.Path, Scope: scopeOf(layer),
				})
			}
		}
	}
	return found, problems
}

func scopeOf(l config.Layer) hook.Scope {
	switch l {
	case config.LayerSystem:
		return hook.Managed
	case config.LayerProject:
		return hook.Project
	}
	return hook.User
}

// blocks is what the first says that says something.
func blocks(says ...string) *bool {
	for _, s := range says {
		if s != "" {
			b := s == "block"
			return &b
		}
	}
	return nil
}

// AgreedHooks returns what the user agreed to, digests by key.
func AgreedHooks(home string) (map[string]string, error) {
	list, err := trust.OpenHooks(home).List()
	agreed := map[string]string{}
	for _, h := range list {
		agreed[h.Key] = h.Digest
	}
	return agreed, err
}

// couldChange reports whether a running command could change one of these paths. What lies below a protected name none can.
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

// heldFor finds the files that agreed hooks run in a folder, and that commands in a sandbox therefore must not change.
type heldFor struct {
	mu    sync.Mutex
	known map[string][]string // by what they depend on
}

// paths returns them. unasked are hooks that run without an answer; nil: none but managed ones.
func (c *heldFor) paths(found []hook.Definition, agreed map[string]string, unasked func(*hook.Definition) bool, dir string, env []string) []string {
	if len(found) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var key strings.Builder
	key.WriteString(dir)
	for _, k := range slices.Sorted(maps.Keys(agreed)) {
		key.WriteString("\x00" + k + "\x00" + agreed[k])
	}
	if held, ok := c.known[key.String()]; ok {
		return held
	}
	var held []string
	keep := true
	for i := range found {
		d := &found[i]
		was, ok := agreed[d.Key]
		if !ok && d.Scope != hook.Managed && (unasked == nil || !unasked(d)) || d.Command == "" {
			continue
		}
		// What is found now is what was agreed to only while the digest is the same: later it may be more.
		is, set, err := d.Digest(dir, env)
		keep = keep && err == nil && is == was
		for _, path := range set.Held() {
			if !slices.Contains(held, path) {
				held = append(held, path)
			}
		}
	}
	if len(c.known) >= maxHeldFor || c.known == nil {
		c.known = map[string][]string{}
	}
	if keep {
		c.known[key.String()] = held
	}
	return held
}

// maxHeldFor is for how many folders the files are remembered.
const maxHeldFor = 64

// Held are the files and folders that agreed hooks and the configuration itself run and read: commands in a sandbox must not change them.
func Held(c *config.Config, home, dir string, environ []string) []string {
	agreed, err := AgreedHooks(home)
	if err != nil {
		agreed = nil // then none but managed ones runs
	}
	found, _ := Hooks(c)
	var once heldFor
	return append(c.Held(), once.paths(found, agreed, nil, dir, environ)...)
}

// openHooks reads the hooks. What is wrong with one of the machine's ends the host's start: it was to guard something.
func (h *Host) openHooks() error {
	found, problems := Hooks(h.opts.Config)
	for _, p := range problems {
		switch {
		case p.Foreign:
			h.log.Debug("hooks for another program are left out", "err", p)
		case h.managed(p.Source):
			return fmt.Errorf("a hook of this machine can't be used: %w", p)
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
	h.heldByHooks = func(dir string) []string {
		agreed, err := AgreedHooks(h.opts.Home)
		if err != nil {
			agreed = nil // then none but managed ones runs
		}
		return h.held.paths(found, agreed, unasked, dir, h.environ.User())
	}
	var err error
	h.hooks, err = hook.New(hook.Config{
		Ask: h.askForHook, Unasked: unasked, Exposed: h.couldChange,
		Definitions: found, Agreed: func() (map[string]string, error) { return AgreedHooks(h.opts.Home) }, Run: shell.Run,
		Environ: h.environ.User, Logger: h.log.Named("hook"),
	})
	return err
}

// askForHook asks a model to judge for a hook, in a child thread of one turn.
func (h *Host) askForHook(ctx context.Context, q hook.Question) (string, event.ThreadID, error) {
	c, err := h.openJudge(ctx, q.Thread, cmp.Or(q.Model, h.opts.Config.Guardian.Model), child.Spec{
		Name: "the hook's model", Instructions: hook.Judge, Role: child.Role{NoTools: !q.Looks},
	})
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	answer, err := c.Ask(ctx, child.Question{Text: q.Text})
	return answer, c.ID(), err
}

// managed tells whether a file is the machine's.
func (h *Host) managed(path string) bool {
	for _, f := range h.opts.Config.Hooks.Files {
		if f.Path == path {
			return f.Layer == config.LayerSystem
		}
	}
	for _, b := range h.opts.Config.Hooks.Blocks {
		if b.File == path && b.Layer == config.LayerSystem {
			return true
		}
	}
	return false
}

// hookThread begins to run hooks for a thread. One that works for another thread has none.
func (h *Host) hookThread(t *thread.Thread, cfg thread.Config, as child.Role) *hook.Thread {
	if h.hooks == nil || as.Unattended {
		return nil
	}
	source := "resume"
	if cfg.Start != nil {
		source = "startup"
	}
	hooks := h.hooks.Thread(t.ID(), source, t, func(text string) (string, error) { return h.keepText(t, "hook", text) })
	t.Approvals().OnQuestion(hooks.Notify)
	return hooks
}

// hookTurn runs hooks for a turn; nil: there are none.
func (r *running) hookTurn(id event.TurnID, started event.TurnStarted) *hook.Turn {
	if r.hooks == nil {
		return nil
	}
	return r.hooks.Turn(hook.TurnInfo{Turn: id, Cwd: started.Cwd, Model: started.ModelName, Never: started.Approval == string(policy.Never)})
}

// endHooks tells hooks that a thread is over.
func (r *running) endHooks(ctx context.Context) {
	if r.hooks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hooksEnd)
	defer cancel()
	r.hooks.End(ctx, r.thread.Settings().Cwd)
}

// hooksEnd is how long the end of a thread waits for hooks.
const hooksEnd = 4 * time.Second
