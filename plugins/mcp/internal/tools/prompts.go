package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/call"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// ready returns a server of the configuration that is used.
func (p *mcpPlugin) ready(name string) (*entry, error) {
	if _, err := p.block(name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.mu.entries[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("the server %q is disabled; next: set enabled = true in its block", name)
}

// refused words the error of a request that a command has sent.
func refused(method string, err error) error {
	return fmt.Errorf("%s failed: %s", method, call.ErrorText(err))
}

// promptRow is a row of the command prompts.
type promptRow struct {
	Name        string `json:"name"`
	Arguments   string `json:"arguments"` // names, separated by spaces; those that may be missing are in brackets
	Title       string `json:"title"`
	Description string `json:"description"`
}

// listPrompts is the command prompts.
func (p *mcpPlugin) listPrompts(ctx context.Context, _ *tool.CommandCall, in nameArgs) (any, error) {
	e, err := p.ready(in.Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.block.CallTimeout)
	defer cancel()
	prompts, problems, err := catalog.ListPrompts(ctx, e.server.Prompts)
	if err != nil {
		return nil, refused("prompts/list", err)
	}
	rows := []promptRow{}
	for _, x := range prompts {
		var args []string
		for _, a := range x.Arguments {
			if a.Required {
				args = append(args, a.Name)
			} else {
				args = append(args, "["+a.Name+"]")
			}
		}
		rows = append(rows, promptRow{x.Name, strings.Join(args, " "), x.Title, catalog.Line(x.Description, 200)})
	}
	out := map[string]any{"prompts": rows}
	if len(problems) > 0 {
		out["problems"] = errors.Join(problems...).Error()
	}
	return out, nil
}

type promptArgs struct {
	Server string            `json:"server" jsonschema:"Name of the server."`
	Name   string            `json:"name" jsonschema:"Name of the prompt."`
	Arg    map[string]string `json:"arg,omitempty" jsonschema:"Argument of the prompt."`
}

// promptMessage is a message of a prompt. Its content is a block of the protocol, without unsafe characters.
type promptMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// fillIn is the command prompt, which front ends also run; see SourcePrompt in the contract.
func (p *mcpPlugin) fillIn(ctx context.Context, _ *tool.CommandCall, in promptArgs) (any, error) {
	e, err := p.ready(in.Server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.block.CallTimeout)
	defer cancel()
	raw, err := e.server.Prompt(ctx, in.Name, in.Arg)
	if err != nil {
		return nil, refused("prompts/get", err)
	}
	var result struct {
		Messages []promptMessage `json:"messages"`
	}
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Messages) == 0 {
		return nil, fmt.Errorf("prompts/get failed: the server's prompt has no messages")
	}
	for i, m := range result.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("prompts/get failed: message %d has the role %q", i+1, catalog.Line(m.Role, 40))
		}
		if result.Messages[i].Content, err = catalog.OutputValue(m.Content); err != nil {
			return nil, fmt.Errorf("prompts/get failed: message %d has no content", i+1)
		}
	}
	return result, nil
}

type resourcesArgs struct {
	Name      string `json:"name" jsonschema:"Name of the server."`
	Templates bool   `json:"templates,omitempty" jsonschema:"List the templates of resources instead."`
}

// resourceRow is a row of the command resources.
type resourceRow struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
}

// listResources is the command resources.
func (p *mcpPlugin) listResources(ctx context.Context, _ *tool.CommandCall, in resourcesArgs) (any, error) {
	e, err := p.ready(in.Name)
	if err != nil {
		return nil, err
	}
	method, member := "resources/list", "resources"
	if in.Templates {
		method, member = "resources/templates/list", "resourceTemplates"
	}
	rows := []resourceRow{}
	ctx, cancel := context.WithTimeout(ctx, e.block.CallTimeout)
	defer cancel()
	err = catalog.Pages(ctx, member, func(ctx context.Context, cursor string) (json.RawMessage, error) {
		return e.server.Resources(ctx, method, cursor)
	}, func(raw json.RawMessage) error {
		var wire struct{ URI, URITemplate, Name, MIMEType, Description string }
		if json.Unmarshal(raw, &wire) != nil {
			return nil // what is not as it should be can't be read either
		}
		if len(rows) == catalog.MaxItems {
			return fmt.Errorf("there are more than %d", catalog.MaxItems)
		}
		rows = append(rows, resourceRow{catalog.Line(wire.URI+wire.URITemplate, 2000), catalog.Line(wire.Name, 200), catalog.Line(wire.MIMEType, 80), catalog.Line(wire.Description, 200)})
		return nil
	})
	if err != nil {
		return nil, refused(method, err)
	}
	return map[string]any{member: rows}, nil
}

// readResource is the command resource.
func (p *mcpPlugin) readResource(ctx context.Context, _ *tool.CommandCall, in readArgs) (any, error) {
	if _, err := p.ready(in.Server); err != nil {
		return nil, err
	}
	out, err := p.read(ctx, in)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return catalog.OutputValue(raw)
}

type completeArgs struct {
	Server   string            `json:"server" jsonschema:"Name of the server."`
	Argument string            `json:"argument" jsonschema:"Name of the argument or variable."`
	Value    string            `json:"value,omitempty" jsonschema:"How the value begins."`
	Prompt   string            `json:"prompt,omitempty" jsonschema:"Name of the prompt."`
	Template string            `json:"template,omitempty" jsonschema:"URI of the template of resources."`
	Given    map[string]string `json:"given,omitempty" jsonschema:"Another argument or variable whose value is known."`
}

// complete is the command complete.
func (p *mcpPlugin) complete(ctx context.Context, _ *tool.CommandCall, in completeArgs) (any, error) {
	e, err := p.ready(in.Server)
	if err != nil {
		return nil, err
	}
	params := &mcp.CompleteParams{Argument: mcp.CompleteParamsArgument{Name: in.Argument, Value: in.Value}}
	switch {
	case (in.Prompt == "") == (in.Template == ""):
		return nil, errors.New("an argument belongs to a prompt or to a template of resources; next: set either --prompt or --template")
	case in.Prompt != "":
		params.Ref = &mcp.CompleteReference{Type: "ref/prompt", Name: in.Prompt}
	default:
		params.Ref = &mcp.CompleteReference{Type: "ref/resource", URI: in.Template}
	}
	if len(in.Given) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: in.Given}
	}
	ctx, cancel := context.WithTimeout(ctx, e.block.CallTimeout)
	defer cancel()
	found, err := e.server.Complete(ctx, params)
	if err != nil {
		return nil, refused("completion/complete", err)
	}
	values := catalog.Values(found.Values)
	return map[string]any{"values": values, "more": found.HasMore || len(values) < len(found.Values) || found.Total > len(values)}, nil
}
