package config

import (
	"cmp"
	"fmt"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/schema"
)

// network reads what sandboxed processes can reach. If no mode is set, the older setting sandbox { network } decides.
func (b block) network(sandbox block) Network {
	n := b.reach()
	switch whole := sandbox.flag("network", false); {
	case n.Mode == "" && whole:
		n.Mode = schema.NetworkFull
	case n.Mode == "":
		n.Mode = schema.NetworkNone
	case whole && n.Mode != schema.NetworkFull:
		b.errorAt(sandbox.at("network"), "conflicting settings for the network",
			fmt.Sprintf("sandbox { network = true } allows the whole network, but network { mode = %q } does not.", n.Mode), "remove `network` from the sandbox block")
	}
	b.needsProxy(n.Mode)
	return n
}

// reach reads the arguments that all network blocks have.
func (b block) reach() Network {
	return Network{
		Mode: b.text("mode"), Allow: b.hosts("allow"), Deny: b.hosts("deny"), Limited: b.text("methods") == schema.MethodsLimited,
		Local: b.flag("local", false), Range: b.files.Range(b.at("mode")),
	}
}

// spawns reads the settings of the processes that are started for a plugin, whose block is b.
func (l *loader) spawns(d *decoder, b block) Spawns {
	sub := func(parent block, name string) (s block, set bool) {
		n := parent.n.block(name)
		s = d.block(n, parent.schema.Block(name))
		s.problems = b.problems
		return s, n != nil
	}
	processes, _ := sub(b, schema.BlockProcesses)
	s := Spawns{MemoryBytes: processes.size("memory")}
	network, set := sub(processes, schema.BlockNetwork)
	if !set {
		return s
	}
	n := network.reach()
	n.Unknown = cmp.Or(network.text("unknown"), schema.UnknownAsk)
	network.require(key{schema.BlockNetwork, ""}, []string{schema.BlockNetwork}, "mode")
	network.needsProxy(n.Mode, "unknown")
	s.Network = &n
	return s
}

// needsProxy reports an argument that has no effect in the given mode.
func (b block) needsProxy(mode string, also ...string) {
	if mode == schema.NetworkProxy || mode == "" {
		return
	}
	for _, name := range append([]string{"allow", "deny", "methods", "local"}, also...) {
		if b.has(name) {
			b.errorAt(b.at(name), fmt.Sprintf("%q has no effect", name), fmt.Sprintf("It only applies to the proxy, but the network's mode is %q.", mode),
				fmt.Sprintf("add mode = %q to the block, or remove it", schema.NetworkProxy))
			break
		}
	}
}

// hosts reads host patterns.
func (b block) hosts(name string) []hosts.Pattern {
	var out []hosts.Pattern
	for _, i := range b.list(name) {
		p, err := hosts.ParsePattern(i.text)
		if err == nil && name == "deny" && p.Any() {
			err = fmt.Errorf("pattern %q would deny every host: set mode = %q instead", i.text, schema.NetworkNone)
		}
		if err != nil {
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), capital(err.Error())+".", `write a host, "*.example.com" or "example.com:443" for example`)
			continue
		}
		out = append(out, p)
	}
	return out
}
