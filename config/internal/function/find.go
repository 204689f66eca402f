package function

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Found lists the files and programs that a configuration text names in file() and command().
type Found struct {
	Files    []FoundFile
	Commands []*Command
}

// FoundFile is a call of file().
type FoundFile struct {
	Name string // as written
	Path string // absolute
	// Text is set if the file's content is text for users or models, which may be shown. Otherwise it may be a key.
	Text bool
}

// maxFound bounds the number of calls that are considered. In a project, the values of further calls cannot be used.
const maxFound = 200

// readable are arguments whose values are not secret.
var readable = []string{"instructions", "text", "policy", "prompt", "compact_prompt", "guidelines", "script_text", "title"}

// IsText reports whether settings with this name contain text for users or models rather than secrets.
func IsText(name string) bool { return slices.Contains(readable, name) }

// Find finds calls of file() and command() whose arguments consist of literal strings and env(), and evaluates nothing else. It
// needs no schema and is safe for a configuration that is not trusted.
func (s *Scope) Find(src []byte, body hcl.Body) Found {
	var out Found
	if native, ok := body.(*hclsyntax.Body); ok {
		s.findNative(native, &out)
		return out
	}
	// In JSON, expressions are templates in strings.
	var v any
	if json.Unmarshal(src, &v) == nil {
		s.findJSON(v, "", &out)
	}
	return out
}

func (s *Scope) findNative(b *hclsyntax.Body, out *Found) {
	for name, a := range b.Attributes {
		s.findIn(a.Expr, name, out)
	}
	for _, inner := range b.Blocks {
		s.findNative(inner.Body, out)
	}
}

func (s *Scope) findJSON(v any, name string, out *Found) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			s.findJSON(e, k, out)
		}
	case []any:
		for _, e := range v {
			s.findJSON(e, name, out)
		}
	case string:
		if strings.Contains(v, "${") || strings.Contains(v, "%{") {
			if x, ds := hclsyntax.ParseTemplate([]byte(v), "", hcl.InitialPos); !ds.HasErrors() {
				s.findIn(x, name, out)
			}
		}
	}
}

func (s *Scope) findIn(x hclsyntax.Expression, name string, out *Found) {
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		call, ok := n.(*hclsyntax.FunctionCallExpr)
		if !ok || call.Name != "file" && call.Name != "command" || len(out.Files)+len(out.Commands) >= maxFound || !constant(call) {
			return nil
		}
		if call.Name == "file" && len(call.Args) == 1 {
			v, ds := call.Args[0].Value(s.finding())
			if ds.HasErrors() || v.IsMarked() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
				return nil
			}
			if path, err := s.Path(v.AsString()); err == nil {
				f := FoundFile{Name: v.AsString(), Path: path, Text: IsText(name)}
				if !slices.Contains(out.Files, f) {
					out.Files = append(out.Files, f)
				}
			}
			return nil
		}
		v, ds := call.Value(s.finding())
		if ds.HasErrors() {
			return nil
		}
		for m := range v.Marks() {
			if c, ok := m.(*Command); ok && !slices.ContainsFunc(out.Commands, func(o *Command) bool { return o.Key() == c.Key() }) {
				out.Commands = append(out.Commands, c)
			}
		}
		return nil
	})
	slices.SortFunc(out.Files, func(a, b FoundFile) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(out.Commands, func(a, b *Command) int { return strings.Compare(a.Key(), b.Key()) })
}

// constant reports whether evaluating an expression takes time proportional to its text: it contains no repetition.
func constant(x hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(x, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		case *hclsyntax.ForExpr, *hclsyntax.SplatExpr, *hclsyntax.ScopeTraversalExpr:
			ok = false
		}
		return nil
	})
	return ok
}

// finding returns a context that does not access files, secrets or programs.
func (s *Scope) finding() *hcl.EvalContext {
	unknown := func(string) (cty.Value, error) { return cty.UnknownVal(cty.String), nil }
	found := *s
	found.sources.Consent = nil
	return &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: map[string]function.Function{
		"env": envFunction(s.sources.LookupEnv), "command": found.commandFunction(), "file": textFunction("path", unknown), "secret": textFunction("name", unknown),
	}}
}
