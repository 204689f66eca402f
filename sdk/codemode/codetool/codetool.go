// Package codetool offers models a tool of a plugin that runs JavaScript.
//
// It owns: the tool's description, its arguments and its result. It must not know: how code is run, or what the functions do that it calls.
//
// Start with [New].
package codetool

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// typesMark is what a description contains in place of the types.
const typesMark = "{{types}}"

const defaultDescription = `Runs JavaScript that calls functions. Write one async arrow function in plain JavaScript, not TypeScript, and return only
what is needed. These globals are available:

` + typesMark

// Options describe a tool that runs code.
type Options struct {
	Name        string // empty: code
	Description string // {{types}} is replaced by the providers' TypeScript; empty: a general one
	Providers   []codemode.Provider
	Executor    codemode.Executor
	// TransformResult changes the value of a successful run before the model gets it. nil: the value as it is.
	TransformResult func(ctx context.Context, result any) (any, error)
	ToolOptions     []tool.Option
}

// New returns a tool that runs code. The model gets the result as text without base64, and truncated; the structured result has all
// of it.
func New(o Options) tool.Tool {
	type arguments struct {
		Code string `json:"code" jsonschema:"an async arrow function in JavaScript"`
	}
	var types []string
	for _, p := range o.Providers {
		types = append(types, p.TypeScript())
	}
	description := strings.ReplaceAll(cmp.Or(o.Description, defaultDescription), typesMark, strings.Join(types, "\n\n"))
	return tool.New(cmp.Or(o.Name, "code"), description, func(ctx context.Context, _ *tool.Call, in arguments) (*tool.Result, error) {
		out := o.Executor.Execute(ctx, in.Code, o.Providers)
		return o.result(ctx, out), nil
	}, o.ToolOptions...)
}

// result returns what the model reads of an outcome.
func (o Options) result(ctx context.Context, out codemode.Outcome) *tool.Result {
	console := ""
	if len(out.Logs) > 0 {
		console = "\n\nConsole output:\n" + codemode.TruncateResponse(strings.Join(out.Logs, "\n"), codemode.Limit{})
	}
	if out.Error != "" {
		return tool.Errorf("Code execution failed: %s%s", codemode.TruncateResponse(out.Error, codemode.Limit{}), console)
	}
	var value any
	if len(out.Result) > 0 {
		if err := json.Unmarshal(out.Result, &value); err != nil {
			return tool.Errorf("Code execution failed: the result can't be read: %v%s", err, console)
		}
	}
	if o.TransformResult != nil {
		var err error
		if value, err = o.TransformResult(ctx, value); err != nil {
			return tool.Errorf("Code execution failed: the result can't be transformed: %v%s", err, console)
		}
	}
	text, ok := codemode.ScreenshotNote(value)
	if !ok {
		text = codemode.SandboxResponseText(codemode.Redact(value))
	}
	r := tool.Text(text + console)
	if b, err := json.Marshal(struct {
		Result any      `json:"result"`
		Logs   []string `json:"logs,omitempty"`
	}{value, out.Logs}); err == nil {
		r.Structured = b
	}
	return r
}
