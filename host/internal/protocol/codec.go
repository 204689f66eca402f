package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// ParamsError says what is wrong with the parameters of a request.
type ParamsError struct {
	Path    string // of the value, such as input[0].text; empty: the parameters themselves
	Problem string
	Schema  string // name of the schema that describes the parameters
}

func (e *ParamsError) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// NextStep implements hint.Stepper.
func (e *ParamsError) NextStep() string {
	return fmt.Sprintf("see the schema %s, which `gantry app-server generate-json-schema` writes", e.Schema)
}

// Decode reads the parameters of a request. It returns a [*ParamsError] if they lack a required field or have one of another type, also
// an enum's value that is not known. Unknown members are ignored, and null is the same as no value where a field is optional. Member names
// are case-sensitive.
func (m Method[P, R]) Decode(raw json.RawMessage) (P, error) {
	var p P
	err := decodeParams(reflect.ValueOf(&p).Elem(), raw)
	return p, err
}

// Decode is [Method.Decode] for a method whose types are not known. It returns a pointer to a value of type Params.
func (m *MethodSpec) Decode(raw json.RawMessage) (any, error) {
	p := reflect.New(m.Params)
	if err := decodeParams(p.Elem(), raw); err != nil {
		return nil, err
	}
	return p.Interface(), nil
}

// Decode reads a client's answer to a request as [Method.Decode] reads parameters.
func (r ServerRequest[P, R]) Decode(raw json.RawMessage) (R, error) {
	var out R
	err := decodeParams(reflect.ValueOf(&out).Elem(), raw)
	return out, err
}

// Unmarshal reads a value as strictly as parameters are read: for example, an unknown name of an enumeration is refused. v is a pointer.
func Unmarshal(raw json.RawMessage, v any) error { return decodeParams(reflect.ValueOf(v).Elem(), raw) }

func decodeParams(v reflect.Value, raw json.RawMessage) error {
	s := shapeOf(v.Type())
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		if v.Type() == reflect.TypeFor[NoParams]() {
			return nil
		}
		return &ParamsError{Problem: "missing field `params`", Schema: s.name}
	}
	if !json.Valid(raw) {
		return &ParamsError{Problem: "invalid JSON", Schema: s.name}
	}
	err := (&decoder{strict: true}).value(v, s, raw, nil)
	if e, ok := errors.AsType[*ParamsError](err); ok {
		e.Schema = s.name
	}
	return err
}

// unmarshal reads a union or a choice of another program, which may be newer: what it lacks is zero, and unknown values of enums are kept.
// Null leaves out as it is.
func unmarshal(raw []byte, out any) error {
	v := reflect.ValueOf(out).Elem()
	if raw = bytes.TrimSpace(raw); string(raw) == "null" {
		return nil
	}
	return (&decoder{}).value(v, shapeOf(v.Type()), raw, nil)
}

// decoder reads JSON that is known to be valid.
type decoder struct {
	strict bool // required fields must be there, and values of enums known
}

// step is a part of the path to a value.
type step struct {
	parent *step
	name   string
	index  int // of an element, if name is empty
}

func (p *step) String() string {
	if p == nil {
		return ""
	}
	if p.name == "" {
		return fmt.Sprintf("%s[%d]", p.parent, p.index)
	}
	if p.parent == nil {
		return p.name
	}
	return p.parent.String() + "." + p.name
}

func problem(at *step, format string, args ...any) error {
	return &ParamsError{Path: at.String(), Problem: fmt.Sprintf(format, args...)}
}

// value reads one value.
func (d *decoder) value(v reflect.Value, s *shape, raw []byte, at *step) error {
	switch s.kind {
	case anyKind:
		v.SetBytes(slices.Clone(raw))
		return nil
	case boolKind:
		if raw[0] != 't' && raw[0] != 'f' {
			return mistyped(s, raw, at)
		}
		v.SetBool(raw[0] == 't')
		return nil
	case intKind, uintKind, floatKind:
		return number(v, s, raw, at)
	case stringKind, enumKind:
		if raw[0] != '"' {
			return mistyped(s, raw, at)
		}
		text := unquote(raw)
		if s.kind == enumKind && d.strict && !slices.Contains(s.values, text) {
			return problem(at, "%v", unknownVariant(text, s.values))
		}
		v.SetString(text)
		return nil
	case pointerKind:
		if string(raw) == "null" {
			v.SetZero()
			return nil
		}
		p := reflect.New(s.element.t)
		if err := d.value(p.Elem(), s.element, raw, at); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case nullableKind:
		v.Field(0).SetBool(true)
		if string(raw) == "null" {
			return nil
		}
		p := reflect.New(s.element.t)
		v.Field(1).Set(p)
		return d.value(p.Elem(), s.element, raw, at)
	case listKind:
		return d.list(v, s, raw, at)
	case mapKind:
		return d.mapping(v, s, raw, at)
	case objectKind:
		return d.object(v, s, raw, at)
	case unionKind:
		return d.union(v, s, raw, at)
	case choiceKind:
		return d.choice(v, s, raw, at)
	case alternativesKind:
		return d.alternatives(v, s, raw, at)
	}
	panic("protocol: unknown kind of shape")
}

func number(v reflect.Value, s *shape, raw []byte, at *step) error {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return mistyped(s, raw, at)
	}
	text := string(raw)
	if s.kind == floatKind {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return problem(at, "invalid value: number `%s`, expected %s", cut(raw), s)
		}
		v.SetFloat(x)
		return nil
	}
	if strings.ContainsAny(text, ".eE") {
		return mistyped(s, raw, at)
	}
	var err error
	if s.kind == intKind {
		var x int64
		x, err = strconv.ParseInt(text, 10, s.bits)
		v.SetInt(x)
	} else {
		var x uint64
		x, err = strconv.ParseUint(text, 10, s.bits)
		v.SetUint(x)
	}
	if err != nil {
		return problem(at, "invalid value: integer `%s`, expected %s", cut(raw), s)
	}
	return nil
}

func (d *decoder) list(v reflect.Value, s *shape, raw []byte, at *step) error {
	if raw[0] != '[' {
		return mistyped(s, raw, at)
	}
	out := reflect.MakeSlice(s.t, 0, 0)
	for element := range elements(raw) {
		out = reflect.Append(out, reflect.Zero(s.element.t))
		i := out.Len() - 1
		if err := d.value(out.Index(i), s.element, element, &step{parent: at, index: i}); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

func (d *decoder) mapping(v reflect.Value, s *shape, raw []byte, at *step) error {
	if raw[0] != '{' {
		return mistyped(s, raw, at)
	}
	out := reflect.MakeMap(s.t)
	for key, value := range members(raw) {
		element := reflect.New(s.element.t).Elem()
		if err := d.value(element, s.element, value, &step{parent: at, name: key}); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(key).Convert(s.t.Key()), element)
	}
	v.Set(out)
	return nil
}

func (d *decoder) object(v reflect.Value, s *shape, raw []byte, at *step) error {
	if raw[0] != '{' {
		return mistyped(s, raw, at)
	}
	return d.fields(v, s.fields, s.index, raw, at)
}

// fields reads the members of an object. Of repeated members the last one counts, as for encoding/json.
func (d *decoder) fields(v reflect.Value, fields []*field, index map[string]*field, raw []byte, at *step) error {
	if len(fields) == 0 {
		return nil
	}
	present := make([]bool, len(fields))
	for name, value := range members(raw) {
		f, ok := index[name]
		if !ok {
			continue
		}
		present[f.position] = true
		target := v.FieldByIndex(f.index)
		target.SetZero()
		if string(value) == "null" && f.acceptsNull() && f.shape.kind != nullableKind {
			continue
		}
		if err := d.value(target, f.shape, value, &step{parent: at, name: name}); err != nil {
			return err
		}
	}
	for i, f := range fields {
		if d.strict && !present[i] && f.required() {
			return problem(at, "missing field `%s`", f.name)
		}
	}
	return nil
}

func (d *decoder) union(v reflect.Value, s *shape, raw []byte, at *step) error {
	if raw[0] != '{' {
		return mistyped(s, raw, at)
	}
	var tag []byte
	for name, value := range members(raw) {
		if name == s.tag {
			tag = value
		}
	}
	inTag := &step{parent: at, name: s.tag}
	switch {
	case tag == nil:
		return problem(at, "missing field `%s`", s.tag)
	case tag[0] != '"':
		return problem(inTag, "invalid type: %s, expected a string", found(tag))
	}
	member, ok := s.members[unquote(tag)]
	if !ok {
		return problem(inTag, "%v", unknownVariant(unquote(tag), slices.Sorted(maps.Keys(s.members))))
	}
	if err := d.fields(v, s.fields, s.index, raw, at); err != nil {
		return err
	}
	body := reflect.New(member.t).Elem()
	if err := d.object(body, member, raw, at); err != nil {
		return err
	}
	v.FieldByIndex(s.body).Set(body)
	return nil
}

func (d *decoder) choice(v reflect.Value, s *shape, raw []byte, at *step) error {
	v.SetZero()
	var kind string
	var value []byte
	switch raw[0] {
	case '"':
		kind = unquote(raw)
	case '{':
		n := 0
		for name, details := range members(raw) {
			kind, value = name, details
			n++
		}
		if n != 1 {
			return problem(at, "invalid value: object with %d members, expected a string or an object with one member", n)
		}
	default:
		return mistyped(s, raw, at)
	}
	details, has := s.details[kind]
	if d.strict {
		switch {
		case !slices.Contains(s.values, kind):
			return problem(at, "%v", unknownVariant(kind, s.values))
		case has && value == nil:
			return problem(at, "invalid type: string `%s`, expected an object with the member `%s`", kind, kind)
		case !has && value != nil:
			return problem(at, "invalid type: object with the member `%s`, expected the string `%s`", kind, kind)
		}
	}
	v.Field(0).SetString(kind)
	if !has || value == nil {
		return nil
	}
	p := reflect.New(details.shape.t)
	if err := d.value(p.Elem(), details.shape, value, &step{parent: at, name: kind}); err != nil {
		return err
	}
	v.Field(details.field).Set(p)
	return nil
}

func (d *decoder) alternatives(v reflect.Value, s *shape, raw []byte, at *step) error {
	err := mistyped(s, raw, at)
	for _, form := range s.options {
		if !form.accepts(raw[0]) {
			continue
		}
		if err = d.value(reflect.New(form.t).Elem(), form, raw, at); err == nil {
			return json.Unmarshal(raw, v.Addr().Interface())
		}
	}
	return err
}

// accepts reports whether a value of this shape may begin with a byte.
func (s *shape) accepts(first byte) bool {
	switch s.kind {
	case stringKind, enumKind:
		return first == '"'
	case pointerKind, nullableKind:
		return first == 'n' || s.element.accepts(first)
	case listKind:
		return first == '['
	case intKind, uintKind, floatKind:
		return first == '-' || first >= '0' && first <= '9'
	case unionKind, objectKind, mapKind:
		return first == '{'
	}
	return true
}

func mistyped(s *shape, raw []byte, at *step) error {
	return problem(at, "invalid type: %s, expected %s", found(raw), s)
}

// found describes a value.
func found(raw []byte) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string `" + cut([]byte(unquote(raw))) + "`"
	case 't', 'f':
		return "boolean `" + string(raw) + "`"
	case 'n':
		return "null"
	}
	if bytes.ContainsAny(raw, ".eE") {
		return "floating-point number `" + cut(raw) + "`"
	}
	return "integer `" + cut(raw) + "`"
}

// cut shortens what an error quotes.
func cut(b []byte) string {
	const most = 64
	if len(b) <= most {
		return string(b)
	}
	return strings.ToValidUTF8(string(b[:most]), "") + "…"
}

// String describes what a value of this shape must be, for errors.
func (s *shape) String() string {
	switch s.kind {
	case boolKind:
		return "a boolean"
	case intKind:
		return "i" + strconv.Itoa(s.bits)
	case uintKind:
		return "u" + strconv.Itoa(s.bits)
	case floatKind:
		return "a number"
	case stringKind:
		return "a string"
	case enumKind:
		return "one of `" + strings.Join(s.values, "`, `") + "`"
	case listKind:
		return "an array"
	case mapKind, objectKind:
		return "an object"
	case unionKind:
		return "an object with the member `" + s.tag + "`"
	case choiceKind:
		return "a string or an object with one member"
	case alternativesKind:
		forms := make([]string, len(s.options))
		for i, o := range s.options {
			forms[i] = o.String()
		}
		return strings.Join(forms, " or ")
	case pointerKind, nullableKind:
		return s.element.String()
	}
	return "a value"
}

// Marshal returns the JSON of a message of this package, which has no line breaks. It differs from json.Marshal in that nil lists and maps
// are empty ones, unless they are nullable. Other values are left to json.Marshal.
func Marshal(v any) ([]byte, error) { return (&encoder{}).marshal(v) }

// MarshalStable is [Marshal] without experimental fields.
func MarshalStable(v any) ([]byte, error) { return (&encoder{stable: true}).marshal(v) }

type encoder struct{ stable bool }

func (e *encoder) marshal(m any) ([]byte, error) {
	v := reflect.ValueOf(m)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if !v.IsValid() {
		return []byte("null"), nil
	}
	s, ok := shapes()[v.Type()]
	if !ok {
		return json.Marshal(m)
	}
	return e.value(nil, v, s)
}

func (e *encoder) value(b []byte, v reflect.Value, s *shape) ([]byte, error) {
	switch s.kind {
	case anyKind:
		if v.Len() == 0 {
			return append(b, "null"...), nil
		}
		buf := bytes.NewBuffer(b)
		if err := json.Compact(buf, v.Bytes()); err != nil {
			return nil, fmt.Errorf("raw JSON: %w", err)
		}
		return buf.Bytes(), nil
	case boolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case intKind:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case uintKind:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case floatKind:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%v is not a number in JSON", x)
		}
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64), nil
	case stringKind, enumKind:
		return quote(b, v.String()), nil
	case pointerKind:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return e.value(b, v.Elem(), s.element)
	case nullableKind:
		return e.value(b, v.Field(1), pointerTo(s.element))
	case listKind:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = e.value(b, v.Index(i), s.element); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return append(b, ']'), nil
	case mapKind:
		return e.mapping(b, v, s)
	case objectKind:
		b, err := e.fields(append(b, '{'), v, s.fields)
		return closed(b), err
	case unionKind:
		return e.union(b, v, s)
	case choiceKind:
		return e.choice(b, v, s)
	case alternativesKind:
		raw, err := json.Marshal(v.Interface())
		return append(b, raw...), err
	}
	panic("protocol: unknown kind of shape")
}

func pointerTo(s *shape) *shape { return &shape{kind: pointerKind, element: s} }

// closed ends an object, whose last member has a comma after it.
func closed(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == ',' {
		b = b[:n-1]
	}
	return append(b, '}')
}

func (e *encoder) fields(b []byte, v reflect.Value, fields []*field) ([]byte, error) {
	for _, f := range fields {
		x := v.FieldByIndex(f.index)
		if e.stable && f.experimental || f.omitZero && isZero(x) || f.omitEmpty && isEmpty(x) {
			continue
		}
		b = append(quote(b, f.name), ':')
		var err error
		if f.nullable && x.IsNil() {
			b = append(b, "null"...)
		} else if b, err = e.value(b, x, f.shape); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		b = append(b, ',')
	}
	return b, nil
}

func isZero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func (e *encoder) mapping(b []byte, v reflect.Value, s *shape) ([]byte, error) {
	b = append(b, '{')
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	for _, k := range keys {
		var err error
		if b, err = e.value(append(quote(b, k.String()), ':'), v.MapIndex(k), s.element); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		b = append(b, ',')
	}
	return closed(b), nil
}

func (e *encoder) union(b []byte, v reflect.Value, s *shape) ([]byte, error) {
	body := v.FieldByIndex(s.body)
	if body.IsNil() {
		return append(b, "null"...), nil
	}
	member := body.Elem()
	kind := member.Interface().(variant).kind()
	b = append(quote(append(quote(append(b, '{'), s.tag), ':'), kind), ',')
	b, err := e.fields(b, v, s.fields)
	if err != nil {
		return nil, err
	}
	m, ok := s.members[kind]
	if !ok || m.t != member.Type() {
		return nil, fmt.Errorf("%s is not a member of %s", member.Type(), s.t)
	}
	b, err = e.fields(b, member, m.fields)
	return closed(b), err
}

func (e *encoder) choice(b []byte, v reflect.Value, s *shape) ([]byte, error) {
	kind := v.Field(0).String()
	d, ok := s.details[kind]
	if !ok {
		return quote(b, kind), nil
	}
	details := v.Field(d.field)
	if details.IsNil() {
		details = reflect.New(d.shape.t)
	}
	b = append(quote(append(b, '{'), kind), ':')
	b, err := e.value(b, details.Elem(), d.shape)
	return append(b, '}'), err
}

// quote appends a string of JSON.
func quote(b []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		b = append(b, '"')
		return append(append(b, s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // of a string into memory
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// NeedsExperimental returns what in a request needs the capability experimentalApi: the method, METHOD.FIELD, or a value of an enum. It is
// empty if nothing does, or if the parameters are not valid.
func NeedsExperimental(m *MethodSpec, raw json.RawMessage) string {
	if m.Experimental {
		return m.Name
	}
	raw = bytes.TrimSpace(raw)
	if s := shapeOf(m.Params); s.gated && json.Valid(raw) {
		return s.gate(raw, m.Name)
	}
	return ""
}

// gate returns the first experimental thing in a value. Null and false are what a client that leaves the field out means.
func (s *shape) gate(raw []byte, path string) string {
	if s == nil || !s.gated || !s.accepts(raw[0]) {
		return ""
	}
	switch s.kind {
	case pointerKind, nullableKind:
		return s.element.gate(raw, path)
	case listKind:
		for element := range elements(raw) {
			if d := s.element.gate(element, path); d != "" {
				return d
			}
		}
	case mapKind:
		for _, value := range members(raw) {
			if d := s.element.gate(value, path); d != "" {
				return d
			}
		}
	case objectKind:
		return gateFields(s.index, raw, path)
	case unionKind:
		if d := gateFields(s.index, raw, path); d != "" {
			return d
		}
		for name, value := range members(raw) {
			if name == s.tag && value[0] == '"' {
				return s.members[unquote(value)].gate(raw, path)
			}
		}
	case choiceKind:
		if raw[0] != '{' {
			return ""
		}
		for kind, value := range members(raw) {
			d := s.details[kind]
			if d.descriptor != "" {
				return d.descriptor
			}
			return d.shape.gate(value, path)
		}
	}
	return ""
}

func gateFields(index map[string]*field, raw []byte, path string) string {
	for name, value := range members(raw) {
		f, ok := index[name]
		if !ok || string(value) == "null" || string(value) == "false" {
			continue
		}
		inside := path + "." + name
		if f.experimental {
			return inside
		}
		if d := f.shape.gate(value, inside); d != "" {
			return d
		}
	}
	return ""
}

// IsExperimentalNotification reports whether a notification is sent only to clients with the capability experimentalApi.
func IsExperimentalNotification(name string) bool { return experimentalNotifications()[name] }

// experimentalNotifications are looked up for each notification and connection.
var experimentalNotifications = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, n := range Notifications() {
		if n.Experimental {
			out[n.Name] = true
		}
	}
	return out
})
