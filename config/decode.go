package config

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/schema"
)

// decoder reads the host's own settings from the merged layers.
type decoder struct {
	files diag.Files
	ds    diag.Diagnostics
}

// block is a block that is being decoded. If problems is set, errors about things outside the configuration (a variable, a file, a
// secret) are collected there and disable only this block.
type block struct {
	*decoder
	n        *node
	schema   *schema.Block
	problems *diag.Diagnostics
}

func (d *decoder) block(n *node, s *schema.Block) block {
	if n == nil {
		n = newNode(s, "", hcl.Range{})
	}
	return block{decoder: d, n: n, schema: s}
}

func (d *decoder) errorAt(r hcl.Range, summary, detail, next string) {
	d.ds = append(d.ds, d.files.At(r, diag.Diagnostic{Severity: diag.Error, Summary: summary, Detail: detail, Next: next}))
}

// has reports whether the argument is present and not null.
func (b block) has(name string) bool {
	s, ok := b.n.attrs[name]
	if !ok {
		return false
	}
	v, hds := s.expr.Value(s.from.scope.Context())
	return hds.HasErrors() || !v.IsNull()
}

// at returns the range of an argument's value, or of the block's header if the argument is absent.
func (b block) at(name string) hcl.Range {
	if s, ok := b.n.attrs[name]; ok {
		return s.expr.Range()
	}
	return b.n.header
}

// value evaluates an argument. ok is false if the argument is absent, null or invalid; only the last is reported.
func (b block) value(name string, want cty.Type) (cty.Value, bool) {
	s, there := b.n.attrs[name]
	if !there {
		return cty.NilVal, false
	}
	v, hds := s.expr.Value(s.from.scope.Context())
	if hds.HasErrors() {
		ds := b.files.Convert(hds, "correct the value")
		if b.problems != nil && diag.AllExplained(hds) {
			*b.problems = append(*b.problems, ds...)
		} else {
			b.decoder.ds = append(b.decoder.ds, ds...)
		}
		return cty.NilVal, false
	}
	if v.IsNull() {
		return cty.NilVal, false
	}
	if _, marked := v.UnmarkDeepWithPaths(); len(marked) > 0 {
		b.errorAt(s.expr.Range(), "secret in a setting of the host", fmt.Sprintf("The argument %q is not treated as secret.", name),
			"use env() here; secret() and command() are only for a plugin's own settings")
		return cty.NilVal, false
	}
	if raw, ok := s.expr.(number); ok && want == cty.String {
		v = cty.StringVal(raw.raw)
	}
	v, err := convert.Convert(v, want)
	if err != nil || !v.IsWhollyKnown() {
		detail := fmt.Sprintf("The argument %q must be %s.", name, b.kind(name).Example())
		b.errorAt(s.expr.Range(), "incorrect attribute value type", detail, "write "+b.kind(name).Example())
		return cty.NilVal, false
	}
	return v, true
}

func (b block) kind(name string) schema.Kind {
	a, ok := b.schema.Attribute(name)
	if !ok {
		return schema.String // an environment variable
	}
	return a.Kind
}

// text reads a string, "" if absent. It reports a value that the schema does not allow.
func (b block) text(name string) string {
	s, _ := b.string(name)
	return s
}

// string is like text but distinguishes "" from an absent or invalid value.
func (b block) string(name string) (string, bool) {
	v, ok := b.value(name, cty.String)
	if !ok {
		return "", false
	}
	s := v.AsString()
	a, _ := b.schema.Attribute(name)
	if len(a.Allowed) == 0 || slices.Contains(a.Allowed, s) {
		return s, true
	}
	b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), fmt.Sprintf("%q is not one of the allowed values: %s.", s, diag.Quoted(a.Allowed)),
		diag.DidYouMean(s, a.Allowed, seeSchema))
	return "", false
}

// flag reads a bool. absent is the default.
func (b block) flag(name string, absent bool) bool {
	v, ok := b.value(name, cty.Bool)
	if !ok {
		return absent
	}
	return v.True()
}

// integer reads a non-negative integer, 0 if absent.
func (b block) integer(name string) int64 {
	v, ok := b.value(name, cty.Number)
	if !ok {
		return 0
	}
	n, exact := v.AsBigFloat().Int64()
	if exact != 0 || n < 0 || n > math.MaxInt64/2 {
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), "It must be a whole number, 0 or greater.", "write "+schema.Integer.Example())
		return 0
	}
	return n
}

// number reads a non-negative number, 0 if absent.
func (b block) number(name string) float64 {
	v, ok := b.value(name, cty.Number)
	if !ok {
		return 0
	}
	n, _ := v.AsBigFloat().Float64()
	if n < 0 || math.IsInf(n, 0) {
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), "It must be a number, 0 or greater.", "write "+schema.Number.Example())
		return 0
	}
	return n
}

// duration reads a duration, 0 if absent.
func (b block) duration(name string) time.Duration {
	s, ok := b.string(name)
	if !ok {
		return 0
	}
	d, err := parseDuration(s)
	if err != nil {
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), capital(err.Error())+".", "write "+schema.Duration.Example())
	}
	return d
}

// size reads a size in bytes, 0 if absent.
func (b block) size(name string) int64 {
	s, ok := b.string(name)
	if !ok {
		return 0
	}
	n, err := parseSize(s)
	if err != nil {
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), capital(err.Error())+".", "write "+schema.Size.Example())
	}
	return n
}

// item is an element of a list with its range.
type item struct {
	text string
	at   hcl.Range
}

// list reads a list of strings, nil if absent.
func (b block) list(name string) []item {
	v, ok := b.value(name, cty.List(cty.String))
	if !ok {
		return nil
	}
	written, hds := hcl.ExprList(b.n.attrs[name].expr)
	out := make([]item, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		r := b.at(name)
		if !hds.HasErrors() && len(written) == v.LengthInt() {
			r = written[len(out)].Range()
		}
		if e.IsNull() {
			b.errorAt(r, "incorrect attribute value type", fmt.Sprintf("An element of %q is null.", name), "write "+schema.List.Example())
			continue
		}
		out = append(out, item{e.AsString(), r})
	}
	return out
}

func texts(items []item) []string {
	if items == nil {
		return nil
	}
	out := make([]string, 0, len(items))
	for _, i := range items {
		out = append(out, i.text)
	}
	return out
}

// text returns the value if it is a string that can be evaluated now.
func (s setting) text() (string, bool) {
	v, hds := s.expr.Value(s.from.scope.Context())
	if hds.HasErrors() || v.IsMarked() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

// require reports arguments that are empty or missing in all layers.
func (b block) require(what key, siblings []string, names ...string) {
	for _, name := range names {
		if b.has(name) {
			if s, ok := b.n.attrs[name].text(); ok && s == "" {
				b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), "It is empty.", "write "+b.kind(name).Example())
			}
			continue
		}
		next := fmt.Sprintf("add `%s = ...` to the block", name)
		// A block that exists only on the command line is probably a typing error.
		if fromCommandLine(b.n) {
			next = diag.DidYouMean(what.label, siblings, next)
		}
		b.errorAt(b.n.header, "missing required argument",
			fmt.Sprintf("The argument %q of %s is required.", name, what), next)
	}
}

func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
