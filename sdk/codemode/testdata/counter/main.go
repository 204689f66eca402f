// Command counter is a plugin whose tool runs JavaScript. Each run has a counter of its own.
//
// It owns: the counter. It must not know: how scripts are run.
//
// Start with [main].
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/child"
	"github.com/gantry-agent/gantry/sdk/codemode/codetool"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func main() {
	if codemode.Wanted(os.Args) { // the plugin starts itself for each script
		os.Exit(child.Main(os.Stdin, os.Stdout))
	}
	counter := codemode.Provider{
		Name: "counter",
		Functions: []codemode.Function{{
			Declaration: codemode.Declaration{
				Name: "add", Description: "Adds n and returns the sum.",
				Input:  json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}`),
				Output: json.RawMessage(`{"type":"number"}`),
			},
			Call: func(context.Context, []json.RawMessage) (any, error) { return 0, nil }, // replaced by the runtime's
		}},
		CreateRuntime: func(context.Context) (*codemode.Runtime, error) {
			file, err := os.CreateTemp("", "counter") // a resource that must not be left over
			if err != nil {
				return nil, err
			}
			sum := 0.0
			add := func(_ context.Context, args []json.RawMessage) (any, error) {
				var in struct{ N float64 }
				if err := json.Unmarshal(args[0], &in); err != nil {
					return nil, err
				}
				sum += in.N
				return sum, json.NewEncoder(file).Encode(sum)
			}
			return &codemode.Runtime{
				Fns:     map[string]codemode.Func{"add": add},
				Dispose: func(context.Context) error { file.Close(); return os.Remove(file.Name()) },
			}, nil
		},
	}
	tool.Main(tool.Plugin{Name: "counter", Version: "1.0.0", Tools: []tool.Tool{codetool.New(codetool.Options{Providers: []codemode.Provider{counter}})}})
}
