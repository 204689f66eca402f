package protocol

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Invalid returns the error for a request that cannot be sent. next is the next step and may be empty.
func Invalid(next, format string, args ...any) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidRequest, Message: fmt.Sprintf(format, args...), Next: next}
}

// Incomplete returns the error for a stream that ended too early.
func Incomplete() *llm.Error {
	return &llm.Error{
		Code: llm.ErrIncompleteStream, Retryable: true, Message: "the stream ended before the answer was complete",
	}
}

// Garbled returns the error for a frame that violates the format.
func Garbled(message string) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidOutput, Message: message}
}
