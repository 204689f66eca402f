package configblock

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/sdk/contract"
)

var (
	secretType   = reflect.TypeFor[Secret]()
	processType  = reflect.TypeFor[Process]()
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	anyType      = reflect.TypeFor[any]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	nameForm     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// block is the description of a struct type according to its tags.
type block struct {
	typ     reflect.Type
	fields  []field
	process bool // it embeds Process
}

type field struct {
	name       string
	index      []int // for FieldByIndex
	typ        reflect.Type
	doc        string
	def        string
	hasDefault bool
	required   bool
	sensitive  bool
	path       bool
	endpoint   bool
	enum       []string
	deprecated string
	label      bool
	nested     *block // the field is a nested block
	many       bool   // the nested block may appear more than once
	byHost     bool   // the host describes and reads the attribute: it is part of Process
}

// newBlock reads the tags of struct type t. outer contains the enclosing types, because a block can't contain itself.
func newBlock(t reflect.Type, outer []reflect.Type) (*block, error) {
	if slices.Contains(outer, t) {
		return nil, fmt.Errorf("block %s contains itself", t)
	}
	b := &block{typ: t}
	if err := b.read(t, nil, append(outer[:len(outer):len(outer)], t)); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, f := range b.fields {
		if seen[f.name] {
			return nil, fmt.Errorf("%s: two fields are named %q", t, f.name)
		}
		seen[f.name] = true
	}
	return b, nil
}

func (b *block) read(t reflect.Type, prefix []int, outer []reflect.Type) error {
	var errs []error
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(prefix[:len(prefix):len(prefix)], i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct && !isText(sf.Type) {
			before := len(b.fields)
			errs = append(errs, b.read(sf.Type, index, outer))
			if sf.Type == processType {
				b.process = true
				for i := range b.fields[before:] {
					b.fields[before+i].byHost = true
				}
			}
			continue
		}
		if !sf.IsExported() {
			continue
		}
		f, err := newField(sf, name, outer)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", t, sf.Name, err))
			continue
		}
		f.index = index
		b.fields = append(b.fields, f)
	}
	return errors.Join(errs...)
}

func newField(sf reflect.StructField, name string, outer []reflect.Type) (field, error) {
	f := field{
		name: name, typ: sf.Type,
		doc: sf.Tag.Get("doc"), deprecated: sf.Tag.Get("deprecated"),
		required: sf.Tag.Get("required") == "true", sensitive: sf.Tag.Get("sensitive") == "true", path: sf.Tag.Get("path") == "true",
		endpoint: sf.Tag.Get("endpoint") == "true",
	}
	f.def, f.hasDefault = sf.Tag.Lookup("default")
	if f.name == "" {
		f.name = snake(sf.Name)
	}
	if l, ok := sf.Tag.Lookup("label"); ok {
		f.label = true
		if l != "" {
			f.name = l
		}
	}
	if !nameForm.MatchString(f.name) {
		return f, fmt.Errorf("name %q: use lower-case letters, digits and underscores", f.name)
	}
	if e, ok := sf.Tag.Lookup("enum"); ok {
		f.enum = strings.Split(e, ",")
	}
	base := indirect(sf.Type)
	switch {
	case isBlock(base):
		nested, err := newBlock(base, outer)
		if err != nil {
			return f, err
		}
		f.nested = nested
	case base.Kind() == reflect.Slice && isBlock(indirect(base.Elem())):
		nested, err := newBlock(indirect(base.Elem()), outer)
		if err != nil {
			return f, err
		}
		f.nested, f.many = nested, true
	}
	return f, f.check(base)
}

// check returns an error if tags contradict each other or the type.
func (f *field) check(base reflect.Type) error {
	switch {
	case f.required && f.hasDefault:
		return errors.New("required and default are mutually exclusive")
	case f.nested != nil && (f.hasDefault || f.enum != nil || f.sensitive || f.label || f.path || f.endpoint):
		return errors.New("a nested block can't have default, enum, sensitive, label, path or endpoint")
	case f.label && (base.Kind() != reflect.String || isText(base)):
		return errors.New("a label must be a string")
	case f.enum != nil && (base.Kind() != reflect.String || isText(base)):
		return errors.New("only a string can have enum")
	case f.path && (base.Kind() != reflect.String || isText(base) || f.hasDefault || f.enum != nil):
		return errors.New("a path must be a string without default and enum")
	case f.endpoint && (f.hasDefault || f.label):
		return errors.New("an endpoint can be neither a label nor have a default")
	case f.sensitive && !holdsSecret(base):
		return errors.New("a sensitive field must be a configblock.Secret, because other types could be printed by accident")
	}
	f.sensitive = f.sensitive || (f.nested == nil && holdsSecret(base))
	if f.sensitive && f.hasDefault {
		return errors.New("a secret can't have a default")
	}
	return nil
}

func (b *block) schema() (contract.ConfigBlock, error) {
	var out contract.ConfigBlock
	var errs []error
	for _, f := range b.fields {
		if f.label || f.byHost {
			continue // part of the enclosing block's schema, or of the host's
		}
		if f.nested != nil {
			n, err := f.nested.schema()
			n.Description = f.doc
			nb := contract.ConfigNestedBlock{Name: f.name, Block: n, Process: f.nested.process}
			if f.required {
				nb.MinItems = 1
			}
			if !f.many {
				nb.MaxItems = 1
			}
			for _, l := range f.nested.fields {
				if l.label {
					nb.Labels = append(nb.Labels, l.name)
				}
			}
			out.Blocks = append(out.Blocks, nb)
			errs = append(errs, err)
			continue
		}
		a, err := f.attribute()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: attribute %q: %w", b.typ, f.name, err))
			continue
		}
		out.Attributes = append(out.Attributes, a)
	}
	return out, errors.Join(errs...)
}

func (f *field) attribute() (contract.ConfigAttribute, error) {
	a := contract.ConfigAttribute{
		Name: f.name, Description: f.doc, Required: f.required, Sensitive: f.sensitive, Path: f.path, Endpoint: f.endpoint,
		Allowed: f.enum, Deprecated: f.deprecated,
	}
	typ, err := ctyType(f.typ, nil)
	if err != nil {
		return a, err
	}
	a.Type = marshal(typ)
	if !f.hasDefault {
		return a, nil
	}
	a.Default, err = f.defaultJSON()
	if err != nil {
		return a, fmt.Errorf("default %q: %w", f.def, err)
	}
	d := decoder{}
	d.attribute(f, a.Default, reflect.New(f.typ).Elem(), nil)
	if d.failed {
		return a, fmt.Errorf("default %q: %s", f.def, d.diags[0].Summary)
	}
	return a, nil
}

// defaultJSON converts the text of the tag to JSON: a string for types with a text form, otherwise the text itself.
func (f *field) defaultJSON() (json.RawMessage, error) {
	base := indirect(f.typ)
	if base.Kind() == reflect.String || isText(base) || base == durationType {
		return marshal(f.def), nil
	}
	if !json.Valid([]byte(f.def)) {
		return nil, errors.New("not valid JSON")
	}
	return json.RawMessage(f.def), nil
}

// copy copies the configured fields. Other fields of to are unchanged.
func (b *block) copy(to, from reflect.Value) {
	for _, f := range b.fields {
		to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
	}
}

// ctyType returns the schema type of t as a value that marshals to cty's JSON form.
func ctyType(t reflect.Type, outer []reflect.Type) (any, error) {
	t = indirect(t)
	switch {
	case t == secretType, t == durationType, isText(t):
		return "string", nil
	case t == rawType, t == anyType:
		return "dynamic", nil
	}
	switch t.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		e, err := ctyType(t.Elem(), outer)
		return []any{"list", e}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String || isText(t.Key()) {
			return nil, fmt.Errorf("type %s: a map must have string keys", t)
		}
		e, err := ctyType(t.Elem(), outer)
		return []any{"map", e}, err
	case reflect.Struct:
		if slices.Contains(outer, t) {
			return nil, fmt.Errorf("type %s contains itself", t)
		}
		b, err := newBlock(t, nil)
		if err != nil {
			return nil, err
		}
		attrs := map[string]any{}
		var optional []string
		for _, f := range b.fields {
			typ := f.typ
			if attrs[f.name], err = ctyType(typ, append(outer[:len(outer):len(outer)], t)); err != nil {
				return nil, err
			}
			if !f.required {
				optional = append(optional, f.name)
			}
		}
		if optional == nil {
			return []any{"object", attrs}, nil
		}
		return []any{"object", attrs, optional}, nil
	}
	return nil, fmt.Errorf("type %s can't be configured", t)
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func isText(t reflect.Type) bool {
	return t != secretType && (t.Implements(textType) || reflect.PointerTo(t).Implements(textType))
}

func isBlock(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != secretType && !isText(t)
}

// holdsSecret reports whether t is a secret or a list or map of them.
func holdsSecret(t reflect.Type) bool {
	t = indirect(t)
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = indirect(t.Elem())
	}
	return t == secretType
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("configblock: marshal %T: %v", v, err)) // strings, and lists and maps of strings, can always be marshalled
	}
	return b
}

// snake converts a Go name to lower_snake: BaseURL becomes base_url.
func snake(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
