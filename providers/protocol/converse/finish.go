package converse

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func finishReason(stop string) llm.FinishReason {
	switch stop {
	case "end_turn", "stop_sequence":
		return llm.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return llm.FinishLength
	case "tool_use":
		return llm.FinishToolCalls
	case "content_filtered", "guardrail_intervened":
		return llm.FinishContentFilter
	case "malformed_model_output", "malformed_tool_use":
		return llm.FinishError
	}
	return llm.FinishUnknown
}

func (d *decoder) finish(dst []llm.Event) []llm.Event {
	end := llm.StepFinish{Reason: finishReason(d.stop), RawReason: d.stop, Usage: usageOf(d.usage)}
	if end.Reason == llm.FinishStop && d.calls.Local() {
		end.Reason = llm.FinishToolCalls
	}
	return d.life.Finish(dst, end, d.ending)
}

// usageOf adds cached tokens to the input, which the service reports separately.
func usageOf(raw json.RawMessage) llm.Usage {
	if len(raw) == 0 {
		return llm.Usage{}
	}
	var u struct {
		Input      *int64 `json:"inputTokens"`
		Output     *int64 `json:"outputTokens"`
		Total      *int64 `json:"totalTokens"`
		CacheRead  *int64 `json:"cacheReadInputTokens"`
		CacheWrite *int64 `json:"cacheWriteInputTokens"`
	}
	_ = json.Unmarshal(raw, &u) // values of unexpected types are unknown
	t := protocol.Tokens{Output: u.Output, Total: u.Total, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	if u.Input != nil {
		t.Input = protocol.Sum(u.Input, u.CacheRead, u.CacheWrite)
	}
	return t.Usage(raw)
}

// exception returns the error in an exception frame. Its message begins with its type, which the service's documentation explains.
func exception(f protocol.Frame) *llm.Error {
	failure, ok := protocol.ParseFailure(f.Data)
	if !ok {
		failure = protocol.Failure{Body: string(f.Data)}
	}
	var own struct {
		Original string `json:"originalMessage"` // the message of the model's own server
	}
	_ = json.Unmarshal(f.Data, &own) // not JSON: no message
	failure.Codes = append([]string{f.Event}, failure.Codes...)
	words := []string{f.Event}
	for _, w := range []string{failure.Message, own.Original} {
		if w != "" {
			words = append(words, w)
		}
	}
	failure.Message = strings.Join(words, ": ")
	return protocol.Classify(failure)
}
