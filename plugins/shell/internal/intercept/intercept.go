// Package intercept recognises shell commands that only pass a patch to apply_patch, a program that models know but that does not exist, so
// that the patch is applied instead of running the command.
//
// It owns: which commands are recognised. It parses the shell's grammar and is strict: a command that could have any other effect is run
// as it is. It must not know: what happens with the patch.
//
// Start with [Argv].
package intercept

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
)

// ErrImplicit is returned for a command that is a patch without a program. Its text is for the model.
var ErrImplicit error = patch.Refusal("patch detected without explicit call to apply_patch. " +
	`Rerun as ["apply_patch", "<patch>"]`)

// Call is a recognised call of apply_patch.
type Call struct {
	Patch string
	Dir   string // argument of a preceding `cd`; may be relative; empty: none
}

var programs = []string{"apply_patch", "applypatch"}

// Argv returns the call of apply_patch in a command line, if it is one. The error is [ErrImplicit].
func Argv(argv []string) (Call, bool, error) {
	if len(argv) == 2 && slices.Contains(programs, argv[0]) {
		return Call{Patch: argv[1]}, true, nil
	}
	if len(argv) == 1 && isPatch(argv[0]) {
		return Call{}, false, ErrImplicit
	}
	script, ok := scriptOf(argv)
	if !ok {
		return Call{}, false, nil
	}
	if isPatch(script) {
		return Call{}, false, ErrImplicit
	}
	call, ok := Script(script)
	return call, ok, nil
}

// scriptOf returns the script that argv passes to a shell.
func scriptOf(argv []string) (string, bool) {
	if len(argv) < 3 {
		return "", false
	}
	name := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	script, flags := argv[len(argv)-1], argv[1:len(argv)-1]
	switch name {
	case "bash", "zsh", "sh":
		return script, len(flags) == 1 && (flags[0] == "-lc" || flags[0] == "-c")
	case "pwsh", "powershell":
		if flags[0] == "-NoProfile" {
			flags = flags[1:]
		}
		return script, len(flags) == 1 && flags[0] == "-Command"
	case "cmd":
		return script, len(flags) == 1 && flags[0] == "/c"
	}
	return "", false
}

func isPatch(s string) bool {
	t := strings.TrimSpace(s)
	if !strings.HasPrefix(t, "*** Begin Patch") && !strings.HasPrefix(t, "<<") {
		return false
	}
	_, err := patch.Parse(t)
	return err == nil
}

// opening matches the rest of the line after <<.
var opening = regexp.MustCompile(`^(-?)[ \t]*(?:'([^']+)'|"([^"]+)"|\\?([A-Za-z0-9_]+))[ \t]*$`)

// maxCommandBytes is the maximum length of the text before the heredoc, because the parser of the shell's grammar is recursive.
const maxCommandBytes = 4096

// Script returns the call of apply_patch in a shell script, if the script is exactly one statement: apply_patch with a heredoc, optionally
// after `cd` to a constant folder. The body is taken literally even if the delimiter is not quoted. The shell would expand it, but
// that is rarely intended for a patch of code, which is full of dollar signs and backquotes.
func Script(script string) (Call, bool) {
	command, rest, ok := strings.Cut(strings.TrimLeft(script, " \t\r\n"), "<<")
	if !ok || len(command) > maxCommandBytes {
		return Call{}, false
	}
	line, rest, ok := strings.Cut(rest, "\n")
	m := opening.FindStringSubmatch(line)
	if !ok || m == nil {
		return Call{}, false
	}
	body, ok := heredoc(rest, m[2]+m[3]+m[4], m[1] == "-")
	if !ok {
		return Call{}, false
	}
	// Parse the command to be sure that it does nothing else.
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"<<'E'\nE\n"), "")
	if err != nil || len(file.Stmts) != 1 {
		return Call{}, false
	}
	call := Call{Patch: body}
	stmt := file.Stmts[0]
	if !plain(stmt) {
		return Call{}, false
	}
	if both, ok := stmt.Cmd.(*syntax.BinaryCmd); ok {
		if both.Op != syntax.AndStmt || len(stmt.Redirs) > 0 || !plain(both.X) || !plain(both.Y) {
			return Call{}, false
		}
		if call.Dir, ok = changeDir(both.X); !ok {
			return Call{}, false
		}
		stmt = both.Y
	}
	if !applies(stmt) {
		return Call{}, false
	}
	return call, true
}

// heredoc returns the lines before the delimiter, after which there may be only white space.
func heredoc(text, delimiter string, dash bool) (string, bool) {
	var body strings.Builder
	for line := range strings.Lines(text) {
		text = text[len(line):]
		if dash {
			line = strings.TrimLeft(line, "\t")
		}
		if strings.TrimSuffix(line, "\n") == delimiter {
			return body.String(), strings.TrimSpace(text) == ""
		}
		body.WriteString(line)
	}
	return "", false
}

func plain(s *syntax.Stmt) bool {
	return !s.Negated && !s.Background && !s.Coprocess && !s.Disown && !s.Semicolon.IsValid()
}

// words returns the words of a simple command.
func words(s *syntax.Stmt) []*syntax.Word {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 {
		return nil
	}
	return call.Args
}

func changeDir(s *syntax.Stmt) (string, bool) {
	args := words(s)
	if len(args) != 2 || args[0].Lit() != "cd" || len(s.Redirs) > 0 {
		return "", false
	}
	return fixed(args[1])
}

// fixed returns the value of a word that the shell would not expand.
func fixed(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch part := w.Parts[0].(type) {
	case *syntax.Lit:
		dir := part.Value
		return dir, !strings.ContainsAny(dir, "\\*?[{") && !strings.HasPrefix(dir, "~") && !strings.HasPrefix(dir, "-")
	case *syntax.SglQuoted:
		return part.Value, !part.Dollar && part.Value != ""
	case *syntax.DblQuoted:
		if part.Dollar || len(part.Parts) != 1 {
			return "", false
		}
		lit, ok := part.Parts[0].(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return "", false
		}
		return lit.Value, true
	}
	return "", false
}

// applies reports whether the statement consists of apply_patch and a heredoc.
func applies(s *syntax.Stmt) bool {
	args := words(s)
	return len(args) == 1 && slices.Contains(programs, args[0].Lit()) &&
		len(s.Redirs) == 1 && s.Redirs[0].Op == syntax.Hdoc && s.Redirs[0].N == nil
}
