package config

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/schema"
)

// ungranted are the settings that never let a project do more.
var ungranted = "default_model limits.* budget.* history.* instructions.* review.* approval.timeout guardian.timeout store.retention.* " +
	"model.provider model.name model.reasoning model.context_window model.max_output_tokens model.fallback model.instructions " +
	// A script can do only what its calls may do. Its limits bound what it costs.
	"model.tool_mode codemode.* " +
	// An agent can do only what the agent that spawns it may do. Their number bounds what they cost.
	"agents.* agents.budget.* agent.* agent.sandbox.* agent.budget.* agent.limits.* " +
	// These tools do nothing but address the user.
	"interaction.* " +
	// A thread that continues by itself does nothing that a turn of its user could not do.
	"goals.* " +
	// What a screen shows, and with which keys, decides nothing.
	"tui.* tui.keys.*"

// A setting is either judged or known to be harmless: a new one must not slip through.
func TestEverySettingIsJudged(t *testing.T) {
	known := map[string]bool{}
	for _, name := range strings.Fields(ungranted) {
		known[name] = true
	}
	var walk func(b *schema.Block, path []string)
	walk = func(b *schema.Block, path []string) {
		for _, a := range b.Attributes {
			full := append(path[:len(path):len(path)], a.Name)
			name := strings.Join(full, ".")
			_, listed := grants[name]
			_, part := rule(full)
			permission := len(full) == 3 && full[1] == schema.BlockPermissions && permitted[a.Name] != nil
			limit := len(full) == 3 && full[1] == schema.BlockLimits
			if !listed && !part && !permission && !limit && !known[name] && !known[strings.Join(path, ".")+".*"] {
				t.Errorf("%s is judged by no rule: list it in grants, or here", name)
			}
		}
		for _, c := range b.Blocks {
			if c.Name != schema.BlockProfile {
				walk(c, append(path[:len(path):len(path)], c.Name))
			}
		}
	}
	walk(schema.Root(), nil)
	for name := range grants {
		at, b := strings.Split(name, "."), schema.Root()
		for _, block := range at[:len(at)-1] {
			if b = b.Block(block); b == nil {
				t.Fatalf("%s: there is no such block", name)
			}
		}
		if _, ok := b.Attribute(at[len(at)-1]); !ok && at[len(at)-1] != "*" {
			t.Errorf("%s: there is no such setting", name)
		}
	}
}
