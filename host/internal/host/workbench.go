package host

import (
	"crypto/sha256"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// clientScratch is used instead of the ID of a thread for the folder that commands of clients see as /tmp.
const clientScratch = "client"

// Workbench returns what clients of the app server may do in a folder of the host's workspace besides running threads.
func (h *Host) Workbench(dir string) *workbench.Workspace {
	return &workbench.Workspace{
		Dir: dir, Runner: workbench.Launch(h.launcher), Config: h.opts.Config, Environ: h.environ, Check: h.sandbox.Check, Box: h.box,
		Granter: grants.Granter{
			Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: held(h),
			Tmp: func() (string, error) { return h.scratch.Thread(clientScratch) },
		},
	}
}

// commandGrant returns a function that says what the processes of plugins' commands may do.
func commandGrant(h *Host) func(label string, changes bool) (launch.Grant, string, error) {
	return func(label string, changes bool) (launch.Grant, string, error) {
		g := grants.Granter{
			Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: held(h),
			Tmp: func() (string, error) { return h.scratch.Thread(clientScratch) },
		}
		return g.Command(label, changes, h.plugins.BuiltIn(label))
	}
}

// declared returns a function that finds the declared processes of plugins and says what they may do.
func declared(h *Host) func(label, name string) (service.Declared, error) {
	return func(label, name string) (service.Declared, error) {
		p, env, err := h.plugins.Declared(label, name)
		if err != nil {
			return service.Declared{}, err
		}
		consents := pluginset.Consents{Config: h.opts.Config, Home: h.opts.Home, Env: h.environ.Tools()}
		program, err := consents.Check(p)
		if err != nil {
			return service.Declared{}, err
		}
		g := grants.Granter{
			Launcher: h.launcher, Config: h.opts.Config, Home: h.opts.Home, Environ: h.opts.Environ, Held: held(h),
			// Each has a /tmp of its own: servers need not trust each other.
			Tmp: func() (string, error) {
				return h.scratch.Thread(event.ThreadID(fmt.Sprintf("declared-%x", sha256.Sum256([]byte(label+" "+name)))))
			},
		}
		p.Argv = append([]string{program}, p.Argv[1:]...)
		grant, dir, err := g.Declared(p)
		d := service.Declared{Argv: p.Argv, Cwd: dir, Env: env, Grant: grant, WritableRoots: p.Sandbox.WritableRoots}
		for _, h := range p.Sandbox.Network {
			d.Network = append(d.Network, h.String())
		}
		return d, err
	}
}

// held returns a function that finds the files in a folder that hooks and declared processes run. Sandboxed commands must not change them.
func held(h *Host) func(dir string) []string {
	return func(dir string) []string {
		out := h.plugins.Held()
		if h.heldByHooks != nil {
			out = append(out, h.heldByHooks(dir)...)
		}
		return out
	}
}
