package mcpserver

import (
	"context"
	"errors"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdio is a stream as a transport of the SDK. The SDK's own ends the connection at a line that is no message.
type stdio struct{ stream rpc.Stream }

// Connect implements [mcp.Transport].
func (t stdio) Connect(context.Context) (mcp.Connection, error) {
	return &connection{stream: t.stream}, nil
}

// connection is the connection of a client.
type connection struct {
	stream  rpc.Stream
	writing sync.Mutex
}

// notAMessage is the answer to a line that is no message: nothing tells which request it was.
const notAMessage = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON-RPC message of at most 4 MiB: send one object in each line"}}`

// Read implements [mcp.Connection].
func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := c.stream.Read()
		if err == nil {
			var m jsonrpc.Message
			if m, err = jsonrpc.DecodeMessage(line); err == nil {
				return m, nil
			}
		} else if _, tooLarge := errors.AsType[*rpc.TooLargeError](err); !tooLarge {
			return nil, err
		}
		if err := c.write([]byte(notAMessage)); err != nil {
			return nil, err
		}
	}
}

// Write implements [mcp.Connection].
func (c *connection) Write(_ context.Context, m jsonrpc.Message) error {
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.write(raw)
}

func (c *connection) write(raw []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.stream.Write(raw); err != nil {
		return err
	}
	if kept, ok := c.stream.(interface{ Flush() error }); ok {
		return kept.Flush()
	}
	return nil
}

// Close implements [mcp.Connection].
func (c *connection) Close() error { return c.stream.Close() }

// SessionID implements [mcp.Connection].
func (c *connection) SessionID() string { return "" }
