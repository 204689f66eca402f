// Package transport carries messages between gantry and an MCP server, over the pipes of a process or over HTTP.
//
// It owns: what is accepted from a server as a message, the size of messages, the raw form of results, the headers and statuses of HTTP.
// It must not know: what messages mean, when a server is started or ended, where its settings come from.
//
// Start with [Stdio] and [HTTP]; both give the SDK for MCP a transport. [Raw] returns a result as the server wrote it.
package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxFrame is the size of the largest message that is accepted, in bytes.
const MaxFrame = 16 << 20

// CodeTooLarge is the code of the error that a call gets if its answer is larger than [MaxFrame].
const CodeTooLarge = -32001

// tooLarge is the answer to a call whose real one is too large.
func tooLarge(id jsonrpc.ID) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: CodeTooLarge, Message: fmt.Sprintf("the server's answer is too large: the maximum is %d bytes; ask for less at once", MaxFrame),
	}}
}

// ServerError returns the error with which a server has answered a request. The SDK gives the same type to what keeps a request from being
// sent or answered, which is something else.
func ServerError(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && !(e.Code == codeRejected && e.Message == "rejected by transport")
}

// codeRejected is the code of the SDK for what a transport refuses.
const codeRejected = -32005

// rawKey is the member of a captured result's _meta.
const rawKey = "gantry/raw"

// captured are the members by which results are recognized that are kept as they came. The SDK would sort their keys, drop members that
// it does not know, and refuse a whole result because of one element.
var captured = []string{"content", "structuredContent", "tools", "resources", "resourceTemplates", "contents", "prompts", "messages"}

// capture replaces a result by one that the SDK decodes in any case, and that contains the original as a string.
func capture(result json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil {
		return result
	}
	out := map[string]any{}
	for _, name := range captured {
		if _, ok := members[name]; ok {
			out[name] = []any{}
		}
	}
	if len(out) == 0 {
		return result
	}
	out["_meta"] = map[string]string{rawKey: string(result)}
	if t, ok := members["resultType"]; ok {
		out["resultType"] = t
	}
	b, err := encode(out)
	if err != nil {
		return result
	}
	return b
}

// encode is json.Marshal without the escapes for HTML, each of which would be five bytes longer than the character.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// captureMessage is capture for a message.
func captureMessage(message []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(message, &members) != nil || members["method"] != nil || members["result"] == nil {
		return message
	}
	result := capture(members["result"])
	if string(result) == string(members["result"]) {
		return message
	}
	members["result"] = result
	b, err := encode(members)
	if err != nil {
		return message
	}
	return b
}

// Raw returns a result as the server wrote it, from the _meta of the decoded result.
func Raw(meta mcp.Meta) (json.RawMessage, bool) {
	s, ok := meta[rawKey].(string)
	return json.RawMessage(s), ok
}
