package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// Constants are variables that are written to, or whose address is taken, but whose value never changes.
var Constants = map[string]string{
	"sdk/wire.controllerDesc": "grpc wants the address of a description and only reads it",
	"sdk/wire.stdioDesc":      "grpc wants the address of a description and only reads it",
}

// variables checks that no package-level variable can change: none is assigned to, and none has a mutable type. Error values,
// regular expressions, embedded files and tables that are never written to are allowed. Tests may have flags.
func (w *Workspace) variables(constants map[string]string) []Problem {
	var out []Problem
	used := map[string]bool{}
	for _, p := range w.sorted() {
		var files []*ast.File
		for _, f := range p.Files {
			if !f.Test && !f.Generated {
				files = append(files, f.Syntax)
			}
		}
		out = append(out, w.packageVariables(p.Path, files, constants, used)...)
	}
	for c := range constants {
		if !used[c] {
			out = append(out, stale(c))
		}
	}
	return out
}

func (w *Workspace) packageVariables(path string, files []*ast.File, constants map[string]string, used map[string]bool) []Problem {
	// Only names in the package are resolved. Imports are unknown on purpose, because resolving them is expensive.
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}, DisableUnusedImportCheck: true}
	_, _ = conf.Check(path, w.fset, files, info) // errors are expected: see above

	var out []Problem
	vars := map[types.Object]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if name.Name == "_" {
						continue
					}
					if _, ok := constants[path+"."+name.Name]; ok {
						used[path+"."+name.Name] = true
						continue
					}
					vars[info.Defs[name]] = true
					var value ast.Expr
					if i < len(spec.Values) {
						value = spec.Values[i]
					}
					if why := changes(spec.Type, value); why != "" {
						out = append(out, Problem{
							Where: w.at(name), What: fmt.Sprintf("the package-level variable %s %s", name.Name, why), Instead: insteadOfVariable,
						})
					}
				}
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			for _, target := range written(n) {
				id := base(target)
				if id == nil || !vars[info.Uses[id]] {
					continue
				}
				out = append(out, Problem{
					Where: w.at(n), What: fmt.Sprintf("writes to the package-level variable %s", id.Name), Instead: insteadOfVariable,
				})
			}
			return true
		})
	}
	return out
}

const insteadOfVariable = "make it a field of what the wiring constructs: two hosts in one process must not share it"

// changes explains why the value of a variable can change without an assignment.
func changes(typ, value ast.Expr) string {
	for _, e := range []ast.Expr{typ, value} {
		switch e := e.(type) {
		case *ast.ChanType:
			return "is a channel"
		case *ast.StarExpr:
			return "is a pointer"
		case *ast.MapType, *ast.ArrayType:
			if a, ok := e.(*ast.ArrayType); ok && a.Len != nil {
				continue
			}
			if value == nil && !isBytes(e) {
				return "is empty until somebody writes to it"
			}
		case *ast.SelectorExpr:
			if mutable(e) {
				return "is a " + e.X.(*ast.Ident).Name + "." + e.Sel.Name
			}
		case *ast.IndexExpr:
			if s, ok := e.X.(*ast.SelectorExpr); ok && mutable(s) {
				return "is a " + s.X.(*ast.Ident).Name + "." + s.Sel.Name
			}
		case *ast.UnaryExpr:
			if l, ok := e.X.(*ast.CompositeLit); ok && e.Op == token.AND {
				return changes(l.Type, l) // a table; for &T{}, the same as for T
			}
		case *ast.CompositeLit:
			if why := changes(e.Type, nil); why != "" && !isTable(e.Type) {
				return why
			}
		case *ast.CallExpr:
			id, ok := e.Fun.(*ast.Ident)
			if ok && (id.Name == "make" || id.Name == "new") {
				return "is empty until somebody writes to it"
			}
		}
	}
	return ""
}

// isTable reports whether a literal of this type is a table. Another check ensures that it is not written to.
func isTable(e ast.Expr) bool {
	switch e.(type) {
	case *ast.MapType, *ast.ArrayType:
		return true
	}
	return false
}

// isBytes reports whether the type is that of an embedded file, which has no value in the source.
func isBytes(e ast.Expr) bool {
	a, ok := e.(*ast.ArrayType)
	if !ok {
		return false
	}
	id, ok := a.Elt.(*ast.Ident)
	return ok && id.Name == "byte"
}

// mutable reports whether a type of the standard library is meant to be modified.
func mutable(s *ast.SelectorExpr) bool {
	id, ok := s.X.(*ast.Ident)
	return ok && (id.Name == "atomic" || id.Name == "sync" && slices.Contains([]string{"Mutex", "RWMutex", "Once", "Map", "Pool", "WaitGroup", "Cond"}, s.Sel.Name))
}

// written lists the expressions that a node writes to.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return nil
		}
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X} // its address allows writing
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (id.Name == "delete" || id.Name == "clear" || id.Name == "copy") {
			return n.Args[:1]
		}
	}
	return nil
}

// base returns the variable that an expression is part of.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// noImports makes every import unknown.
type noImports struct{}

// Import implements [types.Importer].
func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }
