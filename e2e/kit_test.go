package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/sdk/plugintest"
)

// Our providers pass it, too, against services on loopback.
func TestOurProvidersConform(t *testing.T) {
	for vendor, b := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			s := vendors.Start(t, vendor, vendors.Answer{Reasoning: "Hm.", Text: "All is well.", Forever: true})
			block := map[string]any{"base_url": s.URL + b.path, "api_key": vendors.Key}
			if b.vendor != "" {
				block["vendor"] = b.vendor
			}
			config, err := json.Marshal(block)
			if err != nil {
				t.Fatal(err)
			}
			plugintest.Test(t, plugintest.Config{
				Path: filepath.Join(rig.Bin(t), "gantry-provider-"+strings.TrimPrefix(b.source, "builtin/")), Config: config, Model: b.model,
				Restarts: 5, Slack: 10 * time.Second,
			})
		})
	}
}

// Our own plugins pass the kit that others are held to.
func TestOurPluginsConform(t *testing.T) {
	call := func(tool, args string, does plugintest.Behaviour) plugintest.Call {
		return plugintest.Call{Tool: tool, Arguments: json.RawMessage(args), Does: does}
	}
	configs := map[string]json.RawMessage{"gantry-tool-browser": json.RawMessage(`{"sandbox":false}`)} // the tests may run as root
	for name, calls := range map[string][]plugintest.Call{
		"gantry-provider-scripted": nil,
		"gantry-tool-mcp":          nil,
		"gantry-tool-browser": {
			call("browser_act", `{"actions":[{"navigate":{"url":"about:blank"}}]}`, plugintest.Answers),
			call("browser_act", `{"actions":[{"navigate":{"url":"about:blank"}}],"state":"none"}`, plugintest.Leaves),
			call("browser_act", `{"actions":[{"wait":{"seconds":30}}]}`, plugintest.Waits),
			// No example is a script: a plugin that offers code mode starts its own program for it, which the kit takes for any other process.
		},
		"gantry-tool-python": {
			call("python", `{"code":"1 + 1"}`, plugintest.Answers),
			call("python", `{"code":"import time; time.sleep(60)"}`, plugintest.Waits),
			call("python", `{"code":"x = 1"}`, plugintest.Leaves),
		},
		"gantry-tool-shell": {
			call("exec_command", `{"cmd":"echo hi","login":false}`, plugintest.Answers),
			call("exec_command", `{"cmd":"sleep 60","login":false,"yield_time_ms":30000}`, plugintest.Waits),
			call("exec_command", `{"cmd":"sleep 1000","login":false,"yield_time_ms":250}`, plugintest.Leaves),
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugintest.Test(t, plugintest.Config{
				Path: filepath.Join(rig.Bin(t), name), Calls: calls, Config: configs[name], Restarts: 5, Slack: 10 * time.Second,
			})
		})
	}
}
