package script

import (
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Usage is the usage of a response. In a script it is an object, or "none" (unknown). The default is an estimate: one token per
// four bytes of input and output.
type Usage struct {
	None bool `json:"-"`

	Input      *int64 `json:"input,omitempty"`
	Output     *int64 `json:"output,omitempty"`
	Total      *int64 `json:"total,omitempty"`
	CacheRead  *int64 `json:"cache_read,omitempty"`
	CacheWrite *int64 `json:"cache_write,omitempty"`
	Reasoning  *int64 `json:"reasoning,omitempty"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *Usage) UnmarshalJSON(b []byte) error {
	var name string
	if json.Unmarshal(b, &name) == nil {
		if name != "none" {
			return fmt.Errorf("usage: %q is neither \"none\" nor an object", name)
		}
		*u = Usage{None: true}
		return nil
	}
	type plain Usage
	if err := strict(b, (*plain)(u)); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (u Usage) MarshalJSON() ([]byte, error) {
	if u.None {
		return json.Marshal("none")
	}
	type plain Usage
	return json.Marshal(plain(u))
}

func (u *Usage) tokens(req *llm.Request, answered int) llm.Usage {
	switch {
	case u == nil:
		in, out := tokens(requestBytes(req)), tokens(answered)
		total := in + out
		return llm.Usage{Input: &in, Output: &out, Total: &total}
	case u.None:
		return llm.Usage{}
	}
	out := llm.Usage{Input: u.Input, Output: u.Output, Total: u.Total, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning}
	if out.Total == nil && (u.Input != nil || u.Output != nil) {
		var total int64
		for _, n := range []*int64{u.Input, u.Output} {
			if n != nil {
				total += *n
			}
		}
		out.Total = &total
	}
	return out
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// requestBytes counts the bytes of a request's texts, approximately as a vendor would.
func requestBytes(req *llm.Request) int {
	n := 0
	for _, s := range req.System {
		n += len(s)
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.InputSchema)
		if t.Freeform != nil {
			n += len(t.Freeform.Definition)
		}
	}
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			n += partBytes(p)
		}
	}
	return n
}

func partBytes(p llm.Part) int {
	switch p := p.(type) {
	case *llm.Text:
		return len(p.Text)
	case *llm.Reasoning:
		return len(p.Text)
	case *llm.Media:
		return len(p.Data)
	case *llm.ToolCall:
		return len(p.Name) + len(p.Input)
	case *llm.ToolResult:
		n := 0
		for _, c := range p.Content {
			n += partBytes(c)
		}
		return n
	}
	return 0
}
