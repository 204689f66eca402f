package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// chat is OpenAI's Chat Completions; thinks makes it DeepSeek's, which wants to have reasoning back.
type chat struct{ thinks bool }

func (c chat) schema() string {
	if c.thinks {
		return "deepseek-chat"
	}
	return "openai-chat"
}

func (chat) admit(r *http.Request) error {
	if r.URL.Path != "/v1/chat/completions" {
		return fmt.Errorf("path %s", r.URL.Path)
	}
	return bearer(r)
}

// about is what a local server says of its model.
func (chat) about(r *http.Request) any {
	if r.Method != http.MethodGet || r.URL.Path != "/v1/models" {
		return nil
	}
	return map[string]any{"object": "list", "data": []any{map[string]any{"id": "own-model", "object": "model", "max_model_len": 65536}}}
}

func (chat) failure(status int, message string) any { return responses{}.failure(status, message) }

func (c chat) check(body map[string]any, issued []Answer) error {
	switch tools := list(body["tools"]); {
	case body["stream"] != true:
		return errors.New("not a stream")
	case len(tools) == 0 && (body["tool_choice"] != nil || body["parallel_tool_calls"] != nil):
		return errors.New("tool_choice and parallel_tool_calls are only allowed when tools are specified")
	case c.thinks && len(tools) == 0 && body["tools"] != nil:
		return errors.New("[] is too short - 'tools'")
	default:
		if err := c.tools(tools); err != nil {
			return err
		}
	}
	var open, used []string // calls that wait for their results, and all calls
	thought := 0
	for i, v := range list(body["messages"]) {
		m := object(v)
		if m["role"] != "tool" && len(open) > 0 {
			return fmt.Errorf("messages[%d]: an assistant message with tool_calls must be followed by tool messages for %v", i, open)
		}
		switch m["role"] {
		case "assistant":
			for _, tc := range list(m["tool_calls"]) {
				id := text(object(tc)["id"])
				if id == "" || contains(used, id) {
					return fmt.Errorf("messages[%d]: the id %q of a call is empty or there twice", i, id)
				}
				if name := text(object(object(tc)["function"])["name"]); !openAIName.MatchString(name) {
					return fmt.Errorf("messages[%d]: function.name %q does not match %s", i, name, openAIName)
				}
				open, used = append(open, id), append(used, id)
			}
			if c.thinks {
				if _, has := m["reasoning_content"].(string); !has {
					return fmt.Errorf("messages[%d]: the reasoning_content in the thinking mode must be passed back", i)
				}
				if m["reasoning_content"] != "" {
					thought++
				}
			}
			if m["content"] == nil && len(list(m["tool_calls"])) == 0 {
				return fmt.Errorf("messages[%d]: content or tool_calls must be set", i)
			}
		case "user":
			for _, v := range list(m["content"]) {
				if data, mediaType, ok := dataURL(text(object(object(v)["image_url"])["url"])); ok {
					if err := picture(data, mediaType, webPictures...); err != nil {
						return fmt.Errorf("messages[%d]: %w", i, err)
					}
				}
			}
		case "tool":
			id := text(m["tool_call_id"])
			if !contains(open, id) {
				return fmt.Errorf("messages[%d]: tool message without a preceding call %q", i, id)
			}
			open = without(open, id)
			if c.thinks {
				if _, isText := m["content"].(string); !isText {
					return fmt.Errorf("messages[%d]: content of a tool must be text", i)
				}
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results for %v", open)
	}
	if c.thinks {
		want := 0
		for _, a := range issued {
			if a.Reasoning != "" && !a.Cut {
				want++
			}
		}
		if thought < want {
			return fmt.Errorf("reasoning of %d answers came back, %d had some", thought, want)
		}
	}
	return nil
}

func (chat) tools(tools []any) error {
	var names []string
	for _, v := range tools {
		function := object(object(v)["function"])
		names = append(names, text(function["name"]))
		if err := parameters(text(function["name"]), object(function["parameters"])); err != nil {
			return err
		}
		if err := strict(function, object(function["parameters"])); err != nil {
			return err
		}
	}
	return toolNames(names, openAIName)
}

func without(list []string, s string) []string {
	var out []string
	for _, l := range list {
		if l != s {
			out = append(out, l)
		}
	}
	return out
}

func (c chat) write(s *stream, n int, a Answer) {
	c.chunk(s, n, map[string]any{"role": "assistant", "content": ""}, nil)
	if c.thinks {
		for _, h := range halves(a.Reasoning) {
			c.chunk(s, n, map[string]any{"reasoning_content": h}, nil)
		}
	}
	for _, h := range halves(a.Text) {
		c.chunk(s, n, map[string]any{"content": h}, nil)
	}
	s.repeats()
	finish := "stop"
	for i, call := range a.Calls {
		finish = "tool_calls"
		for j, h := range append([]string{""}, halves(string(marshal(call.Args)))...) {
			tc := map[string]any{"index": i, "function": map[string]any{"arguments": h}}
			if j == 0 {
				tc["id"], tc["type"] = c.callID(n, i, call), "function"
				tc["function"].(map[string]any)["name"] = call.Name
			}
			c.chunk(s, n, map[string]any{"tool_calls": []any{tc}}, nil)
		}
	}
	switch a.Stop {
	case Filtered:
		finish = "content_filter"
	case AtLimit:
		finish = "length"
	}
	c.finish(s, n, finish)
}

// muddle lets the calls' arguments come before their names, in turns, with text and thoughts between.
func (c chat) muddle(s *stream, n int, a Answer) {
	for j := range 3 {
		for i, call := range a.Calls {
			function := map[string]any{}
			tc := map[string]any{"index": i, "function": function}
			if j < 2 {
				function["arguments"] = halves(string(marshal(call.Args)))[j]
			} else {
				tc["id"], function["name"] = c.callID(n, i, call), call.Name
			}
			c.chunk(s, n, map[string]any{"tool_calls": []any{tc}}, nil)
		}
		if j < 2 {
			c.chunk(s, n, map[string]any{"content": halves(a.Text)[j]}, nil)
		}
		if c.thinks {
			c.chunk(s, n, map[string]any{"reasoning_content": "hm"}, nil)
		}
	}
	c.finish(s, n, "tool_calls")
}

// callID is the id of call i of answer n. Behind a router ids can be of any form and length.
func (c chat) callID(n, i int, call Call) string {
	if c.thinks {
		return fmt.Sprintf("call_%02d_%d", n, i)
	}
	return fmt.Sprintf("functions.%s:%d-%s", call.Name, 10*n+i, strings.Repeat("0123456789", 6))
}

func (chat) chunk(s *stream, n int, delta map[string]any, finish any) {
	s.event("", map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "loopback-1",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, "usage": nil,
	})
}

func (c chat) finish(s *stream, n int, reason string) {
	s.completes()
	c.chunk(s, n, map[string]any{}, reason)
	s.event("", map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion.chunk", "choices": []any{},
		"usage": map[string]any{
			"prompt_tokens": 100 * n, "completion_tokens": 20, "total_tokens": 100*n + 20,
			"prompt_tokens_details": map[string]any{"cached_tokens": 10 * n}, "completion_tokens_details": map[string]any{"reasoning_tokens": 5},
		},
	})
	s.pieces = append(s.pieces, []byte("data: [DONE]\n\n"))
}
