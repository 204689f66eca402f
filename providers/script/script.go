// Package script is the format of scripted models: a file that says, step by step, what a pretend model answers, and the
// player that turns a request into that answer.
//
// It owns: the format and its errors, the choice of the step that answers a request, captures, the events of an answer
// down to the size of each delta, and the position of a thread in its script. It must not know: files, clocks, gRPC, or
// who plays the answer: waiting, dying and sending are [Action]s that somebody else performs.
//
// Start with [Load] and [Player.Play]; FORMAT.md beside this file is the manual of the format.
package script

import (
	"encoding/json"
	"time"
)

// Script is a whole script as written.
type Script struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Defaults    Defaults `json:"defaults,omitzero"`
	Steps       []Step   `json:"step,omitempty"`
}

// Defaults apply to each step that does not say otherwise.
type Defaults struct {
	Chunk      *Chunk `json:"chunk,omitempty"` // nil: a block's text is one delta
	ChunkDelay Millis `json:"chunk_delay_ms,omitempty"`
	Usage      *Usage `json:"usage,omitempty"` // nil: an estimate from the number of bytes
	Times      *int   `json:"times,omitempty"`
}

// Step answers one request, or several when Times says so.
type Step struct {
	Name    string     `json:"name,omitempty"`
	When    *Condition `json:"when,omitempty"`    // nil: always
	Times   *int       `json:"times,omitempty"`   // how often it may be played; nil: once, -1: without end
	Expect  []Expect   `json:"expect,omitempty"`  // what must be true of the request, or the answer is an error
	Capture []Capture  `json:"capture,omitempty"` // what is taken from the conversation into variables

	Delay      Millis  `json:"delay_ms,omitempty"` // before the first event
	Chunk      *Chunk  `json:"chunk,omitempty"`
	ChunkDelay *Millis `json:"chunk_delay_ms,omitempty"` // between two deltas

	Attempts *Attempts `json:"attempts,omitempty"` // tries that fail before anything is answered
	Do       []Part    `json:"do,omitempty"`       // what is answered, in order

	Finish    string   `json:"finish,omitempty"` // a finish reason; empty: "tool-calls" if there are calls, else "stop"
	Again     bool     `json:"again,omitempty"`  // the model wants to go on although it called nothing
	Usage     *Usage   `json:"usage,omitempty"`
	Error     *Failure `json:"error,omitempty"`     // ends the answer with an error instead of a finish
	Break     *Break   `json:"break,omitempty"`     // what happens instead of the rest of the answer
	Malformed string   `json:"malformed,omitempty"` // a name of [Malformations]: how the events break the rules
}

// Part is one thing that a step answers. Exactly one of Text, Reasoning and Call is set.
type Part struct {
	Text      *string `json:"text,omitempty"`
	Reasoning *string `json:"reasoning,omitempty"`
	Call      string  `json:"call,omitempty"` // a tool's name; offered or not

	Namespace string          `json:"namespace,omitempty"`
	ID        string          `json:"id,omitempty"`       // of the block and call; empty: made up
	Args      json.RawMessage `json:"args,omitempty"`     // of a call: a JSON object; its strings are templates
	Raw       *string         `json:"raw,omitempty"`      // of a call: the argument text as it is, JSON or not
	Freeform  *string         `json:"freeform,omitempty"` // of a call: raw text for a freeform tool
	Result    *string         `json:"result,omitempty"`   // the vendor ran the call, and this came out
	Chunk     *Chunk          `json:"chunk,omitempty"`
}

// Capture takes text out of the conversation: the named groups of Pattern become variables.
type Capture struct {
	// From is "output" (default: the tool results since the last answer) or "conversation" (all of it).
	From     string `json:"from,omitempty"`
	Call     string `json:"call,omitempty"` // only the latest result of this call id or tool name, however old
	Pattern  string `json:"pattern"`
	Optional bool   `json:"optional,omitempty"` // no match leaves the variables as they were
}

// Attempts are tries that fail before the vendor has accepted anything.
type Attempts struct {
	Failures int    `json:"failures"` // when no try is left, the step's error (default: provider-internal) is the answer
	Delay    Millis `json:"delay_ms,omitempty"`
	Reason   string `json:"reason,omitempty"` // default "HTTP 500"
}

// Failure is an error of the taxonomy.
type Failure struct {
	Code       string `json:"code"`
	Message    string `json:"message,omitempty"`
	Retryable  *bool  `json:"retryable,omitempty"` // nil: as the taxonomy has it
	RetryAfter Millis `json:"retry_after_ms,omitempty"`
	Status     int    `json:"status,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	Next       string `json:"next,omitempty"`
}

// Break replaces the rest of an answer. It strikes after a number of bytes of text; without one at the end, instead of the
// finish.
type Break struct {
	AfterBytes *int   `json:"after_bytes,omitempty"` // counts the text of deltas; a delta may be cut in two
	How        string `json:"how,omitempty"`         // a name of [Breaks]; default "incomplete"
	Code       int    `json:"code,omitempty"`        // exit status, for "exit"
	Delay      Millis `json:"delay_ms,omitempty"`    // before it strikes, so that what was sent has left the process
}

// breakNames are the ways an answer can break.
var breakNames = []string{
	"incomplete", // an error that says the stream ended early; may be asked again
	"eof",        // the stream just ends, which the contract forbids
	"hang",       // nothing more comes until the request is cancelled
	"exit",       // the provider's process exits
	"kill",       // it kills itself
	"panic",      // the handler panics
}

// Breaks returns the names that [Break].How takes.
func Breaks() []string { return append([]string(nil), breakNames...) }

// Millis is a time in milliseconds; fractions are fine.
type Millis float64

// Duration returns m as a duration.
func (m Millis) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}
