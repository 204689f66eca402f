package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxValidationSteps bounds a validation to about a second: a step takes 0.3 µs if the value fits and 3 µs if it does not.
const maxValidationSteps = 1 << 19

// ErrSchemaSteps is returned by [Validator.Validate] if validating a value could take too long: with a recursive schema
// whose alternatives overlap, each level of nesting multiplies the time. The value counts as invalid.
var ErrSchemaSteps = errors.New("validating the value against the schema would take too long, because it has too many parts or is nested too deeply for the schema's alternatives; pass less at once")

// Validator validates JSON values in bounded time. It is safe for concurrent use.
type Validator struct {
	resolved *jsonschema.Resolved
	walk     *schemaWalk
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	patterns map[*jsonschema.Schema]map[*regexp.Regexp]*jsonschema.Schema
}

// Compile prepares a schema for validation. The schema must come from [ParseSchema] and must not be modified afterwards. If a
// part was replaced in between, references to what it had are errors.
func Compile(s *jsonschema.Schema) (*Validator, error) {
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	v := &Validator{
		resolved: resolved, walk: newSchemaWalk(s),
		refs: map[*jsonschema.Schema]*jsonschema.Schema{}, patterns: map[*jsonschema.Schema]map[*regexp.Regexp]*jsonschema.Schema{},
	}
	for at := range v.walk.schemas {
		if at.Ref != "" {
			if v.refs[at] = v.walk.resolve(at); v.refs[at] == nil {
				return nil, fmt.Errorf("the reference %.200q does not lead to a schema in this document", at.Ref)
			}
		}
		for text, child := range at.PatternProperties {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, err
			}
			if v.patterns[at] == nil {
				v.patterns[at] = map[*regexp.Regexp]*jsonschema.Schema{}
			}
			v.patterns[at][re] = child
		}
	}
	return v, nil
}

// Schema returns the schema of the validator.
func (v *Validator) Schema() *jsonschema.Schema { return v.resolved.Schema() }

// Validate validates a value in the form that [json.Unmarshal] stores in an any. If that would take too long, it returns
// [ErrSchemaSteps].
func (v *Validator) Validate(value any) error {
	e := estimate{v: v, left: maxValidationSteps}
	if !e.apply(v.Schema(), value, 0) {
		return ErrSchemaSteps
	}
	return v.resolved.Validate(value)
}

// checkDefaults validates the defaults in the schema.
func (v *Validator) checkDefaults() error {
	e := estimate{v: v, left: maxValidationSteps}
	found := false
	for s := range v.walk.schemas {
		if s.Default == nil {
			continue
		}
		found = true
		var value any
		if err := json.Unmarshal(s.Default, &value); err != nil {
			return fmt.Errorf("the default %.200s: %w", s.Default, err)
		}
		if !e.apply(s, value, 0) {
			return fmt.Errorf("the default %.200s: %w", s.Default, ErrSchemaSteps)
		}
	}
	if !found {
		return nil
	}
	_, err := v.Schema().CloneSchemas().Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	return err
}

// estimate counts the steps that the library would take to validate a value if no alternative ended early. The library itself has
// no limit and can't be interrupted.
type estimate struct {
	v    *Validator
	left int
}

// charge subtracts n steps and reports whether the limit has not been exceeded.
func (e *estimate) charge(n int) bool {
	e.left -= n
	return e.left >= 0
}

// apply counts the steps of applying a schema to a value, and returns false when the limit is exceeded. depth is the number of nested
// calls: the library copies an error's text in each of them.
func (e *estimate) apply(s *jsonschema.Schema, value any, depth int) bool {
	if s == nil {
		return true
	}
	if !e.charge(1 + depth/8 + len(s.Enum)) {
		return false
	}
	depth++
	if to := e.v.refs[s]; to != nil && !e.apply(to, value, depth) {
		return false
	}
	mismatch := !hasType(s, value)
	if printed := mismatch || s.Enum != nil || s.Const != nil || s.Pattern != "" || s.MinLength != nil || s.MaxLength != nil || s.Contains != nil || s.UniqueItems; printed && !e.charge(textSize(value)/64) {
		return false
	}
	if mismatch {
		return true
	}
	for _, child := range inPlaceSchemas(s) {
		if !e.apply(child, value, depth) {
			return false
		}
	}
	switch value := value.(type) {
	case []any:
		return e.items(s, value, depth)
	case map[string]any:
		return e.properties(s, value, depth)
	}
	return true
}

func (e *estimate) items(s *jsonschema.Schema, value []any, depth int) bool {
	for i, item := range value {
		for _, list := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
			if i < len(list) && !e.apply(list[i], item, depth) {
				return false
			}
		}
		for _, child := range []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems} {
			if !e.apply(child, item, depth) {
				return false
			}
		}
	}
	return true
}

func (e *estimate) properties(s *jsonschema.Schema, value map[string]any, depth int) bool {
	if !e.charge((len(s.Properties) + len(s.Required) + len(value)*len(s.PatternProperties)) / 4) {
		return false
	}
	for name, part := range value {
		child, known := s.Properties[name]
		if !e.apply(child, part, depth) || !e.apply(s.PropertyNames, name, depth) || !e.apply(s.UnevaluatedProperties, part, depth) {
			return false
		}
		for re, child := range e.v.patterns[s] {
			if re.MatchString(name) {
				if known = true; !e.apply(child, part, depth) {
					return false
				}
			}
		}
		if !known && !e.apply(s.AdditionalProperties, part, depth) {
			return false
		}
	}
	return true
}

// hasType reports whether a value has a type that the schema allows.
func hasType(s *jsonschema.Schema, value any) bool {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	return types == nil || slices.ContainsFunc(types, func(name string) bool { return isType(name, value) })
}

func isType(name string, value any) bool {
	switch value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64, json.Number:
		return name == "number" || name == "integer"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return true
}

// textSize estimates the size of a value as text in bytes.
func textSize(value any) int {
	n := 8
	switch value := value.(type) {
	case string:
		n += len(value)
	case []any:
		for _, item := range value {
			n += textSize(item)
		}
	case map[string]any:
		for name, part := range value {
			n += len(name) + textSize(part)
		}
	}
	return n
}
