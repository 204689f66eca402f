package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// anthropic is Anthropic's Messages.
type anthropic struct{ nothing }

func (anthropic) schema() string { return "anthropic-messages" }

func (anthropic) admit(r *http.Request) error {
	switch {
	case r.URL.Path != "/v1/messages":
		return fmt.Errorf("path %s", r.URL.Path)
	case r.Header.Get("X-Api-Key") != Key:
		return errors.New("x-api-key header is required")
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return fmt.Errorf("anthropic-version %q", r.Header.Get("Anthropic-Version"))
	}
	return nil
}

func (anthropic) failure(status int, message string) any {
	types := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
		500: "api_error", 529: "overloaded_error",
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": types[status], "message": message}, "request_id": "req_loopback"}
}

func (anthropic) check(body map[string]any, issued []Answer) error {
	if body["stream"] != true {
		return errors.New("not a stream")
	}
	thinking := object(body["thinking"])["type"]
	if budget, ok := object(body["thinking"])["budget_tokens"].(float64); ok && (budget < 1024 || budget >= body["max_tokens"].(float64)) {
		return fmt.Errorf("thinking.budget_tokens %v with max_tokens %v", budget, body["max_tokens"])
	}
	if marks := strings.Count(string(marshal(body)), `"cache_control":{`); marks > 4 {
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", marks)
	}
	messages := list(body["messages"])
	if len(messages) == 0 || object(messages[0])["role"] != "user" {
		return errors.New("the first message must be the user's")
	}
	var signatures []string
	var open []string
	for i, v := range messages {
		m := object(v)
		blocks := list(m["content"])
		if m["role"] == "user" || len(open) > 0 {
			for j, want := range open {
				if j >= len(blocks) || object(blocks[j])["type"] != "tool_result" {
					return fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, want)
				}
			}
		}
		waiting := open
		open = nil
		for j, b := range blocks {
			block := object(b)
			switch block["type"] {
			case "text":
				if strings.TrimSpace(text(block["text"])) == "" {
					return fmt.Errorf("messages.%d.content.%d: text content blocks must contain non-whitespace text", i, j)
				}
			case "thinking":
				if j > 0 && object(blocks[j-1])["type"] == "tool_use" {
					return fmt.Errorf("messages.%d.content.%d: thinking after tool_use", i, j)
				}
				signatures = append(signatures, text(block["signature"]))
			case "tool_use":
				open = append(open, text(block["id"]))
			case "tool_result":
				if !contains(waiting, text(block["tool_use_id"])) {
					return fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id %q", i, j, text(block["tool_use_id"]))
				}
				waiting = without(waiting, text(block["tool_use_id"]))
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("messages.%d: no tool_result for %v", i, waiting)
		}
		last := i == len(messages)-2 && object(messages[i+1])["role"] == "user"
		if last && len(open) > 0 && thinking == "enabled" && object(blocks[0])["type"] != "thinking" {
			return fmt.Errorf("messages.%d.content.0.type: expected thinking, found %v", i, object(blocks[0])["type"])
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no tool_result for %v", open)
	}
	known := map[string]bool{}
	for n, a := range issued {
		sign := sealed("sig", n+1)
		known[sign] = true
		if a.Reasoning != "" && len(a.Calls) > 0 && !contains(signatures, sign) && thinking != "disabled" && thinking != nil {
			return fmt.Errorf("the thinking of answer %d did not come back", n+1)
		}
	}
	for _, s := range signatures {
		if !known[s] {
			return fmt.Errorf("invalid signature %q in thinking block", s)
		}
	}
	return nil
}

func (f anthropic) write(s *stream, n int, a Answer) {
	f.begin(s, n)
	index := 0
	block := func(start map[string]any, deltas ...map[string]any) {
		f.send(s, "content_block_start", map[string]any{"index": index, "content_block": start})
		for _, d := range deltas {
			f.send(s, "content_block_delta", map[string]any{"index": index, "delta": d})
		}
		if start["type"] == "text" {
			s.repeats()
		}
		f.send(s, "content_block_stop", map[string]any{"index": index})
		index++
	}
	pieces := func(typ, field, whole string) (out []map[string]any) {
		for _, h := range halves(whole) {
			out = append(out, map[string]any{"type": typ, field: h})
		}
		return out
	}
	if a.Reasoning != "" {
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""},
			append(pieces("thinking_delta", "thinking", a.Reasoning), map[string]any{"type": "signature_delta", "signature": sealed("sig", n)})...)
	}
	if a.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, pieces("text_delta", "text", a.Text)...)
	}
	stop := "end_turn"
	for i, c := range a.Calls {
		stop = "tool_use"
		block(f.use(n, i, c), pieces("input_json_delta", "partial_json", string(marshal(c.Args)))...)
	}
	f.finish(s, stop)
}

// muddle opens all blocks at once, numbers them backwards, and speaks of blocks that there are none of.
func (f anthropic) muddle(s *stream, n int, a Answer) {
	f.begin(s, n)
	delta := func(index int, typ, field, text string) {
		f.send(s, "content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": typ, field: text}})
	}
	delta(77, "input_json_delta", "partial_json", "{")
	last := len(a.Calls)
	f.send(s, "content_block_start", map[string]any{"index": last, "content_block": map[string]any{"type": "text", "text": ""}})
	for i, c := range a.Calls {
		f.send(s, "content_block_start", map[string]any{"index": i, "content_block": f.use(n, i, c)})
	}
	for j := range 2 {
		delta(last, "text_delta", "text", halves(a.Text)[j])
		for i, c := range a.Calls {
			delta(i, "input_json_delta", "partial_json", halves(string(marshal(c.Args)))[j])
		}
	}
	f.send(s, "content_block_stop", map[string]any{"index": 78})
	for i := range last + 1 {
		f.send(s, "content_block_stop", map[string]any{"index": i})
	}
	f.finish(s, "tool_use")
}

func (anthropic) send(s *stream, typ string, fields map[string]any) {
	fields["type"] = typ
	s.event(typ, fields)
}

func (f anthropic) begin(s *stream, n int) {
	f.send(s, "message_start", map[string]any{"message": map[string]any{
		"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": "claude-loopback", "content": []any{}, "stop_reason": nil,
		"stop_sequence": nil, "usage": map[string]any{
			"input_tokens": 90 * n, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 10 * n, "output_tokens": 1,
		},
	}})
	f.send(s, "ping", map[string]any{})
}

func (f anthropic) finish(s *stream, stop string) {
	s.completes()
	f.send(s, "message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 20},
	})
	f.send(s, "message_stop", map[string]any{})
}

// use is the beginning of call i of answer n.
func (anthropic) use(n, i int, c Call) map[string]any {
	return map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, i), "name": c.Name, "input": map[string]any{}}
}
