package messages

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	cached
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   any    `json:"content"` // a string, or a list of blocks
	IsError   bool   `json:"is_error,omitempty"`
	cached
}

// hostedBlock is a block of a tool that the vendor runs.
type hostedBlock struct{ json.RawMessage }

func (h *history) call(c *llm.ToolCall) {
	m, has := h.hostedMeta(c.Metadata)
	if c.ProviderExecuted {
		if !has || h.hosted.called[c.ID] || !h.hosted.answered[c.ID] && h.at < h.resumes {
			return // another vendor's, or repeated for its result, or never answered
		}
		h.hosted.called[c.ID] = true
		h.answer(hostedBlock{h.hostedCall(c, m)})
		return
	}
	b := &toolUse{
		Type: "tool_use", ID: h.ids.Call(c.ID), Name: protocol.WireName(c.Namespace, c.Name), Input: h.Arguments(c),
	}
	if len(m.Fields) == 0 {
		h.answer(b)
	} else {
		h.answer(withFields(m.Fields, map[string]any{"type": b.Type, "id": b.ID, "name": b.Name, "input": b.Input}))
	}
}

func (h *history) result(r *llm.ToolResult) error {
	if r.ProviderExecuted {
		h.hostedResult(r)
		return nil
	}
	id, ok := h.ids.Result(r.ID)
	if !ok {
		return nil // the vendor rejects a result without a call
	}
	content, err := h.resultContent(r)
	if err != nil {
		return err
	}
	b := &toolResult{Type: "tool_result", ToolUseID: id, Content: content, IsError: r.IsError}
	if len(content) == 1 {
		if t, ok := content[0].(*textBlock); ok {
			b.Content = t.Text
		}
	}
	h.begin(roleUser)
	h.results = append(h.results, b)
	h.remember(b)
	return nil
}

func (h *history) hostedResult(r *llm.ToolResult) {
	m, ok := h.hostedMeta(r.Metadata)
	if !ok || !h.hosted.called[r.ID] || h.hosted.resulted[r.ID] {
		return
	}
	h.hosted.resulted[r.ID] = true
	h.answer(hostedBlock{hostedResult(r, m)})
}

// resultContent is never empty. An error only consists of text, because the vendor accepts nothing else.
func (h *history) resultContent(r *llm.ToolResult) ([]any, error) {
	var out []any
	if r.IsError {
		if s := textOf(r.Content, "\n"); s != "" {
			out = append(out, &textBlock{Type: "text", Text: s})
		}
	} else {
		for _, p := range r.Content {
			switch p := p.(type) {
			case *llm.Text:
				if strings.TrimSpace(p.Text) != "" {
					out = append(out, &textBlock{Type: "text", Text: p.Text})
				}
			case *llm.Media:
				b, err := h.media(p)
				if err != nil {
					return nil, err
				}
				out = append(out, b)
			}
		}
	}
	if len(out) == 0 {
		out = append(out, &textBlock{Type: "text", Text: noOutputText})
	}
	return out, nil
}
