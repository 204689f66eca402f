package vendors

import (
	"errors"
	"fmt"
	"net/http"
)

// responses is OpenAI's Responses.
type responses struct{ nothing }

func (responses) schema() string { return "openai-responses" }

func (responses) admit(r *http.Request) error {
	if r.URL.Path != "/v1/responses" {
		return fmt.Errorf("path %s", r.URL.Path)
	}
	return bearer(r)
}

func bearer(r *http.Request) error {
	if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+Key {
		return fmt.Errorf("authorization of %d values is not the key", len(got))
	}
	return nil
}

func (responses) failure(status int, message string) any {
	return map[string]any{"error": map[string]any{"message": message, "type": failureType(status), "param": nil, "code": nil}}
}

func failureType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 429:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

func (responses) check(body map[string]any, issued []Answer) error {
	if body["stream"] != true || body["store"] != false {
		return errors.New("a conversation that is not stored must stream with store:false")
	}
	if body["tool_choice"] != nil && len(list(body["tools"])) == 0 {
		return errors.New("tool_choice without tools")
	}
	var calls, results []string
	var thoughts []string
	items := list(body["input"])
	for i, v := range items {
		item := object(v)
		switch item["type"] {
		case "function_call", "custom_tool_call":
			calls = append(calls, text(item["call_id"]))
		case "function_call_output", "custom_tool_call_output":
			id := text(item["call_id"])
			if !contains(calls, id) {
				return fmt.Errorf("input[%d]: no tool call found for the output %q", i, id)
			}
			results = append(results, id)
		case "reasoning":
			if text(item["encrypted_content"]) == "" {
				return fmt.Errorf("input[%d]: reasoning item %q is not stored and has no encrypted content", i, text(item["id"]))
			}
			thoughts = append(thoughts, text(item["encrypted_content"]))
			if i+1 == len(items) || object(items[i+1])["role"] == "user" {
				return fmt.Errorf("input[%d]: reasoning without the item that follows it", i)
			}
		}
	}
	if len(calls) != len(results) {
		return fmt.Errorf("%d tool calls have %d outputs", len(calls), len(results))
	}
	for n, a := range issued {
		if a.Reasoning != "" && !contains(thoughts, sealed("enc", n+1)) && (a.Text != "" || len(a.Calls) > 0) {
			return fmt.Errorf("the reasoning of answer %d did not come back", n+1)
		}
	}
	return nil
}

// sealed is the opaque form of what the model thought in answer n.
func sealed(kind string, n int) string { return fmt.Sprintf("%s-%d-ZG9uJ3QgdG91Y2g=", kind, n) }

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// reply renders one answer. Its events are numbered.
type reply struct {
	*stream
	n      int
	seq    int
	output []any
}

func (r *reply) send(typ string, fields map[string]any) {
	fields["type"], fields["sequence_number"] = typ, r.seq
	r.seq++
	r.event(typ, fields)
}

func (r *reply) head(status string) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("resp_%d", r.n), "object": "response", "status": status, "model": "gpt-5.4-2026-03-05", "output": []any{},
	}
}

func begin(s *stream, n int) *reply {
	r := &reply{stream: s, n: n}
	r.send("response.created", map[string]any{"response": r.head("in_progress")})
	r.send("response.in_progress", map[string]any{"response": r.head("in_progress")})
	return r
}

func (r *reply) open(item map[string]any) int {
	index := len(r.output)
	r.output = append(r.output, nil)
	r.send("response.output_item.added", map[string]any{"output_index": index, "item": item})
	return index
}

func (r *reply) done(index int, item map[string]any) {
	r.output[index] = item
	r.send("response.output_item.done", map[string]any{"output_index": index, "item": item})
}

func (r *reply) finish() {
	r.completes()
	final := r.head("completed")
	final["output"] = r.output
	final["service_tier"] = "default"
	final["usage"] = map[string]any{
		"input_tokens": 100 * r.n, "input_tokens_details": map[string]any{"cached_tokens": 10 * r.n}, "output_tokens": 20,
		"output_tokens_details": map[string]any{"reasoning_tokens": 5}, "total_tokens": 100*r.n + 20,
	}
	r.send("response.completed", map[string]any{"response": final})
}

// call is call i, as an item.
func (r *reply) call(i int, c Call, status, arguments string) map[string]any {
	return map[string]any{
		"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", r.n, i), "call_id": fmt.Sprintf("call_%d_%d", r.n, i), "name": c.Name,
		"arguments": arguments, "status": status,
	}
}

// message is the text, as an item.
func (r *reply) message(status string, parts ...any) map[string]any {
	return map[string]any{"type": "message", "id": fmt.Sprintf("msg_%d", r.n), "role": "assistant", "status": status, "content": append([]any{}, parts...)}
}

func (responses) write(s *stream, n int, a Answer) {
	r := begin(s, n)
	if a.Reasoning != "" {
		rid := fmt.Sprintf("rs_%d", n)
		at := r.open(map[string]any{"type": "reasoning", "id": rid, "summary": []any{}})
		where := func(m map[string]any) map[string]any {
			m["item_id"], m["output_index"], m["summary_index"] = rid, at, 0
			return m
		}
		part := map[string]any{"type": "summary_text", "text": a.Reasoning}
		r.send("response.reasoning_summary_part.added", where(map[string]any{"part": map[string]any{"type": "summary_text", "text": ""}}))
		for _, h := range halves(a.Reasoning) {
			r.send("response.reasoning_summary_text.delta", where(map[string]any{"delta": h}))
		}
		r.send("response.reasoning_summary_text.done", where(map[string]any{"text": a.Reasoning}))
		r.send("response.reasoning_summary_part.done", where(map[string]any{"part": part}))
		r.done(at, map[string]any{"type": "reasoning", "id": rid, "summary": []any{part}, "encrypted_content": sealed("enc", n)})
	}
	if a.Text != "" {
		at := r.open(r.message("in_progress"))
		where := func(m map[string]any) map[string]any {
			m["item_id"], m["output_index"], m["content_index"] = fmt.Sprintf("msg_%d", n), at, 0
			return m
		}
		part := map[string]any{"type": "output_text", "text": a.Text, "annotations": []any{}}
		r.send("response.content_part.added", where(map[string]any{"part": map[string]any{"type": "output_text", "text": "", "annotations": []any{}}}))
		for _, h := range halves(a.Text) {
			r.send("response.output_text.delta", where(map[string]any{"delta": h}))
		}
		r.repeats()
		r.send("response.output_text.done", where(map[string]any{"text": a.Text}))
		r.send("response.content_part.done", where(map[string]any{"part": part}))
		r.done(at, r.message("completed", part))
	}
	for i, c := range a.Calls {
		args := string(marshal(c.Args))
		at := r.open(r.call(i, c, "in_progress", ""))
		for _, h := range halves(args) {
			r.send("response.function_call_arguments.delta", map[string]any{"item_id": fmt.Sprintf("fc_%d_%d", n, i), "output_index": at, "delta": h})
		}
		r.send("response.function_call_arguments.done", map[string]any{"item_id": fmt.Sprintf("fc_%d_%d", n, i), "output_index": at, "arguments": args})
		r.done(at, r.call(i, c, "completed", args))
	}
	r.finish()
}

// muddle opens all items at once, speaks of items that there are none of and of right ones by wrong names, and ends them
// the other way round and twice.
func (responses) muddle(s *stream, n int, a Answer) {
	r := begin(s, n)
	r.send("response.output_text.delta", map[string]any{"item_id": "msg_none", "output_index": 77, "content_index": 0, "delta": "nobody"})
	text := r.open(r.message("in_progress"))
	for i, c := range a.Calls {
		r.open(r.call(i, c, "in_progress", ""))
	}
	for j := range 2 {
		r.send("response.output_text.delta", map[string]any{"item_id": "msg_wrong", "output_index": text, "content_index": 0, "delta": halves(a.Text)[j]})
		for i, c := range a.Calls {
			r.send("response.function_call_arguments.delta", map[string]any{
				"item_id": fmt.Sprintf("fc_wrong_%d", i), "output_index": i + 1, "delta": halves(string(marshal(c.Args)))[j],
			})
		}
	}
	for i := len(a.Calls) - 1; i >= 0; i-- {
		for range 2 {
			r.done(i+1, r.call(i, a.Calls[i], "completed", string(marshal(a.Calls[i].Args))))
		}
	}
	r.done(text, r.message("completed", map[string]any{"type": "output_text", "text": a.Text, "annotations": []any{}}))
	r.finish()
}
