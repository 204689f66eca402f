package vendors

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
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

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// skipped stands for a signature that nobody has: of a call that another model made.
const skipped = "skip_thought_signature_validator"

func (f gemini) check(body map[string]any, issued []Answer) error {
	if err := f.tools(list(body["tools"])); err != nil {
		return err
	}
	var signatures []string
	called := false      // else what was said is gone, and an account stands in its place
	var waiting []string // names of calls whose responses must come next
	before := ""         // role of the content before
	for i, v := range list(body["contents"]) {
		c := object(v)
		role := text(c["role"])
		if i == 0 && role != "user" {
			return errors.New("contents[0]: please ensure that a conversation begins with a user turn")
		}
		if len(list(c["parts"])) == 0 {
			return fmt.Errorf("contents[%d].parts: must not be empty", i)
		}
		var calls, answered []string
		for j, p := range list(c["parts"]) {
			part, at := object(p), fmt.Sprintf("contents[%d].parts[%d]", i, j)
			if len(part) == 0 {
				return fmt.Errorf("%s.data: required oneof field 'data' must have one initialized field", at)
			}
			sign := text(part["thoughtSignature"])
			if call := object(part["functionCall"]); call != nil {
				if before != "user" {
					return fmt.Errorf("%s: please ensure that function call turn comes immediately after a user turn or after a function response turn", at)
				}
				if !geminiName.MatchString(text(call["name"])) {
					return fmt.Errorf("%s: invalid function name %q", at, text(call["name"]))
				}
				calls, called = append(calls, text(call["name"])), true
				if len(calls) == 1 && sign == "" {
					return fmt.Errorf("%s: function call `%s` is missing a thought_signature", at, text(call["name"]))
				}
			}
			if sign != "" && sign != skipped && !contains(seals("thought", len(issued)), sign) {
				return fmt.Errorf("%s: corrupted thought signature", at)
			}
			signatures = append(signatures, sign)
			if resp := object(part["functionResponse"]); resp != nil {
				answered = append(answered, text(resp["name"]))
				for _, inner := range list(resp["parts"]) {
					if err := f.picture(at, object(inner)); err != nil {
						return err
					}
				}
			}
			if err := f.picture(at, part); err != nil {
				return err
			}
		}
		if len(waiting) > 0 && fmt.Sprint(answered) != fmt.Sprint(waiting) {
			return fmt.Errorf("contents[%d]: the responses %v are not those of the calls %v", i, answered, waiting)
		}
		if len(waiting) == 0 && len(answered) > 0 {
			return fmt.Errorf("contents[%d]: a function response turn must come right after a function call turn", i)
		}
		waiting, before = calls, role
	}
	if len(waiting) > 0 {
		return fmt.Errorf("no responses for %v", waiting)
	}
	for n, a := range issued {
		if called && len(a.Calls) > 0 && !contains(signatures, sealed("thought", n+1)) {
			return fmt.Errorf("the signature of answer %d did not come back", n+1)
		}
	}
	return nil
}

func (gemini) tools(tools []any) error {
	var names []string
	for _, v := range tools {
		for _, d := range list(object(v)["functionDeclarations"]) {
			function := object(d)
			names = append(names, text(function["name"]))
			if function["parameters"] != nil && function["parametersJsonSchema"] != nil {
				return fmt.Errorf("tool %s: parameters and parametersJsonSchema are mutually exclusive", text(function["name"]))
			}
			if schema := object(function["parametersJsonSchema"]); schema != nil {
				if err := parameters(text(function["name"]), schema); err != nil {
					return err
				}
			}
		}
	}
	return toolNames(names, geminiName)
}

// picture checks a part that holds one.
func (gemini) picture(at string, part map[string]any) error {
	inline := object(part["inlineData"])
	if inline == nil {
		return nil
	}
	data := strings.NewReplacer("-", "+", "_", "/").Replace(text(inline["data"])) // both alphabets are taken
	if err := picture(data, text(inline["mimeType"]), "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"); err != nil {
		return fmt.Errorf("%s: %w", at, err)
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
	f.send(s, n, map[Stop]string{Complete: "STOP", Filtered: "PROHIBITED_CONTENT", AtLimit: "MAX_TOKENS", Malformed: "MALFORMED_FUNCTION_CALL"}[a.Stop],
		map[string]any{"text": ""})
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
		part["thoughtSignature"] = sealed("thought", n)
	}
	return part
}
