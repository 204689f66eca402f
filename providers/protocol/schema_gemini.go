package protocol

import (
	"slices"
	"strings"
)

// geminiKeys are the keywords that Gemini supports. Others are removed.
var geminiKeys = []string{
	"description", "required", "format", "type", "nullable", "enum", "properties", "items", "allOf", "anyOf", "oneOf", "minLength",
}

// geminiFormats are the supported formats; others are an error.
var geminiFormats = []string{"enum", "date-time", "float", "double", "int32", "int64"}

// maxSchemas limits the expansion of references.
const maxSchemas = 10_000

// geminiSchema converts a schema for Gemini. It loses what Gemini cannot express.
func geminiSchema(root *object) *object {
	return (&gemini{root: root, left: maxSchemas}).schema(root)
}

// gemini is a conversion. Gemini has no references, so they are expanded; a recursive one becomes a schema that allows anything.
type gemini struct {
	root *object
	left int      // remaining number of schemas
	refs []string // references being expanded
}

// schema returns the converted form of s, which is not modified.
func (g *gemini) schema(s *object) *object {
	if g.left--; g.left < 0 {
		return &object{}
	}
	if ref := s.text("$ref"); ref != "" {
		return described(g.referenced(ref), s)
	}
	s = singleType(constants(known(s)))
	textEnum(s)
	keepToType(s)
	objectsOnly(s)
	if only := sole(s); only != nil {
		return described(g.schema(only), s)
	}
	for _, k := range choices {
		if list, ok := s.get(k).([]any); ok {
			out := make([]any, len(list))
			for i, v := range list {
				out[i] = g.schema(v.(*object))
			}
			s.set(k, out)
		}
	}
	if named, ok := s.get("properties").(*object); ok {
		s.set("properties", g.properties(named))
	}
	if s.text("type") == "array" {
		s.set("items", g.items(s.get("items")))
	}
	return s
}

var choices = []string{"anyOf", "oneOf", "allOf"}

// known returns a copy of s with the supported keywords, and a type if the others imply one.
func known(s *object) *object {
	s = s.clone()
	tuple(s)
	out := &object{}
	for _, k := range s.keys {
		if slices.Contains(geminiKeys, k) || k == "const" {
			out.set(k, s.get(k))
		}
	}
	switch out.get("type").(type) {
	case string, []any:
		return out
	}
	out.remove("type")
	switch {
	case out.has("properties"):
		out.first("type", "object")
	case out.has("items"):
		out.first("type", "array")
	}
	return out
}

func constants(s *object) *object {
	if s.has("const") && !s.has("enum") {
		s.replace("const", "enum", []any{s.get("const")})
	}
	s.remove("const")
	return s
}

// singleType converts a list of types to alternatives. Null becomes the property "nullable".
func singleType(s *object) *object {
	types, ok := s.get("type").([]any)
	if !ok && s.text("type") != "null" {
		return s
	}
	if !ok {
		types = []any{"null"}
	}
	var names []string
	for _, t := range types {
		switch name, _ := t.(string); name {
		case "":
		case "null":
			s.set("nullable", true)
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		s.remove("type")
		return s
	}
	if len(names) == 1 || s.has("anyOf") {
		s.set("type", names[0])
		return s
	}
	var alternatives []any
	for _, name := range names {
		a := s.clone()
		for _, k := range outside {
			a.remove(k)
		}
		a.set("type", name)
		alternatives = append(alternatives, a)
	}
	out := &object{}
	for _, k := range s.keys {
		if slices.Contains(outside, k) {
			out.set(k, s.get(k))
		}
	}
	out.set("anyOf", alternatives)
	return out
}

// outside are the keywords that are not repeated for each type of a list.
var outside = []string{"description", "nullable", "oneOf", "allOf"}

// objectsOnly keeps only alternatives that are schemas. Null becomes the property "nullable".
func objectsOnly(s *object) {
	for _, k := range choices {
		list, ok := s.get(k).([]any)
		if !ok {
			s.remove(k)
			continue
		}
		rest := []any{}
		for _, v := range list {
			a, ok := v.(*object)
			if ok && a.text("type") == "null" {
				s.set("nullable", true)
			} else if ok {
				rest = append(rest, a)
			}
		}
		if s.set(k, rest); len(rest) == 0 {
			s.remove(k)
		}
	}
}

// sole replaces a choice with a single alternative by that alternative.
func sole(s *object) *object {
	var only *object
	for _, k := range s.keys {
		if k == "description" || k == "nullable" {
			continue
		}
		list, _ := s.get(k).([]any)
		if !slices.Contains(choices, k) || only != nil || len(list) != 1 {
			return nil
		}
		only = list[0].(*object)
	}
	return only
}

// described copies the description and nullability of s to a schema that replaces it.
func described(out, s *object) *object {
	if d := s.text("description"); d != "" {
		out.set("description", d)
	}
	if s.get("nullable") == true {
		out.set("nullable", true)
	}
	return out
}

// referenced returns the converted form of the target of "#/$defs/name".
func (g *gemini) referenced(ref string) *object {
	target := g.target(ref)
	if target == nil || slices.Contains(g.refs, ref) {
		return &object{}
	}
	g.refs = append(g.refs, ref)
	defer func() { g.refs = g.refs[:len(g.refs)-1] }()
	return g.schema(target)
}

func (g *gemini) target(ref string) *object {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := g.root
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		if at, ok = at.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)).(*object); !ok {
			return nil
		}
	}
	return at
}

// textEnum converts the values of an enum to strings.
func textEnum(s *object) {
	values, ok := s.get("enum").([]any)
	if t := s.text("type"); !ok || t == "object" || t == "array" {
		s.remove("enum")
		return
	}
	out := []any{}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			s.set("nullable", true)
		case string:
			out = append(out, v)
		default:
			out = append(out, string(encodeValue(v)))
		}
	}
	if len(out) == 0 {
		s.remove("enum")
		return
	}
	s.set("enum", out)
	s.set("type", "string")
}

// keepToType removes keywords for other types.
func keepToType(s *object) {
	if !slices.Contains(geminiFormats, s.text("format")) {
		s.remove("format")
	}
	if s.text("type") != "array" {
		s.remove("items")
	}
	named, ok := s.get("properties").(*object)
	if !ok || s.text("type") != "object" {
		s.remove("properties")
		s.remove("required")
		return
	}
	required, _ := s.get("required").([]any)
	required = slices.DeleteFunc(slices.Clone(required), func(v any) bool {
		name, ok := v.(string)
		return !ok || !named.has(name)
	})
	if s.has("required") {
		s.set("required", required)
	}
	if len(required) == 0 {
		s.remove("required")
	}
}

func (g *gemini) properties(named *object) *object {
	out := &object{}
	for _, name := range named.keys {
		p, ok := named.get(name).(*object)
		if !ok {
			p = &object{} // true: anything
		}
		out.set(name, g.schema(p))
	}
	return out
}

func (g *gemini) items(v any) *object {
	if items, ok := v.(*object); ok {
		if items = g.schema(items); len(items.keys) > 0 {
			return items
		}
	}
	items := &object{}
	items.set("type", "string")
	return items
}
