package chat

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// reason returns the meaning of a finish reason. An unknown one does not invalidate a complete response.
func reason(raw string) (llm.FinishReason, error) {
	switch strings.ToLower(raw) {
	case "stop", "end":
		return llm.FinishStop, nil
	case "length", "model_length": // the latter is the model's own limit, at Mistral
		return llm.FinishLength, nil
	case "content_filter":
		return llm.FinishContentFilter, nil
	case "tool_calls", "function_call":
		return llm.FinishToolCalls, nil
	case "network_error":
		return 0, protocol.Classify(protocol.Failure{Codes: []string{"internal_error"}, Message: "the vendor ended the response early: network error"})
	case "error":
		return 0, protocol.Classify(protocol.Failure{Message: "the vendor ended the response early with an unexplained error"})
	}
	return llm.FinishUnknown, nil
}

// meter collects usage figures. Later figures replace earlier ones individually.
type meter struct {
	tokens protocol.Tokens
	cost   *float64
	raw    json.RawMessage
}

func (m *meter) read(raw json.RawMessage) {
	var u struct {
		Prompt     figure `json:"prompt_tokens"`
		Completion figure `json:"completion_tokens"`
		Total      figure `json:"total_tokens"`
		PromptOf   struct {
			Cached figure `json:"cached_tokens"`
			Write  figure `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionOf struct {
			Reasoning figure `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		CacheHit  figure `json:"prompt_cache_hit_tokens"`
		Cached    figure `json:"cached_tokens"`
		NumCached figure `json:"num_cached_tokens"`
		Cost      figure `json:"cost"`
	}
	_ = json.Unmarshal(raw, &u) // values of unexpected types are unknown
	t := &m.tokens
	put(&t.Input, u.Prompt)
	put(&t.Output, u.Completion)
	put(&t.Total, u.Total)
	put(&t.CacheRead, u.PromptOf.Cached, u.CacheHit, u.Cached, u.NumCached)
	put(&t.CacheWrite, u.PromptOf.Write)
	put(&t.Reasoning, u.CompletionOf.Reasoning)
	if u.Cost.known {
		m.cost = &u.Cost.n
	}
	m.raw = append(m.raw[:0], raw...)
}

// figure is a number that may be missing or have another type.
type figure struct {
	known bool
	n     float64
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *figure) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(string(b), 64)
	*f = figure{known: err == nil, n: n}
	return nil
}

// put stores the first known figure.
func put(to **int64, figures ...figure) {
	for _, f := range figures {
		if f.known {
			n := int64(f.n)
			*to = &n
			return
		}
	}
}

func (m *meter) usage() llm.Usage {
	u := m.tokens.Usage(m.raw)
	u.CostUSD = m.cost
	return u
}
