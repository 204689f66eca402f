package responses

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// wireUsage is a usage object. Null and absent figures are unknown.
type wireUsage struct {
	Input        *int64 `json:"input_tokens"`
	InputDetails struct {
		Cached  *int64 `json:"cached_tokens"`
		Written *int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        *int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total *int64 `json:"total_tokens"`
}

func usageOf(raw json.RawMessage) llm.Usage {
	if !known(raw) {
		return llm.Usage{}
	}
	var u wireUsage
	if json.Unmarshal(raw, &u) != nil {
		u = wireUsage{} // unknown, but the raw object is kept
	}
	return protocol.Tokens{
		Input: u.Input, Output: u.Output, Total: u.Total,
		CacheRead: u.InputDetails.Cached, CacheWrite: u.InputDetails.Written, Reasoning: u.OutputDetails.Reasoning,
	}.Usage(raw)
}

// takeResponse reads the response's own fields from a frame. Fields that a later frame omits keep their values.
func (d *decoder) takeResponse() error {
	d.response.Output, d.response.Error = nil, nil
	if !known(d.frame.Response) {
		return nil
	}
	if err := json.Unmarshal(d.frame.Response, &d.response); err != nil {
		return protocol.Garbled(d.frame.Type + ": " + err.Error())
	}
	d.life.Step = llm.StepStart{ServedModel: d.response.Model, ResponseID: d.response.ID}
	return nil
}

func (d *decoder) announced(dst []llm.Event) ([]llm.Event, error) { return dst, d.takeResponse() }

func (d *decoder) completed(dst []llm.Event) ([]llm.Event, error) {
	if err := d.takeResponse(); err != nil {
		return dst, err
	}
	return d.complete(dst, "completed")
}

func (d *decoder) complete(dst []llm.Event, raw string) ([]llm.Event, error) {
	dst, err := d.reconcile(dst)
	if err == nil {
		dst, err = d.calls.FinishAll(dst)
	}
	if err != nil {
		return dst, err
	}
	reason := llm.FinishStop
	if d.calls.Local() {
		reason = llm.FinishToolCalls
	}
	return d.finish(dst, reason, raw), nil
}

func (d *decoder) incomplete(dst []llm.Event) ([]llm.Event, error) {
	if err := d.takeResponse(); err != nil {
		return dst, err
	}
	dst, err := d.reconcile(dst)
	if err != nil {
		return dst, err
	}
	raw := d.response.IncompleteDetails.Reason
	switch raw { // the call in which the response was truncated stays open
	case "max_output_tokens":
		return d.finish(dst, llm.FinishLength, raw), nil
	case "content_filter":
		return d.finish(dst, llm.FinishContentFilter, raw), nil
	}
	if dst, err = d.calls.FinishAll(dst); err != nil {
		return dst, err
	}
	reason := llm.FinishUnknown
	if d.calls.Local() {
		reason = llm.FinishToolCalls
	}
	return d.finish(dst, reason, raw), nil
}

func (d *decoder) finish(dst []llm.Event, reason llm.FinishReason, raw string) []llm.Event {
	meta := protocol.Meta{}
	if d.response.ID != "" {
		meta["responseId"] = d.response.ID
	}
	if d.response.ServiceTier != "" {
		meta["serviceTier"] = d.response.ServiceTier
	}
	done := d.response.EndTurn == nil || *d.response.EndTurn
	return d.life.Finish(dst, llm.StepFinish{
		Reason: reason, RawReason: raw, Usage: usageOf(d.response.Usage), Again: reason == llm.FinishStop && !done,
	}, meta)
}

// reconcile emits the items of the finished response that the stream omitted, and closes reasoning that it left open. IDs may
// differ from those in the stream, so reasoning and text are only emitted if the stream had none at all: a duplicate is worse than
// an omission.
func (d *decoder) reconcile(dst []llm.Event) ([]llm.Event, error) {
	streamed := map[string]bool{}
	for _, it := range d.order {
		streamed[it.kind] = true
	}
	for i, raw := range d.response.Output {
		w, err := d.decodeItem(raw)
		if err != nil {
			return dst, err
		}
		if w == nil || w.cutOff() {
			continue
		}
		it := d.at[i]
		if it == nil || it.kind != w.Type {
			it = d.items[w.ID]
		}
		switch {
		case it != nil && it.kind == w.Type:
		case streamed[w.Type] && (w.Type == typeMessage || w.Type == typeReasoning):
			continue
		default:
			it = d.announce(i, w)
		}
		if dst, err = d.end(dst, it, w, raw); err != nil {
			return dst, err
		}
	}
	for _, it := range d.order {
		if it.kind == typeReasoning && !it.done {
			dst = d.closeThought(dst, it, "")
		}
	}
	return dst, nil
}

func (d *decoder) failed(dst []llm.Event) ([]llm.Event, error) {
	if err := d.takeResponse(); err != nil {
		return dst, err
	}
	if !known(d.response.Error) {
		return dst, &llm.Error{
			Code: llm.ErrProviderInternal, Retryable: true, Message: "the vendor ended the response without giving a reason",
		}
	}
	// Only the error is classified: the rest of the frame repeats the request, which may contain any text.
	return dst, errorOf(append(append([]byte(`{"error":`), d.response.Error...), '}'))
}

// errorOf returns the error in a vendor's error object. Other data become the message.
func errorOf(data []byte) *llm.Error {
	f, ok := protocol.ParseFailure(data)
	if !ok {
		return protocol.Classify(protocol.Failure{Message: string(data)})
	}
	code := ""
	if len(f.Codes) > 0 {
		code = f.Codes[0]
	}
	if f.Message = strings.TrimSpace(f.Message); f.Message != "" && code != "" {
		f.Message = code + ": " + f.Message
	}
	e := protocol.Classify(f)
	if e.Code != llm.ErrUnknown {
		return e
	}
	switch code { // codes that no other vendor has
	case "vector_store_timeout":
		e.Code, e.Retryable = llm.ErrProviderInternal, true
	case "data_residency_mismatch":
		e.Code = llm.ErrInvalidRequest
	}
	return e
}
