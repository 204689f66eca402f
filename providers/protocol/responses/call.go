package responses

import (
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// startCall starts the input of a call. A call without a name starts when its item is complete.
func (d *decoder) startCall(dst []llm.Event, it *item, w *wireItem) []llm.Event {
	if w.Name == "" {
		return dst
	}
	if it.call = w.CallID; it.call == "" {
		it.call = it.id
	}
	if it.call == "" {
		it.call = d.newID()
	}
	// Input in the announcement is ignored, because the end of the item contains all of it.
	return d.calls.Start(dst, it.key, llm.ToolCall{
		ID: it.call, Name: w.Name, Namespace: w.Namespace, Freeform: it.kind == typeCustomCall,
	}, it.meta)
}

// callKind returns the type of the items that a frame with input belongs to.
func (d *decoder) callKind() string {
	if d.frame.Type[len("response."):][0] == 'c' {
		return typeCustomCall
	}
	return typeFunctionCall
}

func (d *decoder) argumentsDelta(dst []llm.Event) ([]llm.Event, error) {
	it, err := d.find(d.callKind())
	if it == nil || err != nil {
		return dst, err
	}
	dst, _ = d.calls.Append(dst, it.key, d.frame.Delta)
	return dst, nil
}

func (d *decoder) argumentsDone(dst []llm.Event) ([]llm.Event, error) {
	it, err := d.find(d.callKind())
	if it == nil || err != nil {
		return dst, err
	}
	return d.settle(dst, it, d.frame.Arguments+d.frame.Input), nil
}

// settle sets the complete input. Some vendors omit it from the frame that should contain it.
func (d *decoder) settle(dst []llm.Event, it *item, input string) []llm.Event {
	if input == "" {
		return dst
	}
	return d.calls.Settle(dst, it.key, input)
}

func (d *decoder) endCall(dst []llm.Event, it *item, w *wireItem) ([]llm.Event, error) {
	if !d.calls.Open(it.key) {
		if w.Name == "" {
			return dst, protocol.Garbled("a " + it.kind + " has no name")
		}
		dst = d.startCall(dst, it, w)
	}
	dst = d.settle(dst, it, w.Arguments+w.Input)
	return d.calls.Finish(dst, it.key, it.meta)
}
