package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/reach"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// KeyFile is a file from which the configuration takes a secret.
type KeyFile struct {
	Path  string // absolute
	Owner string // label of the provider or plugin; empty if gantry itself reads it
}

// KeyFiles returns the files that file() reads into sensitive settings of enabled blocks or into the store's address, and those
// that command() passes to a program as data. A block's manifest says which settings are sensitive. While it is unknown (nil),
// every setting counts as sensitive unless its name is one that is known to be text.
func (c *Config) KeyFiles(manifest func(*PluginBlock) *contract.Manifest) []KeyFile {
	out := []KeyFile{}
	add := func(owner string) func(string) {
		return func(path string) {
			if k := (KeyFile{path, owner}); !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	for _, b := range c.Blocks() {
		var s *contract.ConfigBlock
		if m := manifest(b); m != nil {
			s = &m.Config
		}
		b.body.KeyFiles(s, function.IsText, add(b.Label))
	}
	if x := c.Store.dsn.expr; x != nil {
		x.Value(c.Store.dsn.from.scope.RecordingFiles(add("")))
	}
	for _, program := range c.commands {
		for _, arg := range program.Argv[min(1, len(program.Argv)):] {
			if path := absolute(program.Dir, arg); isData(path) {
				add("")(path)
			}
		}
	}
	return out
}

// absolute resolves path against dir.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// scripts are extensions of files that interpreters run.
var scripts = []string{".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".jar"}

// isData reports whether path is a regular file that is not a program.
func isData(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 || slices.Contains(scripts, strings.ToLower(filepath.Ext(path))) {
		return false
	}
	head, err := reach.Read(path, 2)
	return err == nil && string(head) != "#!"
}
