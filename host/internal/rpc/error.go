package rpc

import (
	"errors"
	"fmt"
)

// Codes of errors: those of JSON-RPC 2.0, and codex's for a server that is overloaded.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	Internal       = -32603
	Overloaded     = -32001
)

// Error is the error of a response.
type Error struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // received data is a json.RawMessage
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf returns an error with a code and a message.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Reasons for which [Conn.Serve] closes a connection.
var (
	ErrGarbage = errors.New("the client keeps sending what is not JSON-RPC")
	ErrStalled = errors.New("the client does not read what is sent to it")
)

// ErrClosed is returned by the methods of a connection that has ended, and is the cause of its handlers' ctx.
var ErrClosed = errors.New("connection closed")

// TooLargeError is a message that exceeds the limit. It was skipped.
type TooLargeError struct {
	Limit int
	Head  []byte // the first bytes of the message
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message exceeds %d bytes", e.Limit)
}
