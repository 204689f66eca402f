package protocol

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Invalid is the error of a request that can't be sent as it is. next is what to do about it, and may be empty.
func Invalid(next, format string, args ...any) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidRequest, Message: fmt.Sprintf(format, args...), Next: next}
}

// Incomplete is the error of a stream that ended too early.
func Incomplete() *llm.Error {
	return &llm.Error{
		Code: llm.ErrIncompleteStream, Retryable: true, Message: "the stream ended before the answer was complete",
	}
}

// Garbled is the error of a frame that the format does not allow.
func Garbled(message string) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidOutput, Message: message}
}
