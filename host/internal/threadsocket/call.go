package threadsocket

import (
	"context"
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const methodCallTool = prefix + "callTool"

// ToolCall is a call of a plugin's tool that no model makes.
type ToolCall struct {
	ID        event.CallID `json:"callId"`           // new
	Plugin    string       `json:"plugin,omitempty"` // label of the plugin whose tool it is, whose namespace is not known; empty: Namespace says it
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	Input     string       `json:"input"` // a JSON object, or any text if Freeform
	Freeform  bool         `json:"freeform,omitempty"`
}

// ToolResult is the result of a [ToolCall], as a model would get it, with the pictures that are for the user only.
type ToolResult struct {
	Content    llm.Parts              `json:"content"`
	IsError    bool                   `json:"isError,omitempty"`
	Structured json.RawMessage        `json:"structured,omitempty"` // nil: none
	Artifacts  []contract.ArtifactRef `json:"artifacts,omitempty"`
}

// callParams call a tool. The call ends with the connection.
type callParams struct {
	OfThread
	ToolCall
}

// CallTool calls a tool in a turn of its own, after the running one, and returns its result when the turn has ended. To stop the call, close
// the connection.
func (c *Client) CallTool(ctx context.Context, t ToolCall) (r ToolResult, err error) {
	err = c.call(ctx, methodCallTool, callParams{c.target(), t}, &r)
	return r, err
}
