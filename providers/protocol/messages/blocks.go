package messages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// blockKind is the kind of an open block in a stream.
type blockKind int

const (
	kindOther blockKind = iota // ignored
	kindText
	kindThinking
	kindCall
)

type openBlock struct {
	index     int
	kind      blockKind
	id        string // of text and thinking
	key       string // of a call
	whole     string // input in the start event, for a call without deltas
	input     []byte // input from deltas
	signature string
	citations []json.RawMessage
}

// deltaFrame is a content_block_delta.
type deltaFrame struct {
	Index int `json:"index"`
	Delta struct {
		Type        string          `json:"type"`
		Text        string          `json:"text"`
		Thinking    string          `json:"thinking"`
		PartialJSON string          `json:"partial_json"`
		Signature   string          `json:"signature"`
		Citation    json.RawMessage `json:"citation"`
	} `json:"delta"`
}

func (d *decoder) blockDelta(dst []llm.Event, in protocol.Frame) ([]llm.Event, error) {
	f := &d.delta
	*f = deltaFrame{}
	if err := read(in, f); err != nil {
		return dst, err
	}
	b := d.find(f.Index)
	switch f.Delta.Type {
	case "text_delta":
		return d.text(dst, b, kindText, llm.BlockText, f.Delta.Text)
	case "thinking_delta":
		return d.text(dst, b, kindThinking, llm.BlockReasoning, f.Delta.Thinking)
	case "input_json_delta":
		if b == nil || b.kind != kindCall {
			return dst, nil
		}
		b.input = append(b.input, f.Delta.PartialJSON...)
		dst, _ = d.calls.Append(dst, b.key, f.Delta.PartialJSON)
	case "signature_delta":
		if b != nil && b.kind == kindThinking {
			b.signature = f.Delta.Signature
		}
	case "citations_delta":
		if b != nil && b.kind == kindText && len(f.Delta.Citation) > 0 {
			b.citations = append(b.citations, f.Delta.Citation)
		}
	}
	return dst, nil
}

// text handles a delta of text or thinking. If the block has not started, it starts it.
func (d *decoder) text(dst []llm.Event, b *openBlock, kind blockKind, as llm.BlockKind, text string) ([]llm.Event, error) {
	if b == nil {
		b = d.add(d.delta.Index, kind)
		b.id = blockID(as, b.index)
	}
	if b.kind != kind {
		return dst, protocol.Garbled(fmt.Sprintf("a %s came for the block %d, which is of another kind", d.delta.Delta.Type, b.index))
	}
	return d.life.Delta(dst, as, b.id, text), nil
}

func (d *decoder) add(index int, kind blockKind) *openBlock {
	b := &openBlock{index: index, kind: kind}
	d.open = append(d.open, b)
	return b
}

func (d *decoder) blockStart(dst []llm.Event, in protocol.Frame) ([]llm.Event, error) {
	var f struct {
		Index        int             `json:"index"`
		ContentBlock json.RawMessage `json:"content_block"`
	}
	if err := read(in, &f); err != nil {
		return dst, err
	}
	return d.begin(dst, f.Index, f.ContentBlock)
}

// begin handles the start of a block, or a complete block.
func (d *decoder) begin(dst []llm.Event, index int, raw json.RawMessage) ([]llm.Event, error) {
	if d.find(index) != nil {
		return dst, protocol.Garbled(fmt.Sprintf("the block %d started twice", index))
	}
	var c struct {
		Type      string            `json:"type"`
		Text      string            `json:"text"`
		Thinking  string            `json:"thinking"`
		Signature string            `json:"signature"`
		Data      string            `json:"data"`
		Citations []json.RawMessage `json:"citations"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return dst, garbled("a block", err)
	}
	dst, err := d.release(dst) // the model continues, so the preceding calls were not truncated
	if err != nil {
		return dst, err
	}
	switch {
	case c.Type == "text":
		b := d.add(index, kindText)
		b.id, b.citations = blockID(llm.BlockText, index), c.Citations
		dst = d.life.Open(dst, llm.BlockText, b.id, nil)
		return d.life.Delta(dst, llm.BlockText, b.id, c.Text), nil
	case c.Type == "thinking":
		b := d.add(index, kindThinking)
		b.id, b.signature = blockID(llm.BlockReasoning, index), c.Signature
		dst = d.life.Open(dst, llm.BlockReasoning, b.id, nil)
		return d.life.Delta(dst, llm.BlockReasoning, b.id, c.Thinking), nil
	case c.Type == "redacted_thinking":
		d.add(index, kindOther)
		id := blockID(llm.BlockReasoning, index)
		dst = d.life.Open(dst, llm.BlockReasoning, id, nil)
		return d.life.Close(dst, llm.BlockReasoning, id, d.signed("redactedData", c.Data)), nil
	case strings.HasSuffix(c.Type, "tool_use"):
		return d.beginCall(dst, d.add(index, kindCall), raw)
	case strings.HasSuffix(c.Type, "_tool_result") && c.Type != "_tool_result":
		d.add(index, kindOther)
		return d.result(dst, raw)
	}
	d.add(index, kindOther)
	return dst, nil
}

// signed returns the metadata without which models cannot read the reasoning again.
func (d *decoder) signed(key, value string) protocol.Meta {
	if value == "" {
		return nil
	}
	return d.request.Stamped(protocol.Meta{key: value})
}

func (d *decoder) beginCall(dst []llm.Event, b *openBlock, raw json.RawMessage) ([]llm.Event, error) {
	var c struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return dst, garbled("a call", err)
	}
	if c.Name == "" {
		return dst, protocol.Garbled("a " + c.Type + " has no name")
	}
	if c.ID == "" {
		c.ID = d.newID()
	}
	if s := string(c.Input); s != "{}" && s != "null" {
		b.whole = s
	}
	b.key = strconv.Itoa(b.index)
	hosted := c.Type != "tool_use"
	return d.calls.Start(dst, b.key, llm.ToolCall{ID: c.ID, Name: c.Name, ProviderExecuted: hosted}, callMeta(c.Type, raw)), nil
}

// callMeta returns the fields of a call that must be sent back unchanged. A client-side call usually has none.
func callMeta(blockType string, raw json.RawMessage) protocol.Meta {
	fields := otherFields(raw, "type", "id", "name", "input")
	if string(fields["caller"]) == `{"type":"direct"}` {
		delete(fields, "caller") // the default
	}
	if blockType == "tool_use" && len(fields) == 0 {
		return nil
	}
	m := protocol.Meta{"blockType": blockType}
	if len(fields) > 0 {
		m["fields"] = fields
	}
	return m
}

func otherFields(raw json.RawMessage, known ...string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // it has been decoded before
	for _, k := range known {
		delete(fields, k)
	}
	return fields
}

func (d *decoder) blockStop(dst []llm.Event, in protocol.Frame) ([]llm.Event, error) {
	var f struct {
		Index int `json:"index"`
	}
	if err := read(in, &f); err != nil {
		return dst, err
	}
	return d.endBlock(dst, f.Index)
}

// endBlock ends a block; a block that is not open is ignored. A call whose input is not a complete object is held back: if the
// response turns out to be truncated there, it is no call.
func (d *decoder) endBlock(dst []llm.Event, index int) ([]llm.Event, error) {
	b := d.find(index)
	if b == nil {
		return dst, nil
	}
	d.open = slices.DeleteFunc(d.open, func(o *openBlock) bool { return o == b })
	switch b.kind {
	case kindText:
		var m protocol.Meta
		if len(b.citations) > 0 {
			m = protocol.Meta{"citations": b.citations}
		}
		dst = d.life.Close(dst, llm.BlockText, b.id, m)
	case kindThinking:
		dst = d.life.Close(dst, llm.BlockReasoning, b.id, d.signed("signature", b.signature))
	case kindCall:
		input := b.input
		if len(input) == 0 {
			input = []byte(b.whole)
			dst = d.calls.Settle(dst, b.key, b.whole)
		}
		if json.Valid(input) {
			return d.publish(dst, b.key)
		}
		d.held = append(d.held, b.key)
	}
	return dst, nil
}

// result emits the result of a call that the vendor ran.
func (d *decoder) result(dst []llm.Event, raw json.RawMessage) ([]llm.Event, error) {
	var r struct {
		Type      string          `json:"type"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return dst, garbled("a result", err)
	}
	if r.ToolUseID == "" {
		return dst, protocol.Garbled("a " + r.Type + " does not say of which call")
	}
	name, ok := d.named[r.ToolUseID]
	if !ok {
		if d.calls.Used(r.ToolUseID) {
			return dst, protocol.Garbled("a " + r.Type + " came before the end of its call")
		}
		// The call is in the previous response, which the vendor paused: repeat it, because a result needs its call.
		call, meta := d.earlier(r.ToolUseID, strings.TrimSuffix(r.Type, "_tool_result"))
		dst = d.calls.Whole(dst, call, meta)
		name = call.Name
		d.remember(call.ID, name)
	}
	text, failed := hostedText(r.Content)
	meta := protocol.Meta{"blockType": r.Type}
	if len(r.Content) > 0 {
		meta["result"] = r.Content
	}
	if fields := otherFields(raw, "type", "tool_use_id", "content"); len(fields) > 0 {
		meta["fields"] = fields
	}
	res := llm.ToolResult{
		ID: r.ToolUseID, Name: name, ProviderExecuted: true, IsError: failed || r.IsError, Metadata: meta.Under(d.life.Namespace),
	}
	if text != "" {
		res.Content = llm.Parts{&llm.Text{Text: text}}
	}
	return append(dst, llm.ToolResultDone{Result: res}), nil
}

// earlier returns a hosted call from the history, or a guess if it no longer exists.
func (d *decoder) earlier(id, name string) (llm.ToolCall, protocol.Meta) {
	for _, m := range slices.Backward(d.request.Messages) {
		for _, p := range m.Parts {
			c, ok := p.(*llm.ToolCall)
			if !ok || c.ID != id || !c.ProviderExecuted {
				continue
			}
			var meta protocol.Meta
			protocol.MetaOf(c.Metadata, d.life.Namespace, &meta)
			again := *c
			again.Metadata = nil
			return again, meta
		}
	}
	return llm.ToolCall{ID: id, Name: name, Input: "{}", ProviderExecuted: true}, protocol.Meta{"blockType": "server_tool_use"}
}
