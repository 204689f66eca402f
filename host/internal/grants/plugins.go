package grants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/pluginbox"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Plugins builds the sandboxes of plugins' own processes. Processes that a plugin has the host start run under the grant of a call.
type Plugins struct {
	Config   *config.Config
	Keys     func() []config.KeyFile // files that the configuration reads keys from
	Box      *box.Sandbox            // hides files that appear while a plugin runs; nil: they stay visible
	BinDir   string                  // contains gantry-launch
	Home     string                  // gantry's
	UserHome string
}

// Sandbox returns a function that builds the sandbox of a plugin's process at each start. own are the folders of the process;
// the first one is its data folder.
func (p Plugins) Sandbox(b *config.PluginBlock, program string) func(own []string) (*plugin.Sandbox, error) {
	c := p.Config
	denied, network := DeniedToPlugins(c), b.Permissions.WholeNetwork()
	near := append([]string{c.Dir, filepath.Dir(program)}, slices.Concat(c.Sandbox.WritableRoots, c.Sandbox.ReadableRoots)...)
	for _, a := range b.Args {
		if filepath.IsAbs(a) { // the script of an interpreter, and the files next to it
			near = append(near, filepath.Dir(a))
		}
	}
	return func(own []string) (*plugin.Sandbox, error) {
		config := func() (pluginbox.Config, error) {
			files, err := pluginbox.Denied(denied)
			if err != nil {
				return pluginbox.Config{}, fmt.Errorf("can't hide the files in sandbox { deny_read } from the plugin's process: %w", err)
			}
			for _, path := range KeyPaths(p.Keys(), b.Label) {
				if !slices.Contains(b.Permissions.Read, path) && !slices.Contains(b.Permissions.Write, path) {
					files = append(files, path)
				}
			}
			return pluginbox.Config{
				Home: p.Home, UserHome: p.UserHome, Own: own,
				Read: slices.Concat(b.Permissions.Read, userFiles(p.Home), []string{program}), Write: b.Permissions.Write,
				Confined: b.Kind == contract.KindTool, Network: network, Tmp: filepath.Join(own[0], plugin.TmpDir), Near: near,
				ShmBytes: b.Limits.MemoryBytes,
				Hidden:   []string{filepath.Dir(filepath.Dir(own[0]))}, // sockets of other plugins, and of other hosts
				Denied:   files,
			}, nil
		}
		out := &plugin.Sandbox{Launcher: filepath.Join(p.BinDir, "gantry-launch"), Network: network}
		if p.Box != nil {
			out.Late = p.Box.Late(b.Label, config)
		}
		cfg, err := config()
		if err != nil {
			return nil, err
		}
		out.Box = pluginbox.New(cfg)
		return out, nil
	}
}

// DeniedToPlugins returns the patterns of files that plugins' own processes can't read: sandbox { deny_read }, applied to the folder
// where the host works and to the folders that commands may read or write.
func DeniedToPlugins(c *config.Config) []string {
	return anchored(c.Sandbox.DenyRead, slices.Concat([]string{c.Dir}, c.Sandbox.WritableRoots, c.Sandbox.ReadableRoots))
}

// hostFiles are patterns of the files in gantry's home that belong to gantry. All others were put there by the user for plugins:
// scripts, certificates.
var hostFiles = []string{
	"*.hcl", "*.json", "denied", "secrets*", "threads.db*", "state.db*", "artifacts", "run", "data", "cache", "locks", "hosts", "tmp", "rules", "hooks*", "plugins",
}

// userFiles returns the files in gantry's home that don't belong to gantry.
func userFiles(home string) []string {
	entries, err := os.ReadDir(home)
	if err != nil {
		return nil // plugins see none of them
	}
	var out []string
	for _, e := range entries {
		if !slices.ContainsFunc(hostFiles, func(p string) bool { ok, err := filepath.Match(p, e.Name()); return ok || err != nil }) {
			out = append(out, filepath.Join(home, e.Name()))
		}
	}
	return out
}
