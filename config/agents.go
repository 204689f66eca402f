package config

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/config/schema"
)

// maxAgentWait is how long a call may wait for agents.
const maxAgentWait = time.Hour

// agents reads the agents block.
func agents(b block) Agents {
	a := Agents{
		Tools: cmp.Or(b.text("tools"), schema.AgentsV2), Model: b.text("model"), Unfinished: cmp.Or(b.text("unfinished"), schema.UnfinishedRemind),
		Threads: int(cmp.Or(b.integer("max_threads"), 4)), Total: int(cmp.Or(b.integer("max_total"), 64)),
		Depth: int(cmp.Or(b.integer("max_depth"), 8)), Hops: int(cmp.Or(b.integer("max_hops"), 16)),
		Wait: cmp.Or(b.duration("wait_default"), 30*time.Second), WaitMin: cmp.Or(b.duration("wait_min"), 10*time.Second),
		WaitMax: cmp.Or(b.duration("wait_max"), maxAgentWait),
	}
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
