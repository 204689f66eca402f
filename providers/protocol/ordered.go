package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
)

// object is a JSON object that preserves the order of its keys. Values are *object, []any, string, json.Number, bool, nil.
type object struct {
	keys   []string
	values map[string]any
}

var errNotJSON = errors.New("not JSON")

// decodeOrdered decodes a JSON value.
func decodeOrdered(b []byte) (any, error) {
	if !json.Valid(b) { // also limits the depth
		return nil, errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return decodeValue(d)
}

func decodeValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		o := &object{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			o.set(k.(string), v)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

func (o *object) get(key string) any { return o.values[key] }

func (o *object) has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// text returns a value if it is a string.
func (o *object) text(key string) string {
	s, _ := o.get(key).(string)
	return s
}

// set adds a key at the end, or replaces its value.
func (o *object) set(key string, v any) {
	if o.values == nil {
		o.values = map[string]any{}
	}
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

// first adds a key at the beginning.
func (o *object) first(key string, v any) {
	o.remove(key)
	o.set(key, v)
	o.keys = slices.Insert(o.keys[:len(o.keys)-1], 0, key)
}

// replace replaces a key with another one at the same position.
func (o *object) replace(key, by string, v any) {
	if by != key {
		o.remove(by)
	}
	i := slices.Index(o.keys, key)
	delete(o.values, key)
	o.keys[i], o.values[by] = by, v
}

func (o *object) remove(key string) {
	if o.has(key) {
		delete(o.values, key)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
	}
}

// clone returns a shallow copy.
func (o *object) clone() *object {
	return &object{keys: slices.Clone(o.keys), values: maps.Clone(o.values)}
}

func (o *object) encode() json.RawMessage { return encodeValue(o) }

func encodeValue(v any) json.RawMessage {
	var b bytes.Buffer
	writeValue(&b, v)
	return b.Bytes()
}

func writeValue(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, k)
			b.WriteByte(':')
			writeValue(b, v.values[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, e)
		}
		b.WriteByte(']')
	default:
		raw, err := Encode(v)
		if err != nil { // cannot fail: the values were decoded before
			panic("protocol: encode a schema: " + err.Error())
		}
		b.Write(raw)
	}
}

func integer(f float64) json.Number { return json.Number(strconv.FormatFloat(f, 'f', -1, 64)) }
