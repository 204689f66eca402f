package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Overlay is applied to a request after everything else.
type Overlay struct {
	Headers, Query map[string]string
	Body           json.RawMessage // an object that is merged recursively; lists and scalars replace existing values. Empty: none
}

func (o Overlay) validate() error {
	if _, err := headers(o.Headers); err != nil {
		return err
	}
	if absent(o.Body) {
		return nil
	}
	if _, err := members(o.Body); err != nil {
		return &ConfigError{"body", fmt.Sprintf("the overlay of the body is invalid: %v", err)}
	}
	return nil
}

// under returns o overridden by over.
func (o Overlay) under(over Overlay) (Overlay, error) {
	body, err := MergeJSON(o.Body, over.Body)
	if err != nil {
		return Overlay{}, err
	}
	h := map[string]string{} // by canonical name, to ignore case
	for _, from := range []map[string]string{o.Headers, over.Headers} {
		for name, v := range from {
			h[http.CanonicalHeaderKey(name)] = v
		}
	}
	query := maps.Clone(o.Query)
	if query == nil {
		query = map[string]string{}
	}
	maps.Copy(query, over.Query)
	return Overlay{Headers: h, Query: query, Body: body}, nil
}

// headers validates configured headers.
func headers(values map[string]string) (http.Header, error) {
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := http.CanonicalHeaderKey(name)
		switch {
		case !validName(name):
			return nil, &ConfigError{"headers", fmt.Sprintf("the name of the header %q is not valid in HTTP", name)}
		case !validValue(values[name]):
			return nil, &ConfigError{"headers", badValue(name)}
		case h[key] != nil:
			return nil, &ConfigError{"headers", fmt.Sprintf("the header %s is set twice, in different case", name)}
		}
		switch key {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection":
			return nil, &ConfigError{"headers", fmt.Sprintf("the header %s can't be set: it belongs to the connection", name)}
		}
		h[key] = []string{values[name]}
	}
	return h, nil
}

// validName reports whether a header name is valid.
func validName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
	})
}

// validValue reports whether a header value is valid.
func validValue(v string) bool {
	return !strings.ContainsFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func badValue(name string) string {
	return fmt.Sprintf("the value of the header %s contains a line break or another control character", name)
}

// member is a field of an object.
type member struct {
	key   string
	value json.RawMessage
}

// members returns the fields of an object in order, with their values unchanged.
func members(raw []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var out []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: key.(string)} // cannot fail: More only returns keys in an object
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	_, err := dec.Token()
	return out, err
}

// MergeJSON merges the object over into the object base; if one is absent, it returns the other. Nested objects are merged
// recursively, and other values of over replace those of base. Fields that over lacks are unchanged byte for byte.
func MergeJSON(base, over []byte) ([]byte, error) {
	switch {
	case absent(over):
		return base, nil
	case absent(base):
		return over, nil
	}
	fields, err := members(base)
	if err != nil {
		return nil, fmt.Errorf("the body of the request: %w", err)
	}
	added, err := members(over)
	if err != nil {
		return nil, fmt.Errorf("the overlay of the body: %w", err)
	}
	for _, m := range added {
		i := slices.IndexFunc(fields, func(f member) bool { return f.key == m.key })
		switch {
		case i < 0:
			fields = append(fields, m)
		case isObject(fields[i].value) && isObject(m.value):
			if fields[i].value, err = MergeJSON(fields[i].value, m.value); err != nil {
				return nil, err
			}
		default:
			fields[i].value = m.value
		}
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(f.key)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(f.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
