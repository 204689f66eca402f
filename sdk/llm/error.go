package llm

import (
	"strings"
	"time"
)

// ErrorCode is an error category. The list is complete.
type ErrorCode int

// The codes.
const (
	ErrUnknown ErrorCode = iota
	ErrInvalidRequest
	ErrContextOverflow
	ErrPayloadTooLarge
	ErrNoRoute
	ErrAuthentication
	ErrRateLimit
	ErrQuotaExceeded
	ErrContentPolicy
	ErrProviderInternal
	ErrTransport
	ErrInvalidOutput
	ErrIncompleteStream
	ErrOverloaded
)

var errorNames = [...]string{
	"unknown", "invalid-request", "context-overflow", "payload-too-large", "no-route", "authentication", "rate-limit",
	"quota-exceeded", "content-policy", "provider-internal", "transport", "invalid-output", "incomplete-stream", "overloaded",
}

// String returns the name used in JSON.
func (c ErrorCode) String() string { return nameOf(errorNames[:], int(c)) }

// MarshalText implements [encoding.TextMarshaler].
func (c ErrorCode) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *ErrorCode) UnmarshalText(b []byte) error {
	i, err := indexOf(errorNames[:], string(b), "error code")
	*c = ErrorCode(i)
	return err
}

// Error is the event that ends a failed stream. It is also an error.
type Error struct {
	Code       ErrorCode     `json:"code"`
	Message    string        `json:"message"`             // for people, secrets redacted
	Retryable  bool          `json:"retryable,omitempty"` // whether the turn loop may retry
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	Status     int           `json:"status,omitempty"` // HTTP status; 0: none
	RequestID  string        `json:"requestId,omitempty"`
	Next       string        `json:"next,omitempty"`    // what the user should do
	Offline    bool          `json:"offline,omitempty"` // no connection was established, so nothing was sent
}

// Error implements error.
func (e *Error) Error() string {
	if e.Message == "" {
		return strings.ReplaceAll(e.Code.String(), "-", " ")
	}
	return e.Message
}
