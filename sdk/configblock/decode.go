package configblock

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// decoder decodes a block and collects all errors, instead of stopping at the first.
type decoder struct {
	diags  []contract.Diagnostic
	failed bool
}

type path []contract.Step

func (p path) with(s contract.Step) path { return append(p[:len(p):len(p)], s) }

func (d *decoder) fail(p path, next, format string, args ...any) {
	d.failed = true
	d.diags = append(d.diags, contract.Diagnostic{
		Severity: contract.SeverityError, Summary: fmt.Sprintf(format, args...), Path: p, Next: next,
	})
}

func (d *decoder) warn(p path, next, format string, args ...any) {
	d.diags = append(d.diags, contract.Diagnostic{
		Severity: contract.SeverityWarning, Summary: fmt.Sprintf(format, args...), Path: p, Next: next,
	})
}

// block fills v, a settable struct, from an object.
func (d *decoder) block(b *block, data []byte, v reflect.Value, p path) {
	var object map[string]json.RawMessage
	if len(bytes.TrimSpace(data)) > 0 {
		if !d.unmarshal(data, &object, "a block", p) {
			return
		}
	}
	for i := range b.fields {
		f := &b.fields[i]
		raw, present := object[f.name]
		delete(object, f.name)
		present = present && !isNull(raw)
		at := p.with(contract.Name(f.name))
		into := v.FieldByIndex(f.index)
		if present && f.deprecated != "" {
			d.warn(at, f.deprecated, "%q is deprecated", f.name)
		}
		switch {
		case f.nested != nil && f.many:
			d.blocks(f, raw, present, into, at)
		case f.nested != nil && !present && f.required:
			d.fail(p, "", "block %q is missing", f.name)
		case f.nested != nil && !present && into.Kind() == reflect.Pointer:
			// The pointer remains nil.
		case f.nested != nil:
			d.block(f.nested, raw, allocate(into), at) // defaults inside an absent block apply as well
		case present:
			d.attribute(f, raw, into, at)
		case f.hasDefault:
			// The default has been checked with the schema.
			if def, err := f.defaultJSON(); err == nil {
				d.attribute(f, def, into, at)
			}
		case f.required:
			d.fail(p, "", "%q is missing", f.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		next := ""
		if near := Nearest(name, b.names()); near != "" {
			next = fmt.Sprintf("Did you mean %q?", near)
		}
		d.fail(p.with(contract.Name(name)), next, "unknown name %q", name)
	}
}

func (b *block) names() []string {
	var out []string
	for _, f := range b.fields {
		out = append(out, f.name)
	}
	return out
}

func (d *decoder) blocks(f *field, raw []byte, present bool, into reflect.Value, p path) {
	var list []json.RawMessage
	if present && !d.unmarshal(raw, &list, "a list of blocks", p) {
		return
	}
	if f.required && len(list) == 0 {
		d.fail(p[:len(p)-1], "", "block %q is missing", f.name)
		return
	}
	if list == nil {
		return
	}
	into = allocate(into)
	out := reflect.MakeSlice(into.Type(), len(list), len(list))
	for i, r := range list {
		d.block(f.nested, r, allocate(out.Index(i)), p.with(contract.Index(int64(i))))
	}
	into.Set(out)
}

// attribute fills v from a JSON value and checks the allowed values.
func (d *decoder) attribute(f *field, raw []byte, v reflect.Value, p path) {
	before := len(d.diags)
	d.decode(raw, v, p)
	if len(d.diags) > before || f.enum == nil {
		return
	}
	if s := reflect.Indirect(v).String(); !slices.Contains(f.enum, s) {
		next := "Use one of " + strings.Join(quoted(f.enum), ", ") + "."
		if near := Nearest(s, f.enum); near != "" {
			next = fmt.Sprintf("Did you mean %q? %s", near, next)
		}
		d.fail(p, next, "%q is not allowed for %q", s, f.name)
	}
}

func quoted(ss []string) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = fmt.Sprintf("%q", s)
	}
	return out
}

func (d *decoder) decode(raw []byte, v reflect.Value, p path) {
	if v.Kind() == reflect.Pointer {
		if isNull(raw) {
			return
		}
		v = allocate(v)
	}
	t := v.Type()
	switch {
	case t == rawType:
		v.SetBytes(slices.Clone(raw))
		return
	case t == anyType:
		var a any
		if err := json.Unmarshal(raw, &a); err != nil {
			d.fail(p, "", "invalid value: %v", err)
		} else if a != nil {
			v.Set(reflect.ValueOf(a))
		}
		return
	case isNull(raw):
		d.fail(p, "", "want %s, got null", expected(t))
		return
	case t == secretType:
		s, ok := parseSecret(raw)
		if !ok {
			d.fail(p, "", "want a string, got %s", describeJSON(raw))
			return
		}
		v.Set(reflect.ValueOf(s))
		return
	case t == durationType:
		s, ok := d.text(raw, p)
		if !ok {
			return
		}
		dur, err := time.ParseDuration(s)
		if err != nil {
			d.fail(p, `Write a number with a unit, for example "30s" or "5m".`, "%q is not a duration", s)
			return
		}
		v.SetInt(int64(dur))
		return
	case isText(t):
		s, ok := d.text(raw, p)
		if !ok {
			return
		}
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			d.fail(p, "", "%q is not valid: %v", s, err)
		}
		return
	}
	switch t.Kind() {
	case reflect.String:
		if s, ok := d.text(raw, p); ok {
			v.SetString(s)
		}
	case reflect.Bool:
		var x bool
		if d.unmarshal(raw, &x, "true or false", p) {
			v.SetBool(x)
		}
	case reflect.Slice:
		var list []json.RawMessage
		if !d.unmarshal(raw, &list, "a list", p) {
			return
		}
		out := reflect.MakeSlice(t, len(list), len(list))
		for i, r := range list {
			d.decode(r, out.Index(i), p.with(contract.Index(int64(i))))
		}
		v.Set(out)
	case reflect.Map:
		d.mapping(raw, v, p)
	case reflect.Struct:
		b, err := newBlock(t, nil)
		if err != nil {
			d.fail(p, "", "%v", err)
			return
		}
		d.block(b, raw, v, p)
	default:
		d.number(raw, v, p)
	}
}

func (d *decoder) mapping(raw []byte, v reflect.Value, p path) {
	var m map[string]json.RawMessage
	if !d.unmarshal(raw, &m, "a map", p) {
		return
	}
	t := v.Type()
	out := reflect.MakeMapWithSize(t, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e := reflect.New(t.Elem()).Elem()
		d.decode(m[k], e, p.with(contract.Key(k)))
		out.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), e)
	}
	v.Set(out)
}

func (d *decoder) text(raw []byte, p path) (string, bool) {
	var s string
	ok := d.unmarshal(raw, &s, "a string", p)
	return s, ok
}

// unmarshal decodes a JSON value, or reports that it is not of the wanted kind.
func (d *decoder) unmarshal(raw []byte, to any, want string, p path) bool {
	if json.Unmarshal(raw, to) != nil {
		d.fail(p, "", "want %s, got %s", want, describeJSON(raw))
		return false
	}
	return true
}

// number accepts numbers that the type can represent. 3.0 is an integer; 3.5 is not, and 300 is out of range for a uint8.
func (d *decoder) number(raw []byte, v reflect.Value, p path) {
	var n json.Number
	if raw[0] == '"' || json.Unmarshal(raw, &n) != nil {
		d.fail(p, "", "want a number, got %s", describeJSON(raw))
		return
	}
	if len(n) > maxNumberLen {
		d.fail(p, "", "a number of %d digits is too long", len(n))
		return
	}
	if v.CanFloat() {
		f, err := n.Float64()
		if err != nil || math.IsInf(f, 0) || v.OverflowFloat(f) {
			d.fail(p, "", "%s is too large", n)
			return
		}
		v.SetFloat(f)
		return
	}
	i, ok := integer(string(n))
	switch {
	case !ok:
		d.fail(p, "", "want a whole number, got %s", n)
	case v.CanInt() && i.IsInt64() && !v.OverflowInt(i.Int64()):
		v.SetInt(i.Int64())
	case v.CanUint() && i.IsUint64() && !v.OverflowUint(i.Uint64()):
		v.SetUint(i.Uint64())
	case v.CanUint() && i.Sign() < 0:
		d.fail(p, "", "want a non-negative number, got %s", n)
	default:
		d.fail(p, "", "%s is out of range", n)
	}
}

// maxNumberLen is the maximum length of a number. Longer ones don't fit into any Go type and would take long to parse.
const maxNumberLen = 64

// integer parses a whole number in any JSON notation. It rejects numbers that are much larger than an int64, because expanding
// 1e999999999 would exhaust memory.
func integer(s string) (*big.Int, bool) {
	if i, ok := new(big.Int).SetString(s, 10); ok {
		return i, true
	}
	f, _, err := big.ParseFloat(s, 10, 256, big.ToNearestEven)
	if err != nil || !f.IsInt() || f.MantExp(nil) > 128 {
		return nil, false
	}
	i, _ := f.Int(nil)
	return i, true
}

// allocate returns the value that v points to, allocating it if v is nil, or v itself if it is not a pointer.
func allocate(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	return v.Elem()
}

func isNull(raw []byte) bool { return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" }

// describeJSON describes a JSON value for messages. It never returns the value itself, which could be a misplaced secret.
func describeJSON(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	if !json.Valid(raw) {
		return "invalid JSON"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		if _, ok := parseSecret(raw); ok {
			return "a secret"
		}
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	return "a number"
}

func expected(t reflect.Type) string {
	switch {
	case t == secretType, t == durationType, isText(t), t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a map"
	case t.Kind() == reflect.Struct:
		return "an object"
	}
	return "a number"
}
