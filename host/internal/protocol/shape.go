package protocol

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// shape describes how a Go type looks in JSON. Encoding, decoding, schemas and TypeScript are all derived from it.
type shape struct {
	kind kind
	t    reflect.Type
	name string // of a definition in schemas; empty: the shape is written where it is used

	bits    int      // of integers
	values  []string // of an enum, or the kinds of a choice
	element *shape   // of lists, maps and wrappers

	fields  []*field // of objects, and what all members of a union have
	index   map[string]*field
	tag     string            // of a union
	members map[string]*shape // of a union, by kind
	body    []int             // of a union: the field with the member
	details map[string]detail // of a choice, by kind
	options []*shape          // alternatives
	gated   bool              // it contains something experimental
}

type kind int

const (
	anyKind kind = iota
	boolKind
	intKind
	uintKind
	floatKind
	stringKind
	enumKind
	listKind
	mapKind
	objectKind
	unionKind
	choiceKind
	alternativesKind
	pointerKind  // null or the element
	nullableKind // a Nullable
)

// field is a member of an object.
type field struct {
	name         string
	position     int   // among the fields of the object
	index        []int // of the field of the struct
	shape        *shape
	omitEmpty    bool
	omitZero     bool
	defaulted    bool // always written, but optional for clients
	nullable     bool // a list or map that may be null
	experimental bool
}

// optional reports whether the member may be left out of what clients send.
func (f *field) optional() bool { return f.omitEmpty || f.omitZero || f.defaulted }

// required reports whether decoding fails without the member.
func (f *field) required() bool { return !f.acceptsNull() }

// acceptsNull reports whether the member may be null.
func (f *field) acceptsNull() bool {
	switch f.shape.kind {
	case pointerKind, nullableKind:
		return true
	}
	return f.optional() || f.nullable
}

// detail is the value of a member of a choice.
type detail struct {
	field      int
	shape      *shape
	descriptor string // of the experimental capability that it needs
}

// alternatives is a type with several forms in JSON, which has its own methods for encoding and decoding.
type alternatives interface{ forms() []reflect.Type }

// shapes are the shapes of all types of the table and of all types that they contain.
var shapes = sync.OnceValue(func() map[reflect.Type]*shape {
	b := builder{}
	for _, m := range Methods() {
		b.shape(m.Params)
		b.shape(m.Result)
	}
	for _, n := range Notifications() {
		b.shape(n.Params)
	}
	for _, r := range ServerRequests() {
		b.shape(r.Params)
		b.shape(r.Result)
	}
	b.shape(reflect.TypeFor[ErrorData]())
	for changed := true; changed; { // types may contain themselves
		changed = false
		for _, s := range b {
			if !s.gated && s.containsGated() {
				s.gated, changed = true, true
			}
		}
	}
	return b
})

// shapeOf returns the shape of a type that a message contains.
func shapeOf(t reflect.Type) *shape {
	s, ok := shapes()[t]
	if !ok {
		panic("protocol: no message contains a " + t.String())
	}
	return s
}

func (s *shape) containsGated() bool {
	if s.element != nil && s.element.gated {
		return true
	}
	for _, f := range s.fields {
		if f.experimental || f.shape.gated {
			return true
		}
	}
	for _, m := range s.members {
		if m.gated {
			return true
		}
	}
	for _, d := range s.details {
		if d.descriptor != "" || d.shape.gated {
			return true
		}
	}
	return slices.ContainsFunc(s.options, func(o *shape) bool { return o.gated })
}

// builder builds shapes.
type builder map[reflect.Type]*shape

func (b builder) shape(t reflect.Type) *shape {
	if s, ok := b[t]; ok {
		return s
	}
	s := &shape{t: t}
	b[t] = s
	if t == reflect.TypeFor[json.RawMessage]() {
		return s
	}
	if t.Kind() == reflect.Pointer { // it has the methods of its element
		s.kind, s.element = pointerKind, b.shape(t.Elem())
		return s
	}
	switch v := reflect.Zero(t).Interface().(type) {
	case nullable:
		s.kind, s.element = nullableKind, b.shape(v.element())
	case union:
		b.union(s, v.variants())
	case choice:
		b.choice(s)
	case alternatives:
		s.kind, s.name = alternativesKind, nameOf(t)
		for _, form := range v.forms() {
			s.options = append(s.options, b.shape(form))
		}
	case enum:
		s.kind, s.name, s.values = enumKind, nameOf(t), v.values()
	default:
		b.plain(s)
	}
	return s
}

// plain describes a type that encoding/json knows.
func (b builder) plain(s *shape) {
	switch t := s.t; t.Kind() {
	case reflect.Bool:
		s.kind = boolKind
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.kind, s.bits = intKind, t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.kind, s.bits = uintKind, t.Bits()
	case reflect.Float32, reflect.Float64:
		s.kind = floatKind
	case reflect.String:
		s.kind = stringKind
	case reflect.Slice:
		s.kind, s.element = listKind, b.shape(t.Elem())
	case reflect.Map:
		s.kind, s.element = mapKind, b.shape(t.Elem())
	case reflect.Struct:
		s.kind, s.name = objectKind, nameOf(t)
		s.fields = b.fields(t)
		s.index = indexed(s.fields)
	default:
		panic("protocol: " + t.String() + " has no form in JSON")
	}
}

// fields returns the fields of a struct and of the structs that it embeds.
func (b builder) fields(t reflect.Type) []*field {
	var out []*field
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // embedded, or a union's member
		}
		options = "," + options + ","
		s := b.shape(f.Type)
		if values := f.Tag.Get("values"); values != "" { // of those of its type
			s = &shape{kind: enumKind, t: f.Type, values: strings.Split(values, ",")}
		}
		out = append(out, &field{
			name: name, position: len(out), index: f.Index, shape: s, omitEmpty: strings.Contains(options, ",omitempty,"),
			omitZero: strings.Contains(options, ",omitzero,"), nullable: f.Tag.Get("nullable") != "", defaulted: f.Tag.Get("optional") != "", experimental: f.Tag.Get("experimental") != "",
		})
	}
	return out
}

func indexed(fields []*field) map[string]*field {
	out := make(map[string]*field, len(fields))
	for _, f := range fields {
		out[f.name] = f
	}
	return out
}

func (b builder) union(s *shape, m variants) {
	body, _ := s.t.FieldByName("Body")
	s.kind, s.name, s.tag, s.body = unionKind, nameOf(s.t), m.tag, body.Index
	s.fields = b.fields(s.t)
	s.index = indexed(s.fields)
	s.members = make(map[string]*shape, len(m.byKind))
	for kind, t := range m.byKind {
		s.members[kind] = b.shape(t)
	}
}

func (b builder) choice(s *shape) {
	s.kind, s.name = choiceKind, nameOf(s.t)
	s.values = reflect.Zero(s.t.Field(0).Type).Interface().(enum).values()
	s.details = map[string]detail{}
	for i := 1; i < s.t.NumField(); i++ {
		f := s.t.Field(i)
		for kind := range strings.SplitSeq(f.Tag.Get("variant"), ",") {
			s.details[kind] = detail{i, b.shape(f.Type.Elem()), f.Tag.Get("experimental")}
		}
	}
}

// nameOf returns the name of a type in schemas, which is codex's where codex has the type.
func nameOf(t reflect.Type) string {
	switch t.Name() {
	case "ErrorInfo":
		return "CodexErrorInfo"
	case "ActiveFlag":
		return "ThreadActiveFlag"
	case "CommandSource":
		return "CommandExecutionSource"
	case "ToolContentItem":
		return "DynamicToolCallOutputContentItem"
	}
	return strings.ReplaceAll(t.Name(), "MCP", "Mcp")
}

// SchemaName returns the name of the schema of a message's type, as in [WriteJSONSchema].
func SchemaName(t reflect.Type) string { return nameOf(t) }
