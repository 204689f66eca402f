package converse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder {
	r = withNamespace(r)
	d := &decoder{request: r, newID: r.IDs()}
	d.life.Namespace = r.Namespace
	d.calls = protocol.Calls{Life: &d.life, Names: protocol.NewNames(r.Tools)}
	return d
}

// decoder decodes a response.
type decoder struct {
	request *protocol.Request
	newID   func() string
	life    protocol.Lifecycle
	calls   protocol.Calls
	open    []*openBlock
	event   event // its memory is reused

	stop   string // why the response ended; empty: it has not
	usage  json.RawMessage
	ending protocol.Meta // part of the final event
}

// event is an event of any kind, each of which sets its own fields. A field with padding, which hides the length of a text, is
// ignored.
type event struct {
	ContentBlockIndex int `json:"contentBlockIndex"`
	Start             struct {
		ToolUse *struct {
			ToolUseID string `json:"toolUseId"`
			Name      string `json:"name"`
		} `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		ReasoningContent struct {
			Text            string `json:"text"`
			Signature       string `json:"signature"`
			RedactedContent string `json:"redactedContent"`
		} `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string          `json:"stopReason"`
	Fields     json.RawMessage `json:"additionalModelResponseFields"`
	Usage      json.RawMessage `json:"usage"`
	Trace      json.RawMessage `json:"trace"` // of a guardrail
}

// openBlock is a block of the stream that has not ended.
type openBlock struct {
	index     int
	kind      llm.BlockKind
	id        string // of text and reasoning; the key of a call
	input     strings.Builder
	signature strings.Builder
	redacted  strings.Builder
}

// Done implements [protocol.Decoder].
func (d *decoder) Done() bool { return d.life.Finished() }

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, nil
	}
	if f.Failed {
		return dst, exception(f)
	}
	switch f.Event {
	case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		return dst, nil // an unknown event
	}
	e := &d.event
	*e = event{}
	if err := json.Unmarshal(f.Data, e); err != nil {
		return dst, protocol.Garbled(fmt.Sprintf("%s is not what the format says: %v", f.Event, err))
	}
	if d.stop != "" && strings.HasPrefix(f.Event, "contentBlock") {
		return dst, protocol.Garbled("the answer went on after its end")
	}
	switch f.Event {
	case "messageStart":
		return d.life.Start(dst), nil
	case "contentBlockStart":
		return d.start(dst, e)
	case "contentBlockDelta":
		return d.delta(dst, e)
	case "contentBlockStop":
		return d.end(dst, e.ContentBlockIndex)
	case "messageStop":
		return d.messageStop(dst, e)
	}
	return d.metadata(dst, e), nil
}

func (d *decoder) find(index int) *openBlock {
	for _, b := range d.open {
		if b.index == index {
			return b
		}
	}
	return nil
}

// start begins a call. Other blocks have no start event.
func (d *decoder) start(dst []llm.Event, e *event) ([]llm.Event, error) {
	use := e.Start.ToolUse
	if use == nil {
		return dst, nil
	}
	if d.find(e.ContentBlockIndex) != nil {
		return dst, protocol.Garbled(fmt.Sprintf("the block %d started twice", e.ContentBlockIndex))
	}
	if use.Name == "" {
		return dst, protocol.Garbled("a call of the answer has no name")
	}
	id := use.ToolUseID
	for id == "" || d.calls.Used(id) {
		id = d.newID()
	}
	b := &openBlock{index: e.ContentBlockIndex, kind: llm.BlockToolInput, id: strconv.Itoa(e.ContentBlockIndex)}
	for d.calls.Open(b.id) { // an earlier call at the same index has not ended yet
		b.id += "'"
	}
	d.open = append(d.open, b)
	return d.calls.Start(dst, b.id, llm.ToolCall{ID: id, Name: use.Name}, nil), nil
}

func (d *decoder) delta(dst []llm.Event, e *event) ([]llm.Event, error) {
	r := &e.Delta.ReasoningContent
	switch {
	case e.Delta.Text != "":
		b, err := d.block(e.ContentBlockIndex, llm.BlockText)
		if err != nil {
			return dst, err
		}
		return d.life.Delta(dst, llm.BlockText, b.id, e.Delta.Text), nil
	case r.Text != "" || r.Signature != "" || r.RedactedContent != "":
		b, err := d.block(e.ContentBlockIndex, llm.BlockReasoning)
		if err != nil {
			return dst, err
		}
		dst = d.life.Open(dst, llm.BlockReasoning, b.id, nil) // even if all of it is encrypted
		b.signature.WriteString(r.Signature)
		b.redacted.WriteString(r.RedactedContent)
		return d.life.Delta(dst, llm.BlockReasoning, b.id, r.Text), nil
	case e.Delta.ToolUse.Input != "":
		b := d.find(e.ContentBlockIndex)
		if b == nil || b.kind != llm.BlockToolInput {
			return dst, nil // belongs to no call
		}
		b.input.WriteString(e.Delta.ToolUse.Input)
		dst, _ = d.calls.Append(dst, b.id, e.Delta.ToolUse.Input)
	}
	return dst, nil
}

// block returns the block of text or reasoning at an index, creating it if necessary.
func (d *decoder) block(index int, kind llm.BlockKind) (*openBlock, error) {
	b := d.find(index)
	if b == nil {
		b = &openBlock{index: index, kind: kind, id: kind.String() + "-" + strconv.Itoa(index)}
		d.open = append(d.open, b)
	}
	if b.kind != kind {
		return nil, protocol.Garbled(fmt.Sprintf("%s came for the block %d, which is of another kind", kind, index))
	}
	return b, nil
}

// end ends a block; one that is not open says nothing. A call whose input is no JSON waits for the end of the answer: one
// that was cut off there is none.
func (d *decoder) end(dst []llm.Event, index int) ([]llm.Event, error) {
	b := d.find(index)
	if b == nil {
		return dst, nil
	}
	d.open = slices.DeleteFunc(d.open, func(o *openBlock) bool { return o == b })
	switch b.kind {
	case llm.BlockText:
		return d.life.Close(dst, llm.BlockText, b.id, nil), nil
	case llm.BlockReasoning:
		meta := protocol.Meta{}
		if b.signature.Len() > 0 {
			meta["signature"] = b.signature.String()
		}
		if b.redacted.Len() > 0 {
			meta["redactedData"] = b.redacted.String()
		}
		return d.life.Close(dst, llm.BlockReasoning, b.id, d.request.Stamped(meta)), nil
	}
	if input := b.input.String(); strings.TrimSpace(input) == "" || json.Valid([]byte(input)) {
		return d.calls.Finish(dst, b.id, nil)
	}
	return dst, nil
}

// messageStop settles what is open. The figures of usage come after it.
func (d *decoder) messageStop(dst []llm.Event, e *event) ([]llm.Event, error) {
	if d.stop != "" {
		return dst, protocol.Garbled("the answer ended twice")
	}
	dst = d.life.Start(dst)
	if d.stop = e.StopReason; d.stop == "" {
		d.stop = "unknown"
	}
	d.keep("additionalModelResponseFields", e.Fields)
	var err error
	for len(d.open) > 0 {
		if dst, err = d.end(dst, d.open[0].index); err != nil {
			return dst, err
		}
	}
	if r := finishReason(d.stop); r == llm.FinishLength || r == llm.FinishContentFilter {
		d.calls.Discard()
	}
	if dst, err = d.calls.FinishAll(dst); err != nil {
		return dst, err
	}
	if d.usage != nil {
		return d.finish(dst), nil
	}
	return dst, nil
}

func (d *decoder) metadata(dst []llm.Event, e *event) []llm.Event {
	if isSet(e.Usage) {
		d.usage = e.Usage
	}
	d.keep("trace", e.Trace)
	if d.stop == "" {
		return dst
	}
	return d.finish(dst)
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// keep remembers what goes with the end of the answer.
func (d *decoder) keep(key string, raw json.RawMessage) {
	if !isSet(raw) {
		return
	}
	if d.ending == nil {
		d.ending = protocol.Meta{}
	}
	d.ending[key] = raw
}

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	switch {
	case d.life.Finished():
		return dst, nil
	case d.stop != "": // only the usage is missing
		return d.finish(dst), nil
	case d.request.Model.Compat.OptionalFinishReason && d.life.Started():
		dst, err := d.messageStop(dst, &event{StopReason: "end_turn"})
		if err != nil || d.life.Finished() {
			return dst, err
		}
		return d.finish(dst), nil
	}
	return dst, protocol.Incomplete()
}
