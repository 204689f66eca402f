package redact

import (
	"bytes"
	"encoding/json"
)

// JSON returns a JSON value without secrets in its texts and numbers. It looks at the texts themselves, because a secret with quotes or
// line breaks is spelled differently in JSON. A value without secrets, or that is not valid, stays as it is.
func (r *Redactor) JSON(raw []byte) []byte {
	if r == nil || len(raw) < minValue {
		return raw
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // or large ones would change
	if d.Decode(&v) != nil {
		return raw
	}
	v, changed := r.value(v)
	if !changed {
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
