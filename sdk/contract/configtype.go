package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxTypeDepth is the maximum nesting depth of types and blocks.
const maxTypeDepth = 16

// configType is the type of an attribute.
type configType struct {
	kind     string                 // "string", "number", "bool", "dynamic", "list", "set", "map", "object", "tuple"
	elem     *configType            // of a list, set or map
	attrs    map[string]*configType // of an object
	optional []string               // attributes of an object that may be absent
	elems    []*configType          // of a tuple
}

// parseConfigType parses cty's JSON form of a type.
func parseConfigType(raw json.RawMessage, depth int) (*configType, error) {
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxTypeDepth)
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		switch name {
		case "string", "number", "bool", "dynamic":
			return &configType{kind: name}, nil
		}
		return nil, fmt.Errorf("unknown type %q", name)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) < 2 {
		return nil, errors.New("it must be a name, or a list of a name and its parts")
	}
	if err := json.Unmarshal(list[0], &name); err != nil {
		return nil, errors.New("the list must begin with a name")
	}
	t := &configType{kind: name}
	var err error
	switch {
	case (name == "list" || name == "set" || name == "map") && len(list) == 2:
		t.elem, err = parseConfigType(list[1], depth+1)
	case name == "object" && len(list) <= 3:
		err = t.parseObject(list[1:], depth)
	case name == "tuple" && len(list) == 2:
		var elems []json.RawMessage
		if json.Unmarshal(list[1], &elems) != nil {
			return nil, errors.New("a tuple requires a list of types")
		}
		for i, e := range elems {
			et, err := parseConfigType(e, depth+1)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			t.elems = append(t.elems, et)
		}
	default:
		return nil, fmt.Errorf("unknown type %q with %d parts", name, len(list)-1)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *configType) parseObject(parts []json.RawMessage, depth int) error {
	var attrs map[string]json.RawMessage
	if json.Unmarshal(parts[0], &attrs) != nil || attrs == nil {
		return errors.New("an object requires its attributes")
	}
	t.attrs = make(map[string]*configType, len(attrs))
	for name, raw := range attrs {
		at, err := parseConfigType(raw, depth+1)
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
		t.attrs[name] = at
	}
	if len(parts) == 2 {
		if json.Unmarshal(parts[1], &t.optional) != nil {
			return errors.New("the optional attributes of an object must be a list of names")
		}
		for _, name := range t.optional {
			if t.attrs[name] == nil {
				return fmt.Errorf("optional attribute %q does not exist", name)
			}
		}
	}
	return nil
}

// decodeValue decodes one JSON value for [configType.check].
func decodeValue(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("not valid JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// check returns an error if the value is not of the type. null is a value of every type.
func (t *configType) check(v any) error {
	if v == nil {
		return nil
	}
	switch v := v.(type) {
	case string:
		if t.kind == "string" || t.kind == "dynamic" {
			return nil
		}
	case json.Number:
		if t.kind == "number" || t.kind == "dynamic" {
			return nil
		}
	case bool:
		if t.kind == "bool" || t.kind == "dynamic" {
			return nil
		}
	case []any:
		return t.checkList(v)
	case map[string]any:
		return t.checkObject(v)
	}
	return fmt.Errorf("%s is required, not %s", t, kindOf(v))
}

func (t *configType) checkList(v []any) error {
	switch t.kind {
	case "dynamic":
		return nil
	case "list", "set":
		for i, e := range v {
			if err := t.elem.check(e); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	case "tuple":
		if len(v) != len(t.elems) {
			return fmt.Errorf("%s is required, not a list of %d", t, len(v))
		}
		for i, e := range v {
			if err := t.elems[i].check(e); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		return nil
	}
	return fmt.Errorf("%s is required, not a list", t)
}

func (t *configType) checkObject(v map[string]any) error {
	switch t.kind {
	case "dynamic":
		return nil
	case "map":
		for k, e := range v {
			if err := t.elem.check(e); err != nil {
				return fmt.Errorf("key %q: %w", k, err)
			}
		}
		return nil
	case "object":
		for k, e := range v {
			at := t.attrs[k]
			if at == nil {
				return fmt.Errorf("attribute %q does not exist", k)
			}
			if err := at.check(e); err != nil {
				return fmt.Errorf("attribute %q: %w", k, err)
			}
		}
		for k := range t.attrs {
			if _, ok := v[k]; !ok && !slices.Contains(t.optional, k) {
				return fmt.Errorf("attribute %q is missing", k)
			}
		}
		return nil
	}
	return fmt.Errorf("%s is required, not an object", t)
}

// String returns the type's name for messages.
func (t *configType) String() string {
	switch t.kind {
	case "list", "set", "map":
		return fmt.Sprintf("a %s of %s", t.kind, strings.TrimPrefix(t.elem.String(), "a "))
	case "object":
		return "an object"
	case "dynamic":
		return "any value"
	}
	return "a " + t.kind
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a bool"
	}
	return "something else"
}
