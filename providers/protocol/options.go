package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// ReadOptions decodes a request's provider options into the struct that v points to: those under the format's own key, overridden
// by those under the request's namespace. See [DecodeStrictly].
func ReadOptions(r *Request, key string, v any) error {
	keys := []string{key}
	if r.Namespace != key && r.Namespace != "" {
		keys = append(keys, r.Namespace)
	}
	for _, k := range keys {
		if raw := r.ProviderOptions[k]; len(raw) > 0 {
			if err := DecodeStrictly(raw, v, `provider options "`+k+`"`); err != nil {
				return err
			}
		}
	}
	return nil
}

// DecodeStrictly decodes an object into the struct that v points to. A key that the struct lacks, at any depth, is an *[llm.Error]
// that suggests the nearest known key: a misspelled option would otherwise have no effect without notice. what describes the
// object in errors.
func DecodeStrictly(raw json.RawMessage, v any, what string) error {
	const next = "correct the options in the provider's or the request's configuration"
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return nil
	}
	if len(raw) > 0 && raw[0] != '{' {
		return Invalid(next, "%s: a JSON object is needed", what)
	}
	if err := unknownKey(raw, reflect.TypeOf(v), what); err != nil {
		return err
	}
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Invalid(next, "%s: %s: expected a value of type %[4]s instead of %[3]s", what, wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return Invalid(next, "%s: %v", what, err)
	}
	return nil
}

// unknownKey returns an error for a key that the Go type does not have. It ignores values of the wrong type.
func unknownKey(raw json.RawMessage, t reflect.Type, where string) *llm.Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
	case t.Kind() == reflect.Slice:
		var list []json.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || json.Unmarshal(raw, &list) != nil {
			return nil
		}
		for _, e := range list {
			if err := unknownKey(e, t.Elem(), where); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return nil
		}
		known := map[string]reflect.Type{}
		jsonKeys(t, known)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			field, ok := known[key]
			if !ok {
				names := slices.Sorted(maps.Keys(known))
				hint := ""
				if near := nearest(key, names); near != "" {
					hint = fmt.Sprintf("; did you mean %q?", near)
				}
				return Invalid("known keys are "+strings.Join(names, ", "), "%s: unknown key %q%s", where, key, hint)
			}
			if err := unknownKey(object[key], field, where+": "+key); err != nil {
				return err
			}
		}
	}
	return nil
}

// jsonKeys collects the keys of a struct and of embedded structs.
func jsonKeys(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case f.Anonymous && name == "":
			jsonKeys(f.Type, into)
		case name != "" && name != "-":
			into[name] = f.Type
		}
	}
}

// nearest returns the known name that was probably meant: one that shares a part, or differs by a few letters. It ignores case,
// dashes and underscores.
func nearest(written string, names []string) string {
	const whole = 4 // minimum length of a shared part
	w := plain(written)
	best, fewest := "", max(2, len(w)/2)+1
	for _, n := range names {
		p := plain(n)
		d := edits(w, p)
		if short := min(len(w), len(p)); short >= whole && (strings.Contains(p, w) || strings.Contains(w, p)) {
			d = min(d, 1)
		}
		if d < fewest {
			best, fewest = n, d
		}
	}
	return best
}

func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, substituted)
		}
	}
	return row[len(b)]
}
