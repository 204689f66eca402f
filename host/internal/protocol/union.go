package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// variant is a member of a union. Its JSON is an object with a member, mostly "type", that names its kind. The Go type does not have that
// member.
type variant interface{ kind() string }

// variants are the members of a union.
type variants struct {
	tag    string // the member that names the kind
	byKind map[string]reflect.Type
}

// variantsOf returns a union whose members have a tag "type".
func variantsOf(vs ...variant) variants { return variantsBy("type", vs...) }

func variantsBy(tag string, vs ...variant) variants {
	out := variants{tag, make(map[string]reflect.Type, len(vs))}
	for _, v := range vs {
		out.byKind[v.kind()] = reflect.TypeOf(v)
	}
	return out
}

// kinds returns the names of the members, sorted.
func (m variants) kinds() []string { return slices.Sorted(maps.Keys(m.byKind)) }

// union is a type that wraps a member of a union: a struct whose only field is Body, of an interface type.
type union interface{ variants() variants }

// marshalVariant writes v as an object with its kind. A nil v is null.
func marshalVariant(v variant, members variants) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head := `{"` + members.tag + `":"` + v.kind() + `"`
	if len(b) == len("{}") {
		return []byte(head + "}"), nil
	}
	return append([]byte(head+","), b[1:]...), nil
}

// unmarshalVariant reads an object with a tag. Null leaves out as it is.
func unmarshalVariant[V variant](b []byte, out *V, members variants) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	var kind string
	if err := json.Unmarshal(object[members.tag], &kind); err != nil {
		return fmt.Errorf("missing field `%s`", members.tag)
	}
	t, ok := members.byKind[kind]
	if !ok {
		return unknownVariant(kind, members.kinds())
	}
	v := reflect.New(t)
	if err := json.Unmarshal(b, v.Interface()); err != nil {
		return err
	}
	*out = v.Elem().Interface().(V)
	return nil
}

func unknownVariant(got string, known []string) error {
	return fmt.Errorf("unknown variant `%s`, expected one of `%s`", got, strings.Join(known, "`, `"))
}

// enum is a string type with known values.
type enum interface{ values() []string }

func names[T ~string](vs ...T) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = string(v)
	}
	return out
}

// choice is a union in which a member without details is a string, and one with details an object whose only member names it:
// "never", {"granular": {…}}. It is a struct whose first field, Kind, is an [enum] with all members. Each other field is a pointer to the
// details of the members in its tag "variant"; at most the one that belongs to Kind is set.
type choice interface{ isChoice() }

// detailsOf returns the index of the field with the details of a kind.
func detailsOf(t reflect.Type, kind string) (int, bool) {
	for i := 1; i < t.NumField(); i++ {
		if slices.Contains(strings.Split(t.Field(i).Tag.Get("variant"), ","), kind) {
			return i, true
		}
	}
	return 0, false
}

func marshalChoice(c choice) ([]byte, error) {
	v := reflect.ValueOf(c)
	kind := v.Field(0).String()
	i, ok := detailsOf(v.Type(), kind)
	if !ok {
		return json.Marshal(kind)
	}
	details := v.Field(i)
	if details.IsNil() {
		details = reflect.New(details.Type().Elem())
	}
	return json.Marshal(map[string]any{kind: details.Interface()})
}

// unmarshalChoice reads a choice. Unknown kinds are kept, without their details: they are of a newer version.
func unmarshalChoice(b []byte, out choice) error {
	v := reflect.ValueOf(out).Elem()
	var kind string
	if json.Unmarshal(b, &kind) == nil {
		v.SetZero()
		v.Field(0).SetString(kind)
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	if len(object) != 1 {
		return fmt.Errorf("expected a string or an object with one member, got %d members", len(object))
	}
	for kind, details := range object {
		v.SetZero()
		v.Field(0).SetString(kind)
		if i, ok := detailsOf(v.Type(), kind); ok {
			return json.Unmarshal(details, v.Field(i).Addr().Interface())
		}
	}
	return nil
}

// Nullable is an optional field of parameters in which null is a value: it clears what the field names. The zero Nullable is absent.
type Nullable[T any] struct {
	Set   bool
	Value *T // nil: null
}

// SetTo returns a Nullable that is v.
func SetTo[T any](v T) Nullable[T] { return Nullable[T]{true, &v} }

func (n Nullable[T]) IsZero() bool                 { return !n.Set }
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	n.Set = true
	return json.Unmarshal(b, &n.Value)
}
func (Nullable[T]) element() reflect.Type { return reflect.TypeFor[T]() }

// nullable is a [Nullable].
type nullable interface{ element() reflect.Type }
