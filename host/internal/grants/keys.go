package grants

import (
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// KeyPaths returns the paths of the key files that the plugin with this label has not named itself.
func KeyPaths(keys []config.KeyFile, label string) []string {
	var out []string
	for _, k := range keys {
		if (k.Owner != label || label == "") && !slices.Contains(out, k.Path) {
			out = append(out, k.Path)
		}
	}
	return out
}

// KeyFiles finds the files that a configuration reads keys from, without the manifests that mark settings as keys.
func KeyFiles(c *config.Config) func() []config.KeyFile {
	return sync.OnceValue(func() []config.KeyFile {
		return c.KeyFiles(func(*config.PluginBlock) *contract.Manifest { return nil })
	})
}
