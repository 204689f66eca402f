package ollama

import (
	"encoding/json"
	"strconv"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// decoder decodes the lines of a response. One block of text or thought is open at a time.
type decoder struct {
	r     *protocol.Request
	life  protocol.Lifecycle
	calls protocol.Calls
	newID func() string
	think *protocol.ThinkSplitter // nil: text contains no thinking

	open     llm.BlockKind // BlockUnknown: none
	id       string
	texts    int // blocks so far
	thoughts int

	line line // its memory is reused
}

// line is one line of a response.
type line struct {
	Model   json.RawMessage `json:"model"`
	Message struct {
		Content   string     `json:"content"`
		Thinking  string     `json:"thinking"`
		ToolCalls []toolCall `json:"tool_calls"`
	} `json:"message"`
	Done       bool            `json:"done"`
	DoneReason string          `json:"done_reason"`
	Error      json.RawMessage `json:"error"`
	metrics
}

// metrics are part of the last line.
type metrics struct {
	PromptEvalCount       *int64 `json:"prompt_eval_count,omitempty"`
	PromptEvalCachedCount *int64 `json:"prompt_eval_cached_count,omitempty"`
	EvalCount             *int64 `json:"eval_count,omitempty"`
	TotalDuration         *int64 `json:"total_duration,omitempty"` // these four in nanoseconds
	LoadDuration          *int64 `json:"load_duration,omitempty"`
	PromptEvalDuration    *int64 `json:"prompt_eval_duration,omitempty"`
	EvalDuration          *int64 `json:"eval_duration,omitempty"`
}

func newDecoder(r *protocol.Request) *decoder {
	d := &decoder{r: r, newID: r.IDs()}
	d.life.Namespace, d.life.Raw = r.Namespace, true
	d.calls = protocol.Calls{Life: &d.life, Names: protocol.NewNames(r.Tools)}
	if t := r.Model.Compat.ThinkTags; t != nil {
		d.think = protocol.NewThinkSplitter(*t)
	}
	return d
}

// Done implements [protocol.Decoder].
func (d *decoder) Done() bool { return d.life.Finished() }

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, protocol.Garbled("a line came after the end of the answer")
	}
	if f.Done {
		return d.End(dst)
	}
	l := &d.line
	l.reset()
	if err := json.Unmarshal(f.Data, l); err != nil {
		return dst, protocol.Garbled("a line of the answer can't be read: " + err.Error())
	}
	if isSet(l.Error) {
		if failure, ok := protocol.ParseFailure(f.Data); ok {
			return dst, protocol.Classify(failure)
		}
	}
	if d.life.Step.ServedModel == "" && len(l.Model) > 0 {
		_ = json.Unmarshal(l.Model, &d.life.Step.ServedModel) // a value that is not a string is no name
	}
	dst = d.text(dst, llm.BlockReasoning, l.Message.Thinking)
	dst = d.content(dst, l.Message.Content)
	for i := range l.Message.ToolCalls {
		var err error
		if dst, err = d.call(dst, &l.Message.ToolCalls[i]); err != nil {
			return dst, err
		}
	}
	if l.Done {
		dst = d.finish(dst, l.DoneReason, &l.metrics)
	}
	return dst, nil
}

// reset clears a line and keeps its memory. It also clears list elements, because decoding into a list keeps old fields.
func (l *line) reset() {
	calls := l.Message.ToolCalls
	clear(calls)
	*l = line{Model: l.Model[:0]}
	l.Message.ToolCalls = calls[:0]
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// content emits text, without the thinking that it contains.
func (d *decoder) content(dst []llm.Event, text string) []llm.Event {
	if d.think == nil {
		return d.text(dst, llm.BlockText, text)
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
		kind := llm.BlockText
		if inside {
			kind = llm.BlockReasoning
		}
		dst = d.text(dst, kind, text)
	}
}

func (d *decoder) text(dst []llm.Event, kind llm.BlockKind, text string) []llm.Event {
	if text == "" {
		return dst
	}
	if d.open != kind {
		dst = d.close(dst)
		d.open = kind
		if kind == llm.BlockReasoning {
			d.id = "reasoning-" + strconv.Itoa(d.thoughts)
			d.thoughts++
		} else {
			d.id = "text-" + strconv.Itoa(d.texts)
			d.texts++
		}
	}
	return d.life.Delta(dst, kind, d.id, text)
}

func (d *decoder) close(dst []llm.Event) []llm.Event {
	if d.open == llm.BlockUnknown {
		return dst
	}
	var meta protocol.Meta
	if d.open == llm.BlockReasoning {
		meta = protocol.Meta{"reasoningField": reasoningField}
	}
	dst = d.life.Close(dst, d.open, d.id, meta)
	d.open = llm.BlockUnknown
	return dst
}

// call publishes a call, which arrives complete. Its arguments are an object, or a string that contains one.
func (d *decoder) call(dst []llm.Event, c *toolCall) ([]llm.Event, error) {
	if c.Function.Name == "" {
		return dst, protocol.Garbled("a call of the answer has no name")
	}
	id := c.ID
	for id == "" || d.calls.Used(id) {
		id = d.newID()
	}
	dst = d.close(dst)
	call := llm.ToolCall{ID: id, Name: c.Function.Name}
	arguments := c.Function.Arguments
	if !isSet(arguments) {
		return d.calls.Whole(dst, call, nil), nil
	}
	var text string
	if json.Unmarshal(arguments, &text) != nil {
		call.Input = string(arguments)
		return d.calls.Whole(dst, call, nil), nil
	}
	// The string may be invalid JSON, of which the model is notified as for any invalid call.
	call.Input = text
	dst = d.calls.Start(dst, id, call, nil)
	return d.calls.Finish(dst, id, nil)
}

func (d *decoder) finish(dst []llm.Event, reason string, m *metrics) []llm.Event {
	if d.think != nil {
		d.think.Close()
		dst = d.split(dst)
	}
	end := llm.StepFinish{RawReason: reason}
	switch reason {
	case "stop", "":
		end.Reason = llm.FinishStop
		if d.calls.Local() {
			end.Reason = llm.FinishToolCalls
		}
	case "length":
		end.Reason = llm.FinishLength
	}
	if *m != (metrics{}) {
		raw, err := protocol.Encode(m)
		if err != nil { // cannot fail for numbers
			panic("ollama: encode metrics: " + err.Error())
		}
		end.Usage = protocol.Tokens{Input: m.PromptEvalCount, Output: m.EvalCount, CacheRead: m.PromptEvalCachedCount}.Usage(raw)
	}
	return d.life.Finish(d.close(dst), end, nil)
}

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, nil
	}
	if !d.r.Model.Compat.OptionalFinishReason || !d.life.Started() {
		return dst, protocol.Incomplete()
	}
	return d.finish(dst, "", &metrics{}), nil
}
