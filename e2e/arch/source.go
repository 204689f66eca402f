package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// forbiddenNames are names of files that say nothing about their subject.
var forbiddenNames = []string{"types", "utils", "util", "common", "helpers", "helper", "manager", "misc", "shared", "base"}

// allowedNames are packages for which such a name is correct.
var allowedNames = []string{"plugins/shell/internal/helper"} // a helper is a process that the plugin has the host start

// names checks the names of files and packages.
func (w *Workspace) names() []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		if slices.Contains(forbiddenNames, path.Base(p.Path)) && !slices.Contains(allowedNames, p.Path) {
			out = append(out, Problem{
				Where: p.Path, What: "the package's name says nothing of what is in it",
				Instead: "name the package after what it owns: a noun of the field",
			})
		}
		for _, f := range p.Files {
			stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Name), ".go"), "_test")
			if slices.Contains(forbiddenNames, stem) && !slices.Contains(allowedNames, p.Path) {
				out = append(out, Problem{
					Where: f.Name, What: "the name says nothing of what is in it",
					Instead: "name the file after its subject, and let a helper live with its user",
				})
			}
		}
	}
	return out
}

// parts are the phrases that a package comment must contain: "It owns …. It does not know …. Start with …."
var parts = []string{"It owns", "not know", "Start with"}

// comments checks that each package has exactly one package comment. Generated packages are documented in their .proto files.
func (w *Workspace) comments() []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		files := slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
		if len(files) == 0 {
			files = p.Files
		}
		if slices.ContainsFunc(files, func(f *File) bool { return f.Generated }) && !slices.ContainsFunc(files, func(f *File) bool { return !f.Generated }) {
			continue
		}
		var text string
		var where []string
		for _, f := range files {
			if f.Syntax.Doc != nil && strings.TrimSpace(f.Syntax.Doc.Text()) != "" {
				where = append(where, f.Name)
				text = strings.Join(strings.Fields(f.Syntax.Doc.Text()), " ")
			}
		}
		if len(where) != 1 {
			out = append(out, Problem{
				Where: p.Path, What: fmt.Sprintf("has %d package comments (%s), not one", len(where), strings.Join(where, ", ")),
				Instead: "keep one, in the file named after the package",
			})
			continue
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				out = append(out, Problem{
					Where: where[0], What: fmt.Sprintf("the package comment has no %q", part),
					Instead: "write `It owns …. It does not know …. Start with ….`",
				})
			}
		}
	}
	return out
}

// inits checks that there are no init functions.
func (w *Workspace) inits() []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			for _, d := range f.Syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					out = append(out, Problem{
						Where: w.at(fn), What: "has an init function: two hosts in one process would share what it does",
						Instead: "do it in a constructor that the wiring calls",
					})
				}
			}
		}
	}
	return out
}

// owner matches words in the comment of a go statement that name its owner or end.
var owner = regexp.MustCompile(`(?i)\bown(s|ed|er)?\b|\bends?\b|\bwaits?\b|\bwaited\b|\bjoined\b|\buntil\b`)

// goroutines checks that each go statement names its owner.
func (w *Workspace) goroutines() []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		for _, f := range p.Files {
			if f.Generated {
				continue
			}
			comments := w.commentLines(f)
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				g, ok := n.(*ast.GoStmt)
				if !ok {
					return true
				}
				line := w.fset.Position(g.Pos()).Line
				end := w.fset.Position(g.End()).Line
				if !owner.MatchString(comments[line]) && !owner.MatchString(comments[line-1]) && !owner.MatchString(comments[end]) {
					out = append(out, Problem{
						Where: w.at(g), What: "a bare go statement that names no owner",
						Instead: "use errgroup or WaitGroup.Go, or say on or above the line who owns the goroutine and what ends it",
					})
				}
				return true
			})
		}
	}
	return out
}

// commentLines returns comments by the line where they end, and trailing comments by their line.
func (w *Workspace) commentLines(f *File) map[int]string {
	out := map[int]string{}
	for _, g := range f.Syntax.Comments {
		out[w.fset.Position(g.End()).Line] += g.Text()
		if start := w.fset.Position(g.Pos()).Line; start != w.fset.Position(g.End()).Line {
			out[start] += g.Text()
		}
	}
	return out
}

// Sleep is a test that may sleep in real time, because nothing else can wake it.
type Sleep struct {
	File   string
	Count  int
	Reason string
}

// Sleeps are the exceptions. Each must be used.
var Sleeps = []Sleep{}

// sleeps checks that nothing sleeps outside a synctest bubble.
func (w *Workspace) sleeps(allowed []Sleep) []Problem {
	var out []Problem
	for _, p := range w.sorted() {
		for _, f := range p.Files {
			var found []Problem
			comments := w.commentLines(f)
			w.inspectSleeps(f.Syntax, false, func(n ast.Node) {
				if f.Test && strings.Contains(comments[w.fset.Position(n.Pos()).Line], "bubble") {
					return // a helper for use in bubbles, which says so
				}
				found = append(found, Problem{
					Where: w.at(n), What: "time.Sleep on the clock of the wall",
					Instead: "wait for an event or a channel; in a test, run in a synctest bubble (a helper that is called in one says \"in the bubble\" beside the line)",
				})
			})
			i := slices.IndexFunc(allowed, func(s Sleep) bool { return s.File == f.Name })
			switch {
			case i >= 0 && len(found) != allowed[i].Count:
				out = append(out, Problem{
					Where: f.Name, What: fmt.Sprintf("sleeps %d times, the list of exceptions says %d", len(found), allowed[i].Count),
					Instead: "correct the list, downwards",
				})
			case i < 0:
				out = append(out, found...)
			}
		}
	}
	for _, s := range allowed {
		if w.packages[path.Dir(s.File)] == nil || !slices.ContainsFunc(w.packages[path.Dir(s.File)].Files, func(f *File) bool { return f.Name == s.File }) {
			out = append(out, stale(s.File))
		}
	}
	return out
}

// inspectSleeps reports calls of time.Sleep outside functions that run in a bubble.
func (w *Workspace) inspectSleeps(root ast.Node, inBubble bool, report func(ast.Node)) {
	ast.Inspect(root, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || n == root {
			return true
		}
		switch {
		case isCall(call, "time", "Sleep"):
			if !inBubble {
				report(call)
			}
		case isCall(call, "synctest", "Test"), isCall(call, "rapid", "SyncTest"):
			return false // everything in it uses the bubble's clock
		}
		return true
	})
}

func isCall(c *ast.CallExpr, pkg, name string) bool { return isName(c.Fun, pkg, name) }

func isName(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// starters are functions that start or replace a process.
var starters = [][2]string{
	{"exec", "Command"}, {"exec", "CommandContext"}, {"exec", "Cmd"}, {"os", "StartProcess"}, {"syscall", "StartProcess"},
	{"syscall", "ForkExec"}, {"syscall", "Exec"}, {"unix", "Exec"},
}

// Starters are the packages that may start processes.
var Starters = []string{
	"host/internal/launch/...", "host/internal/plugin/...", "host/cmd/gantry-launch", // the launcher and the supervisor
	"sdk/plugintest/...", "sdk/process/processtest", "sdk/internal/api", "e2e/...", // tests
	"host/internal/store/database/postgres/postgrestest",
	"plugins/browser/internal/chromium/chromiumtest",
	"plugins/browser/internal/browserproc", // the host has started it under a grant, and it becomes the browser
	"host/internal/cli",                    // becomes gantry-tui
	"host/internal/cli/serve",              // opens the link to its page in the user's browser
	"host/cmd/gantry-tui",                  // starts gantry itself, and the user's editor
	"host/internal/background",             // the process of a session is gantry itself, started by its user
	"sdk/codemode",                         // its child takes every system call for files, sockets and processes from itself before it runs a script
}

// processes checks that in shipped code only the launcher and the supervisor start processes.
func (w *Workspace) processes(by []string) []Problem {
	return w.uses(starters, by, Problem{
		What:    "starts a process: every process is started by the host's launcher under a grant",
		Instead: "in a plugin use Call.Command (sdk/process), in the host use launch",
	})
}

// ShellParsers are the packages that may create a shell parser, which is recursive: they limit its input.
var ShellParsers = []string{
	"config/shellsyntax",
	"plugins/shell/internal/intercept", // a few kilobytes before a document
	"plugins/shell/internal/snapshot",  // the output of the user's own shell
}

// shellParsers checks that shipped code parses shell scripts within limits.
func (w *Workspace) shellParsers(by []string) []Problem {
	return w.uses([][2]string{{"syntax", "NewParser"}}, by, Problem{
		What:    "creates a parser of the shell's grammar, which a deeply nested script overflows the stack of",
		Instead: "use config/shellsyntax",
	})
}

// uses checks that shipped code uses certain names of other packages only in the listed packages.
func (w *Workspace) uses(names [][2]string, by []string, problem Problem) []Problem {
	var out []Problem
	for _, pattern := range by {
		if !w.has(pattern) {
			out = append(out, stale(pattern))
		}
	}
	for _, p := range w.sorted() {
		if matchAny(by, p.Path) {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if ok && slices.ContainsFunc(names, func(s [2]string) bool { return isName(e, s[0], s[1]) }) {
					found := problem
					found.Where = w.at(n)
					out = append(out, found)
				}
				return true
			})
		}
	}
	return out
}

// declaredTools finds the names of the tools that the workspace's plugins declare.
func (w *Workspace) declaredTools() []string {
	names := map[string]bool{}
	for _, p := range w.sorted() {
		if !match("plugins/...", p.Path) {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 || !isCall(call, "tool", "New") && !isCall(call, "tool", "NewFreeform") {
					return true
				}
				if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						names[s] = true
					}
				}
				return true
			})
		}
	}
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// programNames are names of tools that are names of programs as well, which the host's rules about commands speak of.
var programNames = []string{"python"}

// toolNames checks that the host names no tool, in shipped code or embedded texts.
func (w *Workspace) toolNames(tools []string) []Problem {
	if len(tools) == 0 {
		return []Problem{{
			Where: "plugins", What: "no plugin declares a tool, so the rule that the host names none can't be held",
			Instead: "teach declaredTools how plugins declare their tools now",
		}}
	}
	tools = slices.DeleteFunc(slices.Clone(tools), func(n string) bool { return slices.Contains(programNames, n) })
	names := regexp.MustCompile(`\b(` + strings.Join(tools, "|") + `)\b`)
	instead := "let the plugin say what the host must know, in the contract's terms (Descriptor, Effects, Item)"
	var out []Problem
	for _, p := range w.sorted() {
		if !match("host/...", p.Path) || strings.HasSuffix(p.Path, "test") {
			continue
		}
		for name, text := range p.Texts {
			if found := names.FindString(text); found != "" {
				out = append(out, Problem{Where: name, What: fmt.Sprintf("the host names the tool %s", found), Instead: instead})
			}
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if found := names.FindString(lit.Value); found != "" {
						out = append(out, Problem{Where: w.at(lit), What: fmt.Sprintf("the host names the tool %s", found), Instead: instead})
					}
				}
				return true
			})
		}
	}
	return out
}
