package protocol

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// moonshotSchema modifies a schema. Moonshot requires a type for each enum, one schema for all items, inclusive limits of
// integers, no allOf with a single reference, and anyOf instead of oneOf.
func moonshotSchema(s *object) {
	if all, ok := s.get("allOf").([]any); ok && len(all) == 1 {
		if ref, ok := all[0].(*object); ok && len(ref.keys) == 1 && ref.has("$ref") && !s.has("$ref") {
			s.replace("allOf", "$ref", ref.get("$ref"))
		}
	}
	if one, ok := s.get("oneOf").([]any); ok && !s.has("anyOf") {
		s.replace("oneOf", "anyOf", one) // alternatives are usually distinguished by a tag anyway
		s.remove("discriminator")
	}
	tuple(s)
	if values, ok := s.get("enum").([]any); ok && s.get("type") == nil {
		typedEnum(s, values)
	}
	if s.text("type") == "integer" {
		inclusive(s, "exclusiveMinimum", "minimum", func(n float64) float64 { return math.Floor(n) + 1 }, math.Max)
		inclusive(s, "exclusiveMaximum", "maximum", func(n float64) float64 { return math.Ceil(n) - 1 }, math.Min)
	}
	eachSchema(s, moonshotSchema)
}

// Keywords of JSON schema that contain schemas: one, a list, or one per name.
var (
	oneSchema    = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
	someSchemas  = []string{"anyOf", "oneOf", "allOf"}
	namedSchemas = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// eachSchema visits the direct subschemas of s.
func eachSchema(s *object, visit func(*object)) {
	try := func(v any) {
		if o, ok := v.(*object); ok {
			visit(o)
		}
	}
	for _, k := range oneSchema {
		try(s.get(k))
	}
	for _, k := range someSchemas {
		list, _ := s.get(k).([]any)
		for _, v := range list {
			try(v)
		}
	}
	for _, k := range namedSchemas {
		if named, ok := s.get(k).(*object); ok {
			for _, name := range named.keys {
				try(named.get(name))
			}
		}
	}
}

// typedEnum adds the type of an enum's values. Values of several types become alternatives.
func typedEnum(s *object, values []any) {
	var types []string
	byType := map[string][]any{}
	for _, v := range values {
		t := typeOf(v)
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
		byType[t] = append(byType[t], v)
	}
	switch {
	case len(types) == 1:
		s.first("type", types[0])
	case len(types) > 1 && !s.has("anyOf"):
		var alternatives []any
		for _, t := range types {
			a := &object{}
			a.set("type", t)
			if t != "null" {
				a.set("enum", byType[t])
			}
			alternatives = append(alternatives, a)
		}
		s.replace("enum", "anyOf", alternatives)
	default:
		s.remove("enum")
	}
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// inclusive converts an exclusive limit of an integer to an inclusive one. It also supports the older form, a flag next to the
// limit. If both limits are given, the narrower one applies.
func inclusive(s *object, exclusive, bound string, next func(float64) float64, narrower func(a, b float64) float64) {
	n, has := number(s.get(bound))
	switch x := s.get(exclusive).(type) {
	case bool:
		if x && has {
			s.set(bound, integer(next(n)))
		}
	case json.Number:
		m, ok := number(x)
		if !ok {
			return
		}
		if m = next(m); has {
			m = narrower(m, n)
		}
		s.set(bound, integer(m))
	default:
		return
	}
	s.remove(exclusive)
}

// number returns a number that a float64 represents exactly enough for arithmetic.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil && math.Abs(f) < 1<<53
}
