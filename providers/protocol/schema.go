package protocol

import (
	"encoding/json"
	"slices"
)

// Sanitised adapts the JSON schema of a tool's input to a vendor's dialect: "gemini", "moonshot"; "" and "none" leave it
// unchanged. The root is always an object with properties, because most vendors reject anything else. A schema that is not a JSON
// object is replaced by that of an empty object. The order of keys is preserved: models write properties in that order.
func Sanitised(schema json.RawMessage, dialect string) json.RawMessage {
	if dialect != "gemini" && dialect != "moonshot" && describesObject(schema) {
		return schema // the common case, for every tool in every request
	}
	v, err := decodeOrdered(schema)
	root, ok := v.(*object)
	if err != nil || !ok {
		root = &object{}
	}
	switch dialect {
	case "gemini":
		root = geminiSchema(root)
	case "moonshot":
		moonshotSchema(root)
	}
	makeRoot(root)
	return root.encode()
}

// describesObject reports whether a schema describes an object with properties, which vendors accept unchanged.
func describesObject(schema json.RawMessage) bool {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	var kind string
	properties := root["properties"]
	return len(properties) > 0 && properties[0] == '{' && json.Unmarshal(root["type"], &kind) == nil && kind == "object"
}

// makeRoot converts any schema to that of an object.
func makeRoot(o *object) {
	if o.text("type") != "object" {
		for _, k := range []string{"items", "enum", "const", "format", "minLength"} { // they apply to other types
			o.remove(k)
		}
		o.first("type", "object")
	}
	if _, ok := o.get("properties").(*object); !ok {
		o.set("properties", &object{})
	}
}

// tuple merges the schemas of a list's positions into one schema for all items.
func tuple(s *object) {
	places, ok := s.get("prefixItems").([]any)
	if ok {
		if rest, ok := s.get("items").(*object); ok {
			places = append(slices.Clone(places), rest)
		}
		s.remove("prefixItems")
	} else if places, ok = s.get("items").([]any); !ok {
		return
	}
	s.remove("additionalItems")
	switch len(places) {
	case 0:
		s.remove("items")
	case 1:
		s.set("items", places[0])
	default:
		items := &object{}
		items.set("anyOf", places)
		s.set("items", items)
	}
}
