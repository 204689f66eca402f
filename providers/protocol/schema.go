package protocol

import (
	"encoding/json"
	"slices"
)

// Sanitised rewrites the JSON schema of a tool's input for a vendor's dialect: "gemini", "moonshot"; empty and "none"
// leave it alone. The root is always an object with properties, since most vendors refuse anything else. A schema that is
// no JSON object becomes an empty object's. The order of keys stays: models fill in properties in that order.
func Sanitised(schema json.RawMessage, dialect string) json.RawMessage {
	if dialect != "gemini" && dialect != "moonshot" && describesObject(schema) {
		return schema // the usual case, of every tool in every request: not taken apart any further
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

// describesObject tells whether a schema is what vendors take as it is: that of an object with properties.
func describesObject(schema json.RawMessage) bool {
	var root map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	var kind string
	properties := root["properties"]
	return len(properties) > 0 && properties[0] == '{' && json.Unmarshal(root["type"], &kind) == nil && kind == "object"
}

// makeRoot makes an object of whatever a schema describes.
func makeRoot(o *object) {
	if o.text("type") != "object" {
		for _, k := range []string{"items", "enum", "const", "format", "minLength"} { // they speak of another type
			o.remove(k)
		}
		o.first("type", "object")
	}
	if _, ok := o.get("properties").(*object); !ok {
		o.set("properties", &object{})
	}
}

// tuple makes one schema for all items of those for the single places of a list.
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
