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
	Owner string // label of the provider or plugin; empty: gantry itself reads it
}

// KeyFiles are the files that file() reads into sensitive settings of enabled blocks and into the store's address, and those that command()
// hands to a program as data. Which settings are sensitive says the manifest; as long as that is not known (nil) it is every setting whose
// name does not say that it is text.
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

// absolute is a path that starts in a folder unless it says where it starts.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// scripts are the endings of files that interpreters run.
var scripts = []string{".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".jar"}

// isData reports whether a path is that of a file that no program runs.
func isData(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 || slices.Contains(scripts, strings.ToLower(filepath.Ext(path))) {
		return false
	}
	head, err := reach.Read(path, 2)
	return err == nil && string(head) != "#!"
}
