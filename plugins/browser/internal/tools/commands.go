package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/examine"
	"github.com/gantry-agent/gantry/plugins/browser/internal/script"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// commands are the plugin's commands, for people. They call the tools: what a model may do in a folder, and what it is asked about, holds for them.
func (p *browserPlugin) commands() []tool.Command {
	return []tool.Command{
		calling("open", "Opens an address and shows the state of the page.", "browser_act", func(in openArgs) any {
			return map[string]any{"actions": []any{map[string]any{"navigate": map[string]string{"url": in.URL}}}, "state": "full"}
		}),
		calling("state", "Shows the state of a page: its text, and its elements with their numbers.", "browser_state", func(in stateArgs) any { return in }),
		calling("act", "Acts in the browser and shows what has changed.", "browser_act", func(in actionsArgs) any { return in }),
		calling("screenshot", "Takes a picture of a page. --save DIR writes it into a file.", "browser_state", func(in screenshotArgs) any {
			return map[string]any{"tab": in.Tab, "screenshot": cmp.Or(in.Of, "view")}
		}),
		calling("execute", "Runs a script that drives the browser, and shows what it says and returns.", "browser_execute", func(in scriptArgs) any {
			out := executeArgs{Code: in.Script, Timeout: in.Timeout, Yield: script.MaxYield}
			if in.Own {
				out.Session = oneShot
			}
			return out
		}),
		calling("extract", "Answers a question about a whole page, with a request to the model.", "browser_extract", func(in questionArgs) any { return in }),
		calling("task", "Carries out a task in the browser, with requests to the model.", "browser_task", func(in assignmentArgs) any { return in }),
		calling("replay", "Runs the history of a task again, without a model.", "browser_replay", func(in replayArgs) any { return in }),
		calling("record", "Starts to record what happens in the browser, or stops and keeps the files.", "browser_record", func(in recordArgs) any { return in }),
		calling("status", "Shows whether a browser runs, its tabs, and what it uses.", "browser_status", func(in statusArgs) any { return in }),
		calling("tabs", "Shows the tabs of the browser, like status.", "browser_status", func(in statusArgs) any { return in }),
		calling("configure", "Sets what pages see of the device and the place, which requests are blocked or answered here, and how dialogs are answered.", "browser_configure", func(in configArgs) any { return in }),
		calling("recover", "Helps a browser that is stuck.", "browser_recover", func(in recoverArgs) any { return in }),
		tool.NewCommand("doctor", "Checks whether a browser can work on this machine.", p.examine),
		calling("close", "Ends the browser with its tabs.", "browser_recover", func(struct{}) any { return recoverArgs{Action: "restart"} }),
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

// The arguments of commands whose tools have others: a name of theirs would be that of an option of all commands, or they take text where a tool
// takes JSON.
type (
	scriptArgs struct {
		Script  string `json:"script" file:"true" jsonschema:"The file with the script, or - for standard input."`
		Own     bool   `json:"own,omitempty" jsonschema:"Start a browser for this script alone."`
		Timeout int    `json:"timeout_ms,omitempty" jsonschema:"Default and most: 300000."`
	}
	questionArgs struct {
		Query  string          `json:"query" jsonschema:"The question."`
		Schema json.RawMessage `json:"schema,omitempty" jsonschema:"JSON Schema of the answer, an object."`
		Links  bool            `json:"links,omitempty" jsonschema:"Include the addresses of links."`
		Images bool            `json:"images,omitempty" jsonschema:"Include the addresses of images."`
		From   int             `json:"from,omitempty" jsonschema:"Where to continue in a long page."`
		Tab    string          `json:"tab,omitempty" jsonschema:"Name of a tab; default: the current one."`
	}
	assignmentArgs struct {
		Task     string          `json:"task" jsonschema:"What is to be done."`
		StartURL string          `json:"start_url,omitempty" jsonschema:"Where it begins; default: the only address that the task names, or the page that is open."`
		MaxSteps int             `json:"max_steps,omitempty" jsonschema:"Default 100."`
		Vision   bool            `json:"vision,omitempty" jsonschema:"Show the model a picture of each page."`
		Schema   json.RawMessage `json:"schema,omitempty" jsonschema:"JSON Schema of the answer, an object."`
		Domains  []string        `json:"domains,omitempty" jsonschema:"The only sites that may be opened."`
		Secrets  []string        `json:"secrets,omitempty" jsonschema:"Names of the secrets that may be typed."`
		Judge    *bool           `json:"judge,omitempty" jsonschema:"Check the answer by another request; default true."`
	}
)

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

// examine is also what `gantry doctor` shows of the plugin.
func (p *browserPlugin) examine(ctx context.Context, c *tool.CommandCall, _ struct{}) (any, error) {
	m := examine.Machine{
		Files: os.DirFS("/"), Configured: p.config.Chromium, Sandbox: p.config.Sandbox, Root: os.Geteuid() == 0,
		Version: func(ctx context.Context, executable string) (string, error) {
			out, err := c.Command(ctx, executable, "--version").CombinedOutput()
			if err != nil && len(out) > 0 {
				err = fmt.Errorf("%w: %s", err, short(strings.TrimSpace(string(out)), 500))
			}
			return string(out), err
		},
	}
	return map[string]any{"checks": m.Checks(ctx)}, nil
}
