package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// An action is written as an object with one property, its name, whose value is an object of arguments. Its signature tells a model
// what a schema of all actions would, in a fifth of the size.

// argument is an argument of an action.
type argument struct {
	name, doc string
	optional  bool
	allowed   []string // values of a string; nil: any
	kind      reflect.Type
}

// arguments returns the arguments that a type stands for.
func arguments(t reflect.Type) []argument {
	var out []argument
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		a := argument{name: name, doc: f.Tag.Get("jsonschema"), optional: strings.Contains(options, "omit"), kind: f.Type}
		if a.kind.Kind() == reflect.Pointer {
			a.kind = a.kind.Elem()
		}
		if tag := f.Tag.Get("enum"); tag != "" {
			a.allowed = strings.Split(tag, ",")
		}
		out = append(out, a)
	}
	return out
}

// form describes the values of a type; "": any text.
func form(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int:
		return "int"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "[" + form(t.Elem()) + "]"
	case reflect.Struct:
		return signature(t)
	}
	return ""
}

func signature(t reflect.Type) string {
	var out []string
	for _, a := range arguments(t) {
		s := a.name
		if a.optional {
			s += "?"
		}
		if v := form(a.kind); a.allowed != nil {
			s += ":" + strings.Join(a.allowed, "|")
		} else if v != "" {
			s += ":" + strings.Replace(v, "[]", "[text]", 1)
		}
		if a.doc != "" {
			s += " (" + a.doc + ")"
		}
		out = append(out, s)
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// Signatures describes all actions, one a line.
func Signatures() string {
	var out []string
	for f := range reflect.TypeFor[Action]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name+signature(f.Type.Elem()))
	}
	return strings.Join(out, "\n")
}

// Read reads actions as a model writes them. What it does not accept, its errors say, with what is allowed instead.
func Read(list []map[string]any) ([]Action, error) {
	out := make([]Action, len(list))
	for i, written := range list {
		at := fmt.Sprintf("action %d", i+1)
		if len(written) != 1 {
			return nil, fmt.Errorf("%s has %d names (%s); each action is an object with exactly one of %s",
				at, len(written), strings.Join(slices.Sorted(maps.Keys(written)), ", "), strings.Join(Names(), ", "))
		}
		for name, args := range written {
			j := slices.Index(Names(), name)
			if j < 0 {
				return nil, fmt.Errorf("%s: there is no action %q; the actions are %s", at, name, strings.Join(Names(), ", "))
			}
			if args == nil {
				args = map[string]any{}
			}
			f := reflect.ValueOf(&out[i]).Elem().Field(j)
			if err := check(name, args, f.Type().Elem(), nil); err != nil {
				return nil, fmt.Errorf("%s: %w; it is %s%s", at, err, name, signature(f.Type().Elem()))
			}
			b, err := json.Marshal(args)
			if err == nil {
				err = json.Unmarshal(b, f.Addr().Interface())
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", at, name, err)
			}
		}
	}
	return out, nil
}

// check returns an error if a value is not one of a type. at is where the value is.
func check(at string, v any, t reflect.Type, allowed []string) error {
	wrong := func(want string) error {
		b, _ := json.Marshal(v) // it was JSON
		return fmt.Errorf("%s must be %s, not %s", at, want, clip(string(b), 40))
	}
	switch t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return wrong("a text")
		}
		if allowed != nil && !slices.Contains(allowed, s) {
			return wrong("one of " + strings.Join(allowed, ", "))
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrong("true or false")
		}
	case reflect.Float64, reflect.Int:
		n, ok := v.(float64)
		if !ok {
			return wrong("a number")
		}
		if t.Kind() == reflect.Int && (n != math.Trunc(n) || math.Abs(n) > math.MaxInt32) {
			return wrong("an integer")
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return wrong("a list")
		}
		for i, x := range list {
			if err := check(fmt.Sprintf("%s[%d]", at, i), x, t.Elem(), allowed); err != nil {
				return err
			}
		}
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			return wrong("an object")
		}
		return checkFields(at, object, arguments(t))
	}
	return nil
}

func checkFields(at string, object map[string]any, args []argument) error {
	for _, a := range args {
		v, given := object[a.name]
		if !given || v == nil && a.optional { // models write null for what they leave out
			if !a.optional {
				return fmt.Errorf("%s has no %s", at, a.name)
			}
			continue
		}
		if err := check(at+"."+a.name, v, a.kind, a.allowed); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.ContainsFunc(args, func(a argument) bool { return a.name == name }) {
			return fmt.Errorf("%s has no argument %q", at, name)
		}
	}
	return nil
}
