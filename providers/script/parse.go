package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/gantry-agent/gantry/sdk/configblock"
)

// MaxBytes limits the size of a script.
const MaxBytes = 16 << 20

// Load parses and compiles a script. name is used in errors, and as the script's name if it has none.
func Load(name string, text []byte) (*Player, error) {
	s, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	if s.Name == "" {
		s.Name = name
	}
	p, err := Compile(s)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	return p, nil
}

// Parse parses a script: JSON if it begins with "{", otherwise TOML. Unknown keys are errors.
func Parse(text []byte) (*Script, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%d bytes are more than the most of %d", len(text), MaxBytes)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if head := bytes.TrimLeft(text, " \t\r\n"); len(head) > 0 && head[0] == '{' {
		return parseJSON(text)
	}
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		if pos, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, fmt.Errorf("line %d: %s", pos.Position.Line, pos.Message)
		}
		return nil, err
	}
	// Both languages use the same decoder: TOML is converted to JSON, so that keys and rules are defined once.
	asJSON, err := marshalPlain(tree)
	if err != nil {
		return nil, err
	}
	return parseJSON([]byte(asJSON))
}

func parseJSON(text []byte) (*Script, error) {
	var raw struct {
		Script
		Steps []json.RawMessage `json:"step,omitempty"`
	}
	if err := strict(text, &raw); err != nil {
		return nil, err
	}
	s := raw.Script
	s.Steps = make([]Step, len(raw.Steps))
	for i, b := range raw.Steps {
		if err := parseStep(b, &s.Steps[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", where(i, s.Steps[i].Name), err)
		}
	}
	return &s, nil
}

// parseStep decodes part by part, so that an error names the part.
func parseStep(b json.RawMessage, s *Step) error {
	var head struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(b, &head) // a wrong type is reported below, with more detail
	s.Name = head.Name
	var raw struct {
		Step
		Do      []json.RawMessage `json:"do,omitempty"`
		Expect  []json.RawMessage `json:"expect,omitempty"`
		Capture []json.RawMessage `json:"capture,omitempty"`
		When    json.RawMessage   `json:"when,omitempty"`
	}
	if err := strict(b, &raw); err != nil {
		return err
	}
	*s = raw.Step
	s.Do, s.Expect, s.Capture, s.When = nil, nil, nil, nil
	if len(raw.When) > 0 {
		s.When = new(Condition)
		if err := strict(raw.When, s.When); err != nil {
			return fmt.Errorf("when: %w", err)
		}
	}
	var err error
	if s.Do, err = each[Part]("do", raw.Do); err != nil {
		return err
	}
	if s.Expect, err = each[Expect]("expect", raw.Expect); err != nil {
		return err
	}
	s.Capture, err = each[Capture]("capture", raw.Capture)
	return err
}

func each[T any](key string, raw []json.RawMessage) ([]T, error) {
	out := make([]T, len(raw))
	for i, b := range raw {
		if err := strict(b, &out[i]); err != nil {
			return nil, fmt.Errorf("%s %d: %w", key, i+1, err)
		}
	}
	return out, nil
}

// strict decodes JSON and rejects unknown keys, suggesting the one that was probably meant.
func strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		if dec.More() {
			return errors.New("more than one JSON value")
		}
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a %s where %s belongs", written(t.Field), t.Value, kindText(t.Type))
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:min(int(s.Offset), len(b))], []byte("\n")), err)
	}
	const unknown = `json: unknown field "`
	if text := err.Error(); strings.HasPrefix(text, unknown) {
		key := strings.TrimSuffix(text[len(unknown):], `"`)
		if near := configblock.Nearest(key, keysOf(reflect.TypeOf(v))); near != "" {
			return fmt.Errorf("unknown key %q; did you mean %q?", key, near)
		}
		return fmt.Errorf("unknown key %q", key)
	}
	return err
}

// written removes the names of embedded Go types, which do not occur in scripts, from the path of a key.
func written(path string) string {
	segments := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(segments, func(s string) bool { return s != "" && s[0] >= 'A' && s[0] <= 'Z' }), ".")
}

func kindText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a table"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	}
	return "a number"
}

// keysOf lists the keys of a type and of the types in it: the decoder does not report the table of an unknown key.
func keysOf(t reflect.Type) []string {
	seen := map[reflect.Type]bool{}
	var keys []string
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				keys = append(keys, name)
			}
			walk(f.Type)
		}
	}
	walk(t)
	return keys
}

func where(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("step %d", i+1)
	}
	return fmt.Sprintf("step %d %q", i+1, name)
}
