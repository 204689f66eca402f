package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Answer is a step's response to a request.
type Answer struct {
	Step     string   // its name, for logs
	Actions  []Action // in order
	Position Position // the thread's position afterwards
	Whole    bool     // it ends with a finish, which contains Position; otherwise only the caller remembers it
}

// Action is an [Emit], [Wait] or [Halt]. A Halt is the last one.
type Action interface{ isAction() }

// Emit sends an event.
type Emit struct{ Event llm.Event }

// Wait waits, unless the request is cancelled first.
type Wait struct{ For time.Duration }

// Halt does not return: How is "eof" (end the stream silently), "hang", "exit" with Code, "kill" or "panic".
type Halt struct {
	How  string
	Code int
}

func (Emit) isAction() {}
func (Wait) isAction() {}
func (Halt) isAction() {}

// MaxAnswerBytes limits the text of a response, and maxPieces approximately its events: a template with large values must not
// exhaust memory.
const (
	MaxAnswerBytes = 16 << 20
	maxPieces      = 1 << 20
)

var errTooLong = fmt.Errorf("the answer is longer than %d bytes or %d events; chunk larger", MaxAnswerBytes, maxPieces)

// timed is an event and the delay before it.
type timed struct {
	wait  time.Duration
	event llm.Event
}

// composer builds the events of a response.
type composer struct {
	p      *Player
	s      *step
	in     Input
	vars   map[string]string
	next   Position
	calls  int
	texts  int
	bytes  int
	pieces int
	carry  time.Duration // of pauses, for the next event
	first  bool          // no block contains the position yet
}

func (p *Player) answer(s *step, in Input, vars map[string]string, next Position) (*Answer, error) {
	c := &composer{p: p, s: s, in: in, vars: vars, next: next, first: true}
	c.carry = s.Delay.Duration()
	failure, err := c.failure()
	if err != nil {
		return nil, err
	}
	events, refused := c.attempts()
	if refused {
		if failure == nil {
			failure = failureOf(llm.ErrProviderInternal)
		}
		return c.finished(append(events, c.at(failure)), nil), nil
	}
	if failure != nil && len(s.parts) == 0 && s.Break == nil {
		return c.finished(append(events, c.at(failure)), nil), nil // rejected before a response began
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	events = append(events, body...)
	if failure != nil {
		events = append(events, c.at(failure))
	} else {
		events = append(events, c.end()...)
	}
	events, halt := s.distort(events)
	if s.Break != nil {
		events, halt = s.Break.strike(events)
	}
	return c.finished(events, halt), nil
}

func (c *composer) finished(events []timed, halt []Action) *Answer {
	a := &Answer{Step: c.s.label(), Position: c.next}
	for _, e := range events {
		if e.wait > 0 {
			a.Actions = append(a.Actions, Wait{For: e.wait})
		}
		a.Actions = append(a.Actions, Emit{Event: e.event})
		_, a.Whole = e.event.(llm.Finish)
	}
	a.Whole = a.Whole && halt == nil
	a.Actions = append(a.Actions, halt...)
	return a
}

// at adds the accumulated pauses before an event.
func (c *composer) at(e llm.Event) timed {
	t := timed{wait: c.carry, event: e}
	c.carry = 0
	return t
}

func (c *composer) failure() (*llm.Error, error) {
	if c.s.failure == nil {
		return nil, nil
	}
	e := *c.s.failure
	if c.s.message != nil {
		var err error
		if e.Message, err = c.s.message.fill(c.vars); err != nil {
			return nil, fmt.Errorf("error: message: %w", err)
		}
	}
	return &e, nil
}

// attempts returns the announced attempts, and whether none is left.
func (c *composer) attempts() (events []timed, refused bool) {
	a := c.s.Attempts
	if a == nil {
		return nil, false
	}
	most := c.in.MaxAttempts
	if most <= 0 {
		most = DefaultMaxAttempts
	}
	reason := a.Reason
	if reason == "" {
		reason = "HTTP 500"
	}
	failures := min(a.Failures, most)
	for n := 1; n <= failures && n < most; n++ {
		events = append(events, c.at(llm.Attempt{N: n + 1, DelayMS: a.Delay.Duration().Milliseconds(), Reason: reason}))
		c.carry += a.Delay.Duration()
	}
	return events, failures == most
}

func (c *composer) body() ([]timed, error) {
	events := []timed{c.at(llm.StepStart{ResponseID: "response-" + strconv.Itoa(c.next.Request)})}
	for i := range c.s.parts {
		p := &c.s.parts[i]
		make := c.text
		if p.Call != "" {
			make = c.call
		}
		block, err := make(p)
		if err != nil {
			return nil, fmt.Errorf("do %d: %w", i+1, err)
		}
		events = append(events, block...)
	}
	return events, nil
}

func (c *composer) text(p *part) ([]timed, error) {
	kind, id := llm.BlockText, "text-"
	if p.Reasoning != nil {
		kind, id = llm.BlockReasoning, "reasoning-"
	}
	c.texts++
	id += strconv.Itoa(c.texts)
	if p.ID != "" {
		var err error
		if id, err = p.id.fill(c.vars); err != nil {
			return nil, err
		}
	}
	s, err := p.text.fill(c.vars)
	if err != nil {
		return nil, err
	}
	block := []timed{c.at(llm.BlockStart{Kind: kind, ID: id, Metadata: c.metadata()})}
	if block, err = c.deltas(block, p, kind, id, s); err != nil {
		return nil, err
	}
	return append(block, c.at(llm.BlockEnd{Kind: kind, ID: id})), nil
}

func (c *composer) call(p *part) ([]timed, error) {
	c.calls++
	id := fmt.Sprintf("call-%d-%d", c.next.Request, c.calls)
	var err error
	if p.ID != "" {
		if id, err = p.id.fill(c.vars); err != nil {
			return nil, err
		}
	}
	name, err := p.call.fill(c.vars)
	if err != nil {
		return nil, err
	}
	input, err := p.text.fill(c.vars)
	if err != nil {
		return nil, err
	}
	freeform, hosted := p.Freeform != nil, p.Result != nil
	switch {
	case p.args != nil:
		if input, err = p.args.fill(c.vars); err != nil {
			return nil, err
		}
	case !freeform && input == "":
		input = "{}" // as a provider does for a call without arguments
	}
	const kind = llm.BlockToolInput
	meta := c.metadata()
	block := []timed{c.at(llm.BlockStart{Kind: kind, ID: id, Name: name, Namespace: p.Namespace, Freeform: freeform, ProviderExecuted: hosted, Metadata: meta})}
	if block, err = c.deltas(block, p, kind, id, input); err != nil {
		return nil, err
	}
	if !freeform && !json.Valid([]byte(input)) {
		return append(block, c.at(llm.ToolInputError{ID: id, Name: name, Namespace: p.Namespace, Raw: input, Message: "the arguments are not valid JSON"})), nil
	}
	block = append(block, c.at(llm.BlockEnd{Kind: kind, ID: id}),
		c.at(llm.ToolCallDone{Call: llm.ToolCall{ID: id, Name: name, Namespace: p.Namespace, Input: input, Freeform: freeform, ProviderExecuted: hosted, Metadata: meta}}))
	if hosted {
		reply, err := p.reply.fill(c.vars)
		if err != nil {
			return nil, err
		}
		block = append(block, c.at(llm.ToolResultDone{Result: llm.ToolResult{ID: id, Name: name, Namespace: p.Namespace, Content: llm.Parts{&llm.Text{Text: reply}}, ProviderExecuted: true}}))
	}
	return block, nil
}

func (c *composer) deltas(block []timed, p *part, kind llm.BlockKind, id, s string) ([]timed, error) {
	chunk := p.Chunk
	if chunk == nil {
		chunk = c.s.Chunk
	}
	if chunk == nil {
		chunk = c.p.script.Defaults.Chunk
	}
	pause := c.p.script.Defaults.ChunkDelay
	if c.s.ChunkDelay != nil {
		pause = *c.s.ChunkDelay
	}
	pieces := chunk.cut(s)
	c.bytes += len(s)
	c.pieces += 4 + len(pieces) // a call has three more events, and one with the result
	if c.bytes > MaxAnswerBytes || c.pieces > maxPieces {
		return nil, errTooLong
	}
	for _, piece := range pieces {
		c.carry += pause.Duration()
		block = append(block, c.at(llm.BlockDelta{Kind: kind, ID: id, Text: piece}))
	}
	return block, nil
}

// metadata returns the position for the first block of a response: if the response breaks off, what was stored of it still
// contains the thread's position.
func (c *composer) metadata() llm.Metadata {
	if !c.first {
		return nil
	}
	c.first = false
	return c.next.metadata()
}

func (c *composer) end() []timed {
	u := c.s.Usage
	if u == nil {
		u = c.p.script.Defaults.Usage
	}
	usage := u.tokens(c.in.Request, c.bytes)
	return []timed{
		c.at(llm.StepFinish{Reason: c.s.finish, RawReason: c.s.finish.String(), Usage: usage, Again: c.s.Again}),
		{event: llm.Finish{Reason: c.s.finish, Usage: usage, Metadata: c.next.metadata()}},
	}
}
