package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Calls assembles the tool calls of a response from their parts. A call is published when its input is complete and is JSON, or
// raw text for a freeform tool. The key is the vendor's identifier for a call: an index or an item ID.
type Calls struct {
	Life  *Lifecycle
	Names *Names // converts names on the wire; may be nil

	pending []*pendingCall // in order of their start
	ids     map[string]bool
	local   bool
}

type pendingCall struct {
	key   string
	call  llm.ToolCall
	input strings.Builder
	meta  Meta
}

// Start begins a call that the vendor announces with ID and name. call.Input is input that has already arrived. A call whose key
// is already in use is ignored; a call with an ID that was used before is dropped with all its input.
func (c *Calls) Start(dst []llm.Event, key string, call llm.ToolCall, meta Meta) []llm.Event {
	if c.Life.Finished() || c.find(key) != nil || c.ids[call.ID] {
		return dst
	}
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	c.ids[call.ID] = true
	call.Namespace, call.Name = c.Names.Real(call.Namespace, call.Name)
	p := &pendingCall{key: key, call: call, meta: meta}
	p.input.WriteString(call.Input)
	c.pending = append(c.pending, p)
	dst = c.Life.Start(dst)
	return append(dst, llm.BlockStart{
		Kind: llm.BlockToolInput, ID: call.ID, Name: call.Name, Namespace: call.Namespace, Freeform: call.Freeform,
		ProviderExecuted: call.ProviderExecuted,
	})
}

// Open reports whether there is an incomplete call at key.
func (c *Calls) Open(key string) bool { return c.find(key) != nil }

// Append adds input to an incomplete call. ok is false if there is none at key. Empty text emits nothing.
func (c *Calls) Append(dst []llm.Event, key, text string) (_ []llm.Event, ok bool) {
	p := c.find(key)
	if p == nil {
		return dst, false
	}
	if text == "" {
		return dst, true
	}
	p.input.WriteString(text)
	return append(dst, llm.BlockDelta{Kind: llm.BlockToolInput, ID: p.call.ID, Text: text}), true
}

// Settle sets the complete input of the call at key. If it extends the input so far, the rest is emitted as a delta; otherwise it
// replaces the input without an event.
func (c *Calls) Settle(dst []llm.Event, key, input string) []llm.Event {
	p := c.find(key)
	if p == nil {
		return dst
	}
	if rest, ok := strings.CutPrefix(input, p.input.String()); ok {
		dst, _ = c.Append(dst, key, rest)
		return dst
	}
	p.input.Reset()
	p.input.WriteString(input)
	return dst
}

// Finish ends and publishes the call at key. If the input of a client-side call is not valid JSON, the call is published as
// invalid, so that the model is notified; for a call that the vendor ran, it is an error. A key without a call is ignored.
func (c *Calls) Finish(dst []llm.Event, key string, meta Meta) ([]llm.Event, error) {
	i := slices.IndexFunc(c.pending, func(p *pendingCall) bool { return p.key == key })
	if i < 0 {
		return dst, nil
	}
	p := c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	for k, v := range meta {
		if p.meta == nil {
			p.meta = Meta{}
		}
		p.meta[k] = v
	}
	call := p.call
	call.Input = p.input.String()
	call.Metadata = p.meta.Under(c.Life.Namespace)
	if !call.Freeform {
		if strings.TrimSpace(call.Input) == "" {
			call.Input = "{}"
		}
		if !json.Valid([]byte(call.Input)) {
			if call.ProviderExecuted {
				return dst, Garbled(fmt.Sprintf("the input of the hosted tool call %s is not valid JSON", call.Name))
			}
			c.local = true // the model continues with the error, as after any call
			return append(dst, llm.ToolInputError{
				ID: call.ID, Name: call.Name, Namespace: call.Namespace, Raw: call.Input, Message: "the arguments are not valid JSON",
				Metadata: call.Metadata,
			}), nil
		}
	}
	c.local = c.local || !call.ProviderExecuted
	return append(dst,
		llm.BlockEnd{Kind: llm.BlockToolInput, ID: call.ID, Metadata: call.Metadata}, llm.ToolCallDone{Call: call}), nil
}

// FinishAll ends all incomplete calls in the order of their start.
func (c *Calls) FinishAll(dst []llm.Event) ([]llm.Event, error) {
	for len(c.pending) > 0 {
		var err error
		if dst, err = c.Finish(dst, c.pending[0].key, nil); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Whole publishes a call that arrived in one part, without input events. A call with an ID that was used before is dropped.
func (c *Calls) Whole(dst []llm.Event, call llm.ToolCall, meta Meta) []llm.Event {
	if c.Life.Finished() || c.ids[call.ID] {
		return dst
	}
	if c.ids == nil {
		c.ids = map[string]bool{}
	}
	c.ids[call.ID] = true
	call.Namespace, call.Name = c.Names.Real(call.Namespace, call.Name)
	if call.Input == "" && !call.Freeform {
		call.Input = "{}"
	}
	call.Metadata = meta.Under(c.Life.Namespace)
	c.local = c.local || !call.ProviderExecuted
	return append(c.Life.Start(dst), llm.ToolCallDone{Call: call})
}

// Discard discards the incomplete calls of a truncated response.
func (c *Calls) Discard() { c.pending = nil }

// Used reports whether a call with this ID was started.
func (c *Calls) Used(id string) bool { return c.ids[id] }

// Local reports whether the model made a call that the vendor does not run itself.
func (c *Calls) Local() bool { return c.local }

// Pending returns the keys of the incomplete calls in the order of their start.
func (c *Calls) Pending() []string {
	out := make([]string, len(c.pending))
	for i, p := range c.pending {
		out[i] = p.key
	}
	return out
}

func (c *Calls) find(key string) *pendingCall {
	for _, p := range c.pending {
		if p.key == key {
			return p
		}
	}
	return nil
}
