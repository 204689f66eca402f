package chat

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// A response has one text and one reasoning, even if their parts alternate.
const (
	textID      = "text-0"
	reasoningID = "reasoning-0"
)

type decoder struct {
	r     *protocol.Request
	life  protocol.Lifecycle
	calls protocol.Calls
	chunk chunk
	fast  chunkReader

	slots   slots
	think   *protocol.ThinkSplitter // nil: text contains no reasoning
	field   string                  // the field that contained reasoning
	details details
	meter   meter

	end      llm.StepFinish
	finished bool // a finish reason has arrived
}

func newDecoder(r *protocol.Request) *decoder {
	d := &decoder{r: r, life: protocol.Lifecycle{Namespace: r.Namespace, Raw: true}}
	d.calls = protocol.Calls{Life: &d.life, Names: protocol.NewNames(r.Tools)}
	if t := r.Model.Compat.ThinkTags; t != nil {
		d.think = protocol.NewThinkSplitter(*t)
	}
	return d
}

// Done implements [protocol.Decoder].
func (d *decoder) Done() bool { return d.life.Finished() }

// Settled reports whether the finish reason has arrived. Usage and the end marker may follow, but some servers omit them.
func (d *decoder) Settled() bool { return d.finished }

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.Done() {
		return dst, nil
	}
	if f.Done {
		return d.End(dst)
	}
	c := &d.chunk
	c.reset()
	if !d.fast.read(f.Data, c) {
		if err := json.Unmarshal(f.Data, c); err != nil {
			if f, ok := protocol.ParseFailure(f.Data); ok {
				return dst, protocol.Classify(f)
			}
			return dst, protocol.Garbled(fmt.Sprintf("a chunk is not what chat completions send: %v", err))
		}
	}
	if said(c.Error) {
		if f, ok := protocol.ParseFailure(f.Data); ok {
			return dst, protocol.Classify(f)
		}
	}
	if !d.life.Started() {
		d.life.Step = llm.StepStart{ServedModel: c.Model.text, ResponseID: c.ID.text}
	}
	if len(c.Choices) == 0 {
		if said(c.Usage) {
			d.meter.read(c.Usage)
		} else if f, ok := protocol.ParseFailure(f.Data); ok {
			return dst, protocol.Classify(f)
		}
		return dst, nil
	}
	first := &c.Choices[0]
	if said(c.Usage) {
		d.meter.read(c.Usage)
	} else if said(first.Usage) {
		d.meter.read(first.Usage)
	}
	dst, err := d.delta(dst, &first.Delta, f.Data)
	if err != nil || first.FinishReason == "" || d.finished {
		return dst, err
	}
	return d.finish(dst, first)
}

func (d *decoder) delta(dst []llm.Event, in *delta, frame []byte) ([]llm.Event, error) {
	field, thought := d.reasoning(in, frame)
	hasDetails := said(in.ReasoningDetails) && string(in.ReasoningDetails) != "[]"
	if d.finished {
		if in.Content.text != "" || in.Refusal != "" || thought != "" || hasDetails || speaks(in.ToolCalls) {
			return dst, protocol.Garbled("the response continued after its finish reason")
		}
		return dst, nil
	}
	if field != "" {
		d.field = cmp.Or(d.field, field)
	}
	if hasDetails {
		told := d.details.add(in.ReasoningDetails, d.field != "")
		if thought == "" {
			thought = told
		}
		if len(d.details.list) > 0 { // entries without text are also kept, before what follows them
			dst = d.life.Open(dst, llm.BlockReasoning, reasoningID, nil)
		}
	}
	dst = d.life.Delta(dst, llm.BlockReasoning, reasoningID, thought)
	if in.Content.text != "" {
		dst = d.text(dst, in.Content.text)
	}
	dst = d.life.Delta(dst, llm.BlockText, textID, in.Refusal)
	for i := range in.ToolCalls {
		s := d.slots.of(&in.ToolCalls[i], i, len(in.ToolCalls))
		dst = s.write(dst, &d.calls, &in.ToolCalls[i])
	}
	return dst, nil
}

// reasoning returns the field of this chunk that contains reasoning: the configured one first, then the usual ones.
func (d *decoder) reasoning(in *delta, frame []byte) (field, text string) {
	fields := [...]struct{ name, text string }{
		{fieldReasoning, in.ReasoningContent}, {"reasoning", in.Reasoning}, {"reasoning_text", in.ReasoningText},
		{fieldContent, in.Content.thinking},
	}
	own := d.r.Model.Compat.ReasoningField
	for _, f := range fields {
		switch {
		case f.text == "":
		case f.name == own:
			return f.name, f.text
		case field == "":
			field, text = f.name, f.text
		}
	}
	switch own {
	case "", fieldReasoning, "reasoning", "reasoning_text", fieldContent, fieldDetails:
		return field, text
	}
	if t := ownField(frame, own); t != "" {
		return own, t
	}
	return field, text
}

// ownField reads a text with an unusual name from the first delta.
func ownField(frame []byte, name string) string {
	var c struct {
		Choices []struct {
			Delta map[string]json.RawMessage `json:"delta"`
		} `json:"choices"`
	}
	var text string
	if json.Unmarshal(frame, &c) != nil || len(c.Choices) == 0 || json.Unmarshal(c.Choices[0].Delta[name], &text) != nil {
		return ""
	}
	return text
}

func (d *decoder) text(dst []llm.Event, text string) []llm.Event {
	if d.think == nil {
		return d.life.Delta(dst, llm.BlockText, textID, text)
	}
	d.think.Write(text)
	return d.split(dst)
}

// split emits what the splitter has classified.
func (d *decoder) split(dst []llm.Event) []llm.Event {
	for {
		text, inside, ok := d.think.Next()
		if !ok {
			return dst
		}
		if inside {
			dst = d.life.Delta(dst, llm.BlockReasoning, reasoningID, text)
		} else {
			dst = d.life.Delta(dst, llm.BlockText, textID, text)
		}
	}
}

// finish handles the finish reason. It ends everything that was begun, so that calls need not wait for the usage that may follow.
func (d *decoder) finish(dst []llm.Event, c *choice) ([]llm.Event, error) {
	d.finished = true
	d.end.RawReason = cmp.Or(c.NativeFinishReason, c.FinishReason)
	var err error
	if d.end.Reason, err = reason(c.FinishReason); err != nil {
		return dst, err
	}
	return d.settle(dst)
}

// settle ends the reasoning and the calls. The text ends last, with the response.
func (d *decoder) settle(dst []llm.Event) ([]llm.Event, error) {
	if d.think != nil {
		d.think.Close()
		dst = d.split(dst)
	}
	dst = d.life.Close(dst, llm.BlockReasoning, reasoningID, d.reasoningMeta())
	if d.end.Reason == llm.FinishLength || d.end.Reason == llm.FinishContentFilter {
		return dst, nil // incomplete calls were truncated and are not made
	}
	if d.slots.nameless() {
		return dst, protocol.Garbled("a tool call came without an id or a name")
	}
	var err error
	for _, key := range d.calls.Pending() {
		s := d.slots.at(key)
		if input, changed := unflattened(s.args.String(), d.schema(s.name)); changed {
			dst = d.calls.Settle(dst, key, input)
		}
		if dst, err = d.calls.Finish(dst, key, s.meta(d.r)); err != nil {
			return dst, err
		}
	}
	if d.end.Reason == llm.FinishStop && d.calls.Local() {
		d.end.Reason = llm.FinishToolCalls
	}
	return dst, nil
}

func (d *decoder) reasoningMeta() protocol.Meta {
	meta := protocol.Meta{}
	if d.field != "" {
		meta[metaField] = d.field
	}
	if list := d.details.entries(); len(list) > 0 {
		meta[metaDetails] = list
	}
	return d.r.Stamped(meta)
}

// schema returns the schema of the tool with this name on the wire.
func (d *decoder) schema(name string) json.RawMessage {
	for _, t := range d.r.Tools {
		if protocol.WireName(t.Namespace, t.Name) == name {
			return t.InputSchema
		}
	}
	return nil
}

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if d.Done() {
		return dst, nil
	}
	if !d.finished {
		if !d.r.Model.Compat.OptionalFinishReason || !d.life.Started() {
			return dst, protocol.Incomplete()
		}
		d.finished = true
		d.end.Reason = llm.FinishStop
		var err error
		if dst, err = d.settle(dst); err != nil {
			return dst, err
		}
	}
	d.end.Usage = d.meter.usage()
	return d.life.Finish(dst, d.end, nil), nil
}
