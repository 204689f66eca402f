package responses

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// decoder converts the frames of a response to events. [protocol.Lifecycle] and [protocol.Calls] keep track of blocks, order and
// IDs; the decoder interprets the vendor's frames.
type decoder struct {
	life  *protocol.Lifecycle
	calls *protocol.Calls
	r     *protocol.Request
	newID func() string

	frame    wireFrame // of the current step; its memory is reused
	deltas   deltaReader
	items    map[string]*item
	order    []*item       // in order of arrival
	at       map[int]*item // by output_index, which overrides IDs: some proxies change them from frame to frame
	response wireResponse  // what is known about the response
	over     bool          // an error ended it
}

// wireFrame has the fields of all frames. Absent ones are zero, except OutputIndex, which is -1.
type wireFrame struct {
	Type         string          `json:"type"`
	ItemID       string          `json:"item_id"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	ContentIndex int             `json:"content_index"`
	Delta        string          `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    string          `json:"arguments"`
	Input        string          `json:"input"`
	Item         json.RawMessage `json:"item"`
	Response     json.RawMessage `json:"response"`
	Error        json.RawMessage `json:"error"`
}

type wireResponse struct {
	ID                string            `json:"id"`
	Model             string            `json:"model"`
	ServiceTier       string            `json:"service_tier"`
	EndTurn           *bool             `json:"end_turn"` // false: the model has more to say; absent: it is done
	Output            []json.RawMessage `json:"output"`
	Usage             json.RawMessage   `json:"usage"`
	Error             json.RawMessage   `json:"error"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

func newDecoder(r *protocol.Request) *decoder {
	life := &protocol.Lifecycle{Namespace: r.Namespace}
	return &decoder{
		life: life, calls: &protocol.Calls{Life: life, Names: protocol.NewNames(append(slices.Clip(r.Tools), found(r)...))}, r: r, newID: r.IDs(),
		items: map[string]*item{}, at: map[int]*item{},
	}
}

// Done implements [protocol.Decoder].
func (d *decoder) Done() bool { return d.life.Finished() }

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if d.over || d.life.Finished() {
		return dst, nil
	}
	d.over = true
	if d.r.Model.Compat.OptionalFinishReason && d.life.Started() {
		d.response.Output = nil
		return d.complete(dst, "")
	}
	return dst, protocol.Incomplete()
}

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.over || f.Done || d.life.Finished() || len(f.Data) == 0 {
		return dst, nil
	}
	dst, err := d.step(dst, f)
	d.over = err != nil
	return dst, err
}

func (d *decoder) step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	handle := handlers[f.Event]
	if handle == nil && f.Event != "" && f.Event != eventError && saysType(f.Data, f.Event) {
		return dst, nil // not decoded: these frames can contain whole images
	}
	var err error
	if d.frame = (wireFrame{OutputIndex: -1}); !d.deltas.read(f.Data, &d.frame) {
		d.frame = wireFrame{OutputIndex: -1}
		err = json.Unmarshal(f.Data, &d.frame)
	}
	name, typeless := f.Event, d.frame.Type == ""
	if !typeless { // the frame's own type takes precedence
		name = d.frame.Type
		handle = handlers[name]
	}
	d.frame.Type = name
	switch {
	case name == eventError, typeless && isError(d.frame.Error):
		return dst, errorOf(f.Data)
	case name == "" && err != nil:
		return dst, protocol.Garbled("a frame of the stream is not a JSON object: " + err.Error())
	case handle == nil:
		return dst, nil
	case err != nil:
		return dst, protocol.Garbled(name + ": " + err.Error())
	}
	return handle(d, dst)
}

const eventError = "error"

// isError reports whether the field "error" of a frame without a type contains an error. Some vendors send it empty in every
// frame.
func isError(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "{}", `""`, "false":
		return false
	}
	return true
}

// handlers handle frames by type. All other frames are progress reports, which are ignored.
var handlers = map[string]func(*decoder, []llm.Event) ([]llm.Event, error){
	"response.created":     (*decoder).announced,
	"response.in_progress": (*decoder).announced,
	"response.queued":      (*decoder).announced,

	"response.output_item.added": (*decoder).itemAdded,
	"response.output_item.done":  (*decoder).itemDone,

	"response.output_text.delta": (*decoder).textDelta,
	"response.output_text.done":  (*decoder).textDone,
	"response.refusal.delta":     (*decoder).textDelta,
	"response.refusal.done":      (*decoder).textDone,

	"response.reasoning_summary_part.added": (*decoder).summaryPart,
	"response.reasoning_summary_text.delta": (*decoder).summaryDelta,
	"response.reasoning_summary_text.done":  (*decoder).summaryDone,
	"response.reasoning_text.delta":         (*decoder).thoughtDelta,
	"response.reasoning_text.done":          (*decoder).thoughtDone,

	"response.function_call_arguments.delta": (*decoder).argumentsDelta,
	"response.function_call_arguments.done":  (*decoder).argumentsDone,
	"response.custom_tool_call_input.delta":  (*decoder).argumentsDelta,
	"response.custom_tool_call_input.done":   (*decoder).argumentsDone,

	"response.completed":  (*decoder).completed,
	"response.incomplete": (*decoder).incomplete,
	"response.failed":     (*decoder).failed,
}

// saysType reports whether an object begins with this type, in OpenAI's spelling.
func saysType(data []byte, name string) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	return ok && len(rest) > len(name) && string(rest[:len(name)]) == name && rest[len(name)] == '"'
}
