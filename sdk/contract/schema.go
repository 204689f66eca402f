package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits of a JSON Schema. The validation library is recursive, follows references without a limit, and parses nested
// schemas in quadratic time.
const (
	maxSchemaBytes = 1 << 20
	maxSchemaDepth = 200
	maxSchemaSteps = 1 << 20 // schemas applied to one value, not counting its parts
)

// ParseSchema parses a JSON Schema of limited size and depth. It rejects references that lead back to the same value
// (`{"$ref": "#"}` would never end), references that multiply for one value, and references to other documents. Use
// [Compile] to validate with the schema.
func ParseSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("the schema has %d bytes; the maximum is %d", len(raw), maxSchemaBytes)
	}
	if err := checkDepth(raw); err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	w := newSchemaWalk(&s)
	if err := w.checkIDs(); err != nil {
		return nil, err
	}
	for at := range w.schemas {
		if _, err := w.visit(at, 0); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

// checkDepth checks the depth of a text before it is decoded as JSON, which finds out whether it is.
func checkDepth(raw []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > maxSchemaDepth {
			return fmt.Errorf("the schema is nested more than %d levels deep", maxSchemaDepth)
		}
	}
	return nil
}

// schemaWalk follows the references of a schema.
type schemaWalk struct {
	root    *jsonschema.Schema
	schemas map[*jsonschema.Schema]bool // all schemas of the document
	anchors map[string]*jsonschema.Schema
	steps   map[*jsonschema.Schema]int // results of visit; visiting while it is running
}

// visiting marks a schema whose visit has not finished.
const visiting = -1

func newSchemaWalk(s *jsonschema.Schema) *schemaWalk {
	w := &schemaWalk{root: s, schemas: map[*jsonschema.Schema]bool{}, anchors: map[string]*jsonschema.Schema{}, steps: map[*jsonschema.Schema]int{}}
	w.index(s)
	return w
}

// index collects the schemas and anchors that references can lead to.
func (w *schemaWalk) index(s *jsonschema.Schema) {
	if s == nil || w.schemas[s] {
		return
	}
	w.schemas[s] = true
	for _, anchor := range []string{s.Anchor, s.DynamicAnchor} {
		if anchor != "" {
			w.anchors[anchor] = s
		}
	}
	for _, in := range [][]*jsonschema.Schema{inPlaceSchemas(s), childSchemas(s)} {
		for _, child := range in {
			w.index(child)
		}
	}
	for _, defs := range []map[string]*jsonschema.Schema{s.Defs, s.Definitions} {
		for _, child := range defs {
			w.index(child)
		}
	}
}

// checkIDs rejects a schema with references and a nested $id. An $id changes what references lead to; if that were different in the
// library, a loop would not be found.
func (w *schemaWalk) checkIDs() error {
	refers, names := false, strings.Contains(strings.TrimSuffix(w.root.ID, "#"), "#")
	for s := range w.schemas {
		refers = refers || s.Ref != ""
		names = names || s != w.root && s.ID != ""
	}
	if refers && names {
		return errors.New("$id is not supported below the root of a schema with references; use $defs and $ref")
	}
	return nil
}

// inPlaceSchemas returns the schemas that are applied to the same value as s.
func inPlaceSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		out = append(out, list...)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.DependentSchemas, s.DependencySchemas} {
		for _, child := range m {
			out = append(out, child)
		}
	}
	return out
}

// childSchemas returns the schemas that are applied to parts of the value of s.
func childSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{
		s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems, s.AdditionalProperties, s.PropertyNames, s.UnevaluatedProperties, s.ContentSchema,
	}
	out = append(append(out, s.PrefixItems...), s.ItemsArray...)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties} {
		for _, child := range m {
			out = append(out, child)
		}
	}
	return out
}

// visit counts the schemas that are applied to a value of s, not counting its parts.
func (w *schemaWalk) visit(s *jsonschema.Schema, depth int) (int, error) {
	switch n := w.steps[s]; {
	case s == nil:
		return 0, nil
	case n == visiting:
		return 0, errors.New("the schema refers to itself for the same value, so validation would never end")
	case n > 0:
		return n, nil
	}
	if depth > 10*maxSchemaDepth {
		return 0, errors.New("the schema has a chain of references that is too long")
	}
	if s.DynamicRef != "" {
		return 0, errors.New("$dynamicRef is not supported; use $ref")
	}
	same := inPlaceSchemas(s)
	if s.Ref != "" {
		to := w.resolve(s)
		if to == nil {
			return 0, fmt.Errorf("the reference %.200q does not lead to a schema in this document", s.Ref)
		}
		same = append(same, to)
	}
	total := 1
	w.steps[s] = visiting
	for _, child := range same {
		n, err := w.visit(child, depth+1)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxSchemaSteps {
			return 0, errors.New("the references of the schema multiply, so validation would take too long")
		}
	}
	w.steps[s] = total
	return total, nil
}

// resolve returns the schema that the reference of s leads to; nil if there is none in this document.
func (w *schemaWalk) resolve(s *jsonschema.Schema) *jsonschema.Schema {
	u, err := url.Parse(s.Ref)
	id, _, _ := strings.Cut(s.Ref, "#")
	if err != nil || id != "" && id != strings.TrimSuffix(w.root.ID, "#") {
		return nil
	}
	pointer, ok := strings.CutPrefix(u.Fragment, "/")
	switch {
	case u.Fragment == "":
		return w.root
	case !ok:
		return w.anchors[u.Fragment]
	}
	at := w.root
	for parts := strings.Split(pointer, "/"); len(parts) > 0 && at != nil; {
		at, parts = step(at, parts)
	}
	return at
}

var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

// step follows the first part of a JSON pointer, or two parts if the keyword contains several schemas.
func step(s *jsonschema.Schema, parts []string) (*jsonschema.Schema, []string) {
	one := map[string]*jsonschema.Schema{
		"not": s.Not, "if": s.If, "then": s.Then, "else": s.Else, "items": s.Items, "additionalItems": s.AdditionalItems, "contains": s.Contains,
		"unevaluatedItems": s.UnevaluatedItems, "additionalProperties": s.AdditionalProperties, "propertyNames": s.PropertyNames,
		"unevaluatedProperties": s.UnevaluatedProperties, "contentSchema": s.ContentSchema,
	}
	named := map[string]map[string]*jsonschema.Schema{
		"$defs": s.Defs, "definitions": s.Definitions, "properties": s.Properties, "patternProperties": s.PatternProperties,
		"dependentSchemas": s.DependentSchemas, "dependencies": s.DependencySchemas,
	}
	lists := map[string][]*jsonschema.Schema{"allOf": s.AllOf, "anyOf": s.AnyOf, "oneOf": s.OneOf, "prefixItems": s.PrefixItems, "items": s.ItemsArray}
	key := unescaped.Replace(parts[0])
	if next := one[key]; next != nil {
		return next, parts[1:]
	}
	if len(parts) < 2 {
		return nil, nil
	}
	if m, ok := named[key]; ok {
		return m[unescaped.Replace(parts[1])], parts[2:]
	}
	if n, err := strconv.Atoi(parts[1]); err == nil && n >= 0 && n < len(lists[key]) {
		return lists[key][n], parts[2:]
	}
	return nil, nil
}
