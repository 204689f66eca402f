package redact

import (
	"bytes"
	"encoding/json"
	"io"
)

// JSON returns a JSON value without secrets in its texts and numbers. It looks at the texts themselves, because a secret with quotes or
// line breaks is spelled differently in JSON. A value without secrets keeps its form. What is not a single valid value is treated as a text.
func (r *Redactor) JSON(raw []byte) []byte {
	if r == nil || len(raw) < minValue {
		return raw
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // or large ones would change
	if d.Decode(&v) != nil {
		return []byte(r.Text(string(raw)))
	}
	if _, err := d.Token(); err != io.EOF {
		return []byte(r.Text(string(raw)))
	}
	v, changed := r.value(v)
	if text := string(raw); !changed && r.Text(text) == text && !repeats(raw) {
		return raw
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return raw
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// repeats reports whether an object in a JSON value has a name more than once. Of such values, decoding keeps only the last one.
func repeats(raw []byte) bool {
	type object struct {
		names map[string]bool // nil: it is an array
		value bool            // the next text is no name
	}
	var in []object
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // or large ones would be errors
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		top := len(in) - 1
		if name, ok := token.(string); ok && top >= 0 && in[top].names != nil && !in[top].value {
			if in[top].names[name] {
				return true
			}
			in[top].names[name], in[top].value = true, true
			continue
		}
		if top >= 0 && token != json.Delim('}') && token != json.Delim(']') {
			in[top].value = false
		}
		switch token {
		case json.Delim('{'):
			in = append(in, object{names: map[string]bool{}})
		case json.Delim('['):
			in = append(in, object{})
		case json.Delim('}'), json.Delim(']'):
			in = in[:top]
		}
	}
}

// value returns a decoded value without secrets, and whether it differs.
func (r *Redactor) value(v any) (_ any, changed bool) {
	switch v := v.(type) {
	case string:
		out := r.Text(v)
		return out, out != v
	case json.Number:
		if out := r.Text(v.String()); out != v.String() {
			return out, true
		}
	case []any:
		for i, e := range v {
			clean, differs := r.value(e)
			v[i], changed = clean, changed || differs
		}
		return v, changed
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			clean, differs := r.value(e)
			named := r.Text(name)
			out[named], changed = clean, changed || differs || named != name
		}
		return out, changed
	}
	return v, false
}
