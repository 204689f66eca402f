// Package arch checks the architecture rules: which packages may import which, what package comments must contain, what source
// code must not contain, and what each binary depends on.
//
// It owns the tables of the rules and the checks of the workspace's packages and source. It does not know what any package does.
//
// Start with [Load] and [Workspace.Check]; the tables are in rules.go and layers.go. A failure says what to do instead. To change a
// rule, change its row and explain it in the commit.
package arch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Prefix is the prefix of the workspace's import paths. In this package they are written without it.
const Prefix = "github.com/gantry-agent/gantry/"

// Workspace is the workspace: its packages with their source, and their imports from other modules.
type Workspace struct {
	fset     *token.FileSet
	packages map[string]*Package
	outside  map[string][]string // imports of packages outside the workspace
}

// Package is a folder of the workspace.
type Package struct {
	Path  string // such as "host/internal/turn"
	Files []*File
	Texts map[string]string // embedded text files
}

// File is a Go file, for any platform.
type File struct {
	Name      string // relative to the root, with slashes
	Test      bool
	Generated bool
	Syntax    *ast.File
}

// Problem is a violation of a rule.
type Problem struct {
	Where   string
	What    string
	Instead string
}

// String returns the problem on one line.
func (p Problem) String() string { return p.Where + ": " + p.What + ". Instead: " + p.Instead }

// New returns an empty workspace.
func New() *Workspace {
	return &Workspace{fset: token.NewFileSet(), packages: map[string]*Package{}, outside: map[string][]string{}}
}

// Load reads the workspace in the folder dir.
func Load(dir string) (*Workspace, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,EmbedFiles", "work")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	w := New()
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir     string
			Standard            bool
			Imports, EmbedFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Standard || !strings.HasPrefix(p.ImportPath, Prefix) {
			w.outside[p.ImportPath] = p.Imports
			continue
		}
		if err := w.addFolder(dir, p.Dir, p.EmbedFiles); err != nil {
			return nil, err
		}
	}
	if len(w.packages) == 0 {
		return nil, fmt.Errorf("no packages in %s", dir)
	}
	return w, nil
}

// addFolder adds all Go files in a folder, for all platforms.
func (w *Workspace) addFolder(root, dir string, embeds []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") && !slices.Contains(embeds, e.Name()) {
			continue
		}
		full := filepath.Join(dir, e.Name())
		src, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		if err := w.Add(filepath.ToSlash(name), string(src)); err != nil {
			return err
		}
	}
	return nil
}

// Add adds a file. Its name is relative to the root; a file other than Go is an embedded text.
func (w *Workspace) Add(name, src string) error {
	dir := path.Dir(name)
	p := w.packages[dir]
	if p == nil {
		p = &Package{Path: dir, Texts: map[string]string{}}
		w.packages[dir] = p
	}
	if !strings.HasSuffix(name, ".go") {
		p.Texts[name] = src
		return nil
	}
	syntax, err := parser.ParseFile(w.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.Files = append(p.Files, &File{
		Name: name, Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(syntax), Syntax: syntax,
	})
	return nil
}

// sorted lists the packages by path.
func (w *Workspace) sorted() []*Package {
	return slices.SortedFunc(maps.Values(w.packages), func(a, b *Package) int { return cmp.Compare(a.Path, b.Path) })
}

// imports returns the imports of a package, each with a file that has it. tests includes test files.
func (p *Package) imports(tests bool) map[string]string {
	out := map[string]string{}
	for _, f := range p.Files {
		if f.Test && !tests {
			continue
		}
		for _, s := range f.Syntax.Imports {
			to, err := strconv.Unquote(s.Path.Value)
			if err != nil { // cannot fail: the parser has checked it
				panic(err)
			}
			out[strings.TrimPrefix(to, Prefix)] = f.Name
		}
	}
	return out
}

// at returns the position of a node.
func (w *Workspace) at(n ast.Node) string {
	p := w.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// Check checks all rules.
func (w *Workspace) Check() []Problem {
	var out []Problem
	out = append(out, w.reach(Rules)...)
	out = append(out, w.only(Reserved)...)
	out = append(out, w.testOnly()...)
	out = append(out, w.layers(Rows, Edges)...)
	out = append(out, w.frontEnds(Shared, FrontEnds)...)
	out = append(out, w.processes(Starters)...)
	out = append(out, w.shellParsers(ShellParsers)...)
	out = append(out, w.sizes()...)
	out = append(out, w.names()...)
	out = append(out, w.comments()...)
	out = append(out, w.inits()...)
	out = append(out, w.variables(Constants)...)
	out = append(out, w.goroutines()...)
	out = append(out, w.sleeps(Sleeps)...)
	out = append(out, w.toolNames(w.declaredTools())...)
	return out
}

// match reports whether a path matches a pattern: itself, or with "/..." at the end also everything below it.
func match(pattern, p string) bool {
	if root, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == root || strings.HasPrefix(p, root+"/")
	}
	return p == pattern
}

func matchAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, p) })
}
