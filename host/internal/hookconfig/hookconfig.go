// Package hookconfig reads the hooks that a configuration defines.
//
// It owns: which files and blocks define hooks, their precedence, which of them the user agreed to, and which files they run. It must not
// know: when hooks run, and how.
//
// Start with [Load].
package hookconfig

import (
	"errors"
	"io/fs"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/hook"
)

// Load returns the hooks of a configuration in order of precedence: the machine's, the user's, then the project's, and of each the
// hooks in files before those in blocks. Problems are about files that can't be read or used, or only in part.
func Load(c *config.Config) (found []hook.Definition, problems []hook.Problem) {
	read := func(path string, layer config.Layer, must bool, onError string) {
		text, err := config.ReadFile(path) // read also in folders that are not trusted
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

// blocks reports whether a failing hook blocks its call, from the first setting that is not empty; nil: the default of the hook package.
func blocks(settings ...string) *bool {
	for _, s := range settings {
		if s != "" {
			b := s == "block"
			return &b
		}
	}
	return nil
}

// Agreed returns the digests of the hooks that the user agreed to, by key.
func Agreed(home string) (map[string]string, error) {
	list, err := trust.OpenHooks(home).List()
	agreed := map[string]string{}
	for _, h := range list {
		agreed[h.Key] = h.Digest
	}
	return agreed, err
}

// Managed reports whether the machine's configuration names a file.
func Managed(c *config.Config, path string) bool {
	for _, f := range c.Hooks.Files {
		if f.Path == path {
			return f.Layer == config.LayerSystem
		}
	}
	for _, b := range c.Hooks.Blocks {
		if b.File == path && b.Layer == config.LayerSystem {
			return true
		}
	}
	return false
}
