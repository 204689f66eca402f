package reach

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// script covers a file that is run and follows it: its interpreter, the scripts that it names, and its modules. A file that
// sandboxed commands cannot change is covered alone.
func (f *follower) script(named, path string, dirs []string, depth int) {
	path = filepath.Clean(path)
	f.file(named, path)
	key := path + "\x00" + strings.Join(dirs, "\x00")
	if f.root(path) == "" || systems(path) || f.scripted[key] {
		return
	}
	f.scripted[key] = true
	if depth > maxDepth {
		f.gap(Gap{Text: f.below(path), Why: "scripts call each other too deeply", Next: "put what it runs into one folder, and list that in files"})
		return
	}
	content, err := Read(path, maxText)
	if err != nil || slices.Contains(content[:min(len(content), 8000)], 0) {
		return // a binary, or unreadable, which is reported when it is hashed
	}
	code := string(content)
	language := f.language(path, code, dirs, depth)
	s := &state{dirs: slices.Clone(dirs), vars: map[string]variable{}, self: path}
	switch language {
	case shell:
		file, why := f.parse(code)
		if file != nil {
			f.walk(file, s, depth+1)
			f.piped(s)
			return
		}
		f.lost(f.below(path), why, s)
	case python, modules:
		if !f.quiet {
			f.beside(path)
		}
	}
	f.mentions(code, append(slices.Clone(dirs), filepath.Dir(path)), depth+1)
}

// language returns the kind of a script by its first line or its name. It covers an interpreter that is in a root.
func (f *follower) language(path, code string, dirs []string, depth int) kind {
	if line, ok := strings.CutPrefix(code, "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		fields := strings.Fields(line)
		for i, field := range fields {
			if filepath.Base(field) == "env" || strings.HasPrefix(field, "-") || strings.Contains(field, "=") {
				continue
			}
			if strings.Contains(field, "/") {
				for _, dir := range dirs {
					if p := f.absolute(dir, field); f.root(p) != "" {
						f.operand(word{text: line, values: []string{p}}, &state{dirs: []string{dir}, self: path}, depth, true)
					}
				}
			} else if p := f.inPath(field, &state{}); p != "" {
				f.script(field, p, dirs, depth+1)
			}
			k := kindOf(field)
			if k == python && slices.ContainsFunc(fields[i+1:], isolated) {
				return plain
			}
			if k == manager && strings.Contains(code, "# /// script") {
				return plain
			}
			return k
		}
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".py":
		return python
	case ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua":
		return modules
	case ".sh", ".bash", ".zsh", "":
		if !slices.Contains(says, filepath.Base(path)) {
			return shell // a shell runs files without a first line
		}
	}
	return plain
}

var (
	pathLike = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`[A-Za-z0-9_.~@%+-]*(?:/[A-Za-z0-9_.@%+-]+)+|[A-Za-z0-9_][A-Za-z0-9_.@%+-]*\.[A-Za-z]{1,5}`)
	})
)

// mentions covers programs and scripts that a text names.
func (f *follower) mentions(text string, dirs []string, depth int) {
	if depth > maxDepth {
		return
	}
	for i, m := range pathLike().FindAllString(text, -1) {
		if i > 2000 {
			return
		}
		m = strings.TrimRight(m, ".")
		for _, dir := range dirs {
			rel := strings.TrimLeft(m, "/")
			for _, p := range []string{f.absolute(dir, m), filepath.Join(dir, rel)} {
				if f.root(p) == "" || f.seen[p] {
					continue
				}
				if regular, executable := isFile(p); regular && (executable || isScript(p)) {
					f.script(f.below(p), p, dirs[:1], depth)
				}
			}
		}
	}
}
