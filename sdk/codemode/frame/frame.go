// Package frame is the protocol between a process that runs a script and its owner: JSON in frames, over standard input and output.
//
// It owns: the messages, their encoding and its bounds. It must not know: an engine, or how the owner answers calls.
//
// Start with [ToChild], which says in what order the owner sends its messages; [FromChild] lists what comes back.
package frame

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// MaxBytes is the maximum size of a message.
const MaxBytes = 16 << 20

// Grace is the time between the end of a limit, when the script is interrupted, and the end of its process.
const Grace = 500 * time.Millisecond

// Form says how code is run.
type Form string

// The forms.
const (
	Function Form = "function" // brought into the form of an async function, whose result is the result
	Module   Form = "module"   // run as an async module, which has no result
)

// ToChild is a message to the child: exactly one field is set. The first message is Limits, the second one Start; each is sent once.
// There may be any time between the two: the child locks itself after the first one, and waits for the script.
type ToChild struct {
	Limits *Limits `json:"limits,omitempty"`
	Start  *Start  `json:"start,omitempty"`
	Reply  *Reply  `json:"reply,omitempty"`
}

// Limits are the limits of a script.
type Limits struct {
	Memory int64 `json:"memory"` // bytes
	// CPUMillis limits processor time, which stands still while the script waits. WallMillis limits all time.
	CPUMillis  int64 `json:"cpu_ms"`
	WallMillis int64 `json:"wall_ms"`
}

// Start is a script.
type Start struct {
	Code       string      `json:"code"`
	Form       Form        `json:"form"`
	Namespaces []Namespace `json:"namespaces,omitempty"`
}

// Namespace is a global object whose methods call the owner.
type Namespace struct {
	Name string `json:"name"`
	// Prelude is JavaScript that runs before the code, as the body of a function with one parameter, host: host.call(name, ...args)
	// calls the owner, host.emit(kind, value) sends it a value, host.exit() ends the script successfully, and host.encode(value)
	// returns the value's JSON. Properties that it assigns to the namespace take the place of the owner's functions.
	Prelude string `json:"prelude,omitempty"`
}

// Reply answers a call.
type Reply struct {
	ID    uint64          `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // absent: undefined
	Error *string         `json:"error,omitempty"` // the promise is rejected with an Error of this message
}

// FromChild is a message from the child: exactly one field is set. Done is the last message.
type FromChild struct {
	Call *Call   `json:"call,omitempty"`
	Emit *Emit   `json:"emit,omitempty"`
	Log  *string `json:"log,omitempty"` // a line that the script has written to the console
	Done *Done   `json:"done,omitempty"`
}

// Call is a call of a function of the owner.
type Call struct {
	ID        uint64            `json:"id"`
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Args      []json.RawMessage `json:"args,omitempty"`
}

// Emit is a value that a prelude has sent with host.emit.
type Emit struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value,omitempty"` // absent: undefined
}

// Done is the end of a script.
type Done struct {
	Value json.RawMessage `json:"value,omitempty"` // absent: undefined
	Error *Error          `json:"error,omitempty"`
}

// Cause is why a script has failed.
type Cause string

// The causes.
const (
	Thrown  Cause = "thrown"  // by the code, or because it can't be parsed
	Timeout Cause = "timeout" // one of the two limits of time
	Memory  Cause = "memory"  // the limit of memory
	Locked  Cause = "locked"  // the child could not lock itself, and has not run the code

	Cancelled Cause = "cancelled" // by the owner
	Crashed   Cause = "crashed"   // the child could not be started, or has ended without a result
)

// Error is why a script has failed.
type Error struct {
	Message string `json:"message"`         // never empty
	Stack   string `json:"stack,omitempty"` // begins with a line that contains the message
	Cause   Cause  `json:"cause"`
}

// SizeError is a message that is larger than MaxBytes.
type SizeError struct{ Bytes int }

// Error implements error.
func (e *SizeError) Error() string {
	return fmt.Sprintf("a message of %d bytes exceeds the maximum of %d", e.Bytes, MaxBytes)
}

// Encode returns the frame of a message: its length in four bytes, big-endian, and its JSON.
func Encode(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if len(text) > MaxBytes {
		return nil, &SizeError{len(text)}
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...), nil
}

// Read reads a message. The error is io.EOF if there is none.
func Read[T any](r io.Reader) (message T, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > MaxBytes {
		return message, &SizeError{n}
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n))) // grows with what arrives
	if err == nil && len(text) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return message, err
	}
	if err := json.Unmarshal(text, &message); err != nil {
		return message, fmt.Errorf("decode a message: %w", err)
	}
	return message, nil
}
