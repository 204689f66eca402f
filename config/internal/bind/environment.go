package bind

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/gantry-agent/gantry/config/diag"
)

// Environment calls read with each environment variable that the block's values may read, set or not.
func (b Block) Environment(read func(name string)) {
	b.each(func(x hcl.Expression, f Fragment) { x.Value(f.Scope.Recording(read)) })
}

// Missing returns a warning for each variable, file or secret that the block's values need and that is not there. It
// needs no schema; other problems are left to Decode.
func (b Block) Missing() diag.Diagnostics {
	var out diag.Diagnostics
	b.each(func(x hcl.Expression, f Fragment) {
		_, hds := x.Value(f.Scope.Context())
		if !diag.AllExplained(hds) {
			return
		}
		for _, d := range b.Files.Convert(hds, "") {
			d.Severity, d.Plugin = diag.Warning, b.Plugin
			out = append(out, d)
		}
	})
	out.Sort()
	return out
}

// each visits the values of all layers. In JSON syntax a block can't be told from an object without a schema; its value
// then is the object.
func (b Block) each(visit func(hcl.Expression, Fragment)) {
	for _, f := range b.Fragments {
		if f.Body == nil {
			visit(f.Expr, f)
			continue
		}
		attrs, _ := f.Body.JustAttributes() // blocks are errors there, and visited below
		for _, a := range attrs {
			visit(a.Expr, f)
		}
		if native, ok := f.Body.(*hclsyntax.Body); ok {
			for _, inner := range native.Blocks {
				eachNative(inner.Body, func(x hcl.Expression) { visit(x, f) })
			}
		}
	}
}

func eachNative(body *hclsyntax.Body, visit func(hcl.Expression)) {
	for _, a := range body.Attributes {
		visit(a.Expr)
	}
	for _, inner := range body.Blocks {
		eachNative(inner.Body, visit)
	}
}
