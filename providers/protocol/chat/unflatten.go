package chat

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// unflattened nests arguments that a model wrote as a flat list of paths, such as {"edits[0].path":"a"}, if the tool's schema
// requires nested ones. Names that are not paths are unchanged, and so are all arguments if the paths contradict each other.
func unflattened(args string, schema json.RawMessage) (string, bool) {
	if !strings.ContainsAny(args, "[.") || len(schema) == 0 {
		return args, false
	}
	list, err := fields(json.RawMessage(args))
	if err != nil {
		return args, false
	}
	var wants struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &wants) != nil {
		return args, false
	}
	trees := map[string]*node{}
	var out []field
	for _, f := range list {
		steps := path(f.name)
		if _, literal := wants.Properties[f.name]; literal || len(steps) < 2 || !nests(wants.Properties[steps[0].key]) {
			out = append(out, f)
			continue
		}
		root := steps[0].key
		t := trees[root]
		if t == nil {
			t = &node{}
			trees[root] = t
			out = append(out, field{name: root})
		}
		if !t.put(steps[1:], f.value) {
			return args, false
		}
	}
	if len(trees) == 0 {
		return args, false
	}
	for i, f := range out {
		t := trees[f.name]
		switch {
		case t == nil:
		case f.value != nil:
			return args, false // the same property is also present as a whole
		default:
			var ok bool
			if out[i].value, ok = t.encode(); !ok {
				return args, false
			}
		}
	}
	return string(joined(out)), true
}

// step is a step of a path: a key or an index.
type step struct {
	key   string
	index int // -1: the step is a key
}

// maxSteps limits the depth of a path. No tool needs more, and deeper JSON could not be parsed again.
const maxSteps = 64

// path parses "a[0].b". A name that is not a path, or that refers to JavaScript prototypes, has no steps.
func path(name string) []step {
	var steps []step
	rest := name
	for rest != "" {
		if len(steps) == maxSteps {
			return nil
		}
		if inner, ok := strings.CutPrefix(rest, "["); ok && len(steps) > 0 {
			digits, after, closed := strings.Cut(inner, "]")
			n, err := strconv.Atoi(digits)
			if !closed || err != nil || n < 0 || strconv.Itoa(n) != digits {
				return nil
			}
			steps, rest = append(steps, step{index: n}), after
			continue
		}
		if after, ok := strings.CutPrefix(rest, "."); ok == (len(steps) == 0) {
			return nil
		} else if ok {
			rest = after
		}
		n := strings.IndexAny(rest, ".[]")
		if n < 0 {
			n = len(rest)
		}
		key := rest[:n]
		if key == "" || key == "__proto__" || key == "prototype" || key == "constructor" {
			return nil
		}
		steps, rest = append(steps, step{key: key, index: -1}), rest[n:]
	}
	return steps
}

// nests reports whether a property's schema allows more than a single scalar.
func nests(schema json.RawMessage) bool {
	var s struct {
		Type json.RawMessage `json:"type"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return false
	}
	if len(s.Type) == 0 { // the type is elsewhere: in a reference or an alternative
		return true
	}
	var types []string
	if json.Unmarshal(s.Type, &types) != nil {
		var one string
		_ = json.Unmarshal(s.Type, &one) // a type that is not a string does not nest
		types = []string{one}
	}
	return slices.Contains(types, "object") || slices.Contains(types, "array")
}

// node is a value that is assembled from its leaves.
type node struct {
	leaf     json.RawMessage
	children []child // in order of appearance
	at       map[step]int
	list     bool
}

type child struct {
	step step
	node *node
}

// put adds a leaf. It fails if two paths contradict each other.
func (n *node) put(steps []step, leaf json.RawMessage) bool {
	if n.leaf != nil {
		return false
	}
	if len(steps) == 0 {
		if len(n.children) > 0 {
			return false
		}
		n.leaf = leaf
		return true
	}
	list := steps[0].index >= 0
	if len(n.children) > 0 && n.list != list {
		return false
	}
	n.list = list
	i, known := n.at[steps[0]]
	if !known {
		i = len(n.children)
		n.children = append(n.children, child{steps[0], &node{}})
		if n.at == nil {
			n.at = map[step]int{}
		}
		n.at[steps[0]] = i
	}
	return n.children[i].node.put(steps[1:], leaf)
}

// encode returns the value as JSON. It fails for a list with gaps.
func (n *node) encode() (json.RawMessage, bool) {
	if n.leaf != nil {
		return n.leaf, true
	}
	if n.list {
		slices.SortFunc(n.children, func(a, b child) int { return a.step.index - b.step.index })
	}
	values := make([]field, len(n.children))
	for i, c := range n.children {
		if n.list && c.step.index != i {
			return nil, false
		}
		value, ok := c.node.encode()
		if !ok {
			return nil, false
		}
		values[i] = field{c.step.key, value}
	}
	if !n.list {
		return joined(values), true
	}
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v.value...)
	}
	return append(b, ']'), true
}
