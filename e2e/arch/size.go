package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// Limits for the size of a package in host/internal and of a type in it: beyond them, it has more than one responsibility.
const (
	maxFiles   = 20 // without tests and generated files, of all platforms
	maxMethods = 40 // of a type, of all platforms
)

// sizes checks that no package of the host has too many files, and no type too many methods.
func (w *Workspace) sizes() []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		if !strings.HasPrefix(p.Path, root) {
			continue
		}
		files, methods := 0, map[string]map[string]bool{}
		for _, f := range p.Files {
			if f.Test || f.Generated {
				continue
			}
			files++
			for _, d := range f.Syntax.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil {
					continue
				}
				if id := base(fn.Recv.List[0].Type); id != nil {
					if methods[id.Name] == nil {
						methods[id.Name] = map[string]bool{}
					}
					methods[id.Name][fn.Name.Name] = true
				}
			}
		}
		if files > maxFiles {
			out = append(out, Problem{
				Where: p.Path, What: fmt.Sprintf("has %d files, more than %d", files, maxFiles),
				Instead: "move one of its responsibilities to a package of its own",
			})
		}
		for _, name := range slices.Sorted(maps.Keys(methods)) {
			if m := methods[name]; len(m) > maxMethods {
				out = append(out, Problem{
					Where: p.Path, What: fmt.Sprintf("type %s has %d methods, more than %d", name, len(m), maxMethods),
					Instead: "move one of its responsibilities to a type of its own",
				})
			}
		}
	}
	return out
}
