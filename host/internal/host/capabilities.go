package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// described notes what a plugin's process asks for.
func (h *Host) described(id plugin.Identity, m *contract.Manifest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.declared == nil {
		h.mu.declared = map[plugin.Identity][]string{}
	}
	h.mu.declared[id] = slices.Clone(m.Capabilities)
	h.mu.manifests[id.Label], h.mu.keyFiles = m, nil
}

// learn notes the manifest of a plugin of which no process runs.
func (h *Host) learn(label string, m *contract.Manifest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.manifests[label], h.mu.keyFiles = m, nil
}

// forget drops what is known of a process that has ended.
func (h *Host) forget(id plugin.Identity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mu.declared, id)
}

// granted says why a plugin's process may not use a capability: its manifest does not ask for it, or its block does not grant it.
func (h *Host) granted(id plugin.Identity, capability string) error {
	h.mu.Lock()
	declared := h.mu.declared[id]
	h.mu.Unlock()
	b := h.block(id.Label)
	switch {
	case b == nil:
		return fmt.Errorf("plugin %q is not configured any more", id.Label)
	case b.Permissions.Capability(capability, declared):
		return nil
	case !slices.Contains(declared, capability):
		return hint.With(fmt.Errorf("plugin %q has not asked for the capability %q: its manifest does not declare it", id.Label, capability),
			fmt.Sprintf("its author adds %q to its capabilities", capability))
	}
	return hint.With(fmt.Errorf("plugin %q is not granted the capability %q", id.Label, capability),
		fmt.Sprintf("add %q to permissions { capabilities } in its block, %s, and run `gantry plugin lock %s`", capability, b.Where(), id.Label))
}

// starts says why a plugin may not have a program started, and whether its block names those that it may.
func (h *Host) starts(label string, argv []string) (limited bool, err error) {
	b := h.block(label)
	switch {
	case b == nil:
		return true, fmt.Errorf("plugin %q is not configured any more", label)
	case b.Permissions.AllowsExec(argv...):
		return b.Permissions.Exec != nil, nil
	}
	return true, hint.With(fmt.Errorf("plugin %q may not start %q", label, strings.Join(argv, " ")),
		fmt.Sprintf("add it to permissions { exec } in its block, %s, and run `gantry plugin lock %s`", b.Where(), label))
}

// toolPolicy is how calls of a tool are decided on: those of plugins that do not come with gantry by what the tool says of itself, and
// all of them by what the user has set.
func (h *Host) toolPolicy(e *registry.Entry, sandbox string) *policy.Tool {
	b := h.block(e.Plugin)
	if b == nil {
		return nil
	}
	t := &policy.Tool{
		Plugin: e.Plugin, Name: e.Name, Names: []string{e.Name, e.FullName()}, Descriptor: e.Digest, Mode: policy.Auto, ByHost: e.EffectsByHost,
		Online:  len(b.Permissions.Network) > 0 || h.opts.Config.Sandbox.Network || sandbox == policy.FullAccess,
		BuiltIn: h.builtIn(e.Plugin),
	}
	if set := b.ToolApproval(t.Names...); set.Mode != "" {
		t.Mode, t.Set = policy.Mode(set.Mode), set.Range.String()
	}
	return t
}
