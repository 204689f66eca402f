package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/call"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// everyone is the server in the item of a call that is about all servers.
const everyone = "gantry"

type listArgs struct {
	Server *string `json:"server,omitempty" jsonschema:"Name of the server. Default: all servers."`
	Cursor *string `json:"cursor,omitempty" jsonschema:"Where to go on: nextCursor of the last answer. Only with a server."`
}

type readArgs struct {
	Server string `json:"server" jsonschema:"Name of the server, as listed."`
	URI    string `json:"uri" jsonschema:"URI of the resource, as listed."`
}

// resourceTools are the tools by which models find and read what servers offer beside tools.
func (p *mcpPlugin) resourceTools() []tool.Tool {
	return []tool.Tool{
		p.listTool("list_mcp_resources", "Lists the resources of MCP servers: data that can be read by their URIs.", "resources/list", "resources"),
		p.listTool("list_mcp_resource_templates", "Lists the resource templates of MCP servers: URIs with variables.", "resources/templates/list", "resourceTemplates"),
		tool.New("read_mcp_resource", "Reads a resource of an MCP server.", func(ctx context.Context, c *tool.Call, in readArgs) (*tool.Result, error) {
			return p.resource(ctx, c, &in.Server, in, func(ctx context.Context) (any, error) { return p.read(ctx, in) }), nil
		}, tool.ParallelSafe(), tool.Deferred(), tool.Assess(func(_ context.Context, _ *tool.AssessCall, in readArgs) (*contract.Assessment, error) {
			return p.assess("read_mcp_resource", "resources/read", &in.Server, in)
		})),
	}
}

func (p *mcpPlugin) listTool(name, description, method, member string) tool.Tool {
	return tool.New(name, description, func(ctx context.Context, c *tool.Call, in listArgs) (*tool.Result, error) {
		return p.resource(ctx, c, in.Server, in, func(ctx context.Context) (any, error) { return p.list(ctx, in, method, member) }), nil
	}, tool.ParallelSafe(), tool.Deferred(), tool.Assess(func(_ context.Context, _ *tool.AssessCall, in listArgs) (*contract.Assessment, error) {
		return p.assess(name, method, in.Server, in)
	}))
}

// item returns the item of a call; server nil: it is about all servers.
func item(tool string, server *string, args any) (contract.MCPCallItem, error) {
	raw, err := json.Marshal(args)
	i := contract.MCPCallItem{Server: everyone, Tool: tool, Arguments: raw, ReadOnly: true}
	if server != nil {
		i.Server = *server
	}
	return i, err
}

// assess returns the effects of a request to a server; nil: to all.
func (p *mcpPlugin) assess(tool, method string, name *string, args any) (*contract.Assessment, error) {
	entries, err := p.chosen(name)
	if err != nil {
		return nil, err
	}
	i, err := item(tool, name, args)
	if err != nil {
		return nil, err
	}
	a := &contract.Assessment{ReadOnly: true, Summary: method, Item: &i}
	yes := true
	for _, e := range entries {
		a.Effects = append(a.Effects, contract.ServiceEffect{Service: e.block.Name, Action: method, ReadOnly: &yes, Approval: e.block.Approval})
	}
	return a, nil
}

// chosen returns one server, or all by name.
func (p *mcpPlugin) chosen(name *string) ([]*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == nil {
		var all []*entry
		for _, n := range slices.Sorted(maps.Keys(p.mu.entries)) {
			all = append(all, p.mu.entries[n])
		}
		return all, nil
	}
	if strings.TrimSpace(*name) == "" {
		return nil, errors.New("server must be provided")
	}
	e := p.mu.entries[*name]
	if e == nil {
		return nil, fmt.Errorf("unknown MCP server '%s'; there are: %s", catalog.Line(*name, 64), strings.Join(slices.Sorted(maps.Keys(p.mu.entries)), ", "))
	}
	return []*entry{e}, nil
}

// resource runs a request and returns its result as JSON.
func (p *mcpPlugin) resource(ctx context.Context, c *tool.Call, server *string, args any, f func(context.Context) (any, error)) *tool.Result {
	i, err := item(c.Tool(), server, args)
	if err == nil {
		err = c.Started(&i)
	}
	var raw []byte
	var out any
	if err == nil {
		out, err = f(ctx)
	}
	if err == nil {
		raw, err = json.Marshal(out)
	}
	if err != nil {
		r := tool.Errorf("%s", call.ErrorText(err))
		r.Item = ended(i, nil, err)
		return r
	}
	text := string(catalog.OutputJSON(raw))
	as, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
	return &tool.Result{Parts: []tool.Part{&tool.TextPart{Text: text}}, Structured: raw, Item: ended(i, as, err)}
}

// members is a JSON object whose members are in order.
type members []struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", f.name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// list lists one page of a server, or everything of all servers.
func (p *mcpPlugin) list(ctx context.Context, in listArgs, method, member string) (any, error) {
	entries, err := p.chosen(in.Server)
	switch {
	case err != nil:
		return nil, err
	case in.Server == nil && in.Cursor != nil:
		return nil, errors.New("cursor can only be used when a server is specified")
	case in.Server != nil:
		cursor := ""
		if in.Cursor != nil {
			cursor = *in.Cursor
		}
		raw, err := entries[0].server.Resources(ctx, method, cursor)
		if err != nil {
			return nil, fmt.Errorf("%s failed: %s", method, call.ErrorText(err))
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("%s failed: %s", method, call.ErrorText(err))
		}
		out := members{{"server", *in.Server}, {member, page[member]}}
		if next := page["nextCursor"]; len(next) > 0 && string(next) != "null" {
			out = append(out, members{{"nextCursor", next}}...)
		}
		return out, nil
	}
	all := []json.RawMessage{}
	for _, e := range entries {
		err := catalog.Pages(ctx, member, func(ctx context.Context, cursor string) (json.RawMessage, error) {
			return e.server.Resources(ctx, method, cursor)
		}, func(item json.RawMessage) error {
			if len(all) == catalog.MaxItems {
				return fmt.Errorf("there are more than %d; name a server", catalog.MaxItems)
			}
			name, err := json.Marshal(e.block.Name)
			if rest := bytes.TrimSpace(item); err == nil && len(rest) > 2 && rest[0] == '{' {
				all = append(all, slices.Concat([]byte(`{"server":`), name, []byte(","), rest[1:]))
			}
			return err
		})
		if protocol, ok := errors.AsType[*jsonrpc.Error](err); ok && protocol.Code == jsonrpc.CodeMethodNotFound {
			continue // it has none
		}
		if err != nil {
			return nil, fmt.Errorf("%s failed: %s", method, call.ErrorText(err))
		}
	}
	return members{{member, all}}, nil
}

func (p *mcpPlugin) read(ctx context.Context, in readArgs) (any, error) {
	entries, err := p.chosen(&in.Server)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(in.URI) == "":
		return nil, errors.New("uri must be provided")
	}
	raw, err := entries[0].server.Resources(ctx, "resources/read", in.URI)
	if err != nil {
		return nil, fmt.Errorf("resources/read failed: %s", call.ErrorText(err))
	}
	var result struct {
		Contents json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("resources/read failed: %s", call.ErrorText(err))
	}
	return members{{"server", in.Server}, {"uri", in.URI}, {"contents", result.Contents}}, nil
}
