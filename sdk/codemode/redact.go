package codemode

import (
	"encoding/json"
	"reflect"
	"strings"
)

const (
	// base64Chars is the length from which base64 is left out: shorter strings may be identifiers or keys that the model needs.
	base64Chars   = 4096
	redactDepth   = 20
	redactNodes   = 10_000
	headerChars   = 256 // of a data URL, before its data
	screenshotTag = "browser_screenshot"
)

// Redact returns a copy of a JSON value, in the types that encoding/json decodes into, without the base64 that a model can't read:
// long base64 strings, data URLs, and the data of screenshots. It takes time linear in the size of the value.
func Redact(value any) any {
	return (&redactor{path: map[uintptr]bool{}}).value(value, 0)
}

type redactor struct {
	nodes int
	path  map[uintptr]bool // the maps and slices that contain the current value
}

func (r *redactor) value(value any, depth int) any {
	r.nodes++
	switch {
	case depth > redactDepth:
		return "[nested value omitted]"
	case r.nodes > redactNodes:
		return "[remaining values omitted]"
	}
	switch v := value.(type) {
	case string:
		return redactString(v, "", base64Chars)
	case map[string]any:
		return r.within(v, func() any { return r.object(v, depth) })
	case []any:
		return r.within(v, func() any {
			out := make([]any, 0, min(len(v), redactNodes))
			for _, e := range v {
				out = append(out, r.value(e, depth+1))
				if r.nodes > redactNodes {
					break
				}
			}
			return out
		})
	case nil, bool, float64, json.Number:
		return v
	}
	if _, err := json.Marshal(value); err != nil {
		return "[value without a JSON form]"
	}
	return value
}

// within calls f unless the map or slice contains itself.
func (r *redactor) within(v any, f func() any) any {
	p := reflect.ValueOf(v)
	if p.Len() == 0 {
		return v
	}
	id := p.Pointer()
	if r.path[id] {
		return "[circular reference omitted]"
	}
	r.path[id] = true
	defer delete(r.path, id)
	return f()
}

func (r *redactor) object(v map[string]any, depth int) any {
	out := make(map[string]any, min(len(v), redactNodes))
	media, threshold := mediaType(v), base64Chars
	if v["type"] == screenshotTag {
		threshold = 0
	}
	for k, e := range v {
		if s, ok := e.(string); ok && k == "data" {
			r.nodes++
			out[k] = redactString(s, media, threshold)
			continue
		}
		out[k] = r.value(e, depth+1)
		if r.nodes > redactNodes {
			break
		}
	}
	return out
}

// mediaType returns the media type that an object with data states.
func mediaType(v map[string]any) string {
	for _, k := range []string{"mediaType", "mimeType"} {
		if s, ok := v[k].(string); ok && len(s) < headerChars {
			return s
		}
	}
	return ""
}

// redactString replaces a string of base64 or a data URL of at least threshold characters of data.
func redactString(s, media string, threshold int) string {
	if threshold > 0 && len(s) < threshold {
		return s
	}
	data, isURL := s, false
	if rest, ok := strings.CutPrefix(s, "data:"); ok {
		if i := strings.IndexByte(rest[:min(len(rest), headerChars)], ','); i >= 0 && strings.HasSuffix(rest[:i], ";base64") {
			kind, _, _ := strings.Cut(rest[:i], ";")
			if kind != "" {
				media = kind
			}
			data, isURL = rest[i+1:], true
		}
	}
	if threshold > 0 && !isURL && !isBase64(data) {
		return s
	}
	kind := media
	if kind != "" {
		kind += " "
	}
	return "[base64 " + kind + "data omitted: " + thousands(len(data)) + " chars, approximately " + thousands(len(data)/4*3+len(data)%4*3/4) + " bytes]"
}

// isBase64 reports whether s is base64 in the standard alphabet, with padding.
func isBase64(s string) bool {
	if len(s)%4 != 0 {
		return false
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

// ScreenshotNote returns the text for the model in place of a value that is a screenshot.
func ScreenshotNote(value any) (string, bool) {
	v, ok := value.(map[string]any)
	if !ok || v["type"] != screenshotTag {
		return "", false
	}
	data, _ := v["data"].(string)
	media := mediaType(v)
	if media == "" {
		media = "image"
	}
	return "Screenshot captured (" + media + ", approximately " + thousands(len(data)/4*3+len(data)%4*3/4) +
		" bytes). It is kept for the user interface and omitted here.", true
}
