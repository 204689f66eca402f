package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// commanded is the response to a command.
type commanded struct {
	spec contract.CommandSpec
	resp *gantryv1.CommandResponse
}

func checkCommandEffects(ctx context.Context, k *kit) verdict {
	const next = "declare side_effects for the command, so that the host asks the user before it runs it"
	ran := 0
	for _, c := range k.manifest.Commands {
		if c.SideEffects {
			continue // the kit must not cause them
		}
		for _, input := range commandInputs(c.InputSchema) {
			p, err := k.ready(ctx)
			if err != nil {
				return broken(err)
			}
			before := k.host.changes()
			limited, cancel := k.within(ctx, responseTimeout)
			resp, err := p.plugin().Command(limited, &gantryv1.CommandRequest{Name: c.Name, InputJson: input, CallToken: wire.NewToken()})
			waits := errors.Is(limited.Err(), context.DeadlineExceeded) // for a person, perhaps
			cancel()
			if err := k.explain(ctx, p, err); err != nil && !waits {
				return failed("return the error in the response message, not as a status", "command %s: %v", c.Name, err)
			}
			if did := k.host.changes()[len(before):]; len(did) > 0 {
				return failed(next, "command %s called %s", c.Name, strings.Join(did, ", "))
			}
			if resp != nil {
				k.commanded = append(k.commanded, commanded{c, resp})
			}
			if waits {
				break
			}
		}
		ran++
	}
	if ran == 0 {
		return skipped("", "it has no command without side effects")
	}
	return passed("%d commands changed nothing", ran)
}

// checkNext checks how the commands that were run go on.
func checkNext(_ context.Context, k *kit) verdict {
	goOn := 0
	for _, c := range k.commanded {
		n := c.resp.GetNext()
		if n == nil || c.resp.GetError() != "" {
			continue
		}
		goOn++
		var input map[string]json.RawMessage
		switch name := n.GetName(); {
		case json.Unmarshal(n.GetInputJson(), &input) != nil || input == nil:
			return failed("pass on a JSON object", "command %s goes on with %s, whose input is %s", c.spec.Name, name, quote(string(n.GetInputJson())))
		case !n.GetTool():
			if !slices.ContainsFunc(k.manifest.Commands, func(s contract.CommandSpec) bool { return s.Name == name }) {
				return failed("name a command of the manifest, or set `tool` if it is a tool", "command %s goes on with the command %s, which doesn't exist", c.spec.Name, quote(name))
			}
		case !c.spec.CallsTool:
			return failed("set calls_tool in the manifest, because a host refuses the call otherwise", "command %s calls the tool %s, which it does not declare", c.spec.Name, quote(name))
		case len(c.resp.GetEdits()) > 0:
			return failed("propose changes in another command", "command %s proposes changes and calls the tool %s", c.spec.Name, quote(name))
		case !slices.ContainsFunc(k.tools, func(d contract.Descriptor) bool { return d.Namespace == "" && d.Name == name }):
			return failed("name a tool that Watch sends", "command %s calls the tool %s, which doesn't exist", c.spec.Name, quote(name))
		}
	}
	if goOn == 0 {
		return skipped("", "no command without side effects goes on with another one or with a tool")
	}
	return passed("%d commands go on with what exists", goOn)
}

// commandInputs returns an empty input and, if the schema requires more, one with a value for each required property.
func commandInputs(schema json.RawMessage) []json.RawMessage {
	inputs := []json.RawMessage{json.RawMessage("{}")}
	var s struct {
		Required   []string
		Properties map[string]struct {
			Type any
			Enum []any
		}
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil || len(s.Required) == 0 {
		return inputs
	}
	input := map[string]any{}
	for _, name := range s.Required {
		p := s.Properties[name]
		types, _ := p.Type.([]any)
		switch {
		case len(p.Enum) > 0:
			input[name] = p.Enum[0]
		case p.Type == "array" || slices.Contains(types, any("array")):
			input[name] = []any{}
		case p.Type == "object":
			input[name] = map[string]any{}
		case p.Type == "integer" || p.Type == "number":
			input[name] = 1
		case p.Type == "boolean":
			input[name] = false
		default:
			input[name] = "kit"
		}
	}
	b, err := json.Marshal(input)
	if err != nil {
		return inputs
	}
	return append(inputs, b)
}
