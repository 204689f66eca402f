package messages

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Decode implements [protocol.Protocol].
func (Protocol) Decode(r *protocol.Request) protocol.Decoder {
	r = withNamespace(r)
	d := &decoder{request: r, newID: r.IDs(), optionalStop: r.Model.Compat.OptionalFinishReason}
	d.life.Namespace = r.Namespace
	d.calls = protocol.Calls{Life: &d.life, Names: protocol.NewNames(r.Tools)}
	return d
}

// decoder decodes a response.
type decoder struct {
	request      *protocol.Request
	newID        func() string
	optionalStop bool
	life         protocol.Lifecycle
	calls        protocol.Calls

	open  []*openBlock      // in the order of their start
	held  []string          // keys of calls that ended but may turn out to be truncated
	named map[string]string // published calls, by ID
	delta deltaFrame        // reused: most of a stream consists of deltas

	usage        usage
	stop         string // the vendor's reason
	stopSequence string
	stopDetails  json.RawMessage
}

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, nil
	}
	if f.Event == "" && !f.Done {
		// Some implementations of the format omit the event names, which the data repeat.
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(f.Data, &head); err != nil {
			return dst, garbled("a frame without a name", err)
		}
		if f.Event = head.Type; f.Event == "" {
			if _, failed := protocol.ParseFailure(f.Data); failed {
				f.Event = "error"
			}
		}
	}
	switch f.Event {
	case "content_block_delta":
		return d.blockDelta(dst, f)
	case "content_block_start":
		return d.blockStart(dst, f)
	case "content_block_stop":
		return d.blockStop(dst, f)
	case "message_start":
		return d.messageStart(dst, f)
	case "message_delta":
		return d.messageDelta(dst, f)
	case "message_stop":
		return d.finish(dst)
	case "error":
		return dst, fault(f.Data)
	}
	return dst, nil // "ping" and unknown events
}

// read decodes the data of a known event.
func read(f protocol.Frame, into any) error {
	if f.Done {
		return protocol.Garbled("the event " + f.Event + " has an end mark for its data")
	}
	if err := json.Unmarshal(f.Data, into); err != nil {
		return garbled(f.Event, err)
	}
	return nil
}

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	switch {
	case d.life.Finished():
		return dst, nil
	case d.optionalStop && d.life.Started():
		return d.finish(dst)
	}
	return dst, protocol.Incomplete()
}

// Done implements [protocol.Decoder].
func (d *decoder) Done() bool { return d.life.Finished() }

func garbled(what string, err error) *llm.Error {
	return protocol.Garbled(what + " is not what the format says: " + err.Error())
}

func (d *decoder) messageStart(dst []llm.Event, in protocol.Frame) ([]llm.Event, error) {
	var f struct {
		Message struct {
			ID         string            `json:"id"`
			Model      string            `json:"model"`
			Content    []json.RawMessage `json:"content"`
			StopReason string            `json:"stop_reason"`
			Usage      json.RawMessage   `json:"usage"`
		} `json:"message"`
	}
	if err := read(in, &f); err != nil {
		return dst, err
	}
	m := &f.Message
	d.usage.merge(m.Usage)
	if d.life.Started() {
		return dst, nil // a duplicate
	}
	d.life.Step = llm.StepStart{ServedModel: m.Model, ResponseID: m.ID}
	d.stop = m.StopReason
	dst = d.life.Start(dst)
	// A response that continues in a container may contain complete blocks.
	for i, raw := range m.Content {
		var err error
		if dst, err = d.begin(dst, i, raw); err != nil {
			return dst, err
		}
		if dst, err = d.endBlock(dst, i); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (d *decoder) messageDelta(dst []llm.Event, in protocol.Frame) ([]llm.Event, error) {
	var f struct {
		Delta struct {
			StopReason   string          `json:"stop_reason"`
			StopSequence string          `json:"stop_sequence"`
			StopDetails  json.RawMessage `json:"stop_details"`
		} `json:"delta"`
		Usage json.RawMessage `json:"usage"`
	}
	if err := read(in, &f); err != nil {
		return dst, err
	}
	d.usage.merge(f.Usage)
	if f.Delta.StopReason == "" {
		return dst, nil
	}
	d.stop, d.stopSequence = f.Delta.StopReason, f.Delta.StopSequence
	if s := f.Delta.StopDetails; len(s) > 0 && string(s) != "null" {
		d.stopDetails = s
	}
	if d.cut() {
		return dst, nil
	}
	return d.release(dst)
}

// cut reports whether the response is truncated, so that an incomplete call is discarded.
func (d *decoder) cut() bool {
	r := finishReason(d.stop)
	return r == llm.FinishLength || r == llm.FinishContentFilter
}

func finishReason(stop string) llm.FinishReason {
	switch stop {
	case "end_turn", "stop_sequence", pauseTurn:
		return llm.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return llm.FinishLength
	case "tool_use":
		return llm.FinishToolCalls
	case "refusal":
		return llm.FinishContentFilter
	}
	return llm.FinishUnknown
}

// finish ends everything that is open, and the response.
func (d *decoder) finish(dst []llm.Event) ([]llm.Event, error) {
	for _, b := range slices.Clone(d.open) {
		if b.kind == kindCall {
			continue
		}
		var err error
		if dst, err = d.endBlock(dst, b.index); err != nil {
			return dst, err
		}
	}
	if d.cut() {
		d.calls.Discard()
	}
	for _, key := range d.calls.Pending() {
		var err error
		if dst, err = d.publish(dst, key); err != nil {
			return dst, err
		}
	}
	end := llm.StepFinish{
		Reason: finishReason(d.stop), RawReason: d.stop, Usage: d.usage.canonical(), Again: d.stop == pauseTurn,
	}
	if d.calls.Local() && (end.Reason == llm.FinishStop || d.stop == "") {
		end.Reason = llm.FinishToolCalls // some implementations of the format always report the same reason
	}
	meta := protocol.Meta{}
	if d.stopSequence != "" {
		meta["stopSequence"] = d.stopSequence
	}
	if len(d.stopDetails) > 0 {
		meta["stopDetails"] = d.stopDetails
	}
	if d.stop == pauseTurn {
		meta["stopReason"] = d.stop // for the next request, which sends the response back as the last message
	}
	return d.life.Finish(dst, end, meta), nil
}

// release publishes the calls that were held back.
func (d *decoder) release(dst []llm.Event) ([]llm.Event, error) {
	for len(d.held) > 0 {
		key := d.held[0]
		d.held = d.held[1:]
		var err error
		if dst, err = d.publish(dst, key); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// publish ends a call, and remembers it for a result from the vendor.
func (d *decoder) publish(dst []llm.Event, key string) ([]llm.Event, error) {
	before := len(dst)
	dst, err := d.calls.Finish(dst, key, nil)
	for _, e := range dst[before:] {
		if c, ok := e.(llm.ToolCallDone); ok {
			d.remember(c.Call.ID, c.Call.Name)
		}
	}
	return dst, err
}

func (d *decoder) remember(id, name string) {
	if d.named == nil {
		d.named = map[string]string{}
	}
	d.named[id] = name
}

func (d *decoder) find(index int) *openBlock {
	for _, b := range d.open {
		if b.index == index {
			return b
		}
	}
	return nil
}

func blockID(kind llm.BlockKind, index int) string {
	if kind == llm.BlockReasoning {
		return "reasoning-" + strconv.Itoa(index)
	}
	return "text-" + strconv.Itoa(index)
}
