// Package normalform turns what models write when they are asked for a JavaScript function into the source of an async function.
//
// It owns: the rules by which fences, exports, lone functions and trailing expressions become a function, and the removal of
// TypeScript's types. It must not know: an engine, or how the function is run.
//
// Start with [Of].
package normalform

import (
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/grafana/sobek/ast"
	"github.com/grafana/sobek/parser"
)

var (
	fence         = regexp.MustCompile("^```(?:javascript|js|typescript|ts|tsx|jsx)?[ \t]*\r?\n([\\s\\S]*?)\r?\n?```\\s*$")
	exportDefault = regexp.MustCompile(`^export\s+default\b\s*`)
)

// Of returns source as an expression whose value is an async function. Source that the parser rejects becomes the body of a function
// as it is, and parsed is false: the engine may still accept it, and otherwise reports where the error is.
func Of(source string) (function string, parsed bool) {
	s := Unfence(source)
	if s == "" {
		return "async () => {}", true
	}
	program, err := parse(s, parser.IsModule)
	if err != nil {
		return wrap(s), false
	}
	return normalize(s, program), true
}

// Unfence returns source without surrounding blanks and without a Markdown fence around all of it.
func Unfence(source string) string {
	s := strings.TrimSpace(source)
	if m := fence.FindStringSubmatch(s); m != nil && !strings.Contains(m[1], "\n```") {
		s = strings.TrimSpace(m[1])
	}
	return s
}

// StripTypes returns source without TypeScript's types, and false if it is not TypeScript either.
func StripTypes(source string) (string, bool) {
	for _, text := range []string{Unfence(source), wrap(Unfence(source))} { // a return outside a function is an error
		r := api.Transform(text, api.TransformOptions{Loader: api.LoaderTS, Target: api.ESNext, LogLevel: api.LogLevelSilent, TsconfigRaw: "{}"})
		if len(r.Errors) == 0 {
			return strings.TrimSpace(string(r.Code)), true
		}
	}
	return "", false
}

// parse parses source. A comment with the address of a source map must not make the parser read a file.
func parse(source string, options ...parser.Option) (*ast.Program, error) {
	return parser.ParseFile(nil, "", source, 0, append(options, parser.WithDisableSourceMaps)...)
}

func wrap(body string) string { return "async () => {\n" + body + "\n}" }

func normalize(s string, program *ast.Program) string {
	body := program.Body
	for len(body) > 0 { // of the semicolons after the last statement
		if _, empty := body[len(body)-1].(*ast.EmptyStatement); !empty {
			break
		}
		body = body[:len(body)-1]
	}
	if len(body) == 0 {
		return wrap(s)
	}
	if len(body) == 1 {
		switch statement := body[0].(type) {
		case *ast.ExpressionStatement:
			if _, arrow := statement.Expression.(*ast.ArrowFunctionLiteral); arrow {
				return s
			}
		case *ast.ExportDeclaration:
			if at := int(statement.Idx) - 1; statement.IsDefault && at >= 0 && at < len(s) {
				return exported(s, at, statement)
			}
		case *ast.FunctionDeclaration:
			if statement.Function.Name != nil {
				return wrap(s + "\nreturn " + statement.Function.Name.Name.String() + "();")
			}
		}
	}
	last, ok := body[len(body)-1].(*ast.ExpressionStatement)
	if !ok {
		return wrap(s)
	}
	at := int(last.Expression.Idx0()) - 1
	if at < 0 || at > len(s) {
		return wrap(s)
	}
	for at > 0 && strings.ContainsRune(" \t\r\n(", rune(s[at-1])) { // positions exclude parentheses
		at--
	}
	for at < len(s) && strings.ContainsRune(" \t\r\n", rune(s[at])) {
		at++
	}
	before, expression := s[:at], s[at:]
	candidates := []string{strings.TrimRight(expression, "; \t\r\n")}
	if i := strings.LastIndexByte(expression, ';'); i >= 0 {
		candidates = append(candidates, strings.TrimRight(expression[:i], "; \t\r\n")) // the rest is a comment
	}
	for _, c := range candidates {
		for _, end := range []string{")", "\n)"} { // the second one, after a comment at the end of the line
			if text := wrap(before + "return (" + c + end); valid(text) {
				return text
			}
		}
	}
	return wrap(s)
}

// exported returns the normal form of the only declaration in a module, a default export.
func exported(s string, at int, e *ast.ExportDeclaration) string {
	keyword := exportDefault.FindString(s[at:])
	if keyword == "" {
		return wrap(s)
	}
	value := strings.TrimRight(s[at+len(keyword):], "; \t\r\n")
	anonymous := func(name *ast.Identifier) bool { return name == nil || name.Name == "default" }
	switch {
	case e.HoistableDeclaration != nil && e.HoistableDeclaration.FunctionDeclaration != nil &&
		anonymous(e.HoistableDeclaration.FunctionDeclaration.Function.Name):
		return wrap("return (" + value + ")();")
	case e.ClassDeclaration != nil && anonymous(e.ClassDeclaration.Class.Name):
		return wrap("return (" + value + ");")
	}
	text, _ := Of(value)
	return text
}

func valid(function string) bool {
	_, err := parse("(" + function + ")")
	return err == nil
}
