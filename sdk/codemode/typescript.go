package codemode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// schemaDepth is the depth from which a type is unknown.
const schemaDepth = 20

// typeBytes bounds a type: a schema can refer to the same definition from many places, at every depth.
const typeBytes = 64 << 10

// Declaration is a function for which [Declarations] writes TypeScript.
type Declaration struct {
	Name, Description string
	Input             json.RawMessage // JSON Schema of the argument
	Output            json.RawMessage // JSON Schema of the result; empty: unknown
}

// Declarations returns TypeScript declarations of a namespace with the given functions, in their order.
func Declarations(namespace string, functions []Declaration) string {
	if len(functions) == 0 {
		return "declare const " + namespace + ": {}"
	}
	var types, members strings.Builder
	used := map[string]bool{}
	for i, f := range functions {
		name := CallableName(f.Name)
		pascal := typeName(name)
		for n := 2; used[pascal]; n++ {
			pascal = typeName(name) + strconv.Itoa(n)
		}
		used[pascal] = true
		input, inErr := schemaType(f.Input)
		output, outErr := "unknown", error(nil)
		if len(f.Output) > 0 {
			output, outErr = schemaType(f.Output)
		}
		lines := append([]string{commentText(f.Description)}, parameters(f.Input)...)
		if inErr != nil || outErr != nil {
			input, output, lines = "unknown", "unknown", []string{""}
		}
		if lines[0] == "" {
			lines[0] = commentText(f.Name)
		}
		fmt.Fprintf(&types, "type %sInput = %s\ntype %sOutput = %s\n", pascal, input, pascal, output)
		if i > 0 {
			members.WriteString("\n")
		}
		members.WriteString("\t/**\n")
		for _, l := range lines {
			members.WriteString("\t * " + l + "\n")
		}
		fmt.Fprintf(&members, "\t */\n\t%s: (input: %sInput) => Promise<%sOutput>;\n", name, pascal, pascal)
	}
	return types.String() + "\ndeclare const " + namespace + ": {\n" + members.String() + "}"
}

// parameters returns a line for each described field of an argument, also of objects within it.
func parameters(schema json.RawMessage) []string {
	root, err := parseSchema(schema)
	if err != nil {
		return nil
	}
	return described(root, "input", 0)
}

func described(schema any, path string, depth int) (out []string) {
	o, _ := schema.(*object)
	if o == nil || depth >= schemaDepth {
		return nil
	}
	fields, _ := o.get("properties").(*object)
	if fields == nil {
		return nil
	}
	for _, k := range fields.keys {
		f, ok := fields.values[k].(*object)
		if !ok {
			continue
		}
		name := path + "." + commentText(k)
		if d, _ := f.get("description").(string); d != "" {
			out = append(out, "@param "+name+" - "+commentText(d))
		}
		out = append(out, described(f, name, depth+1)...)
	}
	return out
}

// commentText returns text that fits on a line of a block comment.
func commentText(s string) string {
	s = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\u2028", " ", "\u2029", " ").Replace(s)
	return strings.ReplaceAll(s, "*/", `*\/`)
}

// schemaType returns the TypeScript type of the values that a JSON Schema allows.
func schemaType(schema json.RawMessage) (string, error) {
	root, err := parseSchema(schema)
	if err != nil {
		return "", err
	}
	t := &typer{root: root, path: map[*object]bool{}}
	text := t.of(root, 0, "").text
	if t.written > typeBytes {
		return "unknown", nil
	}
	return text, nil
}

// expression is a type. A compound one, a union or an intersection, needs parentheses within another type.
type expression struct {
	text     string
	compound bool
}

func (e expression) part() string {
	if e.compound {
		return "(" + e.text + ")"
	}
	return e.text
}

type typer struct {
	root    any
	path    map[*object]bool
	written int
}

func (t *typer) of(schema any, depth int, indent string) expression {
	e := t.kind(schema, depth, indent)
	if t.written += len(e.text); t.written > typeBytes {
		return expression{text: "unknown"}
	}
	if o, ok := schema.(*object); ok && o.get("nullable") == true && e.text != "unknown" && e.text != "never" {
		return expression{text: e.text + " | null", compound: true}
	}
	return e
}

func (t *typer) kind(schema any, depth int, indent string) expression {
	unknown := expression{text: "unknown"}
	if b, ok := schema.(bool); ok {
		if b {
			return unknown
		}
		return expression{text: "never"}
	}
	o, ok := schema.(*object)
	if !ok || depth >= schemaDepth || t.path[o] || t.written > typeBytes {
		return unknown
	}
	t.path[o] = true
	defer delete(t.path, o)
	if ref, ok := o.get("$ref").(string); ok {
		target, ok := t.resolve(ref)
		if !ok {
			return unknown
		}
		return t.of(target, depth+1, indent)
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		if list, ok := o.get(k).([]any); ok {
			return t.join(list, " | ", depth, indent)
		}
	}
	if list, ok := o.get("allOf").([]any); ok {
		return t.join(list, " & ", depth, indent)
	}
	if list, ok := o.get("enum").([]any); ok {
		var members []string
		for _, v := range list {
			members = append(members, literal(v))
		}
		return union(members)
	}
	if o.has("const") {
		return expression{text: literal(o.get("const"))}
	}
	switch kind := o.get("type").(type) {
	case string:
		switch kind {
		case "string", "boolean", "null":
			return expression{text: kind}
		case "number", "integer":
			return expression{text: "number"}
		case "array":
			return t.array(o, depth, indent)
		case "object":
			return t.object(o, depth, indent)
		}
	case []any:
		names := map[string]string{
			"string": "string", "boolean": "boolean", "null": "null", "number": "number", "integer": "number",
			"array": "unknown[]", "object": "Record<string, unknown>",
		}
		var members []string
		for _, k := range kind {
			s, _ := k.(string)
			m, ok := names[s]
			if !ok {
				m = "unknown"
			}
			if !slices.Contains(members, m) {
				members = append(members, m)
			}
		}
		return union(members)
	}
	if o.has("properties") {
		return t.object(o, depth, indent)
	}
	return unknown
}

func union(members []string) expression {
	if len(members) == 0 {
		return expression{text: "never"}
	}
	return expression{text: strings.Join(members, " | "), compound: len(members) > 1}
}

func (t *typer) join(list []any, with string, depth int, indent string) expression {
	if len(list) == 0 {
		return expression{text: "unknown"}
	}
	if len(list) == 1 {
		return t.of(list[0], depth+1, indent)
	}
	var members []string
	for _, s := range list {
		e := t.of(s, depth+1, indent)
		if with == " & " {
			e.text = e.part()
		}
		members = append(members, e.text)
	}
	return expression{text: strings.Join(members, with), compound: true}
}

func (t *typer) array(o *object, depth int, indent string) expression {
	list, ok := o.get("prefixItems").([]any)
	if !ok {
		list, ok = o.get("items").([]any)
	}
	if ok {
		var members []string
		for _, s := range list {
			members = append(members, t.of(s, depth+1, indent).text)
		}
		return expression{text: "[" + strings.Join(members, ", ") + "]"}
	}
	if !o.has("items") {
		return expression{text: "unknown[]"}
	}
	return expression{text: t.of(o.get("items"), depth+1, indent).part() + "[]"}
}

func (t *typer) object(o *object, depth int, indent string) expression {
	inner := indent + "    "
	required := map[string]bool{}
	if list, ok := o.get("required").([]any); ok {
		for _, k := range list {
			if s, ok := k.(string); ok {
				required[s] = true
			}
		}
	}
	var lines []string
	if fields, ok := o.get("properties").(*object); ok {
		for _, k := range fields.keys {
			if t.written > typeBytes {
				break
			}
			lines = append(lines, documentation(fields.values[k], inner)...)
			mark := "?"
			if required[k] {
				mark = ""
			}
			lines = append(lines, inner+propertyName(k)+mark+": "+t.of(fields.values[k], depth+1, inner).text+";")
		}
	}
	more := o.get("additionalProperties")
	switch m := more.(type) {
	case bool:
		if m {
			lines = append(lines, inner+"[key: string]: unknown;")
		}
	case *object:
		lines = append(lines, inner+"[key: string]: "+t.of(m, depth+1, inner).text+";")
	}
	switch {
	case len(lines) > 0:
		return expression{text: "{\n" + strings.Join(lines, "\n") + "\n" + indent + "}"}
	case more == false:
		return expression{text: "{}"}
	}
	return expression{text: "Record<string, unknown>"}
}

// documentation returns the comment of a property.
func documentation(schema any, indent string) []string {
	o, ok := schema.(*object)
	if !ok {
		return nil
	}
	description, _ := o.get("description").(string)
	format, _ := o.get("format").(string)
	description, format = commentText(description), commentText(format)
	switch {
	case description != "" && format != "":
		return []string{indent + "/**", indent + " * " + description, indent + " * @format " + format, indent + " */"}
	case description != "":
		return []string{indent + "/** " + description + " */"}
	case format != "":
		return []string{indent + "/** @format " + format + " */"}
	}
	return nil
}

func propertyName(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	return quote(name)
}

// quote returns a JavaScript string literal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '\\' || r == '"':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// literal returns the type of a single value.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, literal(e))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case *object:
		var parts []string
		for _, k := range v.keys {
			parts = append(parts, quote(k)+":"+literal(v.values[k]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "unknown"
}

// resolve finds the target of a reference within the schema.
func (t *typer) resolve(ref string) (any, bool) {
	if ref == "#" {
		return t.root, true
	}
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	at := t.root
	for part := range strings.SplitSeq(rest, "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case *object:
			if !v.has(part) {
				return nil, false
			}
			at = v.values[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	return at, true
}

// object is a JSON object that keeps the order of its keys, which is the order of the properties in a declaration.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) any { return o.values[key] }

func (o *object) has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// parseSchema decodes a schema. An empty one allows everything.
func parseSchema(text json.RawMessage) (any, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return true, nil
	}
	if !json.Valid(text) { // which also bounds the depth
		return nil, errors.New("the schema is not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return decodeOrdered(d)
}

func decodeOrdered(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := &object{values: map[string]any{}}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeOrdered(d)
			if err != nil {
				return nil, err
			}
			k := key.(string)
			if !o.has(k) {
				o.keys = append(o.keys, k)
			}
			o.values[k] = v
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeOrdered(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}
