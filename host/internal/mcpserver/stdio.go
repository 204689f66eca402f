package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// maxMessage is the size in bytes of the largest message of a client on a stream, as it is over HTTP.
const maxMessage = 4 << 20

// Answers to lines that are no messages, and to those that are too large.
const (
	notAMessage = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not a JSON-RPC message: send one object in each line"}}`
	tooLarge    = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"the message is larger than 4 MiB: refer to large files by their paths"}}`
)

// Read implements [mcp.Connection].
func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	for {
		answer := notAMessage
		line, err := c.stream.Read()
		if err == nil {
			var m jsonrpc.Message
			if m, err = jsonrpc.DecodeMessage(line); err == nil {
				return m, nil
			}
		} else if e, ok := errors.AsType[*rpc.TooLargeError](err); ok {
			id := rpc.Member(e.Head, "id") // if it precedes what makes the message large
			if _, err := jsonrpc.MakeID(decoded(id)); err != nil || id == nil {
				id = []byte("null")
			}
			answer = fmt.Sprintf(tooLarge, id)
		} else {
			return nil, err
		}
		if err := c.write([]byte(answer)); err != nil {
			return nil, err
		}
	}
}

// decoded returns the value of JSON; nil: it has none.
func decoded(raw json.RawMessage) (v any) {
	_ = json.Unmarshal(raw, &v) // then v is nil
	return v
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
