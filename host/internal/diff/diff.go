// Package diff renders changes of files as a unified diff that git can apply and reverse.
//
// It owns: the format of the diff, which lines it shows, how much it compares. It must not know: where the files are, what changed
// them, how their content is stored.
//
// Start with [File] and [Of]. `git apply` and `git apply -R` accept the result, including binary content, modes, symbolic links,
// renames and files without a final newline.
package diff

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Mode is the mode of a file, as in git.
type Mode uint32

// Modes. Absent means that the file does not exist.
const (
	Absent     Mode = 0
	Regular    Mode = 0o100644
	Executable Mode = 0o100755
	Link       Mode = 0o120000
)

func (m Mode) kind() Mode { return m &^ 0o7777 }

// Version is the state of a file at one time.
type Version struct {
	Mode Mode
	Data string // the content, or the target of a symbolic link
	// Unknown: the content is not available. The diff only says that the file differs, and can't be applied.
	Unknown bool
}

// Blob returns git's object ID of the content, 40 hex digits; for an absent file, all are zeros.
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

// File is the change of one file. Names are relative, with slashes.
type File struct {
	Name          string
	From          string // previous name, if the file was moved
	Before, After Version
}

// Text is the part of a diff for one file.
type Text struct {
	Diff           string
	Added, Removed int  // lines; 0 for binary content
	Binary         bool // the content is not text
	Unknown        bool // the content is not available, so this part can't be applied
}

// Of returns the diff of one file, or the zero Text if it did not change.
func Of(f File) Text {
	old := f.From
	if old == "" {
		old = f.Name
	}
	if f.Before.same(f.After) && old == f.Name {
		return Text{}
	}
	// A file that is replaced by a symbolic link, or vice versa, is shown as a deletion and an addition.
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
		return // only the mode or the name changed
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

// tabbed adds a tab to a name with spaces, because readers would otherwise look for a time after a space.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// binary reports whether content can't be shown as lines. Text that is not UTF-8 is considered binary, because a diff is transmitted
// as JSON, which would change it.
func binary(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }

// name returns a path in git's notation, which has quotes if the path contains special characters.
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
