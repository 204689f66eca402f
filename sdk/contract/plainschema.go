package contract

import (
	"encoding/json"
	"math"
	"slices"
)

// isPlain reports whether a value is a JSON Schema that certainly compiles: it consists of keywords that can be wrong only by the type of
// their values. Most schemas of tools are plain, and compiling thousands of them takes most of the time of a set of tools.
func isPlain(v any, object bool) bool {
	schema, ok := v.(map[string]any)
	if !ok || object && schema["type"] != "object" {
		return false
	}
	for keyword, v := range schema {
		if check := plainKeywords(keyword); check == nil || !check(v) {
			return false
		}
	}
	return true
}

// plainKeywords returns what checks the value of a keyword; nil: the keyword can be wrong in other ways.
func plainKeywords(keyword string) func(any) bool {
	switch keyword {
	case "type":
		return func(v any) bool {
			name, _ := v.(string)
			return slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean", "null"}, name)
		}
	case "properties":
		return func(v any) bool {
			all, ok := v.(map[string]any)
			for _, each := range all {
				ok = ok && isPlain(each, false)
			}
			return ok
		}
	case "items":
		return func(v any) bool { return isPlain(v, false) }
	case "additionalProperties":
		return func(v any) bool { _, open := v.(bool); return open || isPlain(v, false) }
	case "anyOf", "oneOf", "allOf":
		return func(v any) bool { return isList(v, func(each any) bool { return isPlain(each, false) }) }
	case "required":
		return func(v any) bool { return isList(v, isText) }
	case "enum":
		return func(v any) bool { return isList(v, func(any) bool { return true }) }
	case "title", "description", "format":
		return isText
	case "minLength", "maxLength", "minItems", "maxItems":
		return func(v any) bool {
			n, ok := v.(float64)
			return ok && n == math.Trunc(n) && n >= 0 && n <= math.MaxInt32
		}
	case "minimum", "maximum":
		return func(v any) bool { _, ok := v.(float64); return ok }
	}
	return nil
}

func isText(v any) bool { _, ok := v.(string); return ok }

// isList reports whether a value is a list of at least one element, which all fit.
func isList(v any, fits func(any) bool) bool {
	list, ok := v.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(each any) bool { return !fits(each) })
}

// compilesForSure is [checkSchema] for schemas that are plain; false: it has to be asked.
func compilesForSure(raw json.RawMessage, object bool) bool {
	var v any
	return len(raw) <= maxSchemaBytes && checkDepth(raw) == nil && json.Unmarshal(raw, &v) == nil && isPlain(v, object)
}
