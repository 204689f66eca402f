package bind

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Environment calls read for each environment variable, set or not, that the block's values may read.
func (b Block) Environment(read func(name string)) {
	b.each(func(x hcl.Expression, f Fragment) { x.Value(f.Scope.Recording(read)) })
}

// Missing returns a warning for each variable, file or secret that the block's values need and that does not exist. It needs no
// schema. Other problems are left to Decode.
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

// KeyFiles calls read for each file, existing or not, that file() reads in a secret setting. Without a schema, a setting counts as
// secret unless text says that its name is that of a text.
func (b Block) KeyFiles(s *contract.ConfigBlock, text func(name string) bool, read func(path string)) {
	b.named(func(names []string, x hcl.Expression, f Fragment) {
		if s == nil && !text(names[len(names)-1]) || s != nil && sensitive(*s, names) {
			x.Value(f.Scope.RecordingFiles(read))
		}
	})
}

// sensitive reports whether the setting at a path of names is secret, or is unknown to the schema and so may be secret.
func sensitive(s contract.ConfigBlock, names []string) bool {
	for _, a := range s.Attributes {
		if a.Name == names[0] {
			return a.Sensitive
		}
	}
	for _, n := range s.Blocks {
		if n.Name == names[0] && len(names) > 1 {
			return sensitive(n.Block, names[1:])
		}
	}
	return true
}

// Secrets calls read for the stored secrets that settings read, with the names that lead to the setting, lowest layer first.
func (b Block) Secrets(read func(setting []string, secret string)) {
	b.named(func(names []string, x hcl.Expression, f Fragment) {
		x.Value(f.Scope.RecordingSecrets(func(secret string) { read(names, secret) }))
	})
}

// Keyed reports whether a secret is there: the value of secret() or command(), or a text whose setting has the name of one.
func (b Block) Keyed() bool {
	found := false
	b.named(func(names []string, x hcl.Expression, f Fragment) {
		v, hds := x.Value(f.Scope.Context())
		if hds.HasErrors() || v.IsNull() {
			return
		}
		plain, marked := v.UnmarkDeep()
		const sample = `"x"`
		named := diag.MaskValue(names[len(names)-1], sample) != sample
		if len(marked) > 0 || named && plain.Type() == cty.String && plain.IsKnown() && plain.AsString() != "" {
			found = true
		}
	})
	return found
}

// Text returns the value of a setting of the block itself that is plain text, of the highest layer that has one.
func (b Block) Text(name string) (text string) {
	b.named(func(names []string, x hcl.Expression, f Fragment) {
		if len(names) != 1 || names[0] != name {
			return
		}
		text = ""
		if v, hds := x.Value(f.Scope.Context()); !hds.HasErrors() && !v.IsMarked() && v.IsWhollyKnown() && !v.IsNull() && v.Type() == cty.String {
			text = v.AsString()
		}
	})
	return text
}

// each visits the values in all layers.
func (b Block) each(visit func(hcl.Expression, Fragment)) {
	b.named(func(_ []string, x hcl.Expression, f Fragment) { visit(x, f) })
}

// named visits the values in all layers together with their paths. In JSON, a block cannot be distinguished from an object without
// a schema; the value is then the object.
func (b Block) named(visit func([]string, hcl.Expression, Fragment)) {
	for _, f := range b.Fragments {
		if f.Body == nil {
			visit(f.Path, f.Expr, f)
			continue
		}
		attrs, _ := f.Body.JustAttributes() // blocks are errors here; they are visited below
		for _, a := range attrs {
			visit([]string{a.Name}, a.Expr, f)
		}
		if native, ok := f.Body.(*hclsyntax.Body); ok {
			for _, inner := range native.Blocks {
				eachNative(inner, nil, func(names []string, x hcl.Expression) { visit(names, x, f) })
			}
		}
	}
}

func eachNative(block *hclsyntax.Block, above []string, visit func([]string, hcl.Expression)) {
	names := append(slices.Clip(above), block.Type)
	for _, a := range block.Body.Attributes {
		visit(append(slices.Clip(names), a.Name), a.Expr)
	}
	for _, inner := range block.Body.Blocks {
		eachNative(inner, names, visit)
	}
}
