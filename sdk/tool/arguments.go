package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// schemaOf derives the schema of an argument struct, and returns its required properties. Fields without omitempty or omitzero are
// required, other properties are not allowed, a jsonschema tag is the description, and an enum tag lists the values of a string.
func schemaOf[T any]() (json.RawMessage, []string, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, nil, fmt.Errorf("derive schema of %s: %w", reflect.TypeFor[T](), err)
	}
	if err := refine(s, reflect.TypeFor[T]()); err != nil {
		return nil, nil, fmt.Errorf("derive schema of %s: %w", reflect.TypeFor[T](), err)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, nil, fmt.Errorf("derive schema of %s: %w", reflect.TypeFor[T](), err)
	}
	return b, s.Required, nil
}

// refine applies the enum tags, and removes null from the type of lists: nil slices are marshalled to null, but a model should not
// send it.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items == nil {
			return nil
		}
		if slices.Equal(s.Types, []string{"null", "array"}) {
			s.Types, s.Type = nil, "array"
		}
		return refine(s.Items, t.Elem())
	case reflect.Map:
		if s.AdditionalProperties != nil {
			return refine(s.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := s.Properties[cmp.Or(name, f.Name)]
			if p == nil || !f.IsExported() {
				continue
			}
			if err := refine(p, f.Type); err != nil {
				return err
			}
			if f.Tag.Get("file") == "true" {
				p.Format = "file"
			}
			if tag, ok := f.Tag.Lookup("enum"); ok {
				if err := enum(p, tag); err != nil {
					return fmt.Errorf("field %s: %w", f.Name, err)
				}
			}
		}
	}
	return nil
}

// enum restricts a string, or the strings of a list, to the values of a tag.
func enum(p *jsonschema.Schema, tag string) error {
	if p.Items != nil {
		p = p.Items
	}
	null := slices.Contains(p.Types, "null")
	if p.Type != "string" && !slices.Contains(p.Types, "string") {
		return errors.New("enum is for strings only")
	}
	for v := range strings.SplitSeq(tag, ",") {
		p.Enum = append(p.Enum, v)
	}
	if null {
		p.Enum = append(p.Enum, nil)
	}
	return nil
}

// required returns the required properties of a schema given as text.
func required(schema json.RawMessage) ([]string, error) {
	var s struct {
		Type     any      `json:"type"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if s.Type != "object" {
		return nil, errors.New(`schema: the type of arguments must be "object"`)
	}
	return s.Required, nil
}

// decodeInput decodes the input of a call. The host has already validated the arguments, so errors occur only if it did not, or if
// schema and struct differ. Unknown properties are ignored; rejecting them is up to the host.
func decodeInput[In any](input contract.Input, required []string) (in In, err error) {
	if text, ok := any(&in).(*string); ok && input.Freeform {
		*text = input.Text
		return in, nil
	}
	if input.Freeform {
		return in, errors.New("failed to parse function arguments: got raw text where an object was expected")
	}
	args := input.Arguments
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if raw, ok := any(&in).(*json.RawMessage); ok {
		*raw = slices.Clone(args)
	} else if err := json.Unmarshal(args, &in); err != nil {
		return in, argumentError(args, err)
	}
	if err := missing(args, required); err != nil {
		return in, err
	}
	return in, nil
}

func missing(args []byte, required []string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(args, &object); err != nil {
		return argumentError(args, err)
	}
	for _, name := range required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("failed to parse function arguments: missing field `%s` at %s", name, position(args, len(bytes.TrimRight(args, " \t\r\n"))))
		}
	}
	return nil
}

// argumentError describes a decoding error and its position in terms that a model understands, without Go types.
func argumentError(args []byte, err error) error {
	const prefix = "failed to parse function arguments: "
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		text := strings.TrimPrefix(e.Error(), "json: ")
		return fmt.Errorf(prefix+"%s at %s", text, position(args, int(e.Offset)))
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := ""
		if e.Field != "" {
			field = fmt.Sprintf("field `%s`: ", e.Field)
		}
		got, _, _ := strings.Cut(e.Value, " ") // "number 1.5": without the value
		return fmt.Errorf(prefix+"%sinvalid type: %s, expected %s at %s", field, got, jsonKind(e.Type), position(args, int(e.Offset)))
	}
	return fmt.Errorf(prefix+"%w", err)
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "integer that is not negative and not too large"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "integer that is not too large"
	}
	return t.String()
}

// position returns the line and column of the n-th byte, both counted from 1.
func position(b []byte, n int) string {
	n = min(max(n, 0), len(b))
	line := 1 + bytes.Count(b[:n], []byte("\n"))
	column := n - (bytes.LastIndexByte(b[:n], '\n') + 1)
	return fmt.Sprintf("line %d column %d", line, column)
}
