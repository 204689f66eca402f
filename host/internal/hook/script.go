package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// script is a file that a command runs: its name in the command, and its path.
type script struct{ word, path string }

// interpreters run the file that their first argument names, or the command that follows.
var interpreters = []string{
	"bash", "sh", "zsh", "dash", "ksh", "fish", "python", "python3", "node", "nodejs", "deno", "bun", "tsx", "ruby", "perl", "php", "lua", "Rscript",
	"uv", "run", "npx", "env", "exec", "command", "nohup", "time", "timeout", "nice", "sudo", "source", ".", "awk", "gawk", "jq", "sed",
}

// scriptSuffixes are the suffixes of files that programs run.
var scriptSuffixes = []string{
	".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".r", ".jq", ".awk", ".sed", ".ps1",
}

// scripts returns the files that a command line names and runs: programs with a path, files after an interpreter, and files that
// are executable or named like a script. It excludes files that the line writes. dir is the working folder. It does not find what
// another program loads by itself, such as a module or a file that a script reads.
func scripts(line, dir string, env []string, file func(path string) (regular, executable bool)) []script {
	tree, err := shellsyntax.Parse(line, syntax.LangBash)
	if err != nil {
		return nil // consent still covers the line itself
	}
	cfg := &expand.Config{Env: expand.ListEnviron(env...), NoUnset: true}
	var out []script
	add := func(s script) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		runs := true // the next word is a program or a script
		for _, w := range call.Args {
			word, err := expand.Literal(cfg, w)
			if err != nil || word == "" {
				runs = false
				continue
			}
			if strings.HasPrefix(word, "-") || strings.Contains(word, "=") && runs {
				continue
			}
			path := word
			if !filepath.IsAbs(path) {
				path = filepath.Join(dir, path)
			}
			regular, executable := file(path)
			switch {
			case isSystemFile(path):
			case regular && (runs && (strings.Contains(word, "/") || !first(call, w)) || executable || isScript(word)):
				add(script{word, path})
			case first(call, w) && !strings.Contains(word, "/"):
				if p := findInPath(word, dir, env, file); p != "" {
					add(script{word, p})
				}
			}
			runs = slices.Contains(interpreters, strings.TrimRight(filepath.Base(word), "0123456789.")) || slices.Contains(interpreters, filepath.Base(word))
		}
		return true
	})
	return out
}

// isSystemFile reports whether a file belongs to the system. Such files change with every update, and whoever can change them does not
// need a hook.
func isSystemFile(path string) bool {
	for _, dir := range []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/lib"} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

func first(c *syntax.CallExpr, w *syntax.Word) bool { return c.Args[0] == w }

func isScript(word string) bool {
	return slices.Contains(scriptSuffixes, strings.ToLower(filepath.Ext(word)))
}

// findInPath returns the program in PATH if it is in the hook's folder. Other folders in PATH can be changed only by users who can
// change programs anyway.
func findInPath(name, dir string, env []string, file func(string) (regular, executable bool)) string {
	for _, kv := range slices.Backward(env) {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if !filepath.IsAbs(d) {
				d = filepath.Join(dir, d)
			}
			p := filepath.Join(d, name)
			if _, executable := file(p); executable {
				if rel, err := filepath.Rel(dir, p); err == nil && filepath.IsLocal(rel) {
					return p
				}
				return ""
			}
		}
		break
	}
	return ""
}
