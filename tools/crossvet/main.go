// Crossvet runs the analyses of go vet over packages as other systems compile them.
//
// It owns: nothing; it only reads. go vet itself would first compile everything that the packages need, for each system, and
// use nothing of it but the types; crossvet takes the types from the sources of what is imported, without its functions.
//
//	crossvet darwin,windows ./config/... ./host/...
//
// The packages are named as for the go command, which must be in PATH; their tests are looked at, too. The exit status is 1
// where something was found, 2 where the packages could not be read.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"golang.org/x/tools/go/packages"
)

// vet is what go vet runs, without what is about assembler and C, of which there is none.
var vet = []*analysis.Analyzer{
	appends.Analyzer, assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, composite.Analyzer, copylock.Analyzer,
	defers.Analyzer, directive.Analyzer, errorsas.Analyzer, hostport.Analyzer, httpresponse.Analyzer, ifaceassert.Analyzer,
	loopclosure.Analyzer, lostcancel.Analyzer, nilfunc.Analyzer, printf.Analyzer, shift.Analyzer, sigchanyzer.Analyzer,
	slog.Analyzer, stdmethods.Analyzer, stdversion.Analyzer, stringintconv.Analyzer, structtag.Analyzer,
	testinggoroutine.Analyzer, tests.Analyzer, timeformat.Analyzer, unmarshal.Analyzer, unreachable.Analyzer,
	unsafeptr.Analyzer, unusedresult.Analyzer, waitgroup.Analyzer,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crossvet GOOS,... PACKAGE...")
		os.Exit(2)
	}
	found := false
	for system := range strings.SplitSeq(os.Args[1], ",") {
		fmt.Println("vet", system)
		bad, err := run(system, os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "crossvet:", err)
			os.Exit(2)
		}
		found = found || bad
	}
	if found {
		os.Exit(1)
	}
}

// run looks at the packages as one system compiles them, and prints what it finds.
func run(system string, patterns []string) (found bool, err error) {
	here, err := os.Getwd()
	if err != nil {
		return false, fmt.Errorf("find out where we are: %w", err)
	}
	here += string(filepath.Separator)
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.AllErrors|parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, here) {
				hollow(f)
			}
			return f, err
		},
	}, patterns...)
	if err != nil {
		return false, fmt.Errorf("load the packages for %s: %w", system, err)
	}
	// The program that go test makes around the tests is none of ours.
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.ID, ".test") })
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if !strings.HasSuffix(e.Msg, " and not used") || strings.HasPrefix(e.Pos, here) { // by functions that are hollow
				fmt.Println(e)
				found = true
			}
		}
		p.IllTyped = false
	})
	if found {
		return true, nil
	}
	graph, err := checker.Analyze(vet, loaded, nil)
	if err != nil {
		return false, fmt.Errorf("analyse for %s: %w", system, err)
	}
	told := map[string]bool{} // a package and its variant for tests share files
	for _, act := range graph.Roots {
		if act.Err != nil {
			return false, fmt.Errorf("%s on %s: %w", act.Analyzer.Name, act.Package.ID, act.Err)
		}
		for _, d := range act.Diagnostics {
			if line := fmt.Sprintf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message); !told[line] {
				told[line] = true
				fmt.Println(line)
				found = true
			}
		}
	}
	return found, nil
}

// hollow takes what the functions of a file do out of it: each is a loop without an end, which is a body for any result.
func hollow(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			fn.Body.List = []ast.Stmt{&ast.ForStmt{For: fn.Body.Lbrace, Body: &ast.BlockStmt{Lbrace: fn.Body.Lbrace, Rbrace: fn.Body.Rbrace}}}
		}
	}
}
