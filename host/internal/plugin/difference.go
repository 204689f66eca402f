package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// maxDifferences is how many are named; the rest is counted.
const maxDifferences = 5

// differences says in words how manifest b is not manifest a: "version: \"1.0.0\" became \"1.1.0\"", "tools.forecast
// appeared". Empty when they are the same.
func differences(a, b *contract.Manifest) string {
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

// asMap makes objects, lists of named objects and lists of strings comparable by name.
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
	b, _ := json.Marshal(v) // came out of Unmarshal
	return string(b)
}

// short is full, cut to what fits an error message.
func short(v any) string {
	const most = 60
	s := full(v)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// grown lists the capabilities that b asks for and a didn't.
func grown(a, b *contract.Manifest) []string {
	var more []string
	for _, c := range b.Capabilities {
		if !slices.Contains(a.Capabilities, c) {
			more = append(more, c)
		}
	}
	return more
}
