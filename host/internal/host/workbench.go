package host

import (
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// clientScratch is used instead of the ID of a thread for the folder that commands of clients see as /tmp.
const clientScratch = "client"

// Workbench returns what clients of the app server may do in a folder of the host's workspace besides running threads.
func (h *Host) Workbench(dir string) *workbench.Workspace {
	return &workbench.Workspace{
		Dir: dir, Runner: workbench.Launch(h.launcher), Config: h.opts.Config, Environ: h.environ, Check: h.sandbox.Check, Box: h.box,
		Granter: grants.Granter{
			Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: h.heldByHooks,
			Tmp: func() (string, error) { return h.scratch.Thread(clientScratch) },
		},
	}
}

// commandGrant returns a function that says what the processes of plugins' commands may do.
func commandGrant(h *Host) func(label string, changes bool) (launch.Grant, string, error) {
	return func(label string, changes bool) (launch.Grant, string, error) {
		g := grants.Granter{
			Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: h.heldByHooks,
			Tmp: func() (string, error) { return h.scratch.Thread(clientScratch) },
		}
		return g.Command(label, changes, h.plugins.BuiltIn(label))
	}
}
