package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
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
	return map[string]any{"type": "error", "error": map[string]any{"message": message, "type": failureType(status), "param": nil, "code": nil}}
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

var (
	openAIName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	openAIID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	itemPrefix = map[any]string{
		"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_", "web_search_call": "ws_",
		"tool_search_call": "tsc_",
	}
)

const maxCallID = 64

func (f responses) check(body map[string]any, issued []Answer) error {
	switch model := text(body["model"]); {
	case body["stream"] != true || body["store"] != false:
		return errors.New("a conversation that is not stored must stream with store:false")
	case body["tool_choice"] != nil && len(list(body["tools"])) == 0:
		return errors.New("tool_choice without tools")
	case strings.HasPrefix(model, "gpt-5") && (body["temperature"] != nil || body["top_p"] != nil):
		return fmt.Errorf("unsupported parameter: 'temperature' is not supported with %s", model)
	case len(text(body["prompt_cache_key"])) > 64:
		return errors.New("prompt_cache_key: string too long")
	}
	if err := f.tools(list(body["tools"])); err != nil {
		return err
	}
	thoughts, err := f.items(list(body["input"]), issued)
	if err != nil {
		return err
	}
	for n, a := range issued {
		if a.Reasoning != "" && !contains(thoughts, sealed("enc", n+1)) && (a.Text != "" || len(a.Calls) > 0) {
			return fmt.Errorf("the reasoning of answer %d did not come back", n+1)
		}
	}
	return nil
}

func (responses) tools(tools []any) error {
	var names []string
	for _, v := range tools {
		tool := object(v)
		switch tool["type"] {
		case "function":
			if err := parameters(text(tool["name"]), object(tool["parameters"])); err != nil {
				return err
			}
			if err := strict(tool, object(tool["parameters"])); err != nil {
				return err
			}
		case "custom":
		default:
			continue // the vendor's own
		}
		names = append(names, text(tool["name"]))
	}
	return toolNames(names, openAIName)
}

// strict checks a schema that the model is held to: each property is required, and there are no others.
func strict(tool, schema map[string]any) error {
	if tool["strict"] != true {
		return nil
	}
	if schema["additionalProperties"] != false || len(list(schema["required"])) != len(object(schema["properties"])) {
		return fmt.Errorf("tool %v: strict demands additionalProperties:false and every property in required", tool["name"])
	}
	return nil
}

// items checks a conversation, and returns what was thought.
func (responses) items(items []any, issued []Answer) (thoughts []string, err error) {
	var calls, results, ids []string
	for i, v := range items {
		item := object(v)
		at := fmt.Sprintf("input[%d]", i)
		if id := text(item["id"]); id != "" || item["type"] == "reasoning" {
			switch prefix := itemPrefix[item["type"]]; {
			case !openAIID.MatchString(id):
				return nil, fmt.Errorf("%s.id: %q: expected an ID that contains letters, numbers, underscores, or dashes", at, id)
			case !strings.HasPrefix(id, prefix):
				return nil, fmt.Errorf("%s.id: %q: expected an ID that begins with '%s'", at, id, prefix)
			case contains(ids, id):
				return nil, fmt.Errorf("%s: duplicate item found with id %s", at, id)
			}
			ids = append(ids, id)
			if n := answerOf(id); item["type"] != "reasoning" && n > 0 && n <= len(issued) && issued[n-1].Reasoning != "" && !contains(thoughts, sealed("enc", n)) {
				return nil, fmt.Errorf("%s: item %s of type %v was provided without its required 'reasoning' item", at, id, item["type"])
			}
		}
		switch item["type"] {
		case "function_call", "custom_tool_call":
			id := text(item["call_id"])
			if len(id) > maxCallID || !openAIName.MatchString(text(item["name"])) {
				return nil, fmt.Errorf("%s.call_id: string too long (%d), or name %q", at, len(id), text(item["name"]))
			}
			if contains(calls, id) {
				return nil, fmt.Errorf("%s: call_id %q is there twice", at, id)
			}
			calls = append(calls, id)
		case "tool_search_call": // of the client's
			if item["execution"] != "client" || text(item["call_id"]) == "" {
				return nil, fmt.Errorf("%s: a search for tools by %v with call_id %v", at, item["execution"], item["call_id"])
			}
			calls = append(calls, text(item["call_id"]))
		case "function_call_output", "custom_tool_call_output", "tool_search_output":
			id := text(item["call_id"])
			if !contains(calls, id) || contains(results, id) {
				return nil, fmt.Errorf("%s: no tool call found for the output %q", at, id)
			}
			results = append(results, id)
		case "reasoning":
			sealing := text(item["encrypted_content"])
			switch n := answerOf(text(item["id"])); {
			case sealing == "":
				return nil, fmt.Errorf("%s: reasoning item %q is not stored and has no encrypted content", at, text(item["id"]))
			case n < 1 || n > len(issued) || sealing != sealed("enc", n):
				return nil, fmt.Errorf("%s: the encrypted content for item %s could not be verified", at, text(item["id"]))
			case i+1 == len(items) || object(items[i+1])["role"] == "user":
				return nil, fmt.Errorf("%s: reasoning without the item that follows it", at)
			}
			thoughts = append(thoughts, sealing)
		}
		for _, v := range append(list(item["content"]), list(item["output"])...) {
			if part := object(v); part["type"] == "input_image" {
				if data, mediaType, ok := dataURL(text(part["image_url"])); ok {
					if err := picture(data, mediaType, webPictures...); err != nil {
						return nil, fmt.Errorf("%s: %w", at, err)
					}
				}
			}
		}
	}
	if len(calls) != len(results) {
		return nil, fmt.Errorf("%d tool calls have %d outputs", len(calls), len(results))
	}
	return thoughts, nil
}

// answerOf is the number of the answer that an item of ours was part of; 0: of none.
func answerOf(id string) int {
	parts := strings.Split(id, "_")
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return n
}

// Seal is how the opaque forms of what a vendor's model thought begin; empty: it seals nothing.
func Seal(vendor string) string {
	kind := map[string]string{"openai-responses": "enc", "anthropic": "sig", "gemini": "thought", "bedrock": "proof"}[vendor]
	if kind == "" {
		return ""
	}
	head, _, _ := strings.Cut(sealed(kind, 0), "0")
	return head
}

// Sealed is the opaque form of what OpenAI's model thought in answer n.
func Sealed(n int) string { return sealed("enc", n) }

// sealed is the opaque form of what the model thought in answer n.
func sealed(kind string, n int) string { return fmt.Sprintf("%s-%d-ZG9uJ3QgdG91Y2g=", kind, n) }

// seals are those of all answers so far.
func seals(kind string, answers int) []string {
	var out []string
	for n := range answers {
		out = append(out, sealed(kind, n+1))
	}
	return out
}

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

// finish ends the answer; incomplete is why it is not what the model meant to say.
func (r *reply) finish(incomplete string) {
	r.completes()
	status := "completed"
	if incomplete != "" {
		status = "incomplete"
	}
	final := r.head(status)
	if incomplete != "" {
		final["incomplete_details"] = map[string]any{"reason": incomplete}
	}
	final["output"] = r.output
	final["service_tier"] = "default"
	final["usage"] = map[string]any{
		"input_tokens": 100 * r.n, "input_tokens_details": map[string]any{"cached_tokens": 10 * r.n}, "output_tokens": 20,
		"output_tokens_details": map[string]any{"reasoning_tokens": 5}, "total_tokens": 100*r.n + 20,
	}
	r.send("response."+status, map[string]any{"response": final})
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
	r.finish(map[Stop]string{Filtered: "content_filter", AtLimit: "max_output_tokens"}[a.Stop])
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
	r.finish("")
}
