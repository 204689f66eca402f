package bind

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// attribute evaluates an argument and returns its JSON value, or nil if it is absent or invalid.
func (d *decoder) attribute(a contract.ConfigAttribute, layers []setting, header hcl.Range, path string) any {
	want, err := d.typeOf(a)
	if err != nil {
		d.errorAt(header, "the plugin's schema is invalid", fmt.Sprintf("The type of the argument %q is invalid: %v.", a.Name, err),
			"report this to the plugin's author")
		return nil
	}
	// Overridden layers are not evaluated: their variables may be unset.
	for i := len(layers) - 1; i > 0; i-- {
		if len(layers[i].rest) == 0 {
			layers = layers[i:]
			break
		}
	}
	val, last, ok := d.evaluate(a, layers, want)
	if !ok {
		return nil
	}
	if !d.commands(a, val, last) {
		return nil
	}
	if len(layers) > 0 && a.Deprecated != "" {
		d.add(layers[len(layers)-1].nameRange, diag.Diagnostic{
			Severity: diag.Warning, Summary: fmt.Sprintf("argument %q is deprecated", a.Name), Next: a.Deprecated,
		})
	}
	if val.IsNull() && len(a.Default) > 0 {
		if val, err = ctyjson.Unmarshal(a.Default, want); err != nil {
			d.errorAt(header, "the plugin's schema is invalid", fmt.Sprintf("The default of the argument %q doesn't match its type: %v.", a.Name, err),
				"report this to the plugin's author")
			return nil
		}
	}
	if val.IsNull() {
		if a.Required {
			d.errorAt(header, "missing required argument", fmt.Sprintf("The argument %q is required.", a.Name),
				fmt.Sprintf("add `%s = ...` to the block", a.Name))
		}
		return nil
	}
	if !d.allowed(a, val, last) || a.Endpoint && !d.endpoint(a, val, last, ofProject(layers)) {
		return nil
	}
	if a.Path {
		if val, ok = d.absolute(a, val, last); !ok {
			return nil
		}
	}
	return d.encode(val, a.Sensitive, path)
}

// typeOf parses the type of an attribute.
func (d *decoder) typeOf(a contract.ConfigAttribute) (cty.Type, error) {
	if t, known := d.types[string(a.Type)]; known {
		return t, nil
	}
	t, err := ctyjson.UnmarshalType(a.Type)
	if err == nil {
		if d.types == nil {
			d.types = map[string]cty.Type{}
		}
		d.types[string(a.Type)] = t
	}
	return t, err
}

// absolute makes a relative path independent of where it is used.
func (d *decoder) absolute(a contract.ConfigAttribute, val cty.Value, last setting) (cty.Value, bool) {
	text, marks := val.Unmark()
	if text.Type().IsListType() && text.IsKnown() && text.LengthInt() > 0 {
		var out []cty.Value
		for it := text.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if e.IsNull() {
				e = cty.StringVal("")
			}
			e, ok := d.absolute(a, e, last)
			if !ok {
				return cty.NilVal, false
			}
			out = append(out, e)
		}
		return cty.ListVal(out).WithMarks(marks), true
	}
	if last.scope == nil || text.Type() != cty.String || !text.IsKnown() || text.AsString() == "" {
		return val, true
	}
	p, err := last.scope.Path(text.AsString())
	if err != nil {
		d.errorAt(last.expr.Range(), fmt.Sprintf("invalid value for %q", a.Name), strings.ToUpper(err.Error()[:1])+err.Error()[1:]+".", "use an absolute path")
		return cty.NilVal, false
	}
	return cty.StringVal(p).WithMarks(marks), true
}

// evaluate computes the value over the layers and converts it. last is the layer that sets it, or the zero setting.
func (d *decoder) evaluate(a contract.ConfigAttribute, layers []setting, want cty.Type) (val cty.Value, last setting, ok bool) {
	val = cty.NullVal(want)
	for _, l := range layers {
		v, hds := l.expr.Value(l.scope.Context())
		if hds.HasErrors() && diag.AllExplained(hds) {
			if late, ok := d.deferred(a, l, want); ok {
				v, hds = late, nil
			}
		}
		if hds.HasErrors() {
			ok := d.mode != Use && diag.AllExplained(hds)
			for _, x := range d.Files.Convert(hds, "correct the value") {
				if ok {
					x.Severity = diag.Warning
				}
				x.Plugin = d.Plugin
				d.ds = append(d.ds, hide(x, a))
			}
			if ok && d.mode == Look && a.Sensitive && want == cty.String {
				return cty.StringVal(""), l, true
			}
			return cty.NilVal, l, false
		}
		if raw, ok := l.expr.(interface{ Raw() string }); ok && want == cty.String {
			v = cty.StringVal(raw.Raw())
		}
		if len(l.rest) > 0 {
			if v, ok = insert(val, l.rest, v); !ok {
				d.errorAt(l.nameRange, "unsupported argument", fmt.Sprintf("The argument %q has no part %q.", a.Name, strings.Join(l.rest, ".")),
					"set the argument as a whole")
				return cty.NilVal, l, false
			}
		} else if d.extra(v, want, l.expr, a) {
			return cty.NilVal, l, false
		}
		converted, err := convert.Convert(v, want)
		if err != nil {
			at, detail := l.expr.Range(), err.Error()
			if pe, ok := errors.AsType[cty.PathError](err); ok {
				at = expressionAt(l.expr, steps(pe.Path))
				if len(pe.Path) > 0 {
					detail = pathText(pe.Path) + ": " + detail
				}
			}
			if strings.HasPrefix(at.Filename, diag.SetFile) {
				at = l.nameRange
			}
			x := diag.Diagnostic{
				Severity: diag.Error, Summary: "incorrect attribute value type", Plugin: d.Plugin,
				Detail: fmt.Sprintf("Inappropriate value for the argument %q: %s.", a.Name, detail),
				Next:   fmt.Sprintf("write %s", typeText(want)),
			}
			d.ds = append(d.ds, hide(d.Files.At(at, x), a))
			return cty.NilVal, l, false
		}
		val, last = converted, l
	}
	return val, last, true
}

// insert sets the element at keys of a map or object.
func insert(into cty.Value, keys []string, v cty.Value) (cty.Value, bool) {
	if len(keys) == 0 {
		return v, true
	}
	ty := into.Type()
	if !ty.IsMapType() && !ty.IsObjectType() && ty != cty.DynamicPseudoType {
		return cty.NilVal, false
	}
	parts := make(map[string]cty.Value)
	into, marks := into.Unmark()
	if !into.IsNull() && into.IsKnown() && into.CanIterateElements() {
		maps.Copy(parts, into.AsValueMap())
	}
	inner := cty.NullVal(cty.DynamicPseudoType)
	switch {
	case ty.IsMapType():
		inner = cty.NullVal(ty.ElementType())
	case ty.IsObjectType() && ty.HasAttribute(keys[0]):
		inner = cty.NullVal(ty.AttributeType(keys[0]))
	case ty.IsObjectType():
		return cty.NilVal, false
	}
	if old, ok := parts[keys[0]]; ok {
		inner = old
	}
	v, ok := insert(inner, keys[1:], v)
	parts[keys[0]] = v
	return cty.ObjectVal(parts).WithMarks(marks), ok
}

// extra reports keys of an object that its type does not have. cty drops them silently, but they are usually misspelled.
func (d *decoder) extra(v cty.Value, want cty.Type, expr hcl.Expression, a contract.ConfigAttribute) bool {
	found := false
	var walk func(v cty.Value, want cty.Type, path []contract.Step)
	walk = func(v cty.Value, want cty.Type, path []contract.Step) {
		v, _ = v.Unmark()
		if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
			return
		}
		element := cty.NilType
		switch {
		case want.IsObjectType():
		case want.IsCollectionType():
			element = want.ElementType()
		default:
			return
		}
		i := int64(0)
		for it := v.ElementIterator(); it.Next(); i++ {
			k, e := it.Element()
			step := contract.Index(i)
			if k.Type() == cty.String && k.IsKnown() && !k.IsMarked() {
				step = contract.Key(k.AsString())
			}
			here := append(slices.Clone(path), step)
			if element != cty.NilType {
				walk(e, element, here)
				continue
			}
			if step.Kind != contract.StepKey {
				continue
			}
			if !want.HasAttribute(step.Key) {
				found = true
				x := diag.Diagnostic{
					Severity: diag.Error, Summary: "unsupported attribute", Plugin: d.Plugin,
					Detail: fmt.Sprintf("The argument %q has no attribute %q.", a.Name, step.Key),
					Next:   diag.DidYouMean(step.Key, slices.Sorted(maps.Keys(want.AttributeTypes())), d.Inspect),
				}
				d.ds = append(d.ds, hide(d.Files.At(keyAt(expr, here), x), a))
				continue
			}
			walk(e, want.AttributeType(step.Key), here)
		}
	}
	walk(v, want, nil)
	return found
}

// allowed reports a string, or an element of a list of strings, that is not one of the values in the schema.
func (d *decoder) allowed(a contract.ConfigAttribute, v cty.Value, at setting) bool {
	if len(a.Allowed) == 0 {
		return true
	}
	v, _ = v.UnmarkDeep()
	good := true
	check := func(e cty.Value, path []contract.Step) {
		if e.IsNull() || e.Type() != cty.String || slices.Contains(a.Allowed, e.AsString()) {
			return
		}
		good = false
		r := d.Header
		if at.expr != nil {
			r = expressionAt(at.expr, path)
		}
		x := diag.Diagnostic{
			Severity: diag.Error, Summary: fmt.Sprintf("invalid value for %q", a.Name), Plugin: d.Plugin,
			Detail: fmt.Sprintf("%q is not one of the allowed values.", e.AsString()),
			Next:   diag.DidYouMean(e.AsString(), a.Allowed, d.Inspect),
		}
		if a.Sensitive {
			x.Detail, x.Next = "It is not one of the allowed values.", d.Inspect
		}
		d.ds = append(d.ds, hide(d.Files.At(r, x), a))
	}
	if t := v.Type(); t.IsListType() || t.IsSetType() {
		i := int64(0)
		for it := v.ElementIterator(); it.Next(); i++ {
			_, e := it.Element()
			check(e, []contract.Step{contract.Index(i)})
		}
		return good
	}
	check(v, nil)
	return good
}

// hide masks a sensitive argument in the snippet of a diagnostic.
func hide(x diag.Diagnostic, a contract.ConfigAttribute) diag.Diagnostic {
	if a.Sensitive && x.Snippet != nil {
		s := *x.Snippet
		s.Code = a.Name + " = (hidden)"
		s.HighlightStart, s.HighlightEnd = 0, len(s.Code)
		x.Snippet = &s
	}
	return x
}

// encode converts a value for encoding/json. Marked strings, and all strings if secret is set, are replaced by handles. A handle
// is named after the path of the value: it reveals nothing, and stays the same as long as the configuration does.
func (d *decoder) encode(v cty.Value, secret bool, path string) any {
	v, marks := v.Unmark()
	secret = secret || len(marks) > 0
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	scalar := func(text string, plain any) any {
		if !secret {
			return plain
		}
		d.secrets[path] = Secret{Value: text, Command: commandIn(marks), Err: missingError(marks), Stored: storedIn(marks)}
		return map[string]any{"$secret": path}
	}
	switch t := v.Type(); {
	case t == cty.String:
		return scalar(v.AsString(), v.AsString())
	case t == cty.Number:
		text := v.AsBigFloat().Text('f', -1)
		return scalar(text, json.Number(text))
	case t == cty.Bool:
		return scalar(strconv.FormatBool(v.True()), v.True())
	case t.IsMapType() || t.IsObjectType():
		out := make(map[string]any)
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out[k.AsString()] = d.encode(e, secret, path+"["+strconv.Quote(k.AsString())+"]")
		}
		return out
	case t.IsListType() || t.IsSetType() || t.IsTupleType():
		out := make([]any, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out = append(out, d.encode(e, secret, path+"["+strconv.Itoa(len(out))+"]"))
		}
		return out
	}
	return nil
}

// typeText describes a type by an example.
func typeText(t cty.Type) string {
	switch {
	case t == cty.String:
		return `a string in quotes`
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case t.IsListType() || t.IsSetType():
		return "a list in brackets, each element " + typeText(t.ElementType())
	case t.IsMapType():
		return "a map { KEY = VALUE }, each value " + typeText(t.ElementType())
	case t.IsObjectType():
		return "an object with " + strings.Join(slices.Sorted(maps.Keys(t.AttributeTypes())), ", ")
	}
	return "a value of type " + t.FriendlyName()
}
