package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// merged merges overlay into base: objects field by field, everything else is replaced, and null removes a field (RFC 7396).
// Fields keep their position; new ones follow in the overlay's order.
func merged(base, overlay json.RawMessage) (json.RawMessage, error) {
	over, err := fields(overlay)
	if err != nil {
		return nil, err
	}
	under, err := fields(base)
	if err != nil {
		under = nil // values that are not objects are replaced
	}
	for _, o := range over {
		at := -1
		for i := range under {
			if under[i].name == o.name {
				at = i
			}
		}
		switch {
		case string(o.value) == "null":
			if at >= 0 {
				under = append(under[:at], under[at+1:]...)
			}
			continue
		case o.value[0] == '{':
			var old json.RawMessage
			if at >= 0 {
				old = under[at].value
			}
			if o.value, err = merged(old, o.value); err != nil {
				return nil, err
			}
		}
		if at >= 0 {
			under[at].value = o.value
		} else {
			under = append(under, o)
		}
	}
	return joined(under), nil
}

type field struct {
	name  string
	value json.RawMessage
}

// fields returns the fields of an object in order. The last of duplicate fields counts.
func fields(raw json.RawMessage) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		if err == nil {
			err = fmt.Errorf("it begins with %v", t)
		}
		return nil, err
	}
	var out []field
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: t.(string)} // keys are strings
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("something follows the object")
	}
	return out, nil
}

func joined(list []field) json.RawMessage {
	b := []byte{'{'}
	for i, f := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quoted(f.name)...)
		b = append(b, ':')
		b = append(b, f.value...)
	}
	return append(b, '}')
}
