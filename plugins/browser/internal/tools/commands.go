package tools

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/sdk/tool"
)

// commands are the plugin's commands, for people. They call the tools: what a model may do in a folder, and what it is asked about, holds for them.
func commands() []tool.Command {
	return []tool.Command{
		calling("open", "Opens an address and shows the state of the page.", "browser_act", func(in openArgs) any {
			return map[string]any{"actions": []any{map[string]any{"navigate": map[string]string{"url": in.URL}}}, "state": "full"}
		}),
		calling("state", "Shows the state of a page: its text, and its elements with their numbers.", "browser_state", func(in stateArgs) any { return in }),
		calling("act", "Acts in the browser and shows what has changed.", "browser_act", func(in actionsArgs) any { return in }),
		calling("screenshot", "Takes a picture of a page. --save DIR writes it into a file.", "browser_state", func(in screenshotArgs) any {
			return map[string]any{"tab": in.Tab, "screenshot": cmp.Or(in.Of, "view")}
		}),
	}
}

type openArgs struct {
	URL string `json:"url" jsonschema:"Address of the page."`
}

type actionsArgs struct {
	Actions []json.RawMessage `json:"actions" jsonschema:"A list of actions, as the tool browser_act takes them: [{\"click\": {\"index\": 3}}]"`
	Tab     string            `json:"tab,omitempty" jsonschema:"Name of a tab; default: the current one."`
	State   string            `json:"state,omitempty" enum:"delta,full,none" jsonschema:"Which state to show; default delta."`
}

type screenshotArgs struct {
	Tab string `json:"tab,omitempty" jsonschema:"Name of a tab; default: the current one."`
	Of  string `json:"of,omitempty" enum:"view,page" jsonschema:"What the window shows, or the whole page; default view."`
}

// calling returns a command that calls a tool with the input that it makes from its own.
func calling[In any](name, description, of string, input func(In) any) tool.Command {
	return tool.NewCommand(name, description, func(_ context.Context, c *tool.CommandCall, in In) (any, error) {
		return nil, c.CallTool(of, input(in))
	}, tool.CallsTool())
}
