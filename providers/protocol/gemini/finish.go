package gemini

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// reason returns why the response ended. ok is false if it has not.
func (d *decoder) reason() (_ llm.FinishReason, ok bool) {
	switch d.finish {
	case "":
		switch {
		case d.blocked != "":
			return llm.FinishContentFilter, true
		case d.calls.Local(): // calls arrive complete, and nothing follows them
			return llm.FinishToolCalls, true
		}
		return llm.FinishUnknown, d.r.Model.Compat.OptionalFinishReason && d.life.Started()
	case "STOP":
		if d.calls.Local() {
			return llm.FinishToolCalls, true
		}
		return llm.FinishStop, true
	case "MAX_TOKENS":
		return llm.FinishLength, true
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
		"IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "LANGUAGE":
		return llm.FinishContentFilter, true
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
		"MALFORMED_RESPONSE", "NO_IMAGE":
		return llm.FinishError, true
	}
	return llm.FinishUnknown, true
}

// readUsage combines the usage figures. The candidates' figure excludes thoughts. Google omits figures that are 0, so either of
// the two is sufficient.
func readUsage(raw []byte) (llm.Usage, error) {
	var u struct {
		Prompt     *int64 `json:"promptTokenCount"`
		Cached     *int64 `json:"cachedContentTokenCount"`
		Candidates *int64 `json:"candidatesTokenCount"`
		Thoughts   *int64 `json:"thoughtsTokenCount"`
		Total      *int64 `json:"totalTokenCount"`
	}
	if len(raw) == 0 {
		return llm.Usage{}, nil
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return llm.Usage{}, protocol.Garbled("the usage of the answer can't be read: " + err.Error())
	}
	return protocol.Tokens{
		Input: u.Prompt, Output: protocol.Sum(u.Candidates, u.Thoughts), Total: u.Total, CacheRead: u.Cached, Reasoning: u.Thoughts,
	}.Usage(raw), nil
}
