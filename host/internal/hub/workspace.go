package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/workbench"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// space is the host of one effective configuration.
type space struct {
	key       string
	workspace Workspace
	cfg       *config.Config
	ready     chan struct{} // closed when host or err is set
	host      *host.Host
	err       error

	// Guarded by the hub's mutex.
	uses int       // threads, and callers that are about to start one
	idle time.Time // since when uses is 0
}

// check returns an error if the folder of a workspace can't be used.
func (w Workspace) check() error {
	if !filepath.IsAbs(w.Dir) {
		return hint.With(fmt.Errorf("the folder %q is not an absolute path", w.Dir), "use an absolute path")
	}
	st, err := os.Stat(w.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hint.With(fmt.Errorf("the folder %s doesn't exist", w.Dir), "create it, or use another folder")
	case err != nil:
		return hint.With(fmt.Errorf("the folder %s can't be used: %w", w.Dir, err), "use another folder")
	case !st.IsDir():
		return hint.With(fmt.Errorf("%s is not a folder", w.Dir), "use a folder")
	}
	return nil
}

// key identifies what a host depends on: the effective configuration and what the workspace adds to it.
func (w Workspace) key(digest string) string {
	w.Dir = "" // part of the digest if it matters
	text, err := json.Marshal(w)
	if err != nil { // plain strings
		panic("hub: marshal workspace: " + err.Error())
	}
	sum := sha256.Sum256(append(text, digest...))
	return hex.EncodeToString(sum[:])
}

// enter returns the host of a workspace, which stays open until leave is called. The configuration is read each time, so that a new
// thread gets the current one.
func (h *Hub) enter(ctx context.Context, w Workspace) (*space, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	cfg, err := h.cfg.Load(ctx, w)
	if err != nil {
		return nil, err
	}
	key := w.key(cfg.Digest())
	h.mu.Lock()
	if h.mu.closing {
		h.mu.Unlock()
		return nil, errClosed
	}
	s, found := h.mu.spaces[key]
	if !found {
		s = &space{key: key, workspace: w, cfg: cfg, ready: make(chan struct{})}
		h.mu.spaces[key] = s
	}
	s.uses++
	h.mu.Unlock()
	if !found {
		// Other callers may wait for the host, so it is opened even if this one gives up.
		s.host, s.err = h.cfg.Open(context.WithoutCancel(ctx), w, cfg, host.Shared{
			Store: h.stored, Observe: h.monitor.observe, Sockets: h.sockets, Ended: h.threadEnded,
		})
		if s.err != nil {
			h.mu.Lock()
			delete(h.mu.spaces, key) // the next caller tries again
			h.mu.Unlock()
		}
		close(s.ready)
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		h.leave(s)
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		h.leave(s)
		return nil, s.err
	}
	return s, nil
}

// leave ends the use of a host, which is closed later if no one else uses it.
func (h *Hub) leave(s *space) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.uses--; s.uses == 0 {
		s.idle = time.Now()
		notify(h.wake)
	}
}

// Opened is a workspace in use, for what clients do beside threads. Its host stays open until Close is called.
type Opened struct {
	space *space
	dir   string
	// Close ends the use. It is idempotent.
	Close func()
}

// Open opens a workspace. Threads with the same effective configuration share its host, and with it the processes of plugins.
func (h *Hub) Open(ctx context.Context, w Workspace) (*Opened, error) {
	s, err := h.enter(ctx, w)
	if err != nil {
		return nil, err
	}
	return &Opened{space: s, dir: w.Dir, Close: sync.OnceFunc(func() { h.leave(s) })}, nil
}

// Workbench returns what clients may do with files and processes in the workspace.
func (o *Opened) Workbench() *workbench.Workspace { return o.space.host.Workbench(o.dir) }

// Plugins returns the plugins of the workspace. A plugin is started only if its manifest is neither known nor cached.
func (o *Opened) Plugins(ctx context.Context) []PluginStatus {
	return o.space.host.Plugins().PluginStatus(ctx)
}

// Prepare loads the tools of all plugins, as the first turn of a thread does, so that the threads of the workspace get the states of
// sources of tools. Plugins are started only if their tools are not cached.
func (o *Opened) Prepare(ctx context.Context) { o.space.host.Plugins().Load(ctx) }

// RunCommand runs a command of a plugin of the workspace; see [Thread.RunCommand].
func (o *Opened) RunCommand(ctx context.Context, c PluginCommand) (json.RawMessage, error) {
	return o.space.host.Plugins().RunCommand(ctx, c)
}

// ErrNoTools is returned for a plugin that offers no tools.
var ErrNoTools = errors.New("it offers no tools")

// Tools returns the tools of a plugin that can be called without code. The plugin is started only if they are not cached. Sources that are
// starting are waited for as long as wait. The error wraps [ErrNoTools] if the plugin is configured and has none.
func (o *Opened) Tools(ctx context.Context, plugin string, wait time.Duration) (out []contract.Descriptor, err error) {
	set := o.space.host.Plugins()
	if n, broken := set.Load(ctx)[plugin]; broken {
		return nil, hint.New(n.Text, n.Next)
	}
	if _, err := set.Registry().AwaitSources(ctx, wait, wait); err != nil && ctx.Err() != nil { // otherwise the tools of some are missing
		return nil, err
	}
	for _, e := range set.Registry().Snapshot().Entries() {
		if e.Plugin == plugin && e.Exposure != contract.ExposureHidden && e.CheckCaller(false) == nil {
			out = append(out, e.Descriptor)
		}
	}
	if b := set.Block(plugin); len(out) == 0 && b != nil && b.Enabled {
		return nil, hint.With(fmt.Errorf("%s: plugin %q: %w", b.Where(), plugin, ErrNoTools), "`gantry plugin list` says whether it is ready")
	}
	if len(out) == 0 {
		return nil, hint.New(fmt.Sprintf("there is no plugin %q with tools", plugin), "`gantry plugin list` lists the plugins")
	}
	return out, nil
}

// Source starts a plugin and returns one of its sources of tools once that has started or failed, or ctx ends. Its tools are then those of
// the running plugin, not those that an earlier process sent. It returns false if the plugin has no such source.
func (o *Opened) Source(ctx context.Context, plugin, name string) (contract.Source, bool) {
	set := o.space.host.Plugins()
	slot := set.Slot(plugin)
	if slot == nil {
		return contract.Source{}, false
	}
	slot.Warm()
	s, ok := set.Registry().AwaitSource(ctx, plugin, name)
	return s.Source, ok
}

// SourceStatus is a source of tools, and the tools that it offers.
type SourceStatus struct {
	Plugin string // label
	contract.Source
	Tools []contract.Descriptor
}

// Sources starts the plugins that have sources of tools, waits until these have started or failed, or for as long as wait, and returns them
// in the order of the plugins. Sources whose tools are cached are not started for it.
func (o *Opened) Sources(ctx context.Context, wait time.Duration) (out []SourceStatus, err error) {
	set := o.space.host.Plugins()
	set.Load(ctx)
	sources := set.Registry().Sources()
	for _, s := range sources {
		set.Slot(s.Plugin).Warm()
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, s := range sources {
		set.Registry().AwaitSource(waiting, s.Plugin, s.Name)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	at := map[[2]string]int{}
	for _, s := range set.Registry().Sources() {
		at[[2]string{s.Plugin, s.Name}] = len(out)
		out = append(out, SourceStatus{Plugin: s.Plugin, Source: s.Source})
	}
	for _, e := range set.Registry().Snapshot().Entries() {
		if i, ok := at[[2]string{e.Plugin, e.Source}]; ok && e.Source != "" {
			out[i].Tools = append(out[i].Tools, e.Descriptor)
		}
	}
	return out, nil
}

// Model returns what is known about a model: the label of a block, or PROVIDER/NAME. It starts the model's provider.
func (o *Opened) Model(ctx context.Context, name string) (llm.ModelRow, error) {
	m, err := o.space.host.Models().Find(name)
	if err != nil {
		return llm.ModelRow{}, err
	}
	opened, err := o.space.host.Models().Open(ctx, "", m)
	if err != nil {
		return llm.ModelRow{}, err
	}
	return opened.Row, nil
}

// Shell returns the path of the shell that runs the user's commands.
func (o *Opened) Shell() string { return o.space.host.Shell().Program() }
