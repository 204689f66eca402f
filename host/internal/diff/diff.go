// Package diff writes what became of files as one unified diff that git can apply, and take back again.
//
// It owns: the form of the diff, which lines it shows, how long comparing may take. It must not know: where the files are,
// who changed them, how their content is kept.
//
// Start with [File] and [Write]. The form is git's: `git apply` and `git apply -R` accept it, binary content, modes, links,
// renames and files without a last newline included.
package diff

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mode is what stands at a path, in git's terms.
type Mode uint32

// The modes. Absent: nothing stands there.
const (
	Absent     Mode = 0
	Regular    Mode = 0o100644
	Executable Mode = 0o100755
	Link       Mode = 0o120000
)

func (m Mode) kind() Mode { return m &^ 0o7777 }

// Version is a file at one time.
type Version struct {
	Mode Mode
	Data string // of a link its target
	// Unknown: the content is not at hand. The diff then only says that it differs, and can't be applied.
	Unknown bool
}

// Blob is the id that git gives the content, 40 hex digits; of an absent file all zeros.
func (v Version) Blob() string {
	if v.Mode == Absent {
		return strings.Repeat("0", 40)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(v.Data))
	h.Write([]byte(v.Data))
	return hex.EncodeToString(h.Sum(nil))
}

func (v Version) same(o Version) bool {
	return v.Mode == o.Mode && v.Unknown == o.Unknown && (v.Mode == Absent || !v.Unknown && v.Data == o.Data)
}

// File is what became of one file. Names are relative, with slashes.
type File struct {
	Name          string
	From          string // where it was before, if it was moved; empty: it was not
	Before, After Version
}

// Text is the part of a diff that is about one file.
type Text struct {
	Diff           string
	Added, Removed int  // lines; 0 for binary content
	Binary         bool // the content is not text
	Unknown        bool // the content was not at hand: this part can't be applied
}

// Write writes one diff of all files, sorted by name. Of files that did not change it says nothing.
func Write(files []File) string {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, f := range files {
		b.WriteString(Of(f).Diff)
	}
	return b.String()
}

// Of writes the diff of one file; the zero Text when it did not change.
func Of(f File) Text {
	old := f.From
	if old == "" {
		old = f.Name
	}
	if f.Before.same(f.After) && old == f.Name {
		return Text{}
	}
	// A file does not become a link by lines: it goes, and the link comes.
	if f.Before.Mode != Absent && f.After.Mode != Absent && f.Before.Mode.kind() != f.After.Mode.kind() {
		gone := Of(File{Name: old, Before: f.Before})
		come := Of(File{Name: f.Name, After: f.After})
		return Text{
			Diff: gone.Diff + come.Diff, Added: come.Added, Removed: gone.Removed, Binary: gone.Binary || come.Binary,
			Unknown: gone.Unknown || come.Unknown,
		}
	}
	w := writer{old: old, new: f.Name}
	w.file(f.Before, f.After)
	w.text.Diff = w.b.String()
	return w.text
}

type writer struct {
	b        strings.Builder
	old, new string
	text     Text
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

func (w *writer) file(before, after Version) {
	w.line("diff --git %s %s", name("a/", w.old), name("b/", w.new))
	switch {
	case before.Mode == Absent:
		w.line("new file mode %06o", after.Mode)
	case after.Mode == Absent:
		w.line("deleted file mode %06o", before.Mode)
	case before.Mode != after.Mode:
		w.line("old mode %06o", before.Mode)
		w.line("new mode %06o", after.Mode)
	}
	var body string
	switch {
	case before.Unknown || after.Unknown:
		w.text.Unknown = true
	case before.Data == after.Data:
	case binary(before.Data) || binary(after.Data):
		w.text.Binary = true
		body = binaryPatch(before.Data, after.Data)
	default:
		body, w.text.Added, w.text.Removed = hunks(before.Data, after.Data)
	}
	lines := body != "" && !w.text.Binary
	if w.old != w.new && !lines { // hunks name both files themselves
		if body == "" && !w.text.Unknown {
			w.line("similarity index 100%%")
		}
		w.line("rename from %s", name("", w.old))
		w.line("rename to %s", name("", w.new))
	}
	switch {
	case w.text.Unknown:
		w.line("Binary files %s and %s differ", w.side("a/", w.old, before), w.side("b/", w.new, after))
		return
	case body == "" && before.Mode != Absent && after.Mode != Absent:
		return // the mode, or the name
	}
	w.line("index %s..%s", before.Blob(), after.Blob())
	if lines {
		w.line("--- %s", tabbed(w.side("a/", w.old, before)))
		w.line("+++ %s", tabbed(w.side("b/", w.new, after)))
	}
	w.b.WriteString(body)
}

func (w *writer) side(prefix, path string, v Version) string {
	if v.Mode == Absent {
		return "/dev/null"
	}
	return name(prefix, path)
}

// tabbed ends a name that has spaces where readers would look for a time otherwise.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// binary tells whether content can't be shown as lines. Text that is not UTF-8 counts as binary: a diff travels as JSON,
// which would change it.
func binary(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }

// name is a path as git writes it: in quotes when it has characters that would end it.
func name(prefix, path string) string {
	path = prefix + path
	plain := true
	for i := 0; i < len(path); i++ {
		if c := path[i]; c < 0x20 || c == 0x7f || c == '"' || c == '\\' {
			plain = false
		}
	}
	if plain && utf8.ValidString(path) {
		return path
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(path); {
		r, size := utf8.DecodeRuneInString(path[i:])
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20 || c == 0x7f || r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteString(path[i : i+size])
		}
		i += size
	}
	b.WriteByte('"')
	return b.String()
}
