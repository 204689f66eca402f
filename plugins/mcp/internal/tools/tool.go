package tools

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/call"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// tool declares a server's tool. What the server says of its effects decides only whether its calls are asked about and may run
// concurrently.
func (p *mcpPlugin) tool(e *entry, called catalog.Called, t catalog.Tool, changes string) tool.Tool {
	a := t.Annotations
	opts := []tool.Option{
		tool.Namespace(called.Namespace), tool.Schema(t.Input), tool.Source(e.block.Name), tool.Hook(called.Namespace + "__" + called.Name),
		tool.SearchText(e.block.Name + " " + t.Name + " " + t.Title), tool.Changes(changes),
		tool.Effects(contract.ServiceEffect{
			Service: e.block.Name, Action: t.Name, ReadOnly: a.ReadOnly, Destructive: a.Destructive, Idempotent: a.Idempotent, OpenWorld: a.OpenWorld,
			Approval: e.block.approval(t.Name),
		}),
	}
	if schema := catalog.ResultSchema(t.Output); schema != nil {
		opts = append(opts, tool.OutputSchema(schema))
	}
	if t.Unchecked {
		opts = append(opts, tool.UncheckedArguments())
	}
	if e.block.Defer {
		opts = append(opts, tool.Deferred())
	}
	if e.block.Parallel || a.ReadOnly != nil && *a.ReadOnly {
		opts = append(opts, tool.ParallelSafe())
	}
	return tool.New(called.Name, t.Description, func(ctx context.Context, c *tool.Call, raw json.RawMessage) (*tool.Result, error) {
		return e.call(ctx, c, t, raw), nil
	}, opts...)
}

// call calls a tool of the server. t is the definition that the call was decided on.
func (e *entry) call(ctx context.Context, c *tool.Call, t catalog.Tool, raw json.RawMessage) *tool.Result {
	began := c.Clock().Elapsed()
	took := func() time.Duration { return c.Clock().Elapsed() - began }
	args, err := call.Arguments(raw)
	if err != nil {
		return call.Failed(err, 0)
	}
	item := contract.MCPCallItem{Server: e.block.Name, Tool: t.Name, Arguments: args, Title: t.Title, ReadOnly: t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly}
	if err := c.Started(&item); err != nil {
		return call.Failed(err, 0)
	}
	e.enter(c.ThreadID(), c.Cwd())
	ctx, cancel := call.WithTimeout(ctx, c.Clock(), e.block.CallTimeout)
	defer cancel()
	if err := e.check(ctx, t); err != nil {
		return call.Failed(err, took())
	}
	result, err := e.server.Call(ctx, t.Name, args, server.Events{
		Progress: func(message string, done, total float64) { _ = c.Progress(message, done, total) },
		Elicit: func(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return call.Elicit(ctx, e.block.Name, p, c.Ask)
		},
		Sample: func(ctx context.Context, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			ask := c.Ask
			if e.block.Sampling == samplingAllow {
				ask = nil
			}
			return call.Sample(ctx, e.block.Name, p, ask, c.Sample)
		},
		Meta: map[string]any{"callId": c.ID(), "threadId": c.ThreadID()},
	})
	if err != nil {
		r := call.Failed(err, took())
		r.Aborted = c.Soft().Err() != nil
		r.Item = ended(item, nil, err)
		return r
	}
	r := call.Result(result, took(), e.block.TextBeside)
	r.Item = ended(item, result, nil)
	return r
}

// maxItemResult is the size of the largest result that an item takes, in bytes.
const maxItemResult = 64 << 10

// ended returns the item of a call with its result, or with the error because of which it has none.
func ended(item contract.MCPCallItem, result json.RawMessage, err error) *contract.MCPCallItem {
	if err != nil {
		item.Error = call.ErrorText(err)
	} else if len(result) <= maxItemResult {
		item.Result = result
	}
	return &item
}
