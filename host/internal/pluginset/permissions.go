package pluginset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Described remembers the manifest of a running process.
func (s *Set) Described(id plugin.Identity, m *contract.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.declared[id] = slices.Clone(m.Capabilities)
	s.mu.manifests[id.Label], s.mu.keyFiles = m, nil
}

// learn remembers the manifest of a plugin that may not be running.
func (s *Set) learn(label string, m *contract.Manifest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.manifests[label], s.mu.keyFiles = m, nil
}

// Ended forgets a process that has ended.
func (s *Set) Ended(id plugin.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.declared, id)
}

// Granted returns an error if a plugin's process may not use a capability: its manifest does not declare it, or its block does not
// grant it.
func (s *Set) Granted(id plugin.Identity, capability string) error {
	s.mu.Lock()
	declared := s.mu.declared[id]
	s.mu.Unlock()
	b := s.Block(id.Label)
	switch {
	case b == nil:
		return fmt.Errorf("plugin %q is no longer configured", id.Label)
	case b.Permissions.Capability(capability, declared):
		return nil
	case !slices.Contains(declared, capability):
		return hint.With(fmt.Errorf("plugin %q has not asked for the capability %q: its manifest does not declare it", id.Label, capability),
			fmt.Sprintf("its author adds %q to its capabilities", capability))
	}
	return hint.With(fmt.Errorf("plugin %q is not granted the capability %q", id.Label, capability),
		fmt.Sprintf("add %q to permissions { capabilities } in its block, %s, and run `gantry plugin lock %s`", capability, b.Where(), id.Label))
}

// Starts returns an error if a plugin may not start a program. limited reports whether its block lists the permitted programs.
func (s *Set) Starts(label string, argv []string) (limited bool, err error) {
	b := s.Block(label)
	switch {
	case b == nil:
		return true, fmt.Errorf("plugin %q is no longer configured", label)
	case b.Permissions.AllowsExec(argv...):
		return b.Permissions.Exec != nil, nil
	}
	return true, hint.With(fmt.Errorf("plugin %q may not start %q", label, strings.Join(argv, " ")),
		fmt.Sprintf("add it to permissions { exec } in its block, %s, and run `gantry plugin lock %s`", b.Where(), label))
}

// ToolPolicy returns how calls of a tool are decided: by the user's settings for the tool, and for plugins that are not built in by
// what the tool declares.
func (s *Set) ToolPolicy(e *registry.Entry, sandbox string) *policy.Tool {
	b := s.Block(e.Plugin)
	if b == nil {
		return nil
	}
	t := &policy.Tool{
		Plugin: e.Plugin, Name: e.Name, Names: []string{e.Name, e.FullName()}, Descriptor: e.Digest, Mode: policy.Auto, ByHost: e.EffectsByHost,
		Online:  b.Permissions.WholeNetwork() || s.cfg.Config.Sandbox.Network || sandbox == policy.FullAccess,
		BuiltIn: s.BuiltIn(e.Plugin), Hosts: s.Reach(e.Plugin).All(),
	}
	if set := b.ToolApproval(t.Names...); set.Mode != "" {
		t.Mode, t.Set = policy.Mode(set.Mode), set.Range.String()
	}
	return t
}

// Reach returns the hosts that a plugin's process may reach through the host. There are none before its manifest is known.
func (s *Set) Reach(label string) config.Reach {
	b := s.Block(label)
	s.mu.Lock()
	r, known := s.mu.reach[label]
	m := s.mu.manifests[label]
	s.mu.Unlock()
	if known || m == nil || b == nil {
		return r
	}
	r = b.Reach(m) // the plugin is not running; its tools are decided on all the same
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, configured := s.mu.reach[label]; !configured {
		s.mu.reach[label] = r
	}
	return s.mu.reach[label]
}

// Reaches reports whether a plugin's block permits its process to reach a host.
func (s *Set) Reaches(label string, e contract.NetworkEffect) bool {
	return (&policy.Tool{Hosts: s.Reach(label).All()}).Reaches(e)
}

// Quota returns how much the host stores for a plugin.
func (s *Set) Quota(label string) service.Quota {
	b := s.Block(label)
	if b == nil {
		return service.Quota{}
	}
	return service.Quota{State: b.Limits.StateBytes, Artifacts: b.Limits.ArtifactBytes, Events: b.Limits.EventBytes}
}
