package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/tool"
)

// A server with which the plugin would refuse its configuration is not added, and the others are.
func TestImportChecksBlocks(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		`{"url": "https://a.test", "oauth": {"callbackPort": 99999999}}`:                                            "not added: callback_port must be a port",
		`{"url": "https://a.test", "oauth": {"callbackPort": -3}}`:                                                  "not added: callback_port must be a port",
		`{"url": "https://a.test", "oauth": {"callbackPort": 1.5}}`:                                                 "not added: want a whole number, got 1.5",
		`{"url": "https://a.test", "headers": {"X Y": "a"}}`:                                                        `not added: "X Y" is not the name of a header`,
		`{"url": "https://a.test", "headers": {"Authorization": "${T}"}, "oauth": {"clientId": "a"}}`:               "added, disabled",
		`{"url": "http://a.test", "oauth": {"clientId": "a"}}`:                                                      "not added: ",
		`{"url": "https://a.test", "headers": {"X-A": "${T}", "X-B": "b"}}`:                                         "added, disabled",
		`{"url": "https://a.test", "headers": {"Authorization": "Bearer ${T}"}}`:                                    "added, disabled",
		`{"url": "https://a.test", "oauth": {"clientId": "a", "callbackPort": 4000}}`:                               "added, disabled",
		`{"command": "x", "args": ["a"], "env": {"A": "${T}", "B": "b"}, "cwd": "/tmp"}`:                            "added, disabled",
		`startup_timeout_sec = 0.0001`:                                                                              "not added: startup_timeout must be positive",
		"startup_timeout_sec = 1\nenabled_tools = [\"a\"]\nrequired = true\ndefault_tools_approval_mode = \"auto\"": "added, disabled",
	} {
		file := `{"mcpServers": {"a": ` + server + `}}`
		if !strings.HasPrefix(server, "{") {
			file = "[mcp_servers.a]\ncommand = \"x\"\n" + server
		}
		out, err := (&mcpPlugin{config: &Config{}}).importServers(t.Context(), &tool.CommandCall{}, importArgs{File: file})
		if err != nil {
			t.Fatal(err)
		}
		if rows, _ := json.Marshal(out); !strings.Contains(strings.ReplaceAll(string(rows), `\"`, `"`), `"result":"`+want) || strings.Count(string(rows), "added") != 1 {
			t.Errorf("%s: %s, want %q", server, rows, want)
		}
	}
}
