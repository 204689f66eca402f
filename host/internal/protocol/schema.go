package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaBundle is the file of [WriteJSONSchema] that has all definitions. It has the name that generators of clients for codex look for.
const SchemaBundle = "codex_app_server_protocol.v2.schemas.json"

// WriteJSONSchema writes the JSON Schemas (draft 7) of all messages to a folder: a file for the type of each message in the places where
// codex has them, such as v2/ThreadStartParams.json, ClientRequest.json, ClientNotification.json, ServerRequest.json and
// ServerNotification.json with all methods, ErrorData.json for the data of errors, and [SchemaBundle]. Without experimental, experimental
// methods, fields and values are left out.
//
// It writes all files or none. In a folder that exists it replaces files of the same names and leaves others alone.
func WriteJSONSchema(dir string, experimental bool) error {
	files, err := jsonSchemas(experimental)
	if err != nil {
		return err
	}
	return writeSet(dir, files)
}

// schemas makes JSON Schemas.
type schemas struct {
	experimental bool
	definitions  map[string]*jsonschema.Schema // by name
}

func jsonSchemas(experimental bool) (map[string][]byte, error) {
	g := &schemas{experimental, map[string]*jsonschema.Schema{}}
	roots := map[string]string{"ErrorData": "ErrorData.json", "RequestId": "RequestId.json"} // file by definition
	g.definitions["RequestId"] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer", Format: "int64"}}}
	g.use(shapeOf(reflect.TypeFor[ErrorData]()))
	add := func(folder string, types ...reflect.Type) {
		for _, t := range types {
			s := shapeOf(t)
			g.use(s)
			roots[s.name] = folder + s.name + ".json"
		}
	}
	var requests, notifications, questions []*jsonschema.Schema
	for _, m := range Methods() {
		if m.Experimental && !experimental {
			continue
		}
		add(folderOf(m.Name), m.Params, m.Result)
		requests = append(requests, g.message(m.Name, m.Params, "Request"))
	}
	for _, n := range Notifications() {
		if n.Experimental && !experimental {
			continue
		}
		add(folderOf(n.Name), n.Params)
		notifications = append(notifications, g.message(n.Name, n.Params, "Notification"))
	}
	for _, r := range ServerRequests() {
		if r.Experimental && !experimental {
			continue
		}
		add("", r.Params, r.Result)
		questions = append(questions, g.message(r.Name, r.Params, "Request"))
	}
	for name, members := range map[string][]*jsonschema.Schema{
		"ClientRequest": requests, "ServerNotification": notifications, "ServerRequest": questions,
		"ClientNotification": {g.message("initialized", nil, "Notification")},
	} {
		g.definitions[name] = &jsonschema.Schema{OneOf: members}
		roots[name] = name + ".json"
	}
	files := make(map[string][]byte, len(roots)+1)
	for name, file := range roots {
		b, err := encodeSchema(g.standalone(name))
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		files[file] = b
	}
	b, err := encodeSchema(&jsonschema.Schema{Schema: draft7, Title: "AppServerProtocol", Type: "object", Definitions: g.definitions})
	if err != nil {
		return nil, fmt.Errorf("bundle of schemas: %w", err)
	}
	files[SchemaBundle] = b
	return files, nil
}

const draft7 = "http://json-schema.org/draft-07/schema#"

// folderOf returns the folder of the schemas of a method.
func folderOf(method string) string {
	switch {
	case method == MethodInitialize.Name:
		return "v1/"
	case strings.HasPrefix(method, MethodFuzzyFileSearch.Name):
		return ""
	}
	return "v2/"
}

func encodeSchema(s *jsonschema.Schema) ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// standalone returns a definition with all definitions that it needs.
func (g *schemas) standalone(name string) *jsonschema.Schema {
	root := *g.definitions[name]
	root.Schema, root.Title = draft7, name
	needed := map[string]*jsonschema.Schema{}
	g.collect(&root, needed)
	root.Definitions = needed
	return &root
}

func (g *schemas) collect(s *jsonschema.Schema, needed map[string]*jsonschema.Schema) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, refPrefix); ok && needed[name] == nil {
		needed[name] = g.definitions[name]
		g.collect(needed[name], needed)
	}
	for _, p := range s.Properties {
		g.collect(p, needed)
	}
	g.collect(s.Items, needed)
	g.collect(s.AdditionalProperties, needed)
	for _, list := range [][]*jsonschema.Schema{s.OneOf, s.AnyOf} {
		for _, o := range list {
			g.collect(o, needed)
		}
	}
}

const refPrefix = "#/definitions/"

// message returns the schema of a whole message. A nil type of parameters is none.
func (g *schemas) message(method string, params reflect.Type, kind string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Title: method + kind, Type: "object", Required: []string{"method"},
		Properties: map[string]*jsonschema.Schema{"method": {Type: "string", Enum: []any{method}}}, PropertyOrder: []string{"id", "method", "params"},
	}
	if kind == "Request" {
		s.Properties["id"] = &jsonschema.Schema{Ref: refPrefix + "RequestId"}
		s.Required = []string{"id", "method"}
	} else if params != nil { // of the server
		s.Properties["emittedAtMs"] = &jsonschema.Schema{Type: "integer", Format: "int64"}
		s.Properties["seq"] = &jsonschema.Schema{Type: "integer", Format: "uint64", Minimum: new(0.0)}
		s.PropertyOrder = append(s.PropertyOrder, "emittedAtMs", "seq")
	}
	switch params {
	case nil:
		s.PropertyOrder = []string{"method"}
	case reflect.TypeFor[NoParams]():
		s.Properties["params"] = withNull(g.use(shapeOf(params)))
	default:
		s.Properties["params"] = g.use(shapeOf(params))
		s.Required = append(s.Required, "params")
	}
	s.PropertyOrder = slices.DeleteFunc(s.PropertyOrder, func(p string) bool { return s.Properties[p] == nil })
	return s
}

// use returns the schema of a shape, or a reference to its definition.
func (g *schemas) use(s *shape) *jsonschema.Schema {
	if s.name == "" {
		return g.write(s)
	}
	if _, ok := g.definitions[s.name]; !ok {
		g.definitions[s.name] = &jsonschema.Schema{} // it may contain itself
		*g.definitions[s.name] = *g.write(s)
	}
	return &jsonschema.Schema{Ref: refPrefix + s.name}
}

func (g *schemas) write(s *shape) *jsonschema.Schema {
	switch s.kind {
	case anyKind:
		return &jsonschema.Schema{}
	case boolKind:
		return &jsonschema.Schema{Type: "boolean"}
	case intKind:
		out := &jsonschema.Schema{Type: "integer", Format: fmt.Sprintf("int%d", s.bits)}
		if s.bits < 64 { // the bounds of 64 bits are no numbers of JavaScript
			out.Minimum, out.Maximum = new(-math.Ldexp(1, s.bits-1)), new(math.Ldexp(1, s.bits-1)-1)
		}
		return out
	case uintKind:
		out := &jsonschema.Schema{Type: "integer", Format: fmt.Sprintf("uint%d", s.bits), Minimum: new(0.0)}
		if s.bits < 64 {
			out.Maximum = new(math.Ldexp(1, s.bits) - 1)
		}
		return out
	case floatKind:
		return &jsonschema.Schema{Type: "number", Format: "double"}
	case stringKind:
		return &jsonschema.Schema{Type: "string"}
	case enumKind:
		return &jsonschema.Schema{Type: "string", Enum: anys(s.values)}
	case pointerKind, nullableKind:
		return withNull(g.use(s.element))
	case listKind:
		return &jsonschema.Schema{Type: "array", Items: g.use(s.element)}
	case mapKind:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: g.use(s.element)}
	case objectKind:
		out := &jsonschema.Schema{Type: "object"}
		g.properties(out, s.fields)
		return out
	case unionKind:
		return g.union(s)
	case choiceKind:
		return g.choice(s)
	case alternativesKind:
		out := &jsonschema.Schema{}
		for _, o := range s.options {
			out.AnyOf = append(out.AnyOf, g.use(o))
		}
		return out
	}
	panic("protocol: unknown kind of shape")
}

func anys(values []string) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// withNull returns a schema that also allows null.
func withNull(s *jsonschema.Schema) *jsonschema.Schema {
	switch {
	case s.Types != nil || s.Ref == "" && s.Type == "" && s.AnyOf == nil && s.OneOf == nil:
		return s // it does already
	case s.Type != "" && s.Enum == nil:
		out := *s
		out.Type, out.Types = "", []string{s.Type, "null"}
		return &out
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// properties adds the members of an object.
func (g *schemas) properties(out *jsonschema.Schema, fields []*field) {
	for _, f := range fields {
		if f.experimental && !g.experimental {
			continue
		}
		if out.Properties == nil {
			out.Properties = map[string]*jsonschema.Schema{}
		}
		p := g.use(f.shape)
		if f.acceptsNull() {
			p = withNull(p)
		}
		out.Properties[f.name] = p
		out.PropertyOrder = append(out.PropertyOrder, f.name)
		if f.required() {
			out.Required = append(out.Required, f.name)
		}
	}
}

func (g *schemas) union(s *shape) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object"}
	g.properties(out, s.fields)
	for _, kind := range slices.Sorted(maps.Keys(s.members)) {
		m := &jsonschema.Schema{
			Title: kind, Type: "object", Properties: map[string]*jsonschema.Schema{s.tag: {Type: "string", Enum: []any{kind}}},
			PropertyOrder: []string{s.tag}, Required: []string{s.tag},
		}
		g.properties(m, s.members[kind].fields)
		out.OneOf = append(out.OneOf, m)
	}
	return out
}

func (g *schemas) choice(s *shape) *jsonschema.Schema {
	out := &jsonschema.Schema{}
	var plain []string
	for _, kind := range s.values {
		d, ok := s.details[kind]
		switch {
		case !ok:
			plain = append(plain, kind)
		case d.descriptor == "" || g.experimental:
			out.OneOf = append(out.OneOf, &jsonschema.Schema{
				Title: kind, Type: "object", Properties: map[string]*jsonschema.Schema{kind: g.use(d.shape)}, Required: []string{kind},
				AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			})
		}
	}
	if len(plain) > 0 {
		out.OneOf = append([]*jsonschema.Schema{{Type: "string", Enum: anys(plain)}}, out.OneOf...)
	}
	return out
}

// writeSet writes files to a folder: all of them or none.
func writeSet(dir string, files map[string][]byte) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // what is left of it
	for name, b := range files {
		path := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // it is private until then
		return err
	}
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return os.Rename(tmp, dir)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) { // all are written: there is space for them
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(tmp, filepath.FromSlash(name)), path); err != nil {
			return err
		}
	}
	return nil
}
