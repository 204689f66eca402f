package vendors

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
)

// ollama is Ollama's own chat.
type ollama struct{}

func (ollama) schema() string { return "ollama-chat" }

func (ollama) admit(r *http.Request) error {
	if r.URL.Path != "/api/chat" {
		return fmt.Errorf("path %s", r.URL.Path)
	}
	return nil
}

// about describes the one model that the server has.
func (ollama) about(r *http.Request) any {
	switch r.URL.Path {
	case "/api/show":
		return map[string]any{
			"details": map[string]any{"family": "qwen3"}, "capabilities": []any{"completion", "tools", "thinking", "vision"},
			"model_info": map[string]any{"general.architecture": "qwen3", "qwen3.context_length": 40960},
		}
	case "/api/ps":
		return map[string]any{"models": []any{map[string]any{"name": "qwen3:8b", "context_length": 32768}}}
	case "/api/tags":
		return map[string]any{"models": []any{map[string]any{"name": "qwen3:8b"}}}
	}
	return nil
}

func (ollama) failure(_ int, message string) any { return map[string]any{"error": message} }

func (ollama) check(body map[string]any, issued []Answer) error {
	if body["stream"] == false {
		return errors.New("not a stream")
	}
	if object(body["options"])["num_ctx"] == nil {
		return errors.New("no num_ctx: the server would cut off what is longer than its own default")
	}
	if think, ok := body["think"].(string); ok && !contains([]string{"low", "medium", "high"}, think) {
		return fmt.Errorf("invalid think value: %q", think)
	}
	var names []string
	for _, v := range list(body["tools"]) {
		names = append(names, text(object(object(v)["function"])["name"]))
	}
	if err := toolNames(names, openAIName); err != nil {
		return err
	}
	calls, results, thoughts := 0, 0, 0
	for i, v := range list(body["messages"]) {
		m := object(v)
		if text(m["thinking"]) != "" {
			thoughts++
		}
		for j, c := range list(m["tool_calls"]) {
			calls++
			if object(object(object(c)["function"])["arguments"]) == nil {
				return fmt.Errorf("messages[%d].tool_calls[%d]: arguments are not an object", i, j)
			}
		}
		for _, image := range list(m["images"]) {
			if _, err := base64.StdEncoding.DecodeString(text(image)); err != nil {
				return fmt.Errorf("messages[%d].images: %w", i, err)
			}
		}
		if m["role"] == "tool" {
			results++
			if text(m["tool_name"]) == "" {
				return fmt.Errorf("messages[%d]: no tool_name", i)
			}
		}
	}
	if calls != results {
		return fmt.Errorf("%d calls have %d results", calls, results)
	}
	want := 0
	for _, a := range issued {
		if a.Reasoning != "" && !a.Cut {
			want++
		}
	}
	if thoughts < want {
		return fmt.Errorf("thinking of %d answers came back, %d had some", thoughts, want)
	}
	return nil
}

func (f ollama) write(s *stream, n int, a Answer) {
	for _, h := range halves(a.Reasoning) {
		if h != "" {
			f.send(s, map[string]any{"thinking": h})
		}
	}
	for _, h := range halves(a.Text) {
		if h != "" {
			f.send(s, map[string]any{"content": h})
		}
	}
	s.repeats()
	for i, c := range a.Calls {
		f.send(s, f.call(i, c))
	}
	reason := "stop"
	if a.Stop == AtLimit {
		reason = "length"
	}
	f.finish(s, n, reason)
}

// muddle puts calls and thoughts between the pieces of the text.
func (f ollama) muddle(s *stream, n int, a Answer) {
	for j, h := range halves(a.Text) {
		f.send(s, map[string]any{"content": h})
		if j < len(a.Calls) {
			f.send(s, f.call(j, a.Calls[j]))
		}
		f.send(s, map[string]any{"thinking": "hm"})
	}
	f.finish(s, n, "stop")
}

func (ollama) send(s *stream, message map[string]any) {
	message["role"] = "assistant"
	if message["content"] == nil {
		message["content"] = ""
	}
	s.line(map[string]any{"model": "loopback", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})
}

func (ollama) call(i int, c Call) map[string]any {
	return map[string]any{"tool_calls": []any{map[string]any{"function": map[string]any{"index": i, "name": c.Name, "arguments": c.Args}}}}
}

func (ollama) finish(s *stream, n int, reason string) {
	s.completes()
	s.line(map[string]any{
		"model": "loopback", "created_at": "2026-01-01T00:00:00Z", "message": map[string]any{"role": "assistant", "content": ""}, "done": true,
		"done_reason": reason, "prompt_eval_count": 100 * n, "eval_count": 20,
	})
}
