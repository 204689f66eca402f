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

// variant is a member of a union. Its JSON is an object whose member "type" is its kind; the Go type does not have that member.
type variant interface{ kind() string }

// variants are the members of a union, by kind.
type variants map[string]reflect.Type

func variantsOf(vs ...variant) variants {
	out := make(variants, len(vs))
	for _, v := range vs {
		out[v.kind()] = reflect.TypeOf(v)
	}
	return out
}

// unions returns the members of every union, by the type that wraps it.
func unions() map[reflect.Type]variants {
	return map[reflect.Type]variants{
		reflect.TypeFor[ThreadItem]():      itemBodies,
		reflect.TypeFor[CommandAction]():   commandActions,
		reflect.TypeFor[PatchChangeKind](): patchChanges,
		reflect.TypeFor[ToolContentItem](): toolContents,
		reflect.TypeFor[UserInput]():       userInputs,
		reflect.TypeFor[ThreadStatus]():    threadStatuses,
	}
}

// marshalVariant writes v as an object with its kind. A nil v is null.
func marshalVariant(v variant) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head := `{"type":"` + v.kind() + `"`
	if len(b) == len("{}") {
		return []byte(head + "}"), nil
	}
	return append([]byte(head+","), b[1:]...), nil
}

// unmarshalVariant reads an object with a member "type". Null leaves out as it is.
func unmarshalVariant[V variant](b []byte, out *V, members variants) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	if head.Type == nil {
		return fmt.Errorf("missing field `type`")
	}
	t, ok := members[*head.Type]
	if !ok {
		return unknownVariant(*head.Type, slices.Sorted(maps.Keys(members)))
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
