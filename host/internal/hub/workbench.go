package hub

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/workbench"
	"github.com/gantry-agent/gantry/sdk/llm"
)

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

// RunCommand runs a command of a plugin of the workspace; see [Thread.RunCommand].
func (o *Opened) RunCommand(ctx context.Context, c PluginCommand) (json.RawMessage, error) {
	return o.space.host.Plugins().RunCommand(ctx, c)
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
