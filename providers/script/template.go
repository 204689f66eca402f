package script

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// template is a text with ${name} in it. "$${" is a literal "${". A name may have a filter, "${name|trim}", and a default,
// "${name:-text}".
type template []segment

type segment struct {
	text     string // literal if name is empty
	name     string
	fallback *string
	filter   string
}

// builtins are set for every request.
var builtins = []string{"user", "output", "request", "model", "thread", "turn", "tools"}

var filters = map[string]func(string) string{
	"trim": strings.TrimSpace,
	"last": func(s string) string {
		s = strings.TrimSpace(s)
		return s[strings.LastIndexByte(s, '\n')+1:]
	},
}

func parseTemplate(s string) (template, error) {
	var t template
	var literal strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			literal.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			literal.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		literal.WriteString(s[:i])
		body, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return nil, fmt.Errorf("%q opens a variable that nothing closes; write $${ for a plain ${", excerpt(s[i:]))
		}
		seg, err := parseSegment(body)
		if err != nil {
			return nil, err
		}
		if literal.Len() > 0 {
			t = append(t, segment{text: literal.String()})
			literal.Reset()
		}
		t = append(t, seg)
		s = rest
	}
	if literal.Len() > 0 {
		t = append(t, segment{text: literal.String()})
	}
	return t, nil
}

func parseSegment(body string) (segment, error) {
	var seg segment
	head, fallback, ok := strings.Cut(body, ":-")
	if ok {
		seg.fallback = &fallback
	}
	seg.name, seg.filter, ok = strings.Cut(head, "|")
	if !validName(seg.name) {
		return seg, fmt.Errorf("${%s}: %q is no name of a variable; write $${ for a plain ${", excerpt(body), seg.name)
	}
	if ok && filters[seg.filter] == nil {
		return seg, fmt.Errorf("${%s}: there is no filter %q; there are %s", excerpt(body), seg.filter, strings.Join(sortedKeys(filters), ", "))
	}
	return seg, nil
}

// validName reports whether s is a valid name for the group of a regular expression.
func validName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// names yields each variable of t without a default.
func (t template) names(yield func(string)) {
	for _, seg := range t {
		if seg.name != "" && seg.fallback == nil {
			yield(seg.name)
		}
	}
}

func (t template) fill(vars map[string]string) (string, error) {
	var b strings.Builder
	for _, seg := range t {
		if seg.name == "" {
			b.WriteString(seg.text)
			continue
		}
		v, ok := vars[seg.name]
		if !ok {
			if seg.fallback == nil {
				return "", fmt.Errorf("${%s} is not set yet: no capture before this step has found it", seg.name)
			}
			v = *seg.fallback
		}
		if f := filters[seg.filter]; f != nil {
			v = f(v)
		}
		b.WriteString(v)
	}
	return b.String(), nil
}

// jsonTemplate is a JSON value whose strings are templates.
type jsonTemplate struct {
	raw    json.RawMessage
	leaves map[string]template // literal string → template; only those with variables
}

func parseJSONTemplate(raw json.RawMessage) (jsonTemplate, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return jsonTemplate{}, err
	}
	j := jsonTemplate{raw: compact.Bytes(), leaves: map[string]template{}}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return j, err
	}
	if _, ok := v.(map[string]any); !ok {
		return j, fmt.Errorf("args must be an object; for anything else use raw")
	}
	var walk func(v any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case string:
			if !strings.Contains(v, "${") {
				return nil
			}
			t, err := parseTemplate(v)
			j.leaves[v] = t
			return err
		case []any:
			for _, e := range v {
				if err := walk(e); err != nil {
					return err
				}
			}
		case map[string]any:
			for _, k := range sortedKeys(v) {
				if err := walk(v[k]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return j, walk(v)
}

func (j jsonTemplate) names(yield func(string)) {
	for _, k := range sortedKeys(j.leaves) {
		j.leaves[k].names(yield)
	}
}

// fill returns compact JSON. Keys are in the order of the script if there are no variables, otherwise sorted.
func (j jsonTemplate) fill(vars map[string]string) (string, error) {
	if len(j.leaves) == 0 {
		return string(j.raw), nil
	}
	dec := json.NewDecoder(strings.NewReader(string(j.raw)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	v, err := j.replace(v, vars)
	if err != nil {
		return "", err
	}
	return marshalPlain(v)
}

func (j jsonTemplate) replace(v any, vars map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		if t, ok := j.leaves[v]; ok {
			return t.fill(vars)
		}
	case []any:
		for i := range v {
			if v[i], err = j.replace(v[i], vars); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if v[k], err = j.replace(v[k], vars); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// marshalPlain marshals without HTML escaping, because users read scripts' arguments in logs.
func marshalPlain(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func isBuiltin(name string) bool { return slices.Contains(builtins, name) }
