package bind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Locate returns the range of an attribute path in the last layer that has it, or the range of the block that lacks it. The empty
// path is the block itself.
func (b Block) Locate(path []contract.Step) diag.Range {
	best, deepest := b.Header, -1
	for _, f := range b.Fragments {
		r, depth := f.Header, 0
		switch {
		case f.Body != nil && len(path) > 0:
			r, depth = locate(f.Body, path)
		case f.Body == nil:
			if depth = matching(f.Path, path); depth < 0 {
				continue
			}
			r = f.Header
		}
		if depth >= deepest {
			best, deepest = r, depth
		}
	}
	return b.Files.Range(best)
}

// Labelled returns the range of a block in the body whose only label is label, in the last layer that has one. Its type does not matter.
// There is none in JSON.
func (b Block) Labelled(label string) (r diag.Range, ok bool) {
	for _, f := range slices.Backward(b.Fragments) {
		body, native := f.Body.(*hclsyntax.Body)
		if !native {
			continue
		}
		for _, inner := range body.Blocks {
			if slices.Equal(inner.Labels, []string{label}) {
				return b.Files.Range(inner.DefRange()), true
			}
		}
	}
	return r, false
}

// Diagnose adds ranges to a plugin's diagnostics.
func (b Block) Diagnose(in []contract.Diagnostic) diag.Diagnostics {
	out := make(diag.Diagnostics, 0, len(in))
	for _, x := range in {
		d := diag.Diagnostic{Severity: diag.Error, Summary: x.Summary, Detail: x.Detail, Plugin: b.Plugin, Next: x.Next}
		if x.Severity == contract.SeverityWarning {
			d.Severity = diag.Warning
		}
		if d.Next == "" {
			d.Next = b.Inspect
		}
		r := b.Locate(x.Path)
		out = append(out, b.Files.Place(r, d))
	}
	out.Sort()
	return out
}

// matching returns the number of steps of path that a command-line setting names, or -1 if it names something else.
func matching(setting []string, path []contract.Step) int {
	for i, s := range path {
		if i == len(setting) {
			return i
		}
		if text, ok := stepText(s); !ok || text != setting[i] {
			return -1
		}
	}
	if len(setting) > len(path) {
		return -1
	}
	return len(path)
}

func stepText(s contract.Step) (string, bool) {
	switch s.Kind {
	case contract.StepName:
		return s.Name, true
	case contract.StepKey:
		return s.Key, true
	}
	return "", false
}

// locate follows a path in a body as far as it exists. It returns the range of the last step found and the number of steps.
func locate(body hcl.Body, path []contract.Step) (hcl.Range, int) {
	depth := 0
	for len(path) > 1 && path[0].Kind == contract.StepName {
		inner, used := blockAt(body, path)
		if inner == nil {
			break
		}
		body, path, depth = inner, path[used:], depth+used
	}
	if len(path) == 0 || path[0].Kind != contract.StepName {
		return body.MissingItemRange(), depth
	}
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: path[0].Name}}})
	attr, ok := content.Attributes[path[0].Name]
	if !ok {
		// The path may end at a block.
		if len(path) == 1 {
			if blocks := blocksOf(body, path[0].Name, 0); len(blocks) > 0 {
				return blocks[0].DefRange, depth + 1
			}
		}
		return body.MissingItemRange(), depth
	}
	x, used := descend(attr.Expr, path[1:])
	return x.Range(), depth + 1 + used
}

// blockAt returns the block at the first steps of a path and the number of those steps.
func blockAt(body hcl.Body, path []contract.Step) (hcl.Body, int) {
	name := path[0].Name
	inner := func(b *hcl.Block, used int) (hcl.Body, int) {
		if used == len(path) {
			return headerBody{b.Body, b.DefRange}, used
		}
		return b.Body, used
	}
	switch path[1].Kind {
	case contract.StepKey:
		keys := 1
		for keys+1 < len(path) && path[keys+1].Kind == contract.StepKey {
			keys++
		}
		for ; keys > 0; keys-- {
			for _, b := range blocksOf(body, name, keys) {
				if slices.EqualFunc(b.Labels, path[1:1+keys], func(l string, s contract.Step) bool { return l == s.Key }) {
					return inner(b, 1+keys)
				}
			}
		}
	case contract.StepIndex:
		if blocks := blocksOf(body, name, 0); path[1].Index >= 0 && path[1].Index < int64(len(blocks)) {
			return inner(blocks[path[1].Index], 2)
		}
	default:
		if blocks := blocksOf(body, name, 0); len(blocks) > 0 {
			return blocks[0].Body, 1
		}
	}
	return nil, 0
}

// blocksOf returns the blocks of a type that have the given number of labels.
func blocksOf(body hcl.Body, name string, labels int) hcl.Blocks {
	h := hcl.BlockHeaderSchema{Type: name}
	for i := range labels {
		h.LabelNames = append(h.LabelNames, "label"+strconv.Itoa(i))
	}
	content, _, ds := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{h}})
	if ds.HasErrors() {
		return nil
	}
	return content.Blocks
}

// headerBody stands for the block itself in a path that ends at its header.
type headerBody struct {
	hcl.Body
	header hcl.Range
}

func (h headerBody) MissingItemRange() hcl.Range { return h.header }

// descend follows steps into an expression as far as it consists of literal lists and objects.
func descend(x hcl.Expression, path []contract.Step) (hcl.Expression, int) {
	for i, s := range path {
		var next hcl.Expression
		if s.Kind == contract.StepIndex {
			if list, ds := hcl.ExprList(x); !ds.HasErrors() && s.Index >= 0 && s.Index < int64(len(list)) {
				next = list[s.Index]
			}
		} else if text, ok := stepText(s); ok {
			if pair := pairAt(x, text); pair != nil {
				next = pair.Value
			}
		}
		if next == nil {
			return x, i
		}
		x = next
	}
	return x, len(path)
}

// pairAt finds a key in a literal object. The last pair with the key wins, as in evaluation.
func pairAt(x hcl.Expression, key string) (found *hcl.KeyValuePair) {
	pairs, ds := hcl.ExprMap(x)
	if ds.HasErrors() {
		return nil
	}
	for i := range pairs {
		if k, ds := pairs[i].Key.Value(nil); !ds.HasErrors() && !k.IsMarked() && k.IsKnown() && !k.IsNull() &&
			k.Type() == cty.String && k.AsString() == key {
			found = &pairs[i]
		}
	}
	return found
}

// expressionAt returns the range of the value at a path in an expression, or of the last part of the path that is literal.
func expressionAt(x hcl.Expression, path []contract.Step) hcl.Range {
	deep, _ := descend(x, path)
	return deep.Range()
}

// keyAt returns the range of the key that the last step of a path names.
func keyAt(x hcl.Expression, path []contract.Step) hcl.Range {
	deep, used := descend(x, path[:len(path)-1])
	if used == len(path)-1 {
		if pair := pairAt(deep, path[used].Key); pair != nil {
			return pair.Key.Range()
		}
	}
	return deep.Range()
}

// steps converts a path of the cty library.
func steps(p cty.Path) []contract.Step {
	var out []contract.Step
	for _, s := range p {
		switch s := s.(type) {
		case cty.GetAttrStep:
			out = append(out, contract.Name(s.Name))
		case cty.IndexStep:
			switch {
			case s.Key.Type() == cty.String:
				out = append(out, contract.Key(s.Key.AsString()))
			case s.Key.Type() == cty.Number:
				n, _ := s.Key.AsBigFloat().Int64()
				out = append(out, contract.Index(n))
			}
		}
	}
	return out
}

// pathText formats a path of the cty library.
func pathText(p cty.Path) string {
	var b strings.Builder
	b.WriteString("element ")
	for _, s := range steps(p) {
		switch s.Kind {
		case contract.StepName:
			b.WriteString("." + s.Name)
		case contract.StepKey:
			fmt.Fprintf(&b, "[%q]", s.Key)
		case contract.StepIndex:
			fmt.Fprintf(&b, "[%d]", s.Index)
		}
	}
	return b.String()
}
