package pluginset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/service"
)

// Declared returns the process that a plugin's block declares under a name, and the values of its variables.
func (s *Set) Declared(label, name string) (p config.Process, env map[string]service.Secret, err error) {
	s.mu.Lock()
	declared := s.mu.processes[label]
	s.mu.Unlock()
	i := slices.IndexFunc(declared, func(p config.Process) bool { return p.Name == name })
	if i < 0 {
		where := "its block"
		if b := s.Block(label); b != nil {
			where += ", " + b.Where() + ","
		}
		return p, nil, hint.With(fmt.Errorf("the configuration of plugin %q declares no process %q", label, name),
			fmt.Sprintf("set `command` in the block of that name in %s and restart gantry", where))
	}
	p = declared[i]
	env = make(map[string]service.Secret, len(p.Env))
	for name, secret := range p.Env {
		env[name] = serviceSecret(secret)
	}
	return p, env, nil
}

// Held returns the programs of declared processes, and the scripts that these run, of the plugins that are configured. Sandboxed
// commands must not be able to change them.
func (s *Set) Held() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, files := range s.mu.held {
		out = append(out, files...)
	}
	return out
}

// filesOf returns the files that processes run, as far as their blocks name them. Finding scripts reads files, so it is done once for
// each process of a plugin, and not for each command.
func filesOf(c *config.Config, declared []config.Process) (out []string) {
	for _, p := range declared {
		if filepath.IsAbs(p.Argv[0]) {
			out = append(out, p.Argv[0])
		}
		for _, path := range c.Scripts(p) {
			if _, err := os.Lstat(path); err == nil {
				out = append(out, path)
			}
		}
	}
	return out
}
