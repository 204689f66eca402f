package codemode

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// grammar is the input of exec: code, which may begin with a line of options; codex-compatible.
const grammar = `start: pragma_source | plain_source
pragma_source: PRAGMA_LINE NEWLINE SOURCE
plain_source: SOURCE

PRAGMA_LINE: /[ \t]*\/\/ @exec:[^\r\n]*/
NEWLINE: /\r?\n/
SOURCE: /[\s\S]+/
`

// The name of the tool that runs scripts, and its label.
const (
	execTool  = "exec"
	execLabel = hosttool.LabelPrefix + execTool
)

// maxDeclarations bounds the declarations in the description of exec, in bytes. Tools beyond it are found with codemode.search.
const maxDeclarations = 24 << 10

// guideNamespace is the global with which scripts find tools.
const guideNamespace = "codemode"

// table returns the tools; t implements them.
func table(t *Thread) hosttool.Table {
	offered := func(hosttool.Conditions) hosttool.Offer { return hosttool.Offered }
	run := func(f func(*Thread) orchestrate.HostTool) orchestrate.HostTool {
		if t == nil {
			return orchestrate.HostTool{}
		}
		return f(t)
	}
	return hosttool.New(
		hosttool.Tool{
			Label: execLabel, Describe: func(others *registry.Snapshot, row llm.ModelRow) string { return t.describe(others, row) }, Offer: offered,
			Descriptor: contract.Descriptor{
				Name: execTool, ReadOnly: true, Nesting: contract.NestingNever,
				Freeform: &contract.Freeform{Syntax: "lark", Definition: grammar, Property: "code"},
			},
			HostTool: run(func(t *Thread) orchestrate.HostTool {
				return orchestrate.HostTool{Backend: hosttool.Func(t.exec).Backend, Item: func(in contract.Input) contract.Item {
					return &contract.CodeItem{Language: "javascript", Source: in.Text}
				}}
			}),
		},
		hosttool.Tool{
			Label: hosttool.LabelPrefix + "wait", Offer: offered,
			Descriptor: contract.Descriptor{
				Name: "wait", ReadOnly: true, Nesting: contract.NestingNever,
				Description: "Waits for a script of `exec` that still runs, and returns what it has output since the last answer. Calls of tools that the " +
					"script makes while nothing waits for it are not begun until then.",
				InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` +
					`"cell_id":{"description":"The cell ID in the answer of exec.","type":"string"},` +
					`"max_tokens":{"description":"The most tokens of output to return, default 10000.","type":"number"},` +
					`"terminate":{"description":"End the script instead of waiting.","type":"boolean"},` +
					`"yield_time_ms":{"description":"How long to wait before an answer, default 10000.","type":"number"}},"required":["cell_id"],"type":"object"}`),
			},
			HostTool: run(func(t *Thread) orchestrate.HostTool {
				return orchestrate.HostTool{Backend: hosttool.Func(t.wait).Backend}
			}),
		},
	)
}

const introduction = `Runs JavaScript that calls tools. The code is an async module without imports, files and network: use top-level await, and combine, filter and loop over the results of tools in one script instead of making single calls.

Globals:
- tools.NAME(argument): calls a tool and returns a promise of its structured result, or of its text. A tool that fails rejects with an Error.
- ALL_TOOLS: [{name, description}] of all tools that can be called. codemode.search(query) finds tools by words, codemode.describe(name) returns a tool's declaration; both return promises.
- text(value): adds to the output; nothing else is returned. console.log does so too.
- image(v, detail?), audio(v): add a data: URL or an MCP content block to the output.
- store(key, value), load(key): keep JSON for later scripts of this thread.
- notify(value): gives you a note with the next request, also while nothing waits for the script. yield_control(): returns the output so far, while the script goes on; exit(): ends the script.
- setTimeout, clearTimeout.

A script that takes longer than its yield time goes on; ` + "`wait`" + ` returns the rest. Options can be set in a first line: // @exec: {"yield_time_ms": 30000, "max_output_tokens": 10000}
`

// describe returns the description of exec for models with these traits.
func describe(others *registry.Snapshot, traits []string) string {
	var b strings.Builder
	b.WriteString(introduction)
	var direct []codemode.Declaration
	more, size := 0, 0
	for _, e := range others.CodeTools(traits) {
		d := declaration(e)
		size += len(d.Description) + len(d.Input) + len(d.Output)
		if e.Exposure == contract.ExposureDeferred || size > maxDeclarations {
			more++
			continue
		}
		direct = append(direct, d)
	}
	if len(direct) > 0 {
		b.WriteString("\n```ts\n" + codemode.Declarations("tools", direct) + "\n```\n")
	}
	if more > 0 {
		fmt.Fprintf(&b, "\nThere are %d more tools; find them with codemode.search.\n", more)
	}
	return b.String()
}

// declaration describes a tool to scripts.
func declaration(e *registry.Entry) codemode.Declaration {
	d := codemode.Declaration{Name: callable(e), Description: e.Description, Input: e.InputSchema, Output: e.OutputSchema}
	if e.Freeform != nil {
		d.Input = json.RawMessage(`{"type":"string"}`)
	}
	return d
}

// guide answers codemode.search and codemode.describe.
func guide(tools catalogue, call frame.Call) (json.RawMessage, error) {
	var text string
	if len(call.Args) == 0 || json.Unmarshal(call.Args[0], &text) != nil {
		return nil, fmt.Errorf("codemode.%s expects a string", call.Name)
	}
	switch call.Name {
	case "search":
		entries := make([]*registry.Entry, 0, len(tools.names))
		for _, name := range tools.names {
			entries = append(entries, tools.byName[name])
		}
		type found struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		}
		out := []found{}
		for _, e := range hosttool.Rank(entries, text) {
			if len(out) < maxFound {
				out = append(out, found{callable(e), e.Description})
			}
		}
		return json.Marshal(out)
	case "describe":
		e := tools.byName[text]
		if e == nil {
			return nil, fmt.Errorf("Tool %q not found; ALL_TOOLS lists what can be called", text)
		}
		return json.Marshal(codemode.Declarations("tools", []codemode.Declaration{declaration(e)}))
	}
	return nil, fmt.Errorf("codemode has search and describe, not %q", call.Name)
}

// maxFound is the number of tools that codemode.search returns at most.
const maxFound = 20
