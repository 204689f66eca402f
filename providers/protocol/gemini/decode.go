package gemini

import (
	"encoding/json"
	"strconv"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// decoder decodes the chunks of a response. One block of text or thought is open at a time; it ends with a call, a block of the
// other kind, or text after a signature.
type decoder struct {
	r     *protocol.Request
	life  protocol.Lifecycle
	calls protocol.Calls
	newID func() string

	open      llm.BlockKind // BlockUnknown: none
	id        string
	signature string // of the open block
	texts     int    // blocks so far
	thoughts  int

	hostedID   string // of the last call of a hosted tool
	hostedName string

	finish  string        // the finish reason
	usage   []byte        // the last usage object
	ending  protocol.Meta // part of the final event
	blocked string        // why the prompt was rejected

	chunk chunk // its lists are reused
}

// chunk is one frame. Values that every frame repeats are kept as bytes, whose memory is reused.
type chunk struct {
	Candidates     []candidate     `json:"candidates"`
	PromptFeedback json.RawMessage `json:"promptFeedback"`
	UsageMetadata  json.RawMessage `json:"usageMetadata"`
	ModelVersion   json.RawMessage `json:"modelVersion"`
	ResponseID     json.RawMessage `json:"responseId"`
	Error          json.RawMessage `json:"error"`
}

type candidate struct {
	Content struct {
		Parts []answerPart `json:"parts"`
	} `json:"content"`
	FinishReason  string          `json:"finishReason"`
	FinishMessage string          `json:"finishMessage"`
	Grounding     json.RawMessage `json:"groundingMetadata"`
	Citations     json.RawMessage `json:"citationMetadata"`
	URLContext    json.RawMessage `json:"urlContextMetadata"`
}

type answerPart struct {
	Text             string        `json:"text"`
	Thought          bool          `json:"thought"`
	ThoughtSignature string        `json:"thoughtSignature"`
	FunctionCall     *functionCall `json:"functionCall"`
	hosted
}

func newDecoder(r *protocol.Request) *decoder {
	d := &decoder{r: r, newID: r.IDs()}
	d.life.Namespace = r.Namespace
	d.calls = protocol.Calls{Life: &d.life, Names: protocol.NewNames(r.Tools)}
	return d
}

// Done implements [protocol.Decoder]. The finish reason does not end a response: a signature, grounding and the final usage may
// follow.
func (d *decoder) Done() bool { return d.life.Finished() }

// Settled reports whether the finish reason has arrived.
func (d *decoder) Settled() bool { return d.finish != "" }

// Step implements [protocol.Decoder].
func (d *decoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, protocol.Garbled("a chunk came after the end of the answer")
	}
	if f.Done {
		return d.End(dst)
	}
	c := &d.chunk
	c.reset()
	if err := json.Unmarshal(f.Data, c); err != nil {
		if failure, ok := protocol.ParseFailure(f.Data); ok { // in another form, such as a list with one error
			return dst, protocol.Classify(failure)
		}
		if d.finish != "" {
			return d.End(dst) // the response itself is complete
		}
		return dst, protocol.Garbled("a chunk of the answer can't be read: " + err.Error())
	}
	if isSet(c.Error) {
		if failure, ok := protocol.ParseFailure(f.Data); ok {
			return dst, protocol.Classify(failure)
		}
	}
	learn(&d.life.Step.ServedModel, c.ModelVersion)
	learn(&d.life.Step.ResponseID, c.ResponseID)
	if isSet(c.UsageMetadata) {
		d.usage = append(d.usage[:0], c.UsageMetadata...)
	}
	if isSet(c.PromptFeedback) {
		d.promptFeedback(c.PromptFeedback)
	}
	if len(c.Candidates) == 0 {
		return dst, nil
	}
	return d.candidate(dst, &c.Candidates[0])
}

// reset clears a chunk and keeps its memory. It also clears list elements, because decoding into a list keeps old fields.
func (c *chunk) reset() {
	candidates := c.Candidates
	for i := range candidates {
		parts := candidates[i].Content.Parts
		clear(parts)
		candidates[i] = candidate{}
		candidates[i].Content.Parts = parts[:0]
	}
	*c = chunk{
		Candidates: candidates[:0], UsageMetadata: c.UsageMetadata[:0], ModelVersion: c.ModelVersion[:0], ResponseID: c.ResponseID[:0],
	}
}

// learn sets a name that is not known yet.
func learn(name *string, raw json.RawMessage) {
	if *name == "" && len(raw) > 0 {
		_ = json.Unmarshal(raw, name) // a value that is not a string is no name
	}
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func (d *decoder) promptFeedback(raw json.RawMessage) {
	var f struct {
		BlockReason string `json:"blockReason"`
	}
	if json.Unmarshal(raw, &f) != nil || f.BlockReason == "" {
		return
	}
	d.blocked = f.BlockReason
	d.keep("promptFeedback", raw)
}

// keep stores data for the final event. The bytes are not shared: a chunk allocates such fields.
func (d *decoder) keep(key string, raw json.RawMessage) {
	if !isSet(raw) {
		return
	}
	if d.ending == nil {
		d.ending = protocol.Meta{}
	}
	d.ending[key] = raw
}

func (d *decoder) candidate(dst []llm.Event, c *candidate) ([]llm.Event, error) {
	for i := range c.Content.Parts {
		var err error
		if dst, err = d.part(dst, &c.Content.Parts[i]); err != nil {
			return dst, err
		}
	}
	if c.FinishReason != "" {
		d.finish = c.FinishReason
	}
	if c.FinishMessage != "" {
		b, _ := json.Marshal(c.FinishMessage) // cannot fail for a string
		d.keep("finishMessage", b)
	}
	d.keep("groundingMetadata", c.Grounding)
	d.keep("citationMetadata", c.Citations)
	d.keep("urlContextMetadata", c.URLContext)
	return dst, nil
}

func (d *decoder) part(dst []llm.Event, p *answerPart) ([]llm.Event, error) {
	switch {
	case p.FunctionCall != nil:
		return d.call(dst, p)
	case !p.hosted.empty():
		return d.hosted(dst, p)
	case p.Text == "" && p.ThoughtSignature == "":
		return dst, nil // an unknown kind of part
	}
	kind := llm.BlockText
	if p.Thought {
		kind = llm.BlockReasoning
	}
	// A signature belongs to what precedes it: text after it, or a second one, starts a new part.
	behind := d.signature != "" && p.ThoughtSignature != d.signature
	if d.open != kind || behind {
		dst = d.close(dst)
		dst = d.begin(dst, kind)
	}
	if p.ThoughtSignature != "" {
		d.signature = p.ThoughtSignature
	}
	return d.life.Delta(dst, kind, d.id, p.Text), nil
}

func (d *decoder) begin(dst []llm.Event, kind llm.BlockKind) []llm.Event {
	d.open = kind
	if kind == llm.BlockReasoning {
		d.id = "reasoning-" + strconv.Itoa(d.thoughts)
		d.thoughts++
	} else {
		d.id = "text-" + strconv.Itoa(d.texts)
		d.texts++
	}
	return d.life.Open(dst, kind, d.id, nil)
}

func (d *decoder) close(dst []llm.Event) []llm.Event {
	if d.open == llm.BlockUnknown {
		return dst
	}
	dst = d.life.Close(dst, d.open, d.id, d.signed(nil, d.signature))
	d.open, d.id, d.signature = llm.BlockUnknown, "", ""
	return dst
}

// signed adds a signature, which is only valid for models of one family.
func (d *decoder) signed(meta protocol.Meta, signature string) protocol.Meta {
	if signature == "" {
		return meta
	}
	if meta == nil {
		meta = protocol.Meta{}
	}
	meta["thoughtSignature"] = signature
	return d.r.Stamped(meta)
}

func (d *decoder) call(dst []llm.Event, p *answerPart) ([]llm.Event, error) {
	fc := p.FunctionCall
	if fc.Name == "" {
		return dst, protocol.Garbled("a call of the answer has no name")
	}
	var meta protocol.Meta
	if fc.ID != "" {
		meta = protocol.Meta{"functionCallId": fc.ID}
	}
	meta = d.signed(meta, p.ThoughtSignature)
	call := llm.ToolCall{ID: d.unused(fc.ID), Name: fc.Name}
	if isSet(fc.Args) {
		call.Input = string(fc.Args)
	}
	return d.calls.Whole(d.close(dst), call, meta), nil
}

// unused returns the ID of a call: the vendor's, unless it is missing or a duplicate.
func (d *decoder) unused(id string) string {
	for id == "" || d.calls.Used(id) {
		id = d.newID()
	}
	return id
}

// End implements [protocol.Decoder].
func (d *decoder) End(dst []llm.Event) ([]llm.Event, error) {
	if d.life.Finished() {
		return dst, nil
	}
	reason, ok := d.reason()
	if !ok {
		return dst, protocol.Incomplete()
	}
	usage, err := readUsage(d.usage)
	if err != nil {
		return dst, err
	}
	raw := d.finish
	if raw == "" {
		raw = d.blocked
	}
	dst = d.close(dst)
	return d.life.Finish(dst, llm.StepFinish{Reason: reason, RawReason: raw, Usage: usage}, d.ending), nil
}
