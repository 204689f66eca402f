package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// maxDifferences is how many differences are listed; the rest are counted.
const maxDifferences = 5

// Difference describes how manifest b differs from manifest a, for example `version: "1.0.0" became "1.1.0"; tools.forecast
// appeared`. It is empty if they are the same.
func Difference(a, b *contract.Manifest) string {
	ca, cb := a.Canonical(), b.Canonical()
	if bytes.Equal(ca, cb) {
		return ""
	}
	var ja, jb any
	if json.Unmarshal(ca, &ja) != nil || json.Unmarshal(cb, &jb) != nil {
		return "the manifests differ"
	}
	found := compare("", ja, jb, nil)
	if len(found) == 0 {
		return "the order of a list changed"
	}
	if n := len(found) - maxDifferences; n > 0 {
		found = append(found[:maxDifferences:maxDifferences], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(found, "; ")
}

// compare appends the differences between two JSON values at path to found.
func compare(path string, a, b any, found []string) []string {
	ma, okA := asMap(a)
	mb, okB := asMap(b)
	if okA && okB {
		keys := maps.Clone(ma)
		maps.Copy(keys, mb)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			at := strings.TrimPrefix(path+"."+k, ".")
			va, inA := ma[k]
			vb, inB := mb[k]
			switch {
			case !inA:
				found = append(found, at+" appeared")
			case !inB:
				found = append(found, at+" is gone")
			default:
				found = compare(at, va, vb, found)
			}
		}
		return found
	}
	ta, tb := short(a), short(b)
	if full(a) == full(b) {
		return found
	}
	if ta == tb {
		return append(found, path+" changed")
	}
	return append(found, fmt.Sprintf("%s: %s became %s", path, ta, tb))
}

// asMap returns an object, a list of named objects or a list of strings as a map by name, so that their order doesn't matter.
func asMap(v any) (map[string]any, bool) {
	switch x := v.(type) {
	case map[string]any:
		return x, true
	case []any:
		m := make(map[string]any, len(x))
		for _, e := range x {
			name, ok := e.(string)
			if o, isObject := e.(map[string]any); isObject {
				if name, ok = o["name"].(string); !ok {
					name, ok = o["Name"].(string)
				}
			}
			if !ok {
				return nil, false
			}
			m[name] = e
		}
		return m, true
	}
	return nil, false
}

func full(v any) string {
	b, _ := json.Marshal(v) // can't fail: v comes from Unmarshal
	return string(b)
}

// short is full, truncated to fit into an error message.
func short(v any) string {
	const most = 60
	s := full(v)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// AddedCapabilities lists the capabilities that b requests and a doesn't.
func AddedCapabilities(a, b *contract.Manifest) []string {
	return slices.DeleteFunc(slices.Clone(b.Capabilities), func(c string) bool { return slices.Contains(a.Capabilities, c) })
}
