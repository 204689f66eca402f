package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Limits of a schema.
const (
	maxSchemaDepth = 100     // of nested JSON
	maxSchemaRead  = 1 << 20 // bytes
	maxSchemaShown = 5000    // bytes; a schema of more is reduced
	maxSchemaKept  = 64 << 10
	collapseDepth  = 3
)

var emptySchema = json.RawMessage(`{"properties":{},"type":"object"}`)

// Schema repairs and bounds the schema of a tool's arguments. unchecked says that the result may refuse arguments that the server
// accepts, or can't be compiled.
func Schema(raw json.RawMessage) (schema json.RawMessage, unchecked bool, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return emptySchema, false, nil
	}
	root, err := readSchema(raw)
	if err != nil {
		return nil, false, err
	}
	switch t := root["type"].(type) {
	case nil:
		root["type"] = "object" // arguments always are
	case string:
		if t == "null" {
			return nil, false, errors.New("tool input schema must not be a singleton null type")
		} else if t != "object" {
			return nil, false, errors.New(`the type must be "object"`)
		}
	case []any:
		if !slices.Contains(t, any("object")) {
			return nil, false, errors.New(`the type must be "object"`)
		}
		root["type"] = "object"
	default:
		return nil, false, errors.New(`the type must be "object"`)
	}
	r := repair{}
	r.node(root)
	r.dropUnused(root)
	if schema, err = shrink(root); err != nil {
		return nil, false, err
	}
	if len(schema) > maxSchemaKept {
		return nil, false, fmt.Errorf("the schema has %d bytes, even without descriptions, definitions and alternatives; the maximum is %d", len(schema), maxSchemaKept)
	}
	checked := contract.Descriptor{Name: "t", InputSchema: schema}
	if unchecked = r.narrowed || checked.Validate() != nil; !unchecked {
		return schema, false, nil
	}
	checked.UncheckedArguments = true
	return schema, true, checked.Validate()
}

// outputSchema returns the schema of results if the host can use it.
func outputSchema(raw json.RawMessage) json.RawMessage {
	root, err := readSchema(raw)
	if err != nil {
		return nil
	}
	delete(root, "$schema")
	schema, err := encode(root)
	d := contract.Descriptor{Name: "t", InputSchema: emptySchema, OutputSchema: schema}
	if err != nil || len(schema) > maxSchemaKept || d.Validate() != nil {
		return nil
	}
	return schema
}

// ResultSchema returns the schema of a result of tools/call with structured content of the given schema; nil: it can't be said.
func ResultSchema(structured json.RawMessage) json.RawMessage {
	root, err := readSchema(structured)
	if err != nil {
		return nil
	}
	whole := map[string]any{"type": "object", "required": []any{"content"}}
	for _, name := range []string{"$defs", "definitions"} { // references to them remain valid
		if defs, ok := root[name]; ok {
			whole[name] = defs
			delete(root, name)
		}
	}
	if refersElsewhere(root) || refersElsewhere(whole) {
		return nil
	}
	whole["properties"] = map[string]any{
		"content":           map[string]any{"type": "array", "items": map[string]any{"type": "object"}},
		"structuredContent": root,
		"isError":           map[string]any{"type": "boolean"},
	}
	schema, err := encode(whole)
	d := contract.Descriptor{Name: "t", InputSchema: emptySchema, OutputSchema: schema}
	if err != nil || d.Validate() != nil {
		return nil
	}
	return schema
}

// refersElsewhere reports whether a schema can't be moved without its references: only those to definitions are.
func refersElsewhere(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, each := range v {
			to, isText := each.(string)
			switch name {
			case "$ref", "$dynamicRef":
				if isText && !strings.HasPrefix(to, "#/$defs/") && !strings.HasPrefix(to, "#/definitions/") {
					return true
				}
			case "$id", "$anchor", "$dynamicAnchor":
				if isText {
					return true
				}
			}
			if refersElsewhere(each) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refersElsewhere)
	}
	return false
}

func readSchema(raw json.RawMessage) (map[string]any, error) {
	if len(raw) > maxSchemaRead {
		return nil, fmt.Errorf("the schema has %d bytes; the maximum is %d", len(raw), maxSchemaRead)
	}
	if depth(raw) > maxSchemaDepth {
		return nil, fmt.Errorf("the schema is nested more than %d levels deep", maxSchemaDepth)
	}
	v, err := decode(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is not a JSON object")
	}
	return root, nil
}

// depth returns how deep the braces and brackets of JSON are nested.
func depth(raw []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// Keywords by what they contain.
var (
	schemaKeywords = []string{"additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "additionalItems"}
	listKeywords   = []string{"anyOf", "oneOf", "allOf", "prefixItems"}
	mapKeywords    = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
	defKeywords    = []string{"$defs", "definitions"}
)

// children calls f for the schemas directly below a schema, and replaces each by what f returns.
func children(s map[string]any, f func(any) any) {
	for _, k := range schemaKeywords {
		if c, ok := s[k]; ok {
			if _, isBool := c.(bool); !isBool { // which has its usual meaning here
				s[k] = f(c)
			}
		}
	}
	lists := listKeywords
	switch items := s["items"].(type) {
	case nil:
	case []any:
		lists = append(slices.Clone(lists), "items")
	default:
		s["items"] = f(items)
	}
	for _, k := range lists {
		if list, ok := s[k].([]any); ok {
			for i := range list {
				list[i] = f(list[i])
			}
		}
	}
	for _, k := range mapKeywords {
		if m, ok := s[k].(map[string]any); ok {
			for name := range m {
				m[name] = f(m[name])
			}
		}
	}
}

// repair gives the nodes of a schema the types that models and vendors expect.
type repair struct{ narrowed bool }

// schema repairs any value at the place of a schema.
func (r *repair) schema(v any) any {
	s, ok := v.(map[string]any)
	if !ok { // true, false, or no schema at all
		r.narrowed = true
		return map[string]any{"type": "string"}
	}
	if r.typeless(s) {
		return map[string]any{}
	}
	r.node(s)
	return s
}

// typeless infers the type of a schema that has none, and reports whether it says nothing that a model could use.
func (r *repair) typeless(s map[string]any) bool {
	if c, ok := s["const"]; ok {
		delete(s, "const")
		s["enum"] = []any{c}
	}
	if s["type"] != nil {
		return false
	}
	for _, k := range []string{"$ref", "anyOf", "oneOf", "allOf", "not"} {
		if s[k] != nil {
			return false
		}
	}
	for _, rule := range []struct {
		t    string
		keys []string
	}{
		{"object", []string{"properties", "required", "additionalProperties"}},
		{"array", []string{"items", "prefixItems"}},
		{"string", []string{"enum", "format"}},
		{"number", []string{"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}},
	} {
		if slices.ContainsFunc(rule.keys, func(k string) bool { return s[k] != nil }) {
			s["type"] = rule.t
			r.narrowed = true
			return false
		}
	}
	return true
}

// node repairs a schema in place, and those below it.
func (r *repair) node(s map[string]any) {
	delete(s, "$schema")
	r.typeless(s)
	switch s["type"] {
	case "object":
		if _, ok := s["properties"].(map[string]any); !ok {
			s["properties"] = map[string]any{}
		}
	case "array":
		if s["items"] == nil && s["prefixItems"] == nil {
			s["items"] = map[string]any{"type": "string"}
			r.narrowed = true
		}
	}
	if list, ok := s["required"].([]any); ok {
		s["required"] = slices.DeleteFunc(list, func(v any) bool { _, isText := v.(string); return !isText })
	} else {
		delete(s, "required")
	}
	if d, ok := s["description"].(string); ok {
		s["description"] = Text(d, maxDescription)
	}
	children(s, r.schema)
}

// definition returns which definition a reference is to.
func definition(ref any) (keyword, name string, ok bool) {
	text, _ := ref.(string)
	for _, k := range defKeywords {
		if rest, found := strings.CutPrefix(text, "#/"+k+"/"); found {
			name, _, _ = strings.Cut(rest, "/")
			return k, strings.NewReplacer("~1", "/", "~0", "~").Replace(name), true
		}
	}
	return "", "", false
}

// dropUnused removes definitions that no reference leads to.
func (r *repair) dropUnused(root map[string]any) {
	used := map[[2]string]bool{}
	var walk func(v any) any
	walk = func(v any) any {
		s, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if k, name, ok := definition(s["$ref"]); ok && !used[[2]string{k, name}] {
			used[[2]string{k, name}] = true
			if defs, ok := root[k].(map[string]any); ok {
				walk(defs[name])
			}
		}
		children(s, walk)
		return v
	}
	rest := make(map[string]any, len(root))
	for k, v := range root {
		if !slices.Contains(defKeywords, k) {
			rest[k] = v
		}
	}
	walk(rest)
	for _, k := range defKeywords {
		defs, ok := root[k].(map[string]any)
		if !ok {
			delete(root, k)
			continue
		}
		for name := range defs {
			if !used[[2]string{k, name}] {
				delete(defs, name)
			}
		}
		if len(defs) == 0 {
			delete(root, k)
		}
	}
}

// shrink encodes a schema, and leaves out more and more of it until it is small enough. What it leaves out only widens the schema.
func shrink(root map[string]any) (json.RawMessage, error) {
	steps := []func(){
		func() { each(root, func(s map[string]any, _ int) { delete(s, "description") }) },
		func() {
			for _, k := range defKeywords {
				delete(root, k)
			}
			each(root, func(s map[string]any, _ int) {
				if _, _, ok := definition(s["$ref"]); ok {
					clear(s)
				}
			})
		},
		func() {
			each(root, func(s map[string]any, depth int) {
				if s["type"] == "object" && depth >= collapseDepth {
					clear(s)
					s["type"], s["properties"] = "object", map[string]any{}
				}
			})
		},
		func() {
			each(root, func(s map[string]any, _ int) {
				for _, k := range []string{"anyOf", "oneOf", "allOf"} {
					delete(s, k)
				}
			})
		},
	}
	b, err := encode(root)
	for i := 0; err == nil && len(b) > maxSchemaShown && i < len(steps); i++ {
		steps[i]()
		b, err = encode(root)
	}
	return b, err
}

// each calls f for each schema, from the root, whose depth is 0.
func each(root map[string]any, f func(s map[string]any, depth int)) {
	var visit func(v any, depth int)
	visit = func(v any, depth int) {
		if s, ok := v.(map[string]any); ok {
			f(s, depth)
			children(s, func(c any) any {
				visit(c, depth+1)
				return c
			})
		}
	}
	visit(root, 0)
}
