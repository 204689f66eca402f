// Package reach finds the files that a command line can run, so that trust in the line can cover their content.
//
// It owns following a shell line or an argument vector to files and folders, what it could not follow, and the digest of the
// files. It does not know who runs the line, who trusted it, or how files are protected from changes.
//
// It executes nothing: it reads the line and the scripts that it names. Whatever it cannot follow is reported as a [Gap], never
// omitted silently. Start with [Query].
package reach

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Query describes how a command line runs.
type Query struct {
	Dir string   // working folder; absolute
	Env []string // environment, K=V
	// Roots are the folders that sandboxed commands can write; absolute. Files in them are followed, because those commands could
	// change them. Empty: only Dir.
	Roots []string
	// Listed are the files and folders that the line's owner says it reaches, relative to Dir. If Complete is set, they close
	// every gap except those with [Gap.Open].
	Listed   []string
	Complete bool
}

// File is a file that a line can run.
type File struct {
	Word string // the word that names it, or the path below Dir if no word does
	Path string // absolute
}

// Gap is a part of a line that could not be followed.
type Gap struct {
	Text string // as written
	Why  string
	Next string
	Open bool // listing files does not close it
}

func (g Gap) String() string { return "can't follow " + quoteText(g.Text) + ": " + g.Why }

// Set is the result: everything that a line can reach.
type Set struct {
	Files   []File   // in the order in which they were found, without duplicates
	Folders []string // covered completely: all files in them are in Files, and a new file changes the digest
	Notes   []string // reasons why folders are covered
	Gaps    []Gap    // empty if the set is complete
	Missing []string // absolute paths of scripts that the line runs and that do not exist
	roots   []string
}

// Limits. Exceeding one is a gap.
const (
	maxDepth   = 8         // scripts that run scripts, and lines in lines
	maxParsed  = 512 << 10 // of shell code in total: lines, scripts, and what they pass to another shell
	maxFiles   = 2000
	maxText    = 256 << 10 // of a script that is searched
	maxChoices = 16        // possible values of a word
	maxGuesses = 100       // texts that may be lines
)

// Line follows a line of shell.
func (q Query) Line(line string) Set {
	f := q.follower()
	f.line(line, f.start(), 0)
	return f.finish(q)
}

// Argv follows a program with its arguments.
func (q Query) Argv(argv []string) Set {
	f := q.follower()
	s := f.start()
	words := make([]word, len(argv))
	for i, a := range argv {
		words[i] = word{text: a, values: []string{a}}
	}
	f.run(words, s, 0)
	f.piped(s)
	return f.finish(q)
}

// Names covers only the listed files.
func (q Query) Names() Set { return q.follower().finish(q) }

// follower collects a Set.
type follower struct {
	Set
	q        Query
	seen     map[string]bool   // files and folders, by path
	scripted map[string]bool   // scripts that were followed, by path and folders
	programs map[string]string // results of PATH lookups, by name and PATH
	env      map[string]string
	parsed   int  // bytes of shell
	quiet    bool // do not cover the folders of scripts because of modules
	guesses  int  // texts that were followed because they may be lines
}

func (q Query) follower() *follower {
	f := &follower{q: q, seen: map[string]bool{}, scripted: map[string]bool{}, programs: map[string]string{}, env: map[string]string{}}
	roots := q.Roots
	if len(roots) == 0 {
		roots = []string{q.Dir}
	}
	for _, r := range roots {
		if r != "" && filepath.Clean(r) != "/" {
			f.roots = append(f.roots, filepath.Clean(r))
			if real, err := filepath.EvalSymlinks(r); err == nil && !slices.Contains(f.roots, real) {
				f.roots = append(f.roots, real)
			}
		}
	}
	for _, kv := range q.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			f.env[k] = v
		}
	}
	f.env["PWD"] = q.Dir
	return f
}

// finish adds the listed files.
func (f *follower) finish(q Query) Set {
	for _, name := range q.Listed {
		path := f.absolute(q.Dir, strings.TrimSuffix(name, "/**"))
		info, err := os.Stat(path)
		switch {
		case err != nil:
			f.gap(Gap{Text: name, Why: "it is listed in files but does not exist", Next: "correct the list", Open: true})
		case info.IsDir() && !f.folder(path, ""):
			f.gap(Gap{Text: name, Why: "it is listed in files, but it is or contains the whole workspace", Next: "list the folders in it", Open: true})
		case info.IsDir():
		default:
			f.file(name, path)
		}
	}
	if q.Complete {
		f.Gaps = slices.DeleteFunc(f.Gaps, func(g Gap) bool { return !g.Open })
	}
	slices.Sort(f.Folders)
	return f.Set
}

func (f *follower) gap(g Gap) {
	if !slices.Contains(f.Gaps, g) && len(f.Gaps) < 50 {
		f.Gaps = append(f.Gaps, g)
	}
}

// file covers a file and reports whether it was new.
func (f *follower) file(word, path string) bool {
	path = filepath.Clean(path)
	if f.seen[path] || systems(path) {
		return false
	}
	f.seen[path] = true
	if len(f.Files) >= maxFiles {
		f.gap(Gap{Text: path, Why: "the line reaches more than 2,000 files", Next: "put what it runs into a separate folder"})
		return false
	}
	if root := f.root(path); root != "" {
		if link := linkBelow(root, path); link != "" {
			f.gap(Gap{Text: path, Why: link + " is a symbolic link, which a sandboxed command could replace", Next: "use the path of its target", Open: true})
		} else if names(path) > 1 {
			f.gap(Gap{Text: path, Why: "it has another hard link, through which it could be changed", Next: "replace it with a copy", Open: true})
		}
	}
	f.Files = append(f.Files, File{Word: word, Path: path})
	return true
}

// folder covers all files in a folder. It returns false if that is not possible, because the folder is a root or contains one.
func (f *follower) folder(path, why string) bool {
	path = filepath.Clean(path)
	if f.whole(path) {
		return false
	}
	if f.seen[path+"/"] {
		return true
	}
	f.seen[path+"/"] = true
	if root := f.root(path); root != "" {
		if link := linkBelow(root, path); link != "" {
			f.gap(Gap{Text: path, Why: link + " is a symbolic link, which a sandboxed command could replace", Next: "use the path of its target", Open: true})
		}
	}
	f.Folders = append(f.Folders, path)
	if why != "" {
		f.Notes = append(f.Notes, why)
	}
	left := maxFiles
	_ = filepath.WalkDir(path, func(p string, e os.DirEntry, err error) error {
		if left--; left < 0 {
			f.gap(Gap{Text: path, Why: "the folder has more than 2,000 entries", Next: "put what the line runs into a separate folder"})
			return filepath.SkipAll
		}
		switch {
		case err != nil:
			f.gap(Gap{Text: p, Why: "it can't be read", Next: "make it readable, or move it away", Open: true})
		case e.Type().IsRegular():
			f.file(f.below(p), p)
		case e.Type()&os.ModeSymlink != 0:
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
				f.file(f.below(p), p)
			} else if err == nil && info.IsDir() {
				f.gap(Gap{Text: p, Why: "it is a symbolic link to a folder", Next: "replace it with the folder", Open: true})
			}
		}
		return nil
	})
	return true
}

// whole reports whether a folder is too large to cover: the root folder, a root or a folder that contains one, or the line's
// working folder.
func (f *follower) whole(path string) bool {
	if path == "/" || contains(path, f.q.Dir) {
		return true
	}
	return slices.ContainsFunc(f.roots, func(r string) bool { return contains(path, r) })
}

// root returns the root that contains a path, or "".
func (f *follower) root(path string) string {
	for _, r := range f.roots {
		if contains(r, path) {
			return r
		}
	}
	return ""
}

// below returns the name for a path that no word names.
func (f *follower) below(path string) string {
	if rel, err := filepath.Rel(f.q.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// Held returns the files and folders in a root, which must not change between the check and the start.
func (s Set) Held() []string {
	var out []string
	in := func(path string) bool {
		return slices.ContainsFunc(s.roots, func(r string) bool { return r != path && contains(r, path) })
	}
	for _, d := range s.Folders {
		if in(d) && !slices.ContainsFunc(out, func(o string) bool { return contains(o, d) }) {
			out = append(out, d)
		}
	}
	for _, file := range s.Files {
		if in(file.Path) && !slices.ContainsFunc(out, func(o string) bool { return contains(o, file.Path) }) {
			out = append(out, file.Path)
		}
	}
	return out
}

// Paths returns the paths of the files.
func (s Set) Paths() []string {
	out := make([]string, len(s.Files))
	for i, f := range s.Files {
		out[i] = f.Path
	}
	return out
}

// contains reports whether path is dir or inside it.
func contains(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// absolute resolves path against dir. A symbolic link outside the roots may lead into one: such a path is returned as its path in
// the root.
func (f *follower) absolute(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	path = filepath.Clean(path)
	if f.root(path) == "" {
		if real, err := filepath.EvalSymlinks(path); err == nil && f.root(real) != "" {
			return real
		}
	}
	return path
}

// linkBelow returns the first part of a path below its root that is a symbolic link, or "".
func linkBelow(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == "." {
		return ""
	}
	at := root
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return at
		}
	}
	return ""
}

// systems reports whether a file belongs to the system. Such files change with every update, and a user who can change them needs
// no hook.
func systems(path string) bool {
	for _, dir := range []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/lib"} {
		if contains(dir, path) {
			return true
		}
	}
	return false
}

func quoteText(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:79]) + "…"
	}
	return "`" + s + "`"
}
