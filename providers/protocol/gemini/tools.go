package gemini

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// tools returns the tools and the instructions for calling them.
func (l *lowering) tools() ([]tool, *toolConfig, error) {
	var out []tool
	var config *toolConfig
	if len(l.r.Tools) > 0 {
		t := tool{FunctionDeclarations: make([]functionDeclaration, 0, len(l.r.Tools))}
		for i := range l.r.Tools {
			t.FunctionDeclarations = append(t.FunctionDeclarations, l.declaration(&l.r.Tools[i]))
		}
		out = append(out, t)
		calling, err := l.calling()
		if err != nil {
			return nil, nil, err
		}
		if calling != nil {
			config = &toolConfig{FunctionCallingConfig: calling}
		}
	}
	hosted := l.hosted()
	if len(hosted) > 0 && len(out) > 0 {
		if config == nil {
			config = &toolConfig{}
		}
		// When combined with functions, Google reports what its own tools did, so that it can be sent back.
		config.IncludeServerSideToolInvocations = true
	}
	return append(out, hosted...), config, nil
}

func (l *lowering) declaration(t *llm.Tool) functionDeclaration {
	d := functionDeclaration{Name: protocol.WireName(t.Namespace, t.Name), Description: t.Description}
	schema := t.InputSchema
	if t.Freeform != nil {
		schema = protocol.FreeformSchema(t)
	}
	dialect := l.r.Model.Compat.Sanitizer
	schema = protocol.Sanitised(schema, dialect)
	if dialect != "gemini" {
		d.ParametersJSONSchema = schema
		return d
	}
	// The dialect has no object without properties: such a function has no parameters.
	var root struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &root) == nil && len(root.Properties) > 0 {
		d.Parameters = schema
	}
	return d
}

// calling returns the choice of functions, or nil if the model decides.
func (l *lowering) calling() (*functionCallingConfig, error) {
	choice := l.r.ToolChoice
	switch choice.Mode {
	case "", "auto":
		strict := func(t llm.Tool) bool { return t.Strict }
		if slices.ContainsFunc(l.r.Tools, strict) && !l.r.Model.Compat.NoStrict {
			return &functionCallingConfig{Mode: "VALIDATED"}, nil
		}
		if choice.Mode == "" {
			return nil, nil
		}
		return &functionCallingConfig{Mode: "AUTO"}, nil
	case "none":
		return &functionCallingConfig{Mode: "NONE"}, nil
	case "required":
		return &functionCallingConfig{Mode: "ANY"}, nil
	case "tool":
		if t := l.r.ChosenTool(); t != nil {
			name := protocol.WireName(t.Namespace, t.Name)
			return &functionCallingConfig{Mode: "ANY", AllowedFunctionNames: []string{name}}, nil
		}
	}
	return nil, l.r.InvalidChoice()
}

// hosted returns the tools that Google runs itself.
func (l *lowering) hosted() []tool {
	var out []tool
	for _, kind := range l.r.HostedTools {
		t := tool{}
		switch kind {
		case "web_search", "google_search":
			t.GoogleSearch = &struct{}{}
		case "code_execution", "code_interpreter":
			t.CodeExecution = &struct{}{}
		case "url_context", "web_fetch":
			t.URLContext = &struct{}{}
		default:
			l.r.Warning(fmt.Sprintf("the hosted tool %q is unknown and was omitted", kind))
			continue
		}
		out = append(out, t)
	}
	if len(out) > 0 && len(l.r.Tools) > 0 && !l.gen.mixes() {
		l.r.Warning(fmt.Sprintf("the model %s accepts no hosted tools together with functions; omitted: %s",
			modelID(l.r), strings.Join(l.r.HostedTools, ", ")))
		return nil
	}
	return out
}
