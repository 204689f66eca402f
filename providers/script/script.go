// Package script implements scripted models: a file that defines, step by step, the responses of a simulated model, and the player
// that converts a request to a response.
//
// It owns the format and its errors, the choice of the step that responds to a request, captures, the events of a response
// including the size of each delta, and the position of a thread in its script. It does not know files, clocks, gRPC, or who plays
// the response: waiting, dying and sending are [Action]s that the caller performs.
//
// Start with [Load] and [Player.Play]; FORMAT.md in this folder is the manual of the format.
package script

import (
	"encoding/json"
	"time"
)

// Script is a whole script.
type Script struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Defaults    Defaults `json:"defaults,omitzero"`
	Steps       []Step   `json:"step,omitempty"`
}

// Defaults apply to all steps that do not override them.
type Defaults struct {
	Chunk      *Chunk `json:"chunk,omitempty"` // nil: a block's text is a single delta
	ChunkDelay Millis `json:"chunk_delay_ms,omitempty"`
	Usage      *Usage `json:"usage,omitempty"` // nil: an estimate from the number of bytes
	Times      *int   `json:"times,omitempty"`
}

// Step responds to one request, or to several if Times is set.
type Step struct {
	Name    string     `json:"name,omitempty"`
	When    *Condition `json:"when,omitempty"`    // nil: always
	Times   *int       `json:"times,omitempty"`   // how often it may be played; nil: once, -1: unlimited
	Expect  []Expect   `json:"expect,omitempty"`  // conditions for the request; if one does not hold, the response is an error
	Capture []Capture  `json:"capture,omitempty"` // variables to take from the conversation

	Delay      Millis  `json:"delay_ms,omitempty"` // before the first event
	Chunk      *Chunk  `json:"chunk,omitempty"`
	ChunkDelay *Millis `json:"chunk_delay_ms,omitempty"` // between two deltas

	Attempts *Attempts `json:"attempts,omitempty"` // attempts that fail before a response
	Do       []Part    `json:"do,omitempty"`       // the response, in order

	Finish    string   `json:"finish,omitempty"` // a finish reason; empty: "tool-calls" if there are calls, otherwise "stop"
	Again     bool     `json:"again,omitempty"`  // the model wants to continue although it made no call
	Usage     *Usage   `json:"usage,omitempty"`
	Error     *Failure `json:"error,omitempty"`     // ends the response with an error instead of a finish
	Break     *Break   `json:"break,omitempty"`     // replaces the rest of the response
	Malformed string   `json:"malformed,omitempty"` // a name in [Malformations]: how the events violate the rules
}

// Part is a part of a response. Exactly one of Text, Reasoning and Call is set.
type Part struct {
	Text      *string `json:"text,omitempty"`
	Reasoning *string `json:"reasoning,omitempty"`
	Call      string  `json:"call,omitempty"` // a tool's name, offered or not

	Namespace string          `json:"namespace,omitempty"`
	ID        string          `json:"id,omitempty"`       // of the block and call; empty: generated
	Args      json.RawMessage `json:"args,omitempty"`     // of a call: a JSON object whose strings are templates
	Raw       *string         `json:"raw,omitempty"`      // of a call: the literal argument text, valid JSON or not
	Freeform  *string         `json:"freeform,omitempty"` // of a call: text for a freeform tool
	Result    *string         `json:"result,omitempty"`   // the result of a call that the vendor ran
	Chunk     *Chunk          `json:"chunk,omitempty"`
}

// Capture takes text from the conversation: the named groups of Pattern become variables.
type Capture struct {
	// From is "output" (default: the tool results since the last response) or "conversation" (everything).
	From     string `json:"from,omitempty"`
	Call     string `json:"call,omitempty"` // only the last result of this call ID or tool name
	Pattern  string `json:"pattern"`
	Optional bool   `json:"optional,omitempty"` // without a match, the variables are unchanged
}

// Attempts fail before the vendor accepts the request.
type Attempts struct {
	Failures int    `json:"failures"` // if no attempt is left, the response is the step's error (default: provider-internal)
	Delay    Millis `json:"delay_ms,omitempty"`
	Reason   string `json:"reason,omitempty"` // default "HTTP 500"
}

// Failure is an error with one of our codes.
type Failure struct {
	Code       string `json:"code"`
	Message    string `json:"message,omitempty"`
	Retryable  *bool  `json:"retryable,omitempty"` // nil: the default of the code
	RetryAfter Millis `json:"retry_after_ms,omitempty"`
	Status     int    `json:"status,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	Next       string `json:"next,omitempty"`
}

// Break replaces the rest of a response. It occurs after a number of bytes of text, or by default at the end, instead of the
// finish.
type Break struct {
	AfterBytes *int   `json:"after_bytes,omitempty"` // counts the text of deltas; a delta may be split
	How        string `json:"how,omitempty"`         // a name in [Breaks]; default "incomplete"
	Code       int    `json:"code,omitempty"`        // exit status, for "exit"
	Delay      Millis `json:"delay_ms,omitempty"`    // before the break, so that sent data has left the process
}

// breakNames are the kinds of breaks.
var breakNames = []string{
	"incomplete", // an error for a stream that ended early, which may be retried
	"eof",        // the stream ends silently, which the contract forbids
	"hang",       // nothing more is sent until the request is cancelled
	"exit",       // the provider's process exits
	"kill",       // it is killed
	"panic",      // the handler panics
}

// Breaks returns the valid values of [Break].How.
func Breaks() []string { return append([]string(nil), breakNames...) }

// Millis is a time in milliseconds, which may have a fraction.
type Millis float64

// Duration returns m as a duration.
func (m Millis) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}
