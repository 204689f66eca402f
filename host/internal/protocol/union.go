package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
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

// union is a type that wraps a member of a union: a struct whose only field is Body, of an interface type.
type union interface{ variants() variants }

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
