package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/foreign"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type importArgs struct {
	File   string `json:"file" file:"true" jsonschema:"The file, or - for standard input."`
	Enable bool   `json:"enable,omitempty" jsonschema:"Do not disable the servers."`
}

// importRow is a row of the output of the command import.
type importRow struct {
	Server string `json:"server"`
	Place  string `json:"place"` // in the file
	Result string `json:"result"`
}

// importServers is the command import.
func (p *mcpPlugin) importServers(_ context.Context, c *tool.CommandCall, in importArgs) (any, error) {
	found, err := foreign.Parse(in.File)
	if err != nil {
		return nil, err
	}
	rows := []importRow{}
	row := func(server, place, text string) {
		rows = append(rows, importRow{server, catalog.Line(place, 300), catalog.Line(text, 500)})
	}
	for _, s := range found.Servers {
		if slices.ContainsFunc(p.config.Server, func(b Server) bool { return b.Name == s.Name }) {
			row(s.Name, s.Place, "unchanged: there is a server of this name already")
			continue
		}
		if err := checkBlock(s.Name, s.Block); err != nil {
			row(s.Name, s.Place, "not added: "+err.Error())
			continue
		}
		state := "added"
		if !in.Enable {
			s.Block["enabled"] = false
			state = "added, disabled: look at it, then set enabled = true in its block"
		}
		if s.Block["command"] != nil {
			state += fmt.Sprintf("; `gantry mcp try %s` then asks about what its sandbox denies it", s.Name)
		}
		row(s.Name, s.Place, state)
		for _, n := range s.Notes {
			row(s.Name, n.Place, n.Text)
		}
		if err := c.Set(s.Block, "server", s.Name); err != nil {
			return nil, err
		}
		for name, mode := range s.Tools {
			if err := c.Set(mode, "server", s.Name, "tool", name, "approval"); err != nil {
				return nil, err
			}
		}
	}
	for _, n := range found.Notes {
		row(n.Server, n.Place, "not added: "+n.Text)
	}
	return map[string]any{"servers": rows}, nil
}

// checkBlock returns what is wrong with a proposed block. The plugin would refuse the whole configuration with it, even if the server is
// disabled.
func checkBlock(name string, proposed map[string]any) error {
	block := map[string]any{"name": name}
	for argument, v := range proposed {
		block[argument] = received(v)
	}
	if env, ok := proposed["env"].(map[string]any); ok {
		block["env"] = slices.Sorted(maps.Keys(env)) // the plugin gets only the names
	}
	b, err := json.Marshal(map[string]any{"server": []any{block}})
	if err != nil {
		return err
	}
	var c Config
	var errs []error
	for _, d := range configblock.Decode(b, &c) {
		if d.Severity == contract.SeverityError {
			errs = append(errs, &d)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, c.check())
	}
	return errors.Join(errs...)
}

// received replaces references by values of the type that the plugin gets.
func received(v any) any {
	m, ok := v.(map[string]any)
	switch {
	case !ok:
		return v
	case m["$env"] != nil:
		return ""
	}
	out := map[string]any{}
	for name, v := range m {
		out[name] = received(v)
	}
	return out
}
