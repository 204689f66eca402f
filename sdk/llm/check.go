package llm

import "fmt"

// Checker verifies the order of the events of one answer:
//
//   - [StepStart] comes first, exactly once; only [Attempt] may precede it.
//   - A block has one start and one end, with deltas in between; its ID is not reused for another block of the same kind.
//   - [ToolInputError] discards a call: instead of the end of its input, or instead of its [ToolCallDone].
//   - [ToolCallDone] follows the end of the call's input, or has no input events if the vendor delivers complete calls.
//     Every input that has ended is published or discarded before the answer is over.
//   - [ToolResultDone] follows the call that it answers.
//   - [StepFinish] and [Finish] are the last two events, and all blocks are closed before them. Only the input of a call
//     that was cut off by the length limit or a content filter may still be open.
//   - [Alive] may occur at any point before the last event.
//   - [*Error] may occur at any point and is then the last event.
//
// The zero value is ready to use. A Checker is not safe for concurrent use. After the first violation, further ones are not
// reliable.
type Checker struct {
	attempt  int
	started  bool
	finish   bool // StepFinish was seen
	terminal string
	blocks   map[blockKey]blockState
	calls    map[string]bool
}

type blockKey struct {
	kind BlockKind
	id   string
}

type blockState int

const (
	blockOpen blockState = iota + 1
	blockEnded
	blockPublished // the call was published
	blockVoid      // the call was discarded
)

// Check processes the next event. A violation is an [*Error] with the code [ErrInvalidOutput].
func (c *Checker) Check(e Event) error {
	if c.terminal != "" {
		return invalid("emitted %s after the terminal event %s", EventName(e), c.terminal)
	}
	switch e := e.(type) {
	case *Error:
		c.terminal = EventName(e)
		return nil
	case Alive:
		return nil
	case Attempt:
		if c.started {
			return invalid("emitted %s after step-start", EventName(e))
		}
		if want := c.attempt + 1; e.N < 2 || c.attempt > 0 && e.N != want {
			return invalid("attempt has the number %d; attempts count up from 2", e.N)
		}
		c.attempt = e.N
		return nil
	case StepStart:
		if c.started {
			return invalid("emitted step-start twice")
		}
		c.started = true
		return nil
	}
	if !c.started {
		return invalid("emitted %s before step-start", EventName(e))
	}
	if _, ok := e.(Finish); ok {
		if !c.finish {
			return invalid("emitted finish without step-finish")
		}
		c.terminal = EventName(e)
		return nil
	}
	if c.finish {
		return invalid("emitted %s between step-finish and finish", EventName(e))
	}
	switch e := e.(type) {
	case BlockStart:
		return c.start(e)
	case BlockDelta:
		if c.blocks[blockKey{e.Kind, e.ID}] != blockOpen {
			return invalid("emitted %s for the block %q, which is not open", EventName(e), e.ID)
		}
		if e.Raw && e.Kind != BlockReasoning {
			return invalid("emitted %s with raw, which only reasoning has", EventName(e))
		}
		return nil
	case BlockEnd:
		k := blockKey{e.Kind, e.ID}
		if c.blocks[k] != blockOpen {
			return invalid("emitted %s for the block %q, which is not open", EventName(e), e.ID)
		}
		c.set(k, blockEnded)
		return nil
	case ToolInputError:
		k := blockKey{BlockToolInput, e.ID}
		if s := c.blocks[k]; s != blockOpen && s != blockEnded {
			return invalid("emitted %s for the call %q, which has no input", EventName(e), e.ID)
		}
		c.set(k, blockVoid)
		return nil
	case ToolCallDone:
		return c.call(e.Call)
	case ToolResultDone:
		if !c.calls[e.Result.ID] {
			return invalid("emitted %s for the call %q, which was not made", EventName(e), e.Result.ID)
		}
		return nil
	case StepFinish:
		return c.stepFinish(e)
	}
	return invalid("emitted an event of the unknown type %T", e)
}

// Done must be called when the stream has ended. If the stream had no terminal event, it returns an [*Error] with the code
// [ErrIncompleteStream], which is retryable.
func (c *Checker) Done() error {
	if c.terminal == "" {
		return &Error{Code: ErrIncompleteStream, Message: "the answer ended before it was complete", Retryable: true}
	}
	return nil
}

func (c *Checker) start(e BlockStart) error {
	switch e.Kind {
	case BlockText, BlockReasoning, BlockToolInput:
	default:
		return invalid("emitted the start of a block of unknown kind")
	}
	k := blockKey{e.Kind, e.ID}
	if c.blocks[k] != 0 {
		return invalid("emitted %s for the block %q a second time", EventName(e), e.ID)
	}
	if e.Kind == BlockToolInput {
		if e.ID == "" || e.Name == "" {
			return invalid("emitted %s without id or name", EventName(e))
		}
		if c.calls[e.ID] {
			return invalid("emitted %s for the call %q, which was published already", EventName(e), e.ID)
		}
	}
	c.set(k, blockOpen)
	return nil
}

func (c *Checker) call(call ToolCall) error {
	if call.ID == "" || call.Name == "" {
		return invalid("emitted tool-call without id or name")
	}
	if c.calls[call.ID] {
		return invalid("emitted tool-call %q a second time", call.ID)
	}
	k := blockKey{BlockToolInput, call.ID}
	switch c.blocks[k] {
	case blockOpen:
		return invalid("emitted tool-call %q before the end of its input", call.ID)
	case blockVoid:
		return invalid("emitted tool-call %q, which was discarded", call.ID)
	case blockEnded:
		c.set(k, blockPublished)
	}
	if c.calls == nil {
		c.calls = map[string]bool{}
	}
	c.calls[call.ID] = true
	return nil
}

func (c *Checker) stepFinish(e StepFinish) error {
	cut := e.Reason == FinishLength || e.Reason == FinishContentFilter
	for k, s := range c.blocks {
		switch {
		case s == blockOpen && !(cut && k.kind == BlockToolInput):
			return invalid("emitted step-finish while the block %q is open", k.id)
		case s == blockEnded && k.kind == BlockToolInput && !cut:
			return invalid("emitted step-finish although the input of the call %q ended without tool-call or tool-input-error", k.id)
		}
	}
	c.finish = true
	return nil
}

func (c *Checker) set(k blockKey, s blockState) {
	if c.blocks == nil {
		c.blocks = map[blockKey]blockState{}
	}
	c.blocks[k] = s
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: ErrInvalidOutput, Message: "the provider " + fmt.Sprintf(format, args...)}
}

// EventName returns the name of the kind of an event, for messages and logs: "text-start", "tool-call", "finish", ...
func EventName(e Event) string {
	switch e := e.(type) {
	case Attempt:
		return "attempt"
	case Alive:
		return "alive"
	case StepStart:
		return "step-start"
	case BlockStart:
		return e.Kind.String() + "-start"
	case BlockDelta:
		return e.Kind.String() + "-delta"
	case BlockEnd:
		return e.Kind.String() + "-end"
	case ToolInputError:
		return "tool-input-error"
	case ToolCallDone:
		return "tool-call"
	case ToolResultDone:
		return "tool-result"
	case StepFinish:
		return "step-finish"
	case Finish:
		return "finish"
	case *Error:
		return "error"
	}
	return "unknown"
}

var blockNames = [...]string{"unknown", "text", "reasoning", "tool-input"}

// String returns the name used in messages.
func (k BlockKind) String() string { return nameOf(blockNames[:], int(k)) }
