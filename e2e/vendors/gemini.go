package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// gemini is Google's Gemini, a model of the third generation.
type gemini struct{ nothing }

func (gemini) schema() string { return "gemini" }

func (gemini) admit(r *http.Request) error {
	switch {
	case !strings.HasPrefix(r.URL.Path, "/v1beta/models/") || !strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		return fmt.Errorf("path %s", r.URL.Path)
	case r.URL.Query().Get("alt") != "sse":
		return errors.New("alt is not sse")
	case r.Header.Get("X-Goog-Api-Key") != Key || r.URL.Query().Has("key"):
		return errors.New("the key is not in its header")
	}
	return nil
}

func (gemini) failure(status int, message string) any {
	names := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
	return map[string]any{"error": map[string]any{"code": status, "message": message, "status": names[status]}}
}

func (gemini) check(body map[string]any, issued []Answer) error {
	var signatures []string
	var waiting []string // names of calls whose responses must come next
	for i, v := range list(body["contents"]) {
		c := object(v)
		var calls, answered []string
		for j, p := range list(c["parts"]) {
			part := object(p)
			if call := object(part["functionCall"]); call != nil {
				calls = append(calls, text(call["name"]))
				sign := text(part["thoughtSignature"])
				if len(calls) == 1 && sign == "" {
					return fmt.Errorf("contents[%d].parts[%d]: function call `%s` is missing a thought_signature", i, j, text(call["name"]))
				}
				signatures = append(signatures, sign)
			}
			if resp := object(part["functionResponse"]); resp != nil {
				answered = append(answered, text(resp["name"]))
			}
		}
		if len(waiting) > 0 && fmt.Sprint(answered) != fmt.Sprint(waiting) {
			return fmt.Errorf("contents[%d]: the responses %v are not those of the calls %v", i, answered, waiting)
		}
		if len(waiting) == 0 && len(answered) > 0 {
			return fmt.Errorf("contents[%d]: a function response turn must come right after a function call turn", i)
		}
		waiting = calls
	}
	if len(waiting) > 0 {
		return fmt.Errorf("no responses for %v", waiting)
	}
	for n, a := range issued {
		if len(a.Calls) > 0 && !contains(signatures, sealed("sig", n+1)) {
			return fmt.Errorf("the signature of answer %d did not come back", n+1)
		}
	}
	return nil
}

func (f gemini) write(s *stream, n int, a Answer) {
	for _, h := range halves(a.Reasoning) {
		if h != "" {
			f.send(s, n, "", map[string]any{"text": h, "thought": true})
		}
	}
	for _, h := range halves(a.Text) {
		if h != "" {
			f.send(s, n, "", map[string]any{"text": h})
		}
	}
	s.repeats()
	var parts []any
	for i, c := range a.Calls {
		parts = append(parts, f.call(n, i, c))
	}
	if parts != nil {
		f.send(s, n, "", parts...)
	}
	s.completes()
	f.send(s, n, "STOP", map[string]any{"text": ""})
}

// muddle puts thoughts and calls between the pieces of the text.
func (f gemini) muddle(s *stream, n int, a Answer) {
	for j, h := range halves(a.Text) {
		f.send(s, n, "", map[string]any{"text": "hm", "thought": true}, map[string]any{"text": h})
		if j < len(a.Calls) {
			f.send(s, n, "", f.call(n, j, a.Calls[j]))
		}
	}
	s.completes()
	f.send(s, n, "STOP")
}

func (gemini) send(s *stream, n int, finish string, parts ...any) {
	usage := map[string]any{
		"promptTokenCount": 100 * n, "cachedContentTokenCount": 10 * n, "candidatesTokenCount": 15, "thoughtsTokenCount": 5, "totalTokenCount": 100*n + 20,
	}
	c := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if finish != "" {
		c["finishReason"] = finish
	}
	s.event("", map[string]any{"candidates": []any{c}, "usageMetadata": usage, "modelVersion": "gemini-loopback", "responseId": fmt.Sprintf("r%d", n)})
}

// call is call i of answer n; the first one of an answer is signed.
func (gemini) call(n, i int, c Call) map[string]any {
	part := map[string]any{"functionCall": map[string]any{"id": fmt.Sprintf("fc%d%d", n, i), "name": c.Name, "args": c.Args}}
	if i == 0 {
		part["thoughtSignature"] = sealed("sig", n)
	}
	return part
}
