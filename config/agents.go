package config

import (
	"cmp"
	"fmt"
	"path"
	"time"

	"github.com/gantry-agent/gantry/config/schema"
)

// maxAgentWait is how long a call may wait for agents.
const maxAgentWait = time.Hour

// agents reads the agents block.
func (l *loader) agents(b block) Agents {
	a := Agents{
		Tools: cmp.Or(b.text("tools"), schema.AgentsV2), Model: b.text("model"), Unfinished: cmp.Or(b.text("unfinished"), schema.UnfinishedRemind),
		Threads: int(cmp.Or(b.integer("max_threads"), 4)), Total: int(cmp.Or(b.integer("max_total"), 64)),
		Depth: int(cmp.Or(b.integer("max_depth"), 8)), Hops: int(cmp.Or(b.integer("max_hops"), 16)),
		Wait: cmp.Or(b.duration("wait_default"), 30*time.Second), WaitMin: cmp.Or(b.duration("wait_min"), 10*time.Second),
		WaitMax: cmp.Or(b.duration("wait_max"), maxAgentWait),
	}
	a.Folders = b.paths("roles", l.sources.Home)
	a.Budget = agentBudget(b)
	wrong := func(name, why, next string) {
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), why, next)
	}
	switch {
	case a.WaitMax > maxAgentWait:
		wrong("wait_max", "The maximum is one hour.", "set \"1h\", for example")
	case a.Wait > a.WaitMax:
		wrong("wait_default", "It is more than wait_max.", "set a time between wait_min and wait_max")
	case a.Wait < a.WaitMin:
		wrong("wait_default", "It is less than wait_min.", "set a time between wait_min and wait_max")
	}
	return a
}

func agentBudget(of block) Budget {
	b := of.block(of.n.block(schema.BlockBudget), of.schema.Block(schema.BlockBudget))
	return Budget{Tokens: b.integer("tokens"), USD: b.number("usd")}
}

// role reads an agent block.
func (l *loader) role(d *decoder, n *node) *Role {
	b := d.block(n, n.schema)
	b.label()
	r := &Role{
		Label: n.label, Description: b.text("description"), Instructions: b.text("instructions"), Model: b.text("model"), Reasoning: b.text("reasoning"),
		Tools: b.toolPatterns("tools"), Without: b.toolPatterns("without"), Nicknames: texts(b.list("nicknames")), Budget: agentBudget(b),
		Samplings: d.block(n.block(schema.BlockLimits), n.schema.Block(schema.BlockLimits)).integer("samplings"), Range: l.files.Range(n.header),
	}
	box := d.block(n.block(schema.BlockSandbox), n.schema.Block(schema.BlockSandbox))
	r.Sandbox = RoleSandbox{
		Mode: box.text("mode"), NoNetwork: !box.flag("network", true),
		DenyRead: box.denied("deny_read", l.sources.Home), DenyWrite: box.denied("deny_write", l.sources.Home),
	}
	return r
}

// toolPatterns reads a list of patterns of names.
func (b block) toolPatterns(name string) []string {
	items := b.list(name)
	for _, i := range items {
		if _, err := path.Match(i.text, ""); err != nil || i.text == "" {
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), fmt.Sprintf("%q is not a pattern of names.", i.text), "use a name, or a part of one with `*`")
		}
	}
	return texts(items)
}
