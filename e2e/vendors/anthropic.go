package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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

var (
	anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	anthropicID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func (f anthropic) check(body map[string]any, issued []Answer) error {
	if body["stream"] != true {
		return errors.New("not a stream")
	}
	if err := f.options(body); err != nil {
		return err
	}
	var names []string
	for _, v := range list(body["tools"]) {
		tool := object(v)
		names = append(names, text(tool["name"]))
		if tool["type"] != nil && tool["type"] != "custom" {
			continue // the vendor's own
		}
		if err := parameters(text(tool["name"]), object(tool["input_schema"])); err != nil {
			return err
		}
	}
	if err := toolNames(names, anthropicName); err != nil {
		return err
	}
	if err := marks(body); err != nil {
		return err
	}
	paused := len(issued) > 0 && issued[len(issued)-1].Stop == Paused
	signatures, err := f.conversation(body, paused)
	if err != nil {
		return err
	}
	thinking := object(body["thinking"])["type"]
	known := map[string]string{}
	for n, a := range issued {
		sign := sealed("sig", n+1)
		known[sign] = a.Reasoning
		if _, came := signatures[sign]; a.Reasoning != "" && len(a.Calls) > 0 && !came && thinking != "disabled" && thinking != nil {
			return fmt.Errorf("the thinking of answer %d did not come back", n+1)
		}
	}
	for sign, thought := range signatures {
		switch was, ok := known[sign]; {
		case !ok:
			return fmt.Errorf("invalid signature %q in thinking block", sign)
		case was != thought:
			return fmt.Errorf("thinking blocks cannot be modified: %q was %q", thought, was)
		}
	}
	return nil
}

// options checks what goes with what.
func (anthropic) options(body map[string]any) error {
	thinking := object(body["thinking"])
	adaptive := strings.HasPrefix(text(body["model"]), "claude-opus-4-8")
	switch budget, ok := thinking["budget_tokens"].(float64); {
	case ok && (budget < 1024 || budget >= body["max_tokens"].(float64)):
		return fmt.Errorf("thinking.budget_tokens %v with max_tokens %v", budget, body["max_tokens"])
	case thinking["type"] == "enabled" && adaptive:
		return fmt.Errorf("thinking.type.enabled is not supported for %v", body["model"])
	case thinking["type"] != nil && thinking["type"] != "disabled" && slices.Contains([]any{"any", "tool"}, object(body["tool_choice"])["type"]):
		return errors.New("thinking may not be enabled when tool_choice forces tool use")
	case body["tool_choice"] != nil && len(list(body["tools"])) == 0:
		return errors.New("tool_choice may only be specified while providing tools")
	}
	return nil
}

// marks checks those of the prompt's cache: at most four, none on thoughts, and the longer ones first.
func marks(body map[string]any) error {
	found, short := 0, false
	visit := func(block map[string]any) error {
		mark := object(block["cache_control"])
		if mark == nil {
			return nil
		}
		found++
		switch {
		case block["type"] == "thinking" || block["type"] == "redacted_thinking":
			return errors.New("thinking blocks cannot have cache_control")
		case mark["ttl"] == "1h" && short:
			return errors.New("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
		}
		short = short || mark["ttl"] != "1h"
		return nil
	}
	var all []any
	all = append(append(all, list(body["tools"])...), list(body["system"])...)
	for _, m := range list(body["messages"]) {
		for _, b := range list(object(m)["content"]) {
			all = append(append(all, b), list(object(b)["content"])...)
		}
	}
	for _, b := range all {
		if err := visit(object(b)); err != nil {
			return err
		}
	}
	if found > 4 {
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided, found %d", found)
	}
	return nil
}

// conversation checks the messages, and returns what was thought, by its signature. An answer that was paused is to be the
// last one.
func (f anthropic) conversation(body map[string]any, paused bool) (map[string]string, error) {
	for i, v := range list(body["system"]) {
		if strings.TrimSpace(text(object(v)["text"])) == "" {
			return nil, fmt.Errorf("system.%d: text content blocks must be non-empty", i)
		}
	}
	messages := list(body["messages"])
	switch n := len(messages); {
	case n == 0 || object(messages[0])["role"] != "user":
		return nil, errors.New("the first message must be the user's")
	case !paused && object(messages[n-1])["role"] == "assistant":
		return nil, errors.New("the conversation must end with a user message")
	case paused && object(messages[n-1])["role"] != "assistant":
		return nil, errors.New("the answer that was paused must come back as the last message")
	}
	signatures := map[string]string{}
	thinking := object(body["thinking"])["type"]
	var open, used []string
	for i, v := range messages {
		m := object(v)
		blocks := list(m["content"])
		if len(blocks) == 0 && text(m["content"]) == "" {
			return nil, fmt.Errorf("messages.%d: all messages must have non-empty content", i)
		}
		if m["role"] == "user" || len(open) > 0 {
			for j, want := range open {
				if j >= len(blocks) || object(blocks[j])["type"] != "tool_result" {
					return nil, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, want)
				}
			}
		}
		waiting := open
		open = nil
		for j, b := range blocks {
			block, at := object(b), fmt.Sprintf("messages.%d.content.%d", i, j)
			switch block["type"] {
			case "thinking":
				if j > 0 && object(blocks[j-1])["type"] == "tool_use" {
					return nil, fmt.Errorf("%s: thinking after tool_use", at)
				}
				signatures[text(block["signature"])] = text(block["thinking"])
			case "tool_use":
				id := text(block["id"])
				if !anthropicID.MatchString(id) || !anthropicName.MatchString(text(block["name"])) {
					return nil, fmt.Errorf("%s: id %q or name %q does not match %s", at, id, text(block["name"]), anthropicID)
				}
				if contains(used, id) {
					return nil, fmt.Errorf("%s: tool_use ids must be unique, %q is there twice", at, id)
				}
				open, used = append(open, id), append(used, id)
			case "tool_result":
				if !contains(waiting, text(block["tool_use_id"])) {
					return nil, fmt.Errorf("%s: unexpected tool_use_id %q", at, text(block["tool_use_id"]))
				}
				waiting = without(waiting, text(block["tool_use_id"]))
				for _, inner := range list(block["content"]) {
					if block["is_error"] == true && object(inner)["type"] != "text" {
						return nil, fmt.Errorf("%s: all content must be type text if is_error is true", at)
					}
					if err := f.block(at, object(inner)); err != nil {
						return nil, err
					}
				}
			}
			if err := f.block(at, block); err != nil {
				return nil, err
			}
		}
		if len(waiting) > 0 {
			return nil, fmt.Errorf("messages.%d: no tool_result for %v", i, waiting)
		}
		last := i == len(messages)-2 && object(messages[i+1])["role"] == "user"
		if last && len(open) > 0 && thinking == "enabled" && object(blocks[0])["type"] != "thinking" {
			return nil, fmt.Errorf("messages.%d.content.0.type: expected thinking, found %v", i, object(blocks[0])["type"])
		}
	}
	if len(list(body["tools"])) == 0 && strings.Contains(string(marshal(messages)), `"type":"tool_use"`) {
		return nil, errors.New("requests which include tool_use or tool_result blocks must define tools")
	}
	return signatures, nil
}

// block checks a text or a picture.
func (anthropic) block(at string, b map[string]any) error {
	switch b["type"] {
	case "text":
		if strings.TrimSpace(text(b["text"])) == "" {
			return fmt.Errorf("%s: text content blocks must contain non-whitespace text", at)
		}
	case "image":
		if source := object(b["source"]); source["type"] == "base64" {
			if err := picture(text(source["data"]), text(source["media_type"]), webPictures...); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
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
	switch a.Stop {
	case Filtered:
		stop = "refusal"
	case AtLimit:
		stop = "max_tokens"
	case Paused:
		stop = "pause_turn"
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
