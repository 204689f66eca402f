package provider

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// servicesOf returns the names of the host's RPCs that a capability permits.
func servicesOf(capability string) []string {
	switch capability {
	case "ask":
		return []string{"Ask"}
	case "secrets":
		return []string{"Secret", "StoreSecret"}
	case "state":
		return []string{"GetState", "PutState", "Lease"}
	}
	return nil
}

// manifest returns the plugin's manifest. An error is the fault of the plugin's author.
func (p Plugin) manifest() (*contract.Manifest, error) {
	if p.New == nil {
		return nil, errors.New("the plugin has no New")
	}
	block, err := configblock.Schema(p.Config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	m := &contract.Manifest{
		Name:             p.Name,
		Version:          p.Version,
		Kind:             contract.KindProvider,
		ContractVersions: []uint32{contract.Version},
		Description:      p.Description,
		Config:           block,
		Capabilities:     slices.Clone(p.Capabilities),
		HostServices:     []string{"GetArtifact"},
		Limits:           p.Limits,
	}
	if block.HasSecrets() {
		m.Capabilities = append(m.Capabilities, "secrets")
	}
	slices.Sort(m.Capabilities)
	m.Capabilities = slices.Compact(m.Capabilities)
	for _, c := range m.Capabilities {
		m.HostServices = append(m.HostServices, servicesOf(c)...)
	}
	slices.Sort(m.HostServices)
	for _, c := range p.Commands {
		if c.Run == nil {
			return nil, fmt.Errorf("the command %q has no Run", c.Name)
		}
		m.Commands = append(m.Commands, contract.CommandSpec{
			Name: c.Name, Description: c.Description, InputSchema: c.InputSchema, SideEffects: c.SideEffects,
		})
	}
	return m, nil
}
