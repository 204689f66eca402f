// Package api lists the exported API of the module as text, one line per identifier.
//
// It owns: the format of that text. It must not know: whether a change is acceptable, which the reviewer of sdk/testdata/api.txt
// decides.
//
// Start with [Text].
package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// listed is a package listed by the go command. dep says that it is only a dependency of the module's packages.
type listed struct {
	path, name, export string
	dep                bool
}

// Text returns the exported API of all packages below the folder root, except commands, internal and generated packages. It reads
// packages compiled for Linux, so that the text is the same on all platforms.
func Text(root string) (string, error) {
	pkgs, err := list(root)
	if err != nil {
		return "", err
	}
	exports := map[string]string{}
	slices.SortFunc(pkgs, func(a, b listed) int { return strings.Compare(a.path, b.path) })
	for _, p := range pkgs {
		exports[p.path] = p.export
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("no compiled package %s", path)
		}
		return os.Open(file)
	})
	var lines []string
	for _, p := range pkgs {
		if p.dep || p.name == "main" || p.export == "" || strings.Contains(p.path+"/", "/internal/") || strings.Contains(p.path, "/proto/") {
			continue
		}
		pkg, err := imp.Import(p.path)
		if err != nil {
			return "", fmt.Errorf("read package %s: %w", p.path, err)
		}
		lines = append(lines, describe(pkg)...)
	}
	if len(lines) == 0 {
		return "", errors.New("no exported API below " + root)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func list(dir string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-trimpath", "-tags", "grpcnotrace",
		"-f", "{{.ImportPath}}\t{{.Name}}\t{{.Export}}\t{{.DepOnly}}", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0") // the same settings as make build, for its cache
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var pkgs []listed
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) == 4 {
			pkgs = append(pkgs, listed{f[0], f[1], f[2], f[3] == "true"})
		}
	}
	return pkgs, nil
}

// printer collects the lines of a package.
type printer struct {
	pkg   *types.Package
	lines []string
}

func describe(pkg *types.Package) []string {
	p := &printer{pkg: pkg}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if token.IsExported(name) {
			p.object(scope.Lookup(name))
		}
	}
	slices.Sort(p.lines)
	return p.lines
}

func (p *printer) line(format string, args ...any) {
	_, short, _ := strings.Cut(p.pkg.Path(), "/sdk/")
	p.lines = append(p.lines, "pkg "+cmp.Or(short, p.pkg.Path())+", "+fmt.Sprintf(format, args...))
}

// qualify omits the name of the package itself and shortens the paths of others.
func (p *printer) qualify(other *types.Package) string {
	if other == p.pkg {
		return ""
	}
	return other.Name()
}

func (p *printer) text(t types.Type) string { return types.TypeString(t, p.qualify) }

func (p *printer) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		p.line("const %s %s = %s", o.Name(), p.text(o.Type()), o.Val().ExactString())
	case *types.Var:
		p.line("var %s %s", o.Name(), p.text(o.Type()))
	case *types.Func:
		p.line("func %s%s", o.Name(), p.signature(o))
	case *types.TypeName:
		p.typeName(o)
	}
}

func (p *printer) signature(f *types.Func) string {
	return strings.TrimPrefix(p.text(f.Type()), "func")
}

func (p *printer) typeParams(l *types.TypeParamList) string {
	if l.Len() == 0 {
		return ""
	}
	var out []string
	for t := range l.TypeParams() {
		out = append(out, t.Obj().Name()+" "+p.text(t.Constraint()))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func (p *printer) typeName(o *types.TypeName) {
	if o.IsAlias() {
		t := o.Type()
		if a, ok := t.(*types.Alias); ok {
			t = a.Rhs()
		}
		p.line("type %s = %s", o.Name(), p.text(t))
		return
	}
	named := o.Type().(*types.Named)
	name := o.Name() + p.typeParams(named.TypeParams())
	switch u := named.Underlying().(type) {
	case *types.Struct:
		p.line("type %s struct", name)
		p.fields(name, u)
	case *types.Interface:
		p.line("type %s interface", name)
		p.methods(name, u)
	default:
		p.line("type %s %s", name, p.text(u))
	}
	for m := range named.Methods() {
		if !m.Exported() {
			continue
		}
		receiver := o.Name()
		if _, pointer := m.Signature().Recv().Type().(*types.Pointer); pointer {
			receiver = "*" + receiver
		}
		p.line("method (%s) %s%s", receiver, m.Name(), p.signature(m))
	}
}

func (p *printer) fields(name string, s *types.Struct) {
	for i := range s.NumFields() {
		f := s.Field(i)
		if !f.Exported() {
			continue
		}
		what := f.Name() + " " + p.text(f.Type())
		if f.Embedded() {
			what = "embedded " + p.text(f.Type())
		}
		if tag := s.Tag(i); tag != "" {
			what += " " + strconv.Quote(tag)
		}
		p.line("type %s struct, %s", name, what)
	}
}

func (p *printer) methods(name string, i *types.Interface) {
	for t := range i.EmbeddedTypes() {
		p.line("type %s interface, embedded %s", name, p.text(t))
	}
	closed := false
	for m := range i.ExplicitMethods() {
		if m.Exported() {
			p.line("type %s interface, %s%s", name, m.Name(), p.signature(m))
		} else {
			closed = true
		}
	}
	if closed {
		p.line("type %s interface, unexported methods", name)
	}
}
