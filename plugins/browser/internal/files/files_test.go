package files_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
)

func TestName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.pdf": "a.pdf", "../../etc/passwd": "passwd", `C:\x\y.exe`: "y.exe", "..": "download", "": "download", "dir/": "download", "a\x00b.txt": "ab.txt",
		".": "download", ".bashrc": "bashrc", "...a": "a", ". .a": "a", "a. ": "a", " a b.txt ": "a b.txt", "in\u202efdp.exe": "infdp.exe", "a\nb\x1b[2J": "ab[2J", `a<b>:"c|?*.txt`: "abc.txt",
		"报告.pdf": "报告.pdf", "x\xff.txt": "x.txt", "~": "~", "-rf": "-rf", "/": "download",
		strings.Repeat("a", 300) + ".tar": strings.Repeat("a", 196) + ".tar", strings.Repeat("ä", 300): strings.Repeat("ä", 100),
		"a." + strings.Repeat("b", 300): "a." + strings.Repeat("b", 198),
	} {
		if got := files.Name(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{"a.txt": true, "a (1).txt": true, "b": true, ".c": true}
	for in, want := range map[string]string{"a.txt": "a (2).txt", "b": "b (1)", "c.txt": "c.txt", ".c": ".c (1)"} {
		if got, err := files.Free(in, func(s string) bool { return taken[s] }); got != want || err != nil {
			t.Errorf("%q: %q, want %q (%v)", in, got, want, err)
		}
	}
	if got, err := files.Free("x", func(string) bool { return true }); err == nil {
		t.Errorf("%q, although all are taken", got)
	}
}

// Whatever a page says, the name is one element of a path, visible and printable, and naming it again changes nothing.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a.pdf", "../../etc/passwd", `C:\x`, "..", "a\x00b", ".a", "a. .", "\u202e", "\xff/..", ". . \xdea.", strings.Repeat("ä.", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := files.Name(s)
		if n == "" || len(n) > 200 || filepath.Base(n) != n || strings.HasPrefix(n, ".") || strings.ContainsAny(n, `/\`) || !utf8.ValidString(n) || !filepath.IsLocal(n) {
			t.Errorf("%q: %q", s, n)
		}
		if strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %q is not printable", s, n)
		}
		if again := files.Name(n); again != n {
			t.Errorf("%q: %q, then %q", s, n, again)
		}
	})
}
